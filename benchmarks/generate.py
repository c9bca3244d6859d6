"""Codes of large ensembles with structure, made chunk by chunk."""

from __future__ import annotations

import numpy as np

_CHUNK = 1 << 16  # items drawn at a time


def voronoi_ensemble(
    n_samples: int,
    n_partitions: int = 20,
    n_clusters: tuple[int, int] = (25, 100),
    *,
    spread: float = 0.45,
    seed: int = 0,
) -> np.ndarray:
    """Codes of Voronoi partitions of 30 Gaussians in 8 dimensions, made chunk by chunk.

    Partitions have from ``n_clusters[0]`` to ``n_clusters[1]`` cells, evenly spaced, with centres drawn from the
    mixture, so boundaries cut through blobs and partitions share structure, as with k-means, at the cost of one
    matrix product. `spread` is the width of a blob against centres of unit variance. Chunks draw from streams of their
    own, so the first rows do not depend on how many there are.
    """
    setup = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    blobs = setup.normal(size=(30, 8))

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        points = blobs[rng.integers(len(blobs), size=n)] + spread * rng.normal(size=(n, blobs.shape[1]))
        return points.astype(np.float32)

    centres = [draw(setup, k) for k in np.rint(np.linspace(*n_clusters, n_partitions)).astype(int)]
    codes = np.empty((n_samples, n_partitions), np.min_scalar_type(max(n_clusters) - 1))
    for start in range(0, n_samples, _CHUNK):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, start // _CHUNK)))
        X = draw(rng, min(_CHUNK, n_samples - start))
        parts = [(X @ (2 * c.T) - (c * c).sum(axis=1)).argmax(axis=1) for c in centres]
        codes[start : start + len(X)] = np.stack(parts, axis=1)
    return codes
