"""Ensembles for judging the number of clusters: members near the truth, around it, far finer, sweeps, shapes, copies,
members that all have one number of clusters.

Every family has as many sets as one likes, each made from its name and seed alone; rows are in random order.
Even seeds are for design, odd ones are held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn import cluster, datasets
from sklearn.neighbors import kneighbors_graph

from .truth_families import Case, stream

N_MEMBERS = 20


def cases(families: list[str] | None = None, held_out: bool = False, count: int = 12) -> Iterator[Case]:
    """`count` ensembles of each family, in the order of FAMILIES."""
    for family in FAMILIES if families is None else families:
        for number in range(count):
            yield make(family, 2 * number + held_out)


def make(family: str, seed: int) -> Case:
    rng = stream("k", family, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k-means on few different points
        columns, truth, X = FAMILIES[family](rng, seed // 2)
    order = rng.permutation(len(truth))
    table = np.stack(columns, axis=1)[order]
    features = None if X is None else X[order]
    return Case(family, f"{seed}", seed, table.astype(np.int32), truth[order], int(truth.max()) + 1, X=features)


def kmeans(X: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    seed = int(rng.integers(2**31))
    return cluster.KMeans(min(k, len(X) - 1), n_init=1, init="random", random_state=seed).fit_predict(X)


def sizes_of(k: int, n: int, unequal: bool, rng: np.random.Generator) -> np.ndarray:
    share = rng.dirichlet(np.full(k, 3.0 if unequal else 1e4))
    return np.maximum(np.rint(n * share).astype(int), 8)


def blobs(k: int, n: int, rng: np.random.Generator, apart: float, dim: int, unequal: bool) -> tuple:
    """Round Gaussian clusters whose centers are `apart` standard deviations from one another on average neighbours."""
    centers = rng.normal(size=(k, dim)) * apart * (k ** (1 / dim)) / 2
    y = np.repeat(np.arange(k), sizes_of(k, n, unequal, rng))
    return centers[y] + rng.normal(size=(len(y), dim)), y


def some_blobs(rng: np.random.Generator, number: int, low: int = 3, high: int = 24) -> tuple:
    k = int(rng.integers(low, high + 1))
    return (*blobs(k, 1200, rng, rng.uniform(4.0, 8.0), int(rng.choice([2, 5, 10])), bool(number % 2)), k)


def near(rng, number):
    X, y, k = some_blobs(rng, number)
    return [kmeans(X, int(rng.integers(max(2, k - 2), k + 3)), rng) for _ in range(N_MEMBERS)], y, X


def around(rng, number):
    X, y, k = some_blobs(rng, number)
    return [kmeans(X, int(rng.integers(2, 2 * k + 1)), rng) for _ in range(N_MEMBERS)], y, X


def finer(rng, number):
    X, y, k = some_blobs(rng, number, 3, 12)
    return [kmeans(X, int(rng.integers(2 * k, 6 * k + 1)), rng) for _ in range(N_MEMBERS)], y, X


def many(rng, number):
    """40, 60 or 100 clear clusters in clusterings of about as many."""
    k = (40, 60, 100)[number % 3]
    X, y = blobs(k, 3000, rng, 9.0, 10, False)
    return [kmeans(X, int(rng.integers(int(0.9 * k), int(1.1 * k) + 1)), rng) for _ in range(N_MEMBERS)], y, X


def sweep(rng, number):
    """Leiden runs over a range of resolutions on a graph of nearest neighbours."""
    import igraph

    k = (9, 15, 25, 45)[number % 4]
    X, y = blobs(k, 2000, rng, rng.uniform(5.0, 8.0), 10, True)
    ends = kneighbors_graph(X, 15).tocoo()
    graph = igraph.Graph(n=len(X), edges=list(zip(ends.row.tolist(), ends.col.tolist()))).simplify()
    members = []
    for resolution in np.geomspace(0.2, 2.0 if number % 2 else 4.0, N_MEMBERS):
        import random

        igraph.set_random_number_generator(random.Random(int(rng.integers(2**31))))
        members.append(np.array(graph.community_leiden("modularity", resolution=float(resolution)).membership))
    return members, y, X


def one_number(rng, number):
    """As near, but all members have the same number of clusters: that of the groups, or a quarter more or fewer."""
    X, y, k = some_blobs(rng, number)
    own = max(2, k + (0, 1, -1)[number % 3] * max(1, k // 4))
    return [kmeans(X, own, rng) for _ in range(N_MEMBERS)], y, X


def shape_one_number(rng, number):
    """Shapes from k-means with 12, 20 or 30 clusters in every member."""
    X, y = shape_points(rng, number)
    return [kmeans(X, (12, 20, 30)[number % 3], rng) for _ in range(N_MEMBERS)], y, X


def shape(rng, number):
    """Shapes that no k-means separates, from k-means with many clusters: evidence accumulation as it was invented."""
    X, y = shape_points(rng, number)
    low, high = ((10, 30), (20, 50))[(number // 5) % 2]
    return [kmeans(X, int(rng.integers(low, high + 1)), rng) for _ in range(2 * N_MEMBERS)], y, X


def shape_points(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Moons, two circles, three rings, strips, or moons with two round groups."""
    seed, n = int(rng.integers(2**31)), 800
    kind = number % 5
    if kind == 0:
        X, y = datasets.make_moons(n, noise=0.06, random_state=seed)
    elif kind == 1:
        X, y = datasets.make_circles(n, noise=0.04, factor=0.5, random_state=seed)
    elif kind == 2:
        y = np.repeat(np.arange(3), 300)
        angle, radius = rng.uniform(0, 2 * np.pi, 900), 1.0 + 1.5 * y
        X = np.c_[radius * np.cos(angle), radius * np.sin(angle)] + 0.1 * rng.normal(size=(900, 2))
    elif kind == 3:
        y = np.repeat(np.arange(4), 200)
        X = np.c_[rng.uniform(0, 8, 800), 1.6 * y + 0.15 * rng.normal(size=800)]
    else:
        X, y = datasets.make_moons(n, noise=0.06, random_state=seed)
        other, _ = blobs(2, 300, rng, 1.0, 2, False)
        X = np.r_[X, 0.15 * other / other.std() + np.repeat([[0.5, 2.2], [2.5, -1.5]], [150, len(other) - 150], axis=0)]
        y = np.r_[y, np.repeat([2, 3], [150, len(other) - 150])]
    return X, y


def copies(rng, number):
    """Identical members."""
    k = int(np.exp(rng.uniform(np.log(2), np.log(100))))
    y = np.repeat(np.arange(k), sizes_of(k, 1500, bool(number % 2), rng))
    return [rng.permutation(k)[y] for _ in range(int(rng.integers(2, 11)))], y, None


def near_copies(rng, number):
    """Copies with a few labels changed."""
    k = int(np.exp(rng.uniform(np.log(2), np.log(60))))
    y = np.repeat(np.arange(k), sizes_of(k, 1500, bool(number % 2), rng))
    return [noisy(y, k, 0.03, rng) for _ in range(int(rng.integers(3, 11)))], y, None


def weak(rng, number):
    """Members of which 60 to 80 % of the labels are random."""
    k = int(rng.integers(2, 9))
    y = np.repeat(np.arange(k), sizes_of(k, (100, 1000)[number % 2], False, rng))
    return [noisy(y, k, (0.6, 0.8)[number % 2], rng) for _ in range(30)], y, None


def noisy(y: np.ndarray, k: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Labels with a share of them drawn anew at random, and clusters renamed."""
    drawn = rng.uniform(size=len(y)) < share
    return rng.permutation(k)[np.where(drawn, rng.integers(k, size=len(y)), y)]


FAMILIES: dict[str, Callable] = {
    "near": near, "around": around, "finer": finer, "many": many, "sweep": sweep, "shape": shape,
    "one number": one_number, "shape, one number": shape_one_number,
    "copies": copies, "near-copies": near_copies, "weak": weak,
}  # fmt: skip
