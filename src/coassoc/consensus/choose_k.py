"""select_k: the number of clusters that an ensemble or a table of features supports, if any."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..engines import resolve
from ..ensemble import Ensemble, check_ensemble, make_ensemble
from ..metrics.agreement import ensemble_nmi, pairwise_nmi
from ..metrics.densities import density as density_metric
from ..metrics.stability import cluster_stability
from .kmeans import KMeansConsensus
from .merge import PairSums
from .search import over_segment

REFERENCES = ("auto", "gaussian", "permuted")
_LEAST_Z = 3.0
_UNSTABLE = 0.005  # largest 1 − S of a number of clusters that is called stable
_SOFTEN = 0.002  # added to 1 − S before its logarithm
_FLOOR = 0.01  # added to bridges before their logarithm
_LEAST_SHARE = 0.02  # of the items; smaller clusters are outliers
_FIT_ROWS = 500  # largest number of rows that a base partition of features is fitted on
_PAC = (0.1, 0.9)
_PAC_PAIRS = 20_000

CLAIMS = {
    "gaussian": (
        "The same pipeline was run on Gaussian data with the covariance of yours. It can say whether your features "
        "have clusters that a single elongated cloud does not."
    ),
    "permuted": (
        "The labels of each partition were permuted independently. This tests only whether the partitions agree more "
        "than chance, not whether the data have clusters: clusterings of one smooth cloud agree too."
    ),
}


@dataclass(frozen=True)
class SelectK:
    """What :func:`select_k` found; ``coassoc.report.plot_select_k`` draws it.

    Attributes
    ----------
    k : int
        Suggested number of clusters; 1 when there is no evidence for clusters (see `verdict`).
    structure : bool
        Whether the scores clearly exceed those of the reference.
    reference : {"gaussian", "permuted"}
        What the scores were compared with; `claim` says what that can show.
    verdict : str
        One sentence.
    ks : ndarray
        Numbers of clusters tried.
    density, nmi, stability : ndarray
        Density S, ensemble NMI and mean cluster stability of the partition into k clusters. From features, S is that of
        partitions into k clusters of random halves of the rows: 1 − S is how unstable k is.
    score : ndarray
        What is compared with the reference at each k. From features: −log(1 − S), softened. From labels: how much the
        bridge between the two closest clusters (their co-association relative to their inside) grows, on a log scale,
        when one more cluster is cut; large where k clusters are separate and k + 1 are not.
    gap, z : ndarray
        `score` minus its mean over the references, and that in standard deviations of the references.
    pac : ndarray
        Proportion of ambiguous pairs (co-association between 0.1 and 0.9) among partitions into k clusters; NaN where
        there are fewer than 5 of them.
    statistic, reference_statistics : float, ndarray
        The values behind the verdict: the score at k, or for permuted labels the mean NMI between partitions.
    z_score, p_value : float
        The same compared with the references.
    """

    k: int
    structure: bool
    reference: str
    verdict: str
    ks: np.ndarray
    density: np.ndarray
    nmi: np.ndarray
    stability: np.ndarray
    score: np.ndarray
    gap: np.ndarray
    z: np.ndarray
    pac: np.ndarray
    statistic: float
    reference_statistics: np.ndarray
    z_score: float
    p_value: float
    labels_of_k: dict[int, np.ndarray] = field(repr=False)

    @property
    def claim(self) -> str:
        """What the reference that was used can show."""
        return CLAIMS[self.reference]

    def labels(self, k: int | None = None) -> np.ndarray:
        """The partition into `k` clusters (the suggested number by default); all 0 for k = 1."""
        k = self.k if k is None else k
        if k == 1:
            return np.zeros_like(next(iter(self.labels_of_k.values())))
        if k not in self.labels_of_k:
            raise ValueError(f"k must be one of those tried, {self.ks.tolist()}, got {k}.")
        return self.labels_of_k[k]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the labels, as plain numbers and lists."""
        plain: dict[str, Any] = {"k": self.k, "structure": self.structure, "reference": self.reference}
        plain.update(verdict=self.verdict, claim=self.claim, statistic=self.statistic, z_score=self.z_score)
        plain.update(p_value=self.p_value, reference_statistics=self.reference_statistics.tolist())
        for name in ("ks", "density", "nmi", "stability", "score", "gap", "z", "pac"):
            values = getattr(self, name).tolist()
            plain[name] = [None if isinstance(x, float) and not math.isfinite(x) else x for x in values]
        return plain

    def __str__(self) -> str:
        lines = [self.verdict, f"reference: {self.reference}. {self.claim}", ""]
        names = ("density", "nmi", "stability", "score", "gap", "z", "pac")
        lines.append("    k " + " ".join(f"{name:>9}" for name in names))
        for i, k in enumerate(self.ks.tolist()):
            cells = [getattr(self, name)[i] for name in names]
            text = " ".join(f"{'':>9}" if not math.isfinite(x) else f"{x:>9.3f}" for x in cells)
            lines.append(f"{'*' if k == self.k else ' '}{k:>4} {text}")
        return "\n".join(lines)


def select_k(
    X: Any,
    ks: Iterable[int] = range(2, 31),
    *,
    reference: str = "auto",
    n_references: int = 20,
    n_partitions: int = 10,
    n_init: int = 3,
    random_state: Any = None,
    engine: Any = "auto",
    n_jobs: int | None = None,
) -> SelectK:
    r"""Suggest a number of clusters, or report that there is no evidence for any.

    From features, each k gets a base ensemble of its own (partitions into k clusters, each fitted on a random half of
    the rows, at most 500) and a consensus. Where the k clusters are real, the halves agree: the density S of the
    consensus is within 0.005 of 1. The same is done on Gaussian data with the covariance of `X`, whose clusters have
    borders in the middle of the cloud, which differ from half to half. Suggested is the largest k that is stable
    (1 − S at most 0.005) and exceeds every reference, by three of their standard deviations; 1 when there is none.

    Labels alone do not show whether the data have clusters, since clusterings of one smooth cloud agree too. They are
    compared with independently permuted labels, which shows whether the partitions agree more than chance (by the
    mean NMI between them). The suggested k is where average linkage of micro-clusters separates best.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), Ensemble, or label table of shape (n_samples, n_partitions)
        Features, or base partitions.
    ks : iterable of int, default=range(2, 31)
        Numbers of clusters to try, from 2; those too large for the number of items are left out.
    reference : {"auto", "gaussian", "permuted"}, default="auto"
        ``"auto"``: "permuted" for an Ensemble and for tables of whole numbers or strings, "gaussian" for other numbers.
    n_references : int, default=20
        Number of references drawn.
    n_partitions, n_init : int, default=10, 3
        Base k-means partitions of features for each k, and their restarts.
    random_state : int, Generator, RandomState or None, default=None
        Seed.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    n_jobs : int or None, default=None
        Processes for base partitions.

    Returns
    -------
    SelectK

    Notes
    -----
    Linear in the number of items. From features (`n_references` + 1) * `n_partitions` * `n_init` runs of k-means on at
    most 500 rows are made for every k. Each parameter is a choice of its own, hence more than eight.

    Examples
    --------
    >>> import numpy as np
    >>> import coassoc as ca
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 2)) + 12 * np.repeat([[0, 0], [0, 1], [1, 0]], 50, axis=0)
    >>> found = ca.select_k(X, range(2, 6), n_references=5, random_state=0)
    >>> found.k, found.structure
    (3, True)
    """
    check_choice(reference, "reference", REFERENCES)
    n_references = check_integer(n_references, "n_references", 2)
    n_partitions = check_integer(n_partitions, "n_partitions", 2)
    wanted = sorted({check_integer(k, "ks", 2) for k in ks})
    if not wanted:
        raise ValueError("ks must name at least one number of clusters.")
    seed = seed_from(random_state)
    if reference == "auto":
        reference = "permuted" if _looks_like_labels(X) else "gaussian"
    if reference == "permuted":
        return _from_labels(check_ensemble(X), wanted, n_references, seed, engine)
    return _from_features(X, wanted, n_references, n_partitions, n_init, seed, engine, n_jobs)


# -- the two references ------------------------------------------------------------------------------------


def _from_labels(ensemble: Ensemble, ks: list[int], n_references: int, seed: int, engine: Any) -> SelectK:
    tree = _Tree(ensemble, ks, seed, engine)
    statistic = _mean_agreement(ensemble, engine)
    others, jumps = [], []
    for b in range(n_references):
        rng = stream(seed, 7, b)
        codes = np.stack([rng.permutation(column) for column in ensemble.codes.T], axis=1)
        shuffled = Ensemble.from_codes(np.ascontiguousarray(codes), ensemble.n_clusters)
        others.append(_mean_agreement(shuffled, engine))
        jumps.append(_Tree(shuffled, ks, seed, engine).on(tree.ks))
    references = np.array(others)
    z_score, p_value = _compare(statistic, references)
    structure = bool(statistic > references.max() and z_score >= _LEAST_Z)
    gap, z = _gaps(tree.jump, np.array(jumps))
    k = int(tree.ks[np.argmax(gap)]) if structure else 1
    chance = f"(mean NMI {statistic:.3f}, permuted {references.mean():.3f}, z = {z_score:.1f})"
    verdict = (
        f"The partitions agree more than chance {chance}; {k} clusters are separated best."
        if structure
        else f"The partitions do not agree more than chance {chance}: a consensus of them means nothing."
    )
    found = np.array([_score_partition(ensemble, tree.labels(number), engine) for number in tree.ks.tolist()])
    pac = [_pac_of(ensemble, np.flatnonzero(ensemble.n_clusters == number), stream(seed, 8)) for number in tree.ks]
    return SelectK(
        k,
        structure,
        "permuted",
        verdict,
        tree.ks,
        found[:, 0],
        found[:, 1],
        found[:, 2],
        tree.jump,
        gap,
        z,
        np.array(pac),
        statistic,
        references,
        z_score,
        p_value,
        {number: tree.labels(number) for number in tree.ks.tolist()},
    )


def _from_features(X, ks, n_references, n_partitions, n_init, seed, engine, n_jobs) -> SelectK:
    X = check_array(X, dtype=np.float64, ensure_min_samples=8, input_name="X")
    fit_rows = min(len(X) // 2, _FIT_ROWS)
    numbers = np.array([k for k in ks if k <= fit_rows // 2])
    if not len(numbers):
        raise ValueError(f"ks must include a number of clusters of at most a quarter of the {len(X)} rows.")
    found, pac, labels = [], [], {}
    for k in numbers.tolist():
        made = _halves(X, k, n_partitions, n_init, fit_rows, (6, 0, k), seed, n_jobs)
        labels[k] = _consensus(made, k, seed, engine)
        found.append(_score_partition(made, labels[k], engine))
        pac.append(_pac_of(made, np.arange(n_partitions), stream(seed, 8)))
    density, nmi, stability = (np.array(column) for column in zip(*found))
    centre, root = X.mean(axis=0), _covariance_root(X)
    scores = np.zeros((n_references, len(numbers)))
    for b in range(n_references):
        noise = centre + stream(seed, 9, b).standard_normal((len(X), len(root))) @ root
        for i, k in enumerate(numbers.tolist()):
            made = _halves(noise, k, n_partitions, n_init, fit_rows, (6, b + 1, k), seed, n_jobs)
            scores[b, i] = _score_of(density_metric(made, _consensus(made, k, seed, engine), engine=engine))
    score = _score_of(density)
    gap, z = _gaps(score, scores)
    stands_out = (1.0 - density <= _UNSTABLE) & (z >= _LEAST_Z) & (score > scores.max(axis=0))
    structure = bool(stands_out.any())
    at = int(np.flatnonzero(stands_out)[-1]) if structure else int(np.argmax(z))
    k = int(numbers[at]) if structure else 1
    z_score, p_value = _compare(float(score[at]), scores[:, at])
    verdict = (
        f"{k} clusters: random halves of the rows agree on them (1 − S = {1 - density[at]:.4f}) as they do not on "
        f"Gaussian data of the same covariance (z = {z_score:.1f})."
        if structure
        else "No structure: no number of clusters is both stable and clearly more so than on Gaussian data of the same "
        f"covariance (nearest: k = {numbers[at]}, 1 − S = {1 - density[at]:.4f}, z = {z_score:.1f})."
    )
    return SelectK(
        k,
        structure,
        "gaussian",
        verdict,
        numbers,
        density,
        nmi,
        stability,
        score,
        gap,
        z,
        np.array(pac),
        float(score[at]),
        scores[:, at],
        z_score,
        p_value,
        labels,
    )


def _halves(X, k: int, n_partitions: int, n_init: int, fit_rows: int, path, seed: int, n_jobs) -> Ensemble:
    """Partitions into k clusters, each fitted on a random part of the rows and extended to all rows by predict."""
    return make_ensemble(
        X,
        n_partitions,
        k,
        n_init=n_init,
        fit_sample=fit_rows,
        n_jobs=n_jobs,
        random_state=np.random.SeedSequence(seed, spawn_key=path),
    )


def _consensus(ensemble: Ensemble, k: int, seed: int, engine: Any) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # halves may agree on fewer than k clusters
        return KMeansConsensus(k, n_init=3, random_state=seed, engine=engine).fit(ensemble).labels_


def _score_of(density: Any) -> Any:
    return -np.log(1.0 - np.minimum(density, 1.0) + _SOFTEN)


def _score_partition(ensemble: Ensemble, labels: np.ndarray, engine: Any) -> tuple[float, float, float]:
    """Density, ensemble NMI and mean cluster stability (weighted by size)."""
    stability = cluster_stability(ensemble, labels, engine=engine)
    sizes = np.bincount(labels[labels >= 0])
    return (
        density_metric(ensemble, labels, engine=engine),
        ensemble_nmi(ensemble, labels, engine=engine),
        float(np.average(stability, weights=sizes[sizes > 0])),
    )


# -- one tree ----------------------------------------------------------------------------------------------


class _Tree:
    """Average linkage of micro-clusters: for every k asked for a partition and its bridge."""

    def __init__(self, ensemble: Ensemble, ks: Iterable[int], seed: int, engine: Any):
        self.ensemble, self.engine = ensemble, engine
        self.v = np.ones(ensemble.n_partitions)
        wanted = sorted(int(k) for k in ks)
        n_micro = min(max(50, 3 * max(wanted)), ensemble.n_samples)
        with resolve(engine, ensemble).load(ensemble) as rows:
            micro, self.counts = over_segment(rows, self.v, n_micro, 2, 100, seed, 0)
            self.micro = np.array(rows.labels(micro))
        n = int(np.count_nonzero(self.counts.sizes))
        bridges, self.groups = self._grow({*wanted, *(k + 1 for k in wanted)})
        self.ks = np.array([k for k in wanted if k in bridges], dtype=np.int64)
        if not len(self.ks):
            raise ValueError(f"ks={wanted} holds no number of clusters that {n} groups of items can form.")
        self.bridge = np.array([bridges[k] for k in self.ks.tolist()])
        after = np.array([bridges.get(k + 1, 1.0) for k in self.ks.tolist()])
        self.jump = np.log((after + _FLOOR) / (self.bridge + _FLOOR))

    def _grow(self, wanted: set[int]) -> tuple[dict[int, float], dict[int, np.ndarray]]:
        """Bridge and groups of micro-clusters for each number of clusters that are large enough to count.

        The partition into k is that of the coarsest level with k clusters of at least `_LEAST_SHARE` of the items;
        smaller clusters, which are outliers, join the cluster with the largest mean co-association.
        """
        sums = PairSums(self.counts, self.v)
        n = self.counts.n_clusters
        alive = self.counts.sizes > 0
        group = np.arange(n)
        upper = np.triu(np.ones((n, n), dtype=bool), 1)
        least = max(2.0, _LEAST_SHARE * float(self.counts.sizes.sum()))
        bridges: dict[int, float] = {}
        groups: dict[int, np.ndarray] = {}
        for _ in range(int(alive.sum()) - 1):
            distances = sums.average_distances()
            large = np.flatnonzero(sums.sizes >= least)
            if len(large) in wanted:
                near = 1.0 - distances[np.ix_(large, large)]
                inside = (sums.values() / np.maximum(sums.sizes, 1.0))[large]
                np.fill_diagonal(near, 0.0)
                a, b = np.unravel_index(int(np.argmax(near)), near.shape)
                densest = max(inside[a], inside[b])
                bridges[len(large)] = min(1.0, float(near[a, b] / densest)) if densest > 0 else 1.0
                home = large[np.argmin(distances[:, large], axis=1)]
                home[large] = large
                groups[len(large)] = np.unique(home[group], return_inverse=True)[1].astype(np.int32)
            allowed = np.where(upper & alive[:, None] & alive, distances, np.inf)
            into, gone = (int(i) for i in np.unravel_index(int(np.argmin(allowed)), allowed.shape))
            sums.merge(into, gone)
            alive[gone] = False
            group[group == gone] = into
        return bridges, groups

    def on(self, ks: np.ndarray) -> np.ndarray:
        """`jump` on another tree's numbers of clusters, 0 where this one has none."""
        own = dict(zip(self.ks.tolist(), self.jump.tolist()))
        return np.array([own.get(k, 0.0) for k in ks.tolist()])

    def labels(self, k: int) -> np.ndarray:
        """The partition into k clusters."""
        found = self.groups[k][self.micro]
        unlabelled = self.ensemble.unlabelled()
        if unlabelled is not None:
            found[unlabelled] = -1
        return found


# -- small pieces ------------------------------------------------------------------------------------------


def _gaps(jump: np.ndarray, references: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`jump` minus the references' mean at each k, and that over their standard deviation."""
    gap = jump - references.mean(axis=0)
    spread = references.std(axis=0, ddof=1)
    return gap, gap / np.maximum(spread, 1e-6)


def _compare(statistic: float, references: np.ndarray) -> tuple[float, float]:
    """z-score against the references, and the p-value of a permutation test."""
    spread = float(references.std(ddof=1))
    z = (statistic - float(references.mean())) / max(spread, 1e-12)
    return z, (1 + int(np.count_nonzero(references >= statistic))) / (len(references) + 1)


def _mean_agreement(ensemble: Ensemble, engine: Any) -> float:
    p = ensemble.n_partitions
    if p < 2:
        raise ValueError("a reference of permuted labels needs at least two partitions to compare.")
    table = pairwise_nmi(ensemble, engine=engine)
    return float(table[np.triu_indices(p, 1)].mean())


def _pac_of(ensemble: Ensemble, columns: np.ndarray, rng: np.random.Generator) -> float:
    """Share of ambiguous pairs among random pairs of items that at least two partitions label."""
    n = ensemble.n_samples
    if len(columns) < 5 or n < 2:
        return float("nan")
    first = rng.integers(n, size=_PAC_PAIRS)
    second = (first + rng.integers(1, n, size=_PAC_PAIRS)) % n
    codes, missing = ensemble.codes[:, columns], ensemble.n_clusters[columns].astype(ensemble.codes.dtype)
    a, b = codes[first], codes[second]
    seen = (a != missing) & (b != missing)
    both = seen.sum(axis=1)
    share = ((a == b) & seen).sum(axis=1)[both > 1] / both[both > 1]
    return float(np.mean((share > _PAC[0]) & (share < _PAC[1]))) if len(share) else float("nan")


def _covariance_root(X: np.ndarray) -> np.ndarray:
    """R with RᵀR the covariance of the rows of X, shape (rank, n_features)."""
    _, scale, directions = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return (scale / math.sqrt(len(X) - 1))[:, None] * directions


def _looks_like_labels(X: Any) -> bool:
    """Ensembles, strings and whole numbers are labels; other numbers are features."""
    if isinstance(X, Ensemble):
        return True
    values = np.asarray(X)
    if values.dtype.kind in "iub" or values.dtype.kind in "OUS":
        return True
    finite = values[np.isfinite(values)]
    return bool((finite == np.floor(finite)).all())
