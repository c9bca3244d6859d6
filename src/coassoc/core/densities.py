"""Densities and losses of a partition, from counts alone."""

from __future__ import annotations

import math

import numpy as np

from .counts import Counts


def cluster_densities(counts: Counts, v: np.ndarray) -> np.ndarray:
    """D(C) of each cluster."""
    cells = counts.cells
    together = weighted_columns(counts.squares - cells, v)
    observed = weighted_columns(cells * (cells - 1), v)
    return np.array([t / o if o > 0 else 0.0 for t, o in zip(together, observed)])


def density_from_counts(counts: Counts, v: np.ndarray) -> float:
    """S of the partition with these counts."""
    return mean_density(counts.sizes, cluster_densities(counts, v))


def mean_density(sizes: np.ndarray, densities: np.ndarray) -> float:
    """S of clusters with these sizes and densities."""
    n = int(sizes.sum())
    return math.fsum((sizes * densities).tolist()) / n if n else 0.0


def gain_of_split(sizes: np.ndarray, densities: np.ndarray, before: float) -> float:
    """n·ΔS of splitting a cluster of density `before` into pieces of these sizes and densities."""
    return math.fsum([*(sizes * densities).tolist(), -(float(sizes.sum()) * before)])


def loss_from_counts(counts: Counts, v: np.ndarray) -> float:
    """k-means loss on H of the partition with these counts."""
    cells = counts.cells
    kept = counts.squares / np.maximum(cells, 1)
    # fsum is exactly rounded, so the order of partitions and clusters does not matter
    return math.fsum((v[:, None] * np.concatenate([cells, -kept], axis=1)).ravel().tolist())


def inter_densities(counts: Counts, v: np.ndarray) -> np.ndarray:
    """D(C, C') for every two clusters, D(C) on the diagonal."""
    layout, k = counts.layout, counts.n_clusters
    together = np.zeros((k, k))
    observed = np.zeros((k, k))
    for j in np.argsort(v, kind="stable"):
        block = counts.alpha[layout.offsets[j] : layout.offsets[j + 1]].astype(np.float64)
        cell = counts.cells[j].astype(np.float64)
        together += v[j] * (block.T @ block)
        observed += v[j] * np.outer(cell, cell)
    result = np.divide(together, observed, out=np.zeros((k, k)), where=observed > 0)
    np.fill_diagonal(result, cluster_densities(counts, v))
    return result


def weighted_columns(values: np.ndarray, v: np.ndarray) -> list:
    """Σ_j v_j values[j] for each column: in Python integers when all weights are 1, else exactly rounded."""
    columns = values.T.tolist()
    if (v == 1.0).all():
        return [sum(column) for column in columns]
    weights = v.tolist()
    return [math.fsum(w * x for w, x in zip(weights, column)) for column in columns]
