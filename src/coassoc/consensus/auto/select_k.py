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

from ...core.checks import check_choice, check_integer, seed_from, stream
from ...core.densities import cluster_densities, mean_density
from ...engines import resolve
from ...engines.threads import one_thread
from ...ensemble import Ensemble, check_ensemble, make_ensemble
from ...metrics.densities import density as density_metric
from ...metrics.stability import cluster_stability
from ..kmeans import KMeansConsensus
from .estimator import gather_evidence
from .number import choose_k

REFERENCES = ("auto", "gaussian", "permuted")
LEAST_Z = 5.0  # standard deviations by which a number of clusters must exceed the references
_SOFTEN = 0.002  # added to 1 − S before its logarithm
_FIT_ROWS = 500  # largest number of rows that a base partition of features is fitted on
_REFERENCE_ROWS = 1000  # largest number of rows of a reference
_REFERENCE_KS = 5  # numbers of clusters tried on references; those between are interpolated
_LEAST_SPREAD = 0.05  # of the score over references: they are few

CLAIMS = {
    "gaussian": (
        "The same pipeline was run on Gaussian and on uniform data with the covariance of yours. It can say whether "
        "your features have clusters that a single cloud does not."
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
    structure : bool or None
        Whether the scores clearly exceed those of the reference; None where that cannot be told.
    reference : {"gaussian", "permuted"}
        What the scores were compared with; `claim` says what that can show.
    verdict : str
        One sentence.
    ks : ndarray
        Numbers of clusters tried.
    density, stability : ndarray
        Of the partition into k clusters. From labels, `stability` is the mean adjusted Rand index between partitions
        found from two random halves of the ensemble. From features it is the mean stability of the clusters, and the
        density S is that of partitions into k clusters of random halves of the rows: 1 − S is how unstable k is.
    score : ndarray
        What k is chosen by. From features: −log(1 − S), softened. From labels: as in :class:`Consensus`.
    runners_up : list of int
        Other numbers of clusters that score nearly as well, best first.
    curves : dict of str to ndarray
        From labels, over `ks`: ``"agreement"``, ``"stability"``, ``"eigengap"`` and ``"balance"``, as in
        :class:`Consensus`.
    gap, z : ndarray
        From features: `score` minus its mean over the references, and that in their standard deviations; else NaN.
    p_value : float
        From labels, of the joint test that the partitions agree; NaN from features.
    """

    k: int
    structure: bool | None
    reference: str
    verdict: str
    ks: np.ndarray
    density: np.ndarray
    stability: np.ndarray
    score: np.ndarray
    gap: np.ndarray
    z: np.ndarray
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
        plain.update(verdict=self.verdict, claim=self.claim, runners_up=self.runners_up)
        plain.update(p_value=_finite(self.p_value))
        for name in ("ks", "density", "stability", "score", "gap", "z"):
            plain[name] = [_finite(x) for x in getattr(self, name).tolist()]
        plain["curves"] = {name: curve.tolist() for name, curve in self.curves.items()}
        return plain

    def __str__(self) -> str:
        lines = [self.verdict, f"reference: {self.reference}. {self.claim}", ""]
        columns = {name: getattr(self, name) for name in ("density", "stability")}
        columns |= self.curves or {name: getattr(self, name) for name in ("gap", "z")}
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
    n_references: int = 8,
    n_partitions: int = 10,
    n_init: int = 1,
    random_state: Any = None,
    engine: Any = "auto",
    n_jobs: int | None = None,
) -> SelectK:
    r"""Suggest a number of clusters, or report that there is no evidence for any.

    From features, each k gets a base ensemble of its own (partitions into k clusters, each fitted on a random half of
    the rows, at most 500) and a consensus. Where the k clusters are real, the halves agree, and the density S of the
    consensus is near 1. The same is done on data without clusters that have the covariance of `X`, Gaussian and uniform
    ones: borders in the middle of a cloud differ from half to half. Suggested is the k whose score exceeds the
    references most, provided it does so by five of their standard deviations; 1 when there is none.

    Labels alone do not show whether the data have clusters, since clusterings of one smooth cloud agree too. The
    partitions are tested for agreement beyond chance, and k is chosen as in :class:`Consensus`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), Ensemble, or label table of shape (n_samples, n_partitions)
        Features, or base partitions.
    ks : iterable of int, default=range(2, 31)
        Numbers of clusters to try, from 2; those too large for the number of items are left out.
    reference : {"auto", "gaussian", "permuted"}, default="auto"
        ``"auto"``: "permuted" for an Ensemble and for tables of strings, "gaussian" for numbers with fractions. Whole
        numbers may be either: pass ``Ensemble(X)`` or "permuted" for labels, "gaussian" for features.
    n_references : int, default=8
        References drawn, from features, half of them of each kind.
    n_partitions : int, default=10
        Base k-means partitions of features for each k.
    n_init : int, default=1
        Restarts of each of them.
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
    Linear in the number of items. From features, `n_partitions` * `n_init` runs of k-means on at most 500 rows are made
    for every k, and `n_references` times as many for five of them.

    Examples
    --------
    >>> import numpy as np
    >>> import coassoc as ca
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 2)) + 12 * np.repeat([[0, 0], [0, 1], [1, 0]], 50, axis=0)
    >>> suggestion = ca.select_k(X, range(2, 6), n_references=5, random_state=0)
    >>> suggestion.k, suggestion.structure
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
        with one_thread("blas"):  # as in Consensus
            return _from_labels(check_ensemble(X), wanted, seed, engine)
    with one_thread():  # the fits are too small for several threads
        return _from_features(X, wanted, n_references, n_partitions, n_init, seed, engine, n_jobs)


# -- the two references ------------------------------------------------------------------------------------


def _from_labels(ensemble: Ensemble, ks: list[int], seed: int, engine: Any) -> SelectK:
    if ensemble.n_partitions < 2:
        raise ValueError("select_k from labels needs at least two partitions to compare, got 1.")
    chosen = resolve(engine, ensemble)
    with chosen.load(ensemble) as rows:
        evidence = gather_evidence(rows, chosen, ks if len(ks) > 1 else [1, *ks], seed)
        leaf = np.array(rows.labels(evidence.micro.labelling), dtype=np.int32)
    unlabelled = ensemble.unlabelled()
    if unlabelled is not None:
        leaf[unlabelled] = -1  # the last entry of the labels of leaves
    fits, support = evidence.fits, evidence.support
    number = choose_k(fits, evidence.refits, evidence.ks, 0.0)
    if not len(number.ks):
        raise ValueError(f"ks={ks} holds no number of clusters that {fits.n_leaves} groups of items can form.")
    partitions = {k: fits.fit("average", k) for k in number.ks.tolist()}
    counts = [evidence.micro.merged(labels, int(labels.max()) + 1) for labels in partitions.values()]
    v, nothing = np.ones(ensemble.n_partitions), np.full(len(number.ks), np.nan)
    verdict = support.warning or (
        f"{' or '.join(map(str, [number.k, *number.runners_up]))} clusters: agreement, stability, gap and balance are "
        f"highest together there; the partitions agree more than chance (p = {support.p_value:.2g})."
    )
    return SelectK(
        k=number.k if support.supported is not False else 1,
        structure=support.supported,
        reference="permuted",
        verdict=verdict[0].upper() + verdict[1:],
        ks=number.ks,
        density=np.array([mean_density(of_k.sizes, cluster_densities(of_k, v)) for of_k in counts]),
        stability=number.curves["stability"],
        score=number.score,
        gap=nothing,
        z=nothing,
        p_value=support.p_value,
        labels_of_k={k: np.append(labels, -1).astype(np.int32) for k, labels in partitions.items()},
        runners_up=number.runners_up if support.supported is not False else [],
        curves=number.curves,
        leaf_of_item=leaf,
    )


def _from_features(X, ks, n_references, n_partitions, n_init, seed, engine, n_jobs) -> SelectK:
    X = check_array(X, dtype=np.float64, ensure_min_samples=8, input_name="X")
    fit_rows = min(len(X) // 2, _FIT_ROWS)
    numbers = np.array([k for k in ks if k <= fit_rows // 2])
    if not len(numbers):
        raise ValueError(f"ks must include a number of clusters of at most a quarter of the {len(X)} rows.")
    density, stability, labels = np.zeros(len(numbers)), np.zeros(len(numbers)), {}
    for i, k in enumerate(numbers.tolist()):
        halves = _halves(X, k, n_partitions, n_init, fit_rows, (6, 0, k), seed, n_jobs)
        labels[k] = _consensus(halves, k, seed, engine)
        density[i] = density_metric(halves, labels[k], engine=engine)
        stability[i] = np.average(
            cluster_stability(halves, labels[k], engine=engine), weights=np.bincount(labels[k][labels[k] >= 0])
        )
    score = _score_of(density)
    gap, z = _compare(X, numbers, score, n_references, n_partitions, n_init, seed, engine, n_jobs)
    structure = bool((z >= LEAST_Z).any())
    at = int(np.argmax(np.where(z >= LEAST_Z, gap, -np.inf))) if structure else int(np.argmax(z))
    nearest = f"k = {numbers[at]}, 1 − S = {1 - density[at]:.4f}, z = {z[at]:.1f}"
    verdict = (
        f"{numbers[at]} clusters: random halves of the rows agree on them more than on data without clusters of the "
        f"same covariance (1 − S = {1 - density[at]:.4f}, z = {z[at]:.1f})."
        if structure
        else "No structure: at no number of clusters do random halves of the rows agree clearly more than on data "
        f"without clusters of the same covariance (nearest: {nearest}; z = {LEAST_Z:.0f} is needed)."
    )
    k = int(numbers[at]) if structure else 1
    return SelectK(k, structure, "gaussian", verdict, numbers, density, stability, score, gap, z, math.nan, labels)


def _compare(X, ks, score, n_references, n_partitions, n_init, seed, engine, n_jobs) -> tuple[np.ndarray, np.ndarray]:
    """Score minus that of the references of the kind that scores higher, and the same in standard deviations."""
    rows = min(len(X), _REFERENCE_ROWS)
    tried = ks[_spread(len(ks))]
    centre, (scale, directions) = X.mean(axis=0), _principal(X)
    scores = np.zeros((n_references, len(tried)))
    for b in range(n_references):
        rng = stream(seed, 9, b)
        drawn = rng.uniform(-(3**0.5), 3**0.5, (rows, len(scale))) if b % 2 else rng.standard_normal((rows, len(scale)))
        noise = centre + (drawn * scale) @ directions
        for i, k in enumerate(tried.tolist()):
            halves = _halves(noise, k, n_partitions, n_init, min(rows // 2, _FIT_ROWS), (6, b + 1, k), seed, n_jobs)
            scores[b, i] = _score_of(density_metric(halves, _consensus(halves, k, seed, engine), engine=engine))
    gaps, spread = [], np.maximum(scores.std(axis=0, ddof=1) if n_references > 1 else 0.0, _LEAST_SPREAD)
    for kind in (scores[::2], scores[1::2]):
        gaps.append(score - np.interp(ks, tried, kind.mean(axis=0)))
    gap = np.minimum(*gaps)
    return gap, gap / np.interp(ks, tried, spread)


def _spread(n: int) -> np.ndarray:
    """Positions of _REFERENCE_KS of n numbers, denser at the start."""
    return np.unique(np.rint(np.linspace(0.0, 1.0, min(_REFERENCE_KS, n)) ** 2 * (n - 1)).astype(int))


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


def _principal(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations (rank,) along the principal directions (rank, n_features)."""
    _, scale, directions = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return scale / math.sqrt(len(X) - 1), directions


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
