"""Ensembles with known truth: data sets, base algorithms, families of ensembles, and a folder that caches them.

Every ensemble is one file ``FAMILY__SET__SEED.npz``: `table` (n_samples, n_partitions) with -1 for a missing label,
`truth` (classes, -1 for a noise point, which is not scored) and `k` (number of classes). Rows are in random order.
The folder named by COASSOC_TRUTH, where there is one, holds more files of the same form.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn import cluster, datasets, mixture
from sklearn.preprocessing import StandardScaler

from . import truth_scenes
from .datasets import load
from .paper.protocol import scaling_of

MOST_ROWS = 1500  # a larger data set is reduced to a random sample of this size
UCI_DESIGN = ("glass", "ionosphere", "breastcancer", "yeast", "advertisement", "drybean", "nursery")
UCI_HELD_OUT = ("ecoli", "user_knowledge", "contraceptive", "abalone", "landstat", "musk", "pendigits")
SHAPES_DESIGN = ("moons", "blobs8", "varied", "digits", "iris", "rings3", "strips", "unequal")
SHAPES_HELD_OUT = ("circles", "blobs5", "aniso", "wine", "cancer", "spirals", "squares", "highdim")
SCENES = truth_scenes.names(held_out=False) + truth_scenes.names(held_out=True)
HELD_OUT = frozenset(UCI_HELD_OUT + SHAPES_HELD_OUT + truth_scenes.names(held_out=True))


@dataclass(frozen=True)
class Case:
    """One ensemble and its truth."""

    family: str
    name: str
    seed: int
    table: np.ndarray
    truth: np.ndarray
    k: int
    good: np.ndarray | None = None  # (n_partitions,) False for the members that were made bad
    X: np.ndarray | None = None  # features of the items, where the ensemble was made from some

    @property
    def key(self) -> str:
        return f"{self.family}__{self.name}__{self.seed}"

    @property
    def held_out(self) -> bool:
        """Whether the data set is one of those looked at once. The files of COASSOC_TRUTH are all for design."""
        return self.family.partition("+")[0] in FAMILIES and self.name in HELD_OUT


def stream(*parts: str | int) -> np.random.Generator:
    """A generator that depends on the names and numbers given and on nothing else."""
    return np.random.default_rng([zlib.crc32(str(part).encode()) for part in parts])


# -- features with classes -----------------------------------------------------------------------------------------


def features(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes 0..k-1 of a named set: a random sample of its rows, in random order."""
    rng = stream("rows", name)
    if name in UCI_DESIGN + UCI_HELD_OUT:
        data = load(name, scaling=scaling_of(name, "paper"))
        X, y = data.X, np.unique(data.y, return_inverse=True)[1]
        keep = rng.permutation(len(X))[:MOST_ROWS]
        X, y = X[keep], y[keep]
        return (X if name == "advertisement" else StandardScaler().fit_transform(X)), y
    X, y = truth_scenes.scene(rng) if name in SCENES else _shape(name, rng)
    keep = rng.permutation(len(X))[:MOST_ROWS]
    return StandardScaler().fit_transform(X[keep]), y[keep]


def _shape(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    seed = int(rng.integers(2**31))
    bundled = {"iris": datasets.load_iris, "wine": datasets.load_wine, "cancer": datasets.load_breast_cancer}
    if name in bundled:
        return bundled[name](return_X_y=True)
    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True)
        return X / 16.0, y
    if name == "moons":
        return datasets.make_moons(800, noise=0.08, random_state=seed)
    if name == "circles":
        return datasets.make_circles(800, noise=0.05, factor=0.5, random_state=seed)
    if name in ("blobs5", "blobs8"):
        return datasets.make_blobs(900, centers=int(name[-1]), cluster_std=1.0, random_state=seed)
    if name == "varied":
        return datasets.make_blobs(800, centers=4, cluster_std=[0.5, 1.0, 1.5, 2.2], random_state=seed)
    if name == "aniso":
        X, y = datasets.make_blobs(800, centers=4, random_state=seed)
        return X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y
    if name == "highdim":
        return datasets.make_blobs(900, n_features=20, centers=7, cluster_std=4.0, random_state=seed)
    if name == "unequal":
        return datasets.make_blobs([500, 200, 80, 40, 20], cluster_std=1.0, random_state=seed)
    y = np.repeat(np.arange(3), 300)
    noise = rng.normal(size=(900, 2))
    if name == "rings3":
        angle, radius = rng.uniform(0, 2 * np.pi, 900), 1.0 + 1.5 * y
        return np.c_[radius * np.cos(angle), radius * np.sin(angle)] + 0.12 * noise, y
    if name == "spirals":
        t = np.sqrt(rng.uniform(0.05, 1, 900)) * 2 * np.pi
        angle = t + 2 * np.pi * y / 3
        return np.c_[t * np.cos(angle), t * np.sin(angle)] + 0.2 * noise, y
    if name == "strips":
        return np.c_[rng.uniform(0, 10, 900), 1.3 * y + 0.18 * noise[:, 0]], y
    if name == "squares":  # two that touch at an edge, one dense square apart
        X = rng.uniform(size=(900, 2)) * np.array([[2.0], [2.0], [0.5]])[y]
        return X + np.array([[0.0, 0.0], [2.05, 0.0], [1.0, 2.6]])[y], y
    raise ValueError(f"unknown set {name!r}.")


# -- base algorithms -----------------------------------------------------------------------------------------------


def _subspace(X, k, seed):
    rng = np.random.default_rng(seed)
    columns = rng.permutation(X.shape[1])[: max(1, (X.shape[1] + 1) // 2)]
    return cluster.KMeans(k, n_init=1, random_state=seed).fit_predict(X[:, columns])


def _hdbscan(X, k, seed):
    size = max(5, len(X) // (5 * k))
    return cluster.HDBSCAN(min_cluster_size=size, min_samples=5, copy=True).fit_predict(X)


def _dbscan(X, k, seed):
    from sklearn.neighbors import NearestNeighbors

    far = np.sort(NearestNeighbors(n_neighbors=6).fit(X).kneighbors(X)[0][:, -1])
    return cluster.DBSCAN(eps=max(far[int(0.9 * len(far))], 1e-9), min_samples=5).fit_predict(X)


def _mean_shift(X, k, seed):
    width = cluster.estimate_bandwidth(X, quantile=min(0.5, 1.0 / k), n_samples=300, random_state=seed)
    return cluster.MeanShift(bandwidth=max(width, 1e-6), bin_seeding=True, max_iter=50).fit_predict(X)


def _spectral(neighbors: int) -> Callable:
    def fit(X, k, seed):
        model = cluster.SpectralClustering(
            k, affinity="nearest_neighbors", n_neighbors=neighbors, n_init=3, random_state=seed, eigen_tol=1e-3
        )
        return model.fit_predict(X)

    return fit


def _linkage(name: str) -> Callable:
    return lambda X, k, seed: cluster.AgglomerativeClustering(k, linkage=name).fit_predict(X)


def _mixture(kind: str) -> Callable:
    return lambda X, k, seed: mixture.GaussianMixture(
        k, covariance_type=kind, reg_covar=1e-3, max_iter=50, random_state=seed
    ).fit_predict(X)


ALGORITHMS: dict[str, Callable] = {
    "kmeans": lambda X, k, seed: cluster.KMeans(k, n_init=3, random_state=seed).fit_predict(X),
    "kmeans-once": lambda X, k, seed: cluster.KMeans(k, n_init=1, init="random", random_state=seed).fit_predict(X),
    "minibatch": lambda X, k, seed: cluster.MiniBatchKMeans(k, n_init=1, random_state=seed).fit_predict(X),
    "bisecting": lambda X, k, seed: cluster.BisectingKMeans(k, random_state=seed).fit_predict(X),
    "subspace": _subspace,
    "ward": _linkage("ward"),
    "average": _linkage("average"),
    "complete": _linkage("complete"),
    "single": _linkage("single"),
    "birch": lambda X, k, seed: cluster.Birch(n_clusters=k, threshold=0.3).fit_predict(X),
    "mixture-full": _mixture("full"),
    "mixture-diag": _mixture("diag"),
    "spectral-10": _spectral(10),
    "spectral-25": _spectral(25),
    "hdbscan": _hdbscan,
    "dbscan": _dbscan,
    "mean-shift": _mean_shift,
}


def run_algorithm(name: str, X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Labels of one algorithm; the wide sets are reduced to ten principal directions for the slow ones."""
    if X.shape[1] > 40:
        from sklearn.decomposition import PCA

        X = PCA(10, random_state=0).fit_transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(ALGORITHMS[name](X, k, seed), dtype=np.int64)


# -- families ------------------------------------------------------------------------------------------------------


def _kmeans_members(X, y, rng, low: int, high: int, p: int = 20) -> np.ndarray:
    """Single-start k-means with k drawn between `low` and `high`."""
    columns = []
    for _ in range(p):
        k, seed = int(rng.integers(low, high + 1)), int(rng.integers(2**31))
        columns.append(run_algorithm("kmeans-once", X, k, seed))
    return np.stack(columns, axis=1)


def _kmeans_between(bounds: Callable) -> Callable:
    """Single-start k-means members; `bounds` gives the least and the most clusters for k classes of n items."""
    return lambda X, y, rng: _kmeans_members(X, y, rng, *bounds(int(y.max()) + 1, len(X)))


_kmeans_fine = _kmeans_between(lambda k, n: (k, max(k + 1, min(100, round(n**0.5)))))


def _algorithms_same(X, y, rng):
    k = int(y.max()) + 1
    return np.stack([run_algorithm(name, X, k, int(rng.integers(2**31))) for name in ALGORITHMS], axis=1)


def _algorithms_mixed(X, y, rng):
    k = int(y.max()) + 1
    columns = []
    for _ in range(20):
        name = list(ALGORITHMS)[int(rng.integers(len(ALGORITHMS)))]
        columns.append(run_algorithm(name, X, int(rng.integers(2, 2 * k + 3)), int(rng.integers(2**31))))
    return np.stack(columns, axis=1)


UCI, SHAPES = UCI_DESIGN + UCI_HELD_OUT, SHAPES_DESIGN + SHAPES_HELD_OUT
FAMILIES: dict[str, tuple[Callable, tuple[str, ...], int]] = {  # how members are made, data sets, seeds
    "uci-kmeans": (_kmeans_fine, UCI, 2),
    "uci-same-k": (_algorithms_same, UCI, 1),
    "uci-mixed-k": (_algorithms_mixed, UCI, 2),
    "shapes-same-k": (_algorithms_same, SHAPES, 1),
    "shapes-mixed-k": (_algorithms_mixed, SHAPES, 2),
    "finer": (_kmeans_between(lambda k, n: (2 * k, 5 * k)), UCI + SHAPES, 1),
    "equal": (_kmeans_between(lambda k, n: (k, k)), UCI + SHAPES, 1),
    "coarser": (_kmeans_between(lambda k, n: (2, max(2, k - 1))), UCI + SHAPES, 1),
    "scenes-kmeans": (_kmeans_fine, SCENES, 1),
    "scenes-same-k": (_algorithms_same, SCENES, 1),
    "scenes-mixed-k": (_algorithms_mixed, SCENES, 1),
}
CORRUPTED_FROM = ("uci-kmeans", "uci-same-k", "shapes-mixed-k", "scenes-mixed-k", "fine", "mixed-k")  # seed 0 of each
CORRUPTIONS = ("shuffled-25", "shuffled-50", "coherent-25")


def corrupt(table: np.ndarray, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Replace a share of the members by members with the same cluster sizes that know nothing of the items.

    Returns the table, and False for the members replaced.

    ``shuffled``: each bad member is permuted on its own. ``coherent``: all bad members are permuted alike, so they
    agree with each other as well as the good ones do.
    """
    name, percent = kind.split("-")
    n, p = table.shape
    bad = rng.permutation(p)[: round(p * int(percent) / 100)]
    table = table.copy()
    together = rng.permutation(n)
    for j in bad:
        table[:, j] = table[rng.permutation(n) if name == "shuffled" else together, j]
    return table, ~np.isin(np.arange(p), bad)


def make(family: str, name: str, seed: int) -> Case:
    rng = stream(family, name, seed)
    X, y = features(name)
    table = FAMILIES[family][0](X, y, rng)
    table = table[:, (table >= 0).any(axis=0)]  # an algorithm may call everything noise
    return Case(family, name, seed, table.astype(np.int16), y.astype(np.int16), int(y.max()) + 1)


def _load(path: Path) -> Case:
    family, name, seed = path.stem.split("__")
    with np.load(path) as file:
        return Case(family, name, int(seed), file["table"], file["truth"], int(file["k"]))


def cases(folder: Path, families: list[str] | None = None, most_rows: int | None = None) -> Iterator[Case]:
    """Every ensemble of the families asked for: made once and cached in `folder`, or read from COASSOC_TRUTH.

    Names: those of FAMILIES, those found in COASSOC_TRUTH, and ``FAMILY+CORRUPTION``. `most_rows` leaves out larger
    ensembles.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for family in family_names() if families is None else families:
        base, _, corruption = family.partition("+")
        for case in _clean_cases(folder, base):
            if most_rows is not None and len(case.truth) > most_rows:
                continue
            if not corruption:
                yield case
            elif case.seed == 0:
                table, good = corrupt(case.table, corruption, stream(family, case.name))
                yield Case(family, case.name, 0, table, case.truth, case.k, good)


def _clean_cases(folder: Path, family: str) -> Iterator[Case]:
    if family in FAMILIES:
        _, names, seeds = FAMILIES[family]
        for name in names:
            for seed in range(seeds):
                path = folder / f"{family}__{name}__{seed}.npz"
                if not path.exists():
                    case = make(family, name, seed)
                    np.savez_compressed(path, table=case.table, truth=case.truth, k=case.k)
                yield _load(path)
        return
    given = truth_folder()
    for path in sorted(given.glob(f"{family}__*.npz")) if given is not None else []:
        yield _load(path)


def truth_folder() -> Path | None:
    """The folder named by COASSOC_TRUTH, if it exists."""
    name = os.environ.get("COASSOC_TRUTH")
    return Path(name) if name and Path(name).is_dir() else None


def family_names() -> list[str]:
    """All families that can be had here, the corrupted ones last."""
    names = list(FAMILIES)
    given = truth_folder()
    if given is not None:
        names += sorted({path.stem.split("__")[0] for path in given.glob("*__*__*.npz")})
    return names + [f"{name}+{kind}" for name in CORRUPTED_FROM if name in names for kind in CORRUPTIONS]


# -- ensembles whose number of clusters is known for certain, and ensembles of nothing --------------------------------


def blob_ensemble(kind: str, seed: int) -> Case:
    """300 points in 3 to 8 round blobs at least 10 standard deviations apart, 20 k-means members.

    Members have 2 to 15 clusters (``wide``), K - 1 to K + 4 (``near``) or K to 15 (``above``).
    """
    rng = stream("blobs", kind, seed)
    k = 3 + seed % 6
    centers: list[np.ndarray] = []
    while len(centers) < k:
        point = rng.uniform(0, 15 * k**0.5, size=2)
        if all(np.linalg.norm(point - other) >= 10 for other in centers):
            centers.append(point)
    y = rng.permutation(np.arange(300) % k)
    X = np.array(centers)[y] + rng.normal(size=(300, 2))
    low, high = {"wide": (2, 15), "near": (k - 1, k + 4), "above": (k, 15)}[kind]
    return Case(f"blobs-{kind}", f"{k}", seed, _kmeans_members(X, y, rng, low, high), y, k)


def digits_ensemble(seed: int) -> Case:
    """Seven clusterings of the digits into 8 to 15 clusters; 9 to 12 is a good answer."""
    X, y = datasets.load_digits(return_X_y=True)
    rng = stream("digits", seed)
    names = ("kmeans", "kmeans", "minibatch", "ward", "birch", "mixture-diag", "spectral-10")
    sizes = rng.permutation(np.arange(8, 16))[:7]
    table = np.stack([run_algorithm(a, X / 16.0, int(k), int(rng.integers(2**31))) for a, k in zip(names, sizes)], 1)
    order = rng.permutation(len(y))
    return Case("digits", "digits", seed, table[order], y[order], 10)


def noise_ensemble(seed: int) -> Case:
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
    table = table[:, (table >= 0).any(axis=0)]
    return Case("noise", f"n{n}p{p}", seed, table, np.zeros(n, int), 1)
