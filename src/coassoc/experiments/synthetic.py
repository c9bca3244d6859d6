"""Synthetic large ensembles: Voronoi partitions of a Gaussian mixture, similar to k-means partitions."""

from __future__ import annotations

import numpy as np

_CHUNK = 1 << 16


def voronoi_ensemble(
    n_samples: int,
    n_partitions: int = 20,
    n_clusters: tuple[int, int] = (25, 100),
    *,
    n_blobs: int = 30,
    n_features: int = 8,
    spread: float = 0.45,
    seed: int = 0,
) -> np.ndarray:
    """Codes of `n_partitions` Voronoi partitions of a Gaussian mixture, made chunk by chunk.

    Partitions have from ``n_clusters[0]`` to ``n_clusters[1]`` cells, evenly spaced, with centres drawn from the
    mixture, so boundaries cut through blobs and partitions share structure, as with k-means, at the cost of one
    matrix product.

    Parameters
    ----------
    n_samples, n_partitions : int
        Size.
    n_clusters : (int, int)
        Clusters of the first and of the last partition; d is about their mean times `n_partitions`.
    n_blobs, n_features, spread
        The mixture: number of Gaussians, dimensions, their width against centres of unit variance.
    seed : int
        Chunks draw from streams of their own, so the result does not depend on how it is made.

    Returns
    -------
    ndarray of uint8 of shape (n_samples, n_partitions)
    """
    if not all(1 <= k <= 256 for k in n_clusters):
        raise ValueError(f"base partitions here have from 1 to 256 clusters, got {n_clusters[0]} to {n_clusters[1]}.")
    setup = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    blobs = setup.normal(size=(n_blobs, n_features))
    sizes = np.rint(np.linspace(*n_clusters, n_partitions)).astype(int)
    centres = [_draw(setup, blobs, spread, k).astype(np.float32) for k in sizes]
    offsets = [(c * c).sum(axis=1) for c in centres]
    codes = np.empty((n_samples, n_partitions), np.uint8)
    for start in range(0, n_samples, _CHUNK):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, start // _CHUNK)))
        X = _draw(rng, blobs, spread, min(_CHUNK, n_samples - start)).astype(np.float32)
        parts = [(X @ (2 * c.T) - o).argmax(axis=1) for c, o in zip(centres, offsets)]
        codes[start : start + len(X)] = np.stack(parts, axis=1)
    return codes


def _draw(rng: np.random.Generator, blobs: np.ndarray, spread: float, n: int) -> np.ndarray:
    """`n` points of the mixture."""
    return blobs[rng.integers(len(blobs), size=n)] + spread * rng.normal(size=(n, blobs.shape[1]))
