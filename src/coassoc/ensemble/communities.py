"""Communities of a network -> label vectors over one list of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import chain
from typing import Any

import numpy as np

from .encode import as_objects


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
    known = node_names(clustering.graph) if _is_cdlib(clustering) else []
    labels: dict = {}
    for number, community in enumerate(
        clustering.communities if _is_cdlib(clustering) else _iterated(clustering, name)
    ):
        for node in _iterated(community, f"{name}[{number}]"):
            if labels.setdefault(node, number) != number:
                raise ValueError(
                    f"{name} must not overlap: node {node!r} is in communities {labels[node]} and {number}; give each "
                    "node to one of them, or pass its degrees of membership to Ensemble.from_memberships(...)."
                )
    return labels, known or _sorted(labels)


def _iterated(values: Any, name: str) -> Iterable:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a collection of nodes, got {values!r}; communities is a list of clusterings, each a list "
            "of sets of nodes (write [clustering] for a single one) or a dict from node to label."
        )
    return values


def _sorted(nodes: Iterable) -> list:
    """Nodes in an order that does not depend on that of a set."""
    try:
        return sorted(nodes)
    except TypeError:  # of several types
        return sorted(nodes, key=lambda node: (type(node).__name__, repr(node)))
