"""Simulated cells; ensembles with known truth are in benchmarks/truth_families.py."""

from __future__ import annotations

import random

import numpy as np
from sklearn.neighbors import kneighbors_graph

from benchmarks.truth_families import stream


def cells(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulated cells: 30 principal components, Leiden labels (n, 30), and their types.

    3000 cells of 9 types, the last with 15 cells (``rare``), or 6000 of 45 types (``many``). The labels are those
    of igraph's Leiden on the graph of 15 neighbours, at ten resolutions from 0.2 to 4, three runs each.
    """
    import igraph

    rng = stream("cells", kind, seed)
    if kind == "rare":
        shares = np.append(rng.dirichlet(np.full(8, 4.0)) * 0.995, 0.005)
        sizes = np.append(np.round(3000 * shares[:8]).astype(int), 15)
    else:
        sizes = np.maximum(np.round(6000 * rng.dirichlet(np.full(45, 3.0))).astype(int), 30)
    types = np.repeat(np.arange(len(sizes)), sizes)
    centers = rng.normal(scale=1.4 if kind == "rare" else 1.0, size=(len(sizes), 30))
    X = centers[types] + rng.normal(size=(len(types), 30))
    near = kneighbors_graph(X, 15).tocoo()
    edges = np.unique(np.sort(np.column_stack([near.row, near.col]), axis=1), axis=0)
    graph = igraph.Graph(n=len(types), edges=edges)
    igraph.set_random_number_generator(random.Random(seed))
    columns = [
        graph.community_leiden("modularity", resolution=float(r), n_iterations=2).membership
        for r in np.geomspace(0.2, 4, 10)
        for _ in range(3)
    ]
    igraph.set_random_number_generator(random)
    return X, np.array(columns).T, types
