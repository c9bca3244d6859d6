"""Graphs: communities of their nodes become label vectors; the co-association of their edges, and of other pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import chain
from typing import Any

import numpy as np

from ..engines import resolve
from .encode import as_objects

# -- communities -----------------------------------------------------------------------------------------------


def are_communities(clustering: Any) -> bool:
    """Whether `clustering` is a partition of nodes into communities, and no vector of labels."""
    if isinstance(clustering, (Mapping, Set)) or hasattr(clustering, "membership") or _is_cdlib(clustering):
        return True
    first = clustering[0] if isinstance(clustering, (list, tuple)) and len(clustering) else None
    return isinstance(first, (Set, list, tuple))


def check_no_communities(table: Any) -> None:
    """Reject a list of communities in the place of a label table, and name the function that takes it."""
    if isinstance(table, (list, tuple)) and len(table) and are_communities(table[0]):
        raise TypeError(
            "partitions must be a table or vectors of labels, got communities (sets of nodes, or a dict from node to "
            f"label: {type(table[0]).__name__}); use Ensemble.from_communities(...)."
        )


def community_labels(communities: Iterable[Any], nodes: Any = None) -> tuple[list[np.ndarray], np.ndarray]:
    """One label vector per clustering, None where a node is in no community, and the nodes in their order."""
    found = [_label_of_node(clustering, f"communities[{j}]") for j, clustering in enumerate(communities)]
    if not found:
        raise ValueError("communities must hold at least one clustering, got none.")
    order = list(dict.fromkeys(chain.from_iterable(known for _, known in found)))
    if nodes is not None:
        given = node_names(nodes)
        order = list(dict.fromkeys(given))
        if len(order) < len(given):
            raise ValueError(f"nodes must name every node once, got {len(given) - len(order)} repeated.")
    place = {node: i for i, node in enumerate(order)}
    vectors = []
    for j, (labels, _) in enumerate(found):
        unknown = [node for node in labels if node not in place]
        if unknown:
            raise ValueError(
                f"nodes must name every node of communities[{j}]; {unknown[0]!r} is absent ({len(unknown)} in all). "
                "Leave nodes out to take all of them."
            )
        vector = np.full(len(order), None, dtype=object)
        for node, label in labels.items():
            vector[place[node]] = label
        vectors.append(vector)
    return vectors, as_objects(order)


def node_names(graph: Any) -> list:
    """Nodes of a networkx or igraph graph in its order (names, else indices, of igraph), or of any list of them."""
    if hasattr(graph, "vcount"):
        return graph.vs["name"] if "name" in graph.vs.attributes() else list(range(graph.vcount()))
    return list(graph)


def _is_cdlib(clustering: Any) -> bool:
    return hasattr(clustering, "communities") and hasattr(clustering, "graph")


def _label_of_node(clustering: Any, name: str) -> tuple[dict, list]:
    """Label of each node in a community, and all nodes that the clustering knows."""
    if isinstance(clustering, Mapping):
        return dict(clustering), list(clustering)
    if hasattr(clustering, "membership") and hasattr(clustering, "graph"):  # igraph
        known = node_names(clustering.graph)
        return dict(zip(known, clustering.membership)), known
    known, communities = [], clustering
    if _is_cdlib(clustering):
        known, communities = node_names(clustering.graph), clustering.communities
    labels: dict = {}
    for number, community in enumerate(_iterated(communities, name)):
        for node in _iterated(community, f"{name}[{number}]"):
            if labels.setdefault(node, number) != number:
                raise ValueError(
                    f"{name} must not overlap: node {node!r} is in communities {labels[node]} and {number}; give each "
                    "node to one of them, or pass its degrees of membership to Ensemble.from_memberships(...)."
                )
    if not known:  # in an order that does not depend on that of a set
        try:
            known = sorted(labels)
        except TypeError:  # of several types
            known = sorted(labels, key=lambda node: (type(node).__name__, repr(node)))
    return labels, known


def _iterated(values: Any, name: str) -> Iterable:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a collection of nodes, got {values!r}; communities is a list of clusterings, each a list "
            "of sets of nodes (write [clustering] for a single one) or a dict from node to label."
        )
    return values


# -- pairs and edges ---------------------------------------------------------------------------------------------


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


def pair_shares(ensemble: Any, pairs: Any, engine: Any) -> np.ndarray:
    """Share of the partitions that join the two items of each pair among those that label both; 0 where none does."""
    array, n_items = np.asarray(pairs), ensemble.n_samples
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise TypeError(f"pairs must be integers of shape (m, 2), got {array.dtype} of shape {array.shape}.")
    array = np.ascontiguousarray(array, dtype=np.int64)
    outside = (array < 0) | (array >= n_items)
    if outside.any():
        raise IndexError(f"pairs must name items 0..{n_items - 1}, got {array[outside][0]}.")
    with resolve(engine, ensemble).load(ensemble) as rows:
        together, observed = rows.pair_counts(array)
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
