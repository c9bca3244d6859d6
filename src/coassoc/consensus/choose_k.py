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
from threadpoolctl import threadpool_limits

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..core.densities import cluster_densities, mean_density
from ..engines import resolve
from ..ensemble import Ensemble, check_ensemble, make_ensemble
from ..metrics.agreement import ensemble_nmi
from ..metrics.densities import density as density_metric
from ..metrics.stability import cluster_stability
from .choosing import choose_k, gather_evidence
from .kmeans import KMeansConsensus
from .support import information

REFERENCES = ("auto", "gaussian", "permuted")
_LEAST_Z = 3.0
_UNSTABLE = 0.005  # largest 1 − S of a number of clusters that is called stable
_SOFTEN = 0.002  # added to 1 − S before its logarithm
_FIT_ROWS = 500  # largest number of rows that a base partition of features is fitted on
_PAC = (0.1, 0.9)
_PAC_PAIRS = 20_000

CLAIMS = {
    "gaussian": (
        "The same pipeline was run on Gaussian data with the covariance of yours. It can say whether your features "
        "have clusters that a single elongated cloud does not."
    ),
    "permuted": (
        "Every two partitions were compared with what they share when one of them is permuted. This tests only whether "
        "the partitions agree more than chance, not whether the data have clusters: clusterings of one smooth cloud "
        "agree too."
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
        Of the partition into k clusters. From labels, `stability` is the mean adjusted Rand index between partitions
        found from two random halves of the ensemble. From features it is the mean stability of the clusters, and the
        density S is that of partitions into k clusters of random halves of the rows: 1 − S is how unstable k is.
    score : ndarray
        What k is chosen by. From features: −log(1 − S), softened. From labels: as in :class:`Consensus`.
    runners_up : list of int
        Other numbers of clusters that score nearly as well, best first.
    curves : dict of str to ndarray
        From labels, over `ks`: ``"agreement"`` (mean NMI with the partitions that are not left out), ``"eigengap"``,
        ``"linkage_gap"``, ``"stability"`` and ``"balance"`` (exp of the entropy of the sizes, over k).
    gap, z : ndarray
        From features: `score` minus its mean over the references, and that in their standard deviations; else NaN.
    pac : ndarray
        From features: proportion of ambiguous pairs (co-association between 0.1 and 0.9) among partitions into k
        clusters; NaN where there are fewer than 5 of them.
    statistic, reference_statistics : float, ndarray
        From features, the score at k and at k of each reference. From labels, the share of the partitions in the
        largest group that agrees beyond chance; no references are drawn.
    z_score, p_value : float
        From features, the statistic compared with the references. From labels, NaN, and the p-value of the two
        partitions that agree most, times the number of pairs.
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
    runners_up: list[int] = field(default_factory=list)
    curves: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    leaf_of_item: np.ndarray | None = field(default=None, repr=False)  # labels_of_k are those of leaves, if given

    @property
    def claim(self) -> str:
        """What the reference that was used can show."""
        return CLAIMS[self.reference]

    def labels(self, k: int | None = None) -> np.ndarray:
        """The partition into `k` clusters (the suggested number by default); all 0 for k = 1."""
        k = self.k if k is None else k
        if k != 1 and k not in self.labels_of_k:
            raise ValueError(f"k must be one of those tried, {self.ks.tolist()}, got {k}.")
        labels = next(iter(self.labels_of_k.values())) if k == 1 else self.labels_of_k[k]
        if k == 1:
            labels = np.where(labels < 0, np.int32(-1), np.int32(0))
        return labels if self.leaf_of_item is None else labels[self.leaf_of_item]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the labels, as plain numbers and lists."""
        plain: dict[str, Any] = {"k": self.k, "structure": self.structure, "reference": self.reference}
        plain.update(verdict=self.verdict, claim=self.claim, runners_up=self.runners_up, statistic=self.statistic)
        plain.update(z_score=_finite(self.z_score), p_value=self.p_value)
        plain.update(reference_statistics=self.reference_statistics.tolist())
        for name in ("ks", "density", "nmi", "stability", "score", "gap", "z", "pac"):
            plain[name] = [_finite(x) for x in getattr(self, name).tolist()]
        plain["curves"] = {name: curve.tolist() for name, curve in self.curves.items()}
        return plain

    def __str__(self) -> str:
        lines = [self.verdict, f"reference: {self.reference}. {self.claim}", ""]
        columns = {name: getattr(self, name) for name in ("density", "nmi", "stability")}
        columns |= self.curves or {name: getattr(self, name) for name in ("gap", "z", "pac")}
        columns["score"] = self.score
        lines.append("    k " + " ".join(f"{name:>11}" for name in columns))
        for i, k in enumerate(self.ks.tolist()):
            text = " ".join(
                f"{column[i]:>11.3f}" if math.isfinite(column[i]) else " " * 11 for column in columns.values()
            )
            lines.append(f"{'*' if k == self.k else '+' if k in self.runners_up else ' '}{k:>4} {text}")
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

    Labels alone do not show whether the data have clusters, since clusterings of one smooth cloud agree too. Whether
    the partitions agree more than chance is tested for every two of them. The suggested k is where agreement with the
    partitions, gaps, stability and balance are high together, as in :class:`Consensus`.

    More than 8 parameters: each is a choice of its own, and all but the first have defaults.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), Ensemble, or label table of shape (n_samples, n_partitions)
        Features, or base partitions.
    ks : iterable of int, default=range(2, 31)
        Numbers of clusters to try, from 2; those too large for the number of items are left out.
    reference : {"auto", "gaussian", "permuted"}, default="auto"
        ``"auto"``: "permuted" for an Ensemble and for tables of strings, "gaussian" for numbers with fractions. Whole
        numbers may be either, so they need a word: ``Ensemble(X)`` or "permuted" for labels, "gaussian" for features.
    n_references : int, default=20
        References drawn, from features.
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
        reference = "permuted" if _are_labels(X) else "gaussian"
    if reference == "permuted":
        return _from_labels(check_ensemble(X), wanted, seed, engine)
    return _from_features(X, wanted, n_references, n_partitions, n_init, seed, engine, n_jobs)


# -- the two references ------------------------------------------------------------------------------------


@threadpool_limits.wrap(limits=1, user_api="blas")  # as in Consensus
def _from_labels(ensemble: Ensemble, ks: list[int], seed: int, engine: Any) -> SelectK:
    if ensemble.n_partitions < 2:
        raise ValueError("select_k from labels needs at least two partitions to compare, got 1.")
    chosen = resolve(engine, ensemble)
    with chosen.load(ensemble) as rows:
        evidence = gather_evidence(ensemble, rows, chosen, ks[-1], seed)
        leaf = np.array(rows.labels(evidence.micro.labelling), dtype=np.int32)
    unlabelled = ensemble.unlabelled()
    if unlabelled is not None:
        leaf[unlabelled] = -1  # the last entry of the labels of leaves
    micro, refits, support = evidence.micro, evidence.refits, evidence.support
    number = choose_k(refits, ks)
    if not len(number.ks):
        raise ValueError(f"ks={ks} holds no number of clusters that {micro.n_leaves} groups of items can form.")
    partitions = {k: refits.labels("average", k) for k in number.ks.tolist()}
    counts = [micro.merged(labels, k) for k, labels in partitions.items()]
    v, nothing = np.ones(ensemble.n_partitions), np.full(len(number.ks), np.nan)
    core, p = int(support.core.sum()), ensemble.n_partitions
    verdict = (
        f"{' or '.join(map(str, [number.k, *number.runners_up]))} clusters: agreement, gaps, stability and balance are "
        f"high there; {core} of {p} partitions agree more than chance."
        if support.supported
        else f"The partitions do not agree more than chance ({core} of {p} do): there is no consensus to find."
    )
    return SelectK(
        k=number.k if support.supported else 1,
        structure=support.supported,
        reference="permuted",
        verdict=verdict,
        ks=number.ks,
        density=np.array([mean_density(one.sizes, cluster_densities(one, v)) for one in counts]),
        nmi=np.array([float(information(one.alpha, micro.layout).nmi.mean()) for one in counts]),
        stability=number.curves["stability"],
        score=number.score,
        gap=nothing,
        z=nothing,
        pac=nothing,
        statistic=core / p,
        reference_statistics=np.zeros(0),
        z_score=math.nan,
        p_value=support.p_value,
        labels_of_k={k: np.append(labels, -1).astype(np.int32) for k, labels in partitions.items()},
        runners_up=number.runners_up if support.supported else [],
        curves=number.curves,
        leaf_of_item=leaf,
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


def _are_labels(X: Any) -> bool:
    """True for ensembles and strings, False for numbers with fractions; whole numbers may be either."""
    if isinstance(X, Ensemble):
        return True
    values = np.asarray(X)
    if values.dtype.kind in "OUS":
        return True
    finite = values[np.isfinite(values)]
    if (finite != np.floor(finite)).any():
        return False
    raise ValueError(
        "X holds whole numbers, which may be labels or features: pass coassoc.Ensemble(X) or reference='permuted' if "
        "its columns are clusterings, reference='gaussian' if they are measurements."
    )


def _finite(x: Any) -> Any:
    """None instead of a float that JSON cannot hold."""
    return None if isinstance(x, float) and not math.isfinite(x) else x
