"""Graph partitioning by METIS: one part per vertex, the same for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix


def load_pymetis() -> Any:
    """The pymetis module, or an error that says what to install."""
    try:
        import pymetis
    except ImportError as error:
        raise ImportError(
            "MCLA and CSPA partition a graph with METIS, which is not installed; run: pip install 'coassoc[metis]'"
        ) from error
    return pymetis


def partition_graph(graph: csr_matrix, weights: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Part 0..k-1 of each vertex; parts may come out empty.

    METIS does not check its input: `graph` (n, n) must be symmetric, with positive integer weights of edges and no
    diagonal, `weights` (n,) positive integers, and `k` at most n.
    """
    pymetis = load_pymetis()
    n = graph.shape[0]
    if k == 1:
        return np.zeros(n, dtype=np.int64)
    if k == n:
        return np.arange(n, dtype=np.int64)
    graph.sort_indices()
    if graph.nnz == 0:
        return _balance(weights, k)
    index = np.dtype(getattr(pymetis, "zero_copy_dtype", lambda: np.int32)())
    if graph.nnz > np.iinfo(index).max:
        raise MemoryError(f"the graph has {graph.nnz} edge entries, more than METIS counts with {index}.")
    starts, ends = graph.indptr.astype(index), graph.indices.astype(index)
    arguments = {
        "vweights": _fit(weights, index),
        "eweights": _fit(graph.data, index),
        "options": pymetis.Options(seed=int(seed) % (1 << 31)),
    }
    if hasattr(pymetis, "CSRAdjacency"):
        cut_and_parts = pymetis.part_graph(k, pymetis.CSRAdjacency(starts, ends), **arguments)
    else:  # before 2025.2
        cut_and_parts = pymetis.part_graph(k, xadj=starts, adjncy=ends, **arguments)
    return np.asarray(cut_and_parts[1], dtype=np.int64)


def _fit(weights: np.ndarray, index: np.dtype) -> np.ndarray:
    """Weights scaled down, never to 0, so that their sum is below an eighth of METIS's largest integer."""
    most = int(np.iinfo(index).max) // 8
    total = float(np.sum(weights, dtype=np.float64))
    if total > most:
        share = (most - len(weights)) / total
        if share <= 0:
            raise MemoryError(f"{len(weights)} weights cannot be held by METIS's integers ({index}).")
        weights = np.maximum(1, np.floor(weights * share))
    return np.ascontiguousarray(weights, dtype=index)


def _balance(weights: np.ndarray, k: int) -> np.ndarray:
    """Parts of a graph without edges: heaviest vertex first, into the lightest part."""
    parts, loads = np.zeros(len(weights), dtype=np.int64), np.zeros(k, dtype=np.int64)
    for vertex in np.argsort(-weights, kind="stable"):
        parts[vertex] = np.argmin(loads)
        loads[parts[vertex]] += weights[vertex]
    return parts
