"""Ensembles whose number of clusters is known for certain, and ensembles of nothing."""

from __future__ import annotations

import zlib

import numpy as np
from sklearn import cluster, datasets, mixture


def stream(*parts: str | int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(str(part).encode()) for part in parts])


def blob_ensemble(kind: str, seed: int) -> tuple[np.ndarray, int]:
    """20 k-means members of 300 points in 3 to 8 round blobs at least 10 standard deviations apart, and their number.

    Members have 2 to 15 clusters (``wide``), K - 1 to K + 4 (``near``) or K to 15 (``above``).
    """
    rng = stream("blobs", kind, seed)
    k = 3 + seed % 6
    centers: list[np.ndarray] = []
    while len(centers) < k:
        point = rng.uniform(0, 15 * k**0.5, size=2)
        if all(np.linalg.norm(point - other) >= 10 for other in centers):
            centers.append(point)
    X = np.array(centers)[rng.permutation(np.arange(300) % k)] + rng.normal(size=(300, 2))
    low, high = {"wide": (2, 15), "near": (k - 1, k + 4), "above": (k, 15)}[kind]
    members = []
    for _ in range(20):
        clusters, start = int(rng.integers(low, high + 1)), int(rng.integers(2**31))
        members.append(cluster.KMeans(clusters, n_init=1, random_state=start).fit_predict(X))
    return np.stack(members, axis=1), k


def digits_ensemble(seed: int) -> np.ndarray:
    """Seven clusterings of the digits into 8 to 15 clusters, by k-means, Ward, Birch and Gaussian mixtures."""
    X, _ = datasets.load_digits(return_X_y=True)
    X = X / 16.0
    rng = stream("digits", seed)
    sizes = [int(k) for k in rng.permutation(np.arange(8, 16))[:7]]
    make = [
        lambda k, s: cluster.KMeans(k, n_init=1, random_state=s),
        lambda k, s: cluster.KMeans(k, n_init=1, random_state=s),
        lambda k, s: cluster.MiniBatchKMeans(k, n_init=1, random_state=s),
        lambda k, s: cluster.AgglomerativeClustering(k),
        lambda k, s: cluster.KMeans(k, n_init=1, random_state=s),
        lambda k, s: mixture.GaussianMixture(k, covariance_type="diag", random_state=s, reg_covar=1e-3),
        lambda k, s: cluster.Birch(n_clusters=k, threshold=0.8),
    ]
    members = [one(k, int(rng.integers(2**31))).fit_predict(X) for one, k in zip(make, sizes)]
    return np.stack(members, axis=1)[rng.permutation(len(X))]


def noise_ensemble(seed: int) -> np.ndarray:
    """Independent random partitions: 2 to 60 members, 30 to 5000 items, 2 to 60 clusters, balanced and not.

    In every fifth ensemble some members are copies of one another; in every seventh some labels are missing.
    """
    rng = stream("noise", seed)
    n, p = int(np.exp(rng.uniform(np.log(30), np.log(5000)))), int(np.exp(rng.uniform(np.log(2), np.log(61))))
    columns = []
    for _ in range(p):
        k = int(np.exp(rng.uniform(np.log(2), np.log(min(60, n // 3)))))
        shares = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0, 100.0])))
        columns.append(rng.choice(k, size=n, p=shares))
    table = np.stack(columns, axis=1)
    if seed % 5 == 4 and p >= 6:
        table[:, : p // 5 + 1] = table[:, :1]
    if seed % 7 == 6:
        table[rng.uniform(size=table.shape) < 0.2] = -1
    return table[:, (table >= 0).any(axis=0)]


def cells(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulated cells: 30 principal components, Leiden labels (n, 30), and their types.

    3000 cells of 9 types, the last with 15 cells (``rare``), or 6000 of 45 types (``many``). The labels are those
    of igraph's Leiden on the graph of 15 neighbours, at ten resolutions from 0.2 to 4, three runs each.
    """
    import random

    import igraph
    from sklearn.neighbors import kneighbors_graph

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
