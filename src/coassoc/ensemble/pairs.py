"""Co-association of chosen pairs of items: lists of pairs, and the edges of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engines import resolve


def is_graph(graph: Any) -> bool:
    """Whether `graph` is a SciPy sparse matrix, or a graph of igraph or networkx."""
    return hasattr(graph, "tocsr") or hasattr(graph, "vcount") or (hasattr(graph, "nodes") and hasattr(graph, "adj"))


def adjacency(graph: Any, nodes: Any = None) -> Any:
    """The graph as a SciPy CSR matrix, weights where it has them; `nodes`: order of the nodes of a networkx graph."""
    from scipy.sparse import coo_array, csr_matrix  # imported when it is needed: `import coassoc` is quick

    if not is_graph(graph):
        raise TypeError(
            f"graph must be a SciPy sparse matrix, or a graph of igraph or networkx, got {type(graph).__name__}; write "
            "csr_matrix(array) for a full matrix, networkx.Graph(edges) for a list of edges."
        )
    if hasattr(graph, "vcount"):  # igraph
        ends = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
        weights = np.ones(len(ends)) if not graph.is_weighted() else np.array(graph.es["weight"], dtype=np.float64)
        if not graph.is_directed():
            loop = ends[:, 0] == ends[:, 1]
            ends, weights = np.concatenate([ends, ends[~loop, ::-1]]), np.concatenate([weights, weights[~loop]])
        graph = coo_array((weights, (ends[:, 0], ends[:, 1])), shape=(graph.vcount(),) * 2)
    elif not hasattr(graph, "tocsr"):
        from networkx import to_scipy_sparse_array

        absent = [node for node in (() if nodes is None else nodes) if node not in graph]
        if absent:
            raise ValueError(f"graph must have a node for each item; {len(absent)} are absent, such as {absent[0]!r}.")
        if nodes is not None and len(graph) > len(nodes):
            raise ValueError(f"graph must have one node per item, got {len(graph)} nodes and {len(nodes)} items.")
        graph = to_scipy_sparse_array(graph, nodelist=None if nodes is None else list(nodes), dtype=np.float64)
    if graph.shape[0] != graph.shape[1]:
        raise ValueError(f"graph must be square, one row and one column per item, got shape {graph.shape}.")
    matrix = csr_matrix(graph)
    if not matrix.has_canonical_format:  # a copy: the user's matrix keeps its duplicates
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def check_pairs(pairs: Any, n_items: int) -> np.ndarray:
    """Pairs of items as an (m, 2) integer array."""
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise TypeError(f"pairs must be integers of shape (m, 2), got {array.dtype} of shape {array.shape}.")
    array = np.ascontiguousarray(array, dtype=np.int64)
    if array.size and not (array.min() >= 0 and array.max() < n_items):
        wrong = array[(array < 0) | (array >= n_items)][0]
        raise IndexError(f"pairs must name items 0..{n_items - 1}, got {wrong}.")
    return array


def pair_shares(ensemble: Any, pairs: np.ndarray, engine: Any) -> np.ndarray:
    """Share of the partitions that join the two items of each pair among those that label both; 0 where none does."""
    with resolve(engine, ensemble).load(ensemble) as rows:
        together, observed = rows.pair_counts(pairs)
    return together / np.maximum(observed, 1)


def graph_shares(ensemble: Any, graph: Any, engine: Any) -> Any:
    """`pair_shares` of the edges of a graph, as a CSR matrix with the pattern of the graph."""
    matrix = adjacency(graph, ensemble.item_ids)
    if matrix.shape[0] != ensemble.n_samples:
        raise ValueError(
            f"graph must have one node per item, got {matrix.shape[0]} nodes and {ensemble.n_samples} items."
        )
    starts = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    pairs = np.column_stack([starts, matrix.indices])
    shares = pair_shares(ensemble, pairs, engine)
    return type(matrix)((shares, matrix.indices, matrix.indptr), shape=matrix.shape)
