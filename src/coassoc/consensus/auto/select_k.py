"""select_k: the number of clusters that an ensemble or a table of features supports, if any."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ...core.checks import check_choice, check_integer, seed_from, stream
from ...engines import resolve
from ...ensemble import Ensemble, check_ensemble, make_ensemble
from ...ensemble.generate import one_thread
from ..base import mark_unlabelled, on_host
from .evidence import gather_evidence
from .verdict import either

REFERENCES = ("auto", "gaussian", "permuted")
LEAST_Z = 3.0  # standard deviations by which features must exceed the references; clouds reached 1.0 in 30 trials
_FIT_ROWS, _REFERENCE_ROWS = 500, 1000  # largest number of rows that a clustering is fitted on, and of a reference
_SOFTEN = 0.001  # added to the share of neighbours in other clusters before its logarithm
_LEAST_SPREAD = 0.1  # of that logarithm over references: they are few

CLAIMS = {
    "gaussian": (
        "The same pipeline was run on Gaussian and on uniform data with the covariance of yours. It can say whether "
        "your features have clusters that a single cloud does not."
    ),
    "permuted": (
        "Every two clusterings were compared with what they share when one of them is permuted. This tests only "
        "whether the clusterings agree more than chance, not whether the data have clusters: clusterings of one smooth "
        "cloud agree too."
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
    score : ndarray
        What k is chosen by: the weighted sum of `curves`, as in :class:`Consensus`.
    curves : dict of str to ndarray
        Over `ks`: ``"agreement"``, ``"stability"``, ``"eigengap"`` and ``"balance"``, as in :class:`Consensus`; from
        features, ``"neighbours"``: share of nearest neighbours in the same cluster, beyond chance.
    runners_up : list of int
        Other numbers of clusters that are nearly as good, as in :class:`Consensus`, best first.
    z : float
        From features: standard deviations of the references by which neighbours share a cluster more often; else NaN.
    p_value : float
        From labels, of the joint test that the clusterings agree; NaN from features.
    """

    k: int
    structure: bool | None
    reference: str
    verdict: str
    ks: np.ndarray
    score: np.ndarray
    z: float
    p_value: float
    labels_of_k: dict[int, np.ndarray] = field(repr=False)  # of micro-clusters
    leaf_of_item: np.ndarray = field(repr=False)
    runners_up: list[int] = field(default_factory=list)
    curves: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def claim(self) -> str:
        """What the reference that was used can show."""
        return CLAIMS[self.reference]

    def labels(self, k: int | None = None) -> np.ndarray:
        """The partition into `k` clusters (the suggested number by default); all 0 for k = 1."""
        k = self.k if k is None else k
        if k == 1:
            return np.where(self.leaf_of_item < 0, np.int32(-1), np.int32(0))
        if k not in self.labels_of_k:
            raise ValueError(f"k must be one of those tried, {self.ks.tolist()}, got {k}.")
        return self.labels_of_k[k][self.leaf_of_item]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the labels, as plain numbers and lists."""
        as_they_are = ("k", "structure", "reference", "verdict", "claim", "runners_up")
        plain = {name: getattr(self, name) for name in as_they_are}
        plain |= {name: None if math.isnan(x) else x for name, x in (("z", self.z), ("p_value", self.p_value))}
        score = [None if math.isnan(value) else value for value in self.score.tolist()]
        curves = {name: curve.tolist() for name, curve in self.curves.items()}
        return plain | {"ks": self.ks.tolist(), "score": score, "curves": curves}

    def __str__(self) -> str:
        columns = {**self.curves, "score": self.score}
        lines = [self.verdict, f"reference: {self.reference}. {self.claim}", ""]
        lines.append("    k " + " ".join(f"{name:>11}" for name in columns))
        for i, k in enumerate(self.ks.tolist()):
            text = " ".join(f"{column[i]:>11.3f}" for column in columns.values())
            lines.append(f"{'*' if k == self.k else '+' if k in self.runners_up else ' '}{k:>4} {text}")
        return "\n".join(lines)


def select_k(
    X: Any,
    ks: Iterable[int] = range(2, 31),
    *,
    reference: str = "auto",
    n_references: int = 8,
    n_partitions: int = 20,
    random_state: Any = None,
    engine: Any = "auto",
    n_jobs: int | None = None,
) -> SelectK:
    r"""Suggest a number of clusters, or report that there is no evidence for any.

    From labels, k is chosen as in :class:`Consensus`, and the clusterings are tested for agreement beyond chance.
    Labels alone do not show whether the data have clusters, since clusterings of one smooth cloud agree too.

    From features, k-means clusterings are made first, and nearest neighbours vote on k. The share of neighbours that
    clusters separate is then compared with that on data without clusters that have the covariance of `X`, Gaussian and
    uniform ones: a border through the middle of a cloud separates many. There is structure where the logarithm of the
    share is lower than that of the references by three of their standard deviations; else 1 is suggested.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), Ensemble, or label table of shape (n_samples, n_partitions)
        Features, on comparable scales, or clusterings.
    ks : iterable of int, default=range(2, 31)
        Numbers of clusters to try, from 2; those too large for the number of items are left out.
    reference : {"auto", "gaussian", "permuted"}, default="auto"
        ``"auto"``: "permuted" for an Ensemble and for tables of strings, "gaussian" for numbers with fractions. Whole
        numbers may be either: pass ``Ensemble(X)`` or "permuted" for labels, "gaussian" for features.
    n_references : int, default=8
        References drawn, from features, half of them of each kind.
    n_partitions : int, default=20
        K-means clusterings made of features, and of each reference.
    random_state : int, Generator, RandomState or None, default=None
        Seed.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    n_jobs : int or None, default=None
        Processes that make clusterings.

    Returns
    -------
    SelectK

    Notes
    -----
    Linear in the number of items. From features, `n_partitions` runs of k-means are made on at most 500 rows, and as
    many for each reference.

    Examples
    --------
    >>> import numpy as np
    >>> import coassoc as ca
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 2)) + 12 * np.repeat([[0, 0], [0, 1], [1, 0]], 50, axis=0)
    >>> suggestion = ca.select_k(X, range(2, 6), random_state=0)
    >>> suggestion.k, suggestion.structure
    (3, True)
    """
    check_choice(reference, "reference", REFERENCES)
    n_references = check_integer(n_references, "n_references", 4)
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
        return _from_features(X, wanted, n_references, n_partitions, seed, engine, n_jobs)


def _from_labels(ensemble: Ensemble, ks: list[int], seed: int, engine: Any, X: Any = None) -> SelectK:
    """The curves and partitions of an ensemble; `X` are features, which vote where given."""
    if ensemble.n_partitions < 2:
        raise ValueError("select_k from labels needs at least two clusterings to compare, got 1.")
    chosen = resolve(engine, ensemble)
    with chosen.load(ensemble) as rows:
        evidence = gather_evidence(rows, chosen, ks if len(ks) > 1 else [1, *ks], seed)
        # an item without a label has leaf -1, the last entry of the labels of leaves
        leaf = on_host(mark_unlabelled(rows.labels(evidence.micro.labelling), ensemble)).astype(np.int32)
    fits, support = evidence.fits, evidence.support
    number = evidence.choose_k(X, leaf)
    if not len(number.ks):
        raise ValueError(f"ks={ks} holds no number of clusters that {fits.n_leaves} groups of items can form.")
    partitions = {k: fits.fit("average", k) for k in number.ks.tolist()}
    found = support.supported is not False
    p = "< 0.001" if support.p_value < 0.001 else f"= {support.p_value:.2g}"
    verdict = support.warning or (
        f"{either([number.k, *number.runners_up])} clusters: agreement, stability, gap and balance are "
        f"highest together at {number.k}; the clusterings agree more than chance (p {p})."
    )
    return SelectK(
        k=number.k if found else 1,
        structure=support.supported,
        reference="permuted",
        verdict=verdict[0].upper() + verdict[1:],
        ks=number.ks,
        score=number.score,
        z=math.nan,
        p_value=support.p_value,
        labels_of_k={k: np.append(labels, -1).astype(np.int32) for k, labels in partitions.items()},
        leaf_of_item=leaf,
        runners_up=number.runners_up if found else [],
        curves=number.curves,
    )


def _from_features(X, ks, n_references, n_partitions, seed, engine, n_jobs) -> SelectK:
    X = check_array(X, dtype=np.float64, ensure_min_samples=8, input_name="X")
    ks = [k for k in ks if k <= min(len(X) // 2, _FIT_ROWS) // 2]
    if not ks:
        raise ValueError(f"ks must include a number of clusters of at most a quarter of the {len(X)} rows.")

    def select(data: np.ndarray, numbers: list[int], path: int) -> SelectK:
        ensemble = make_ensemble(
            data, n_partitions, (ks[0], max(ks[-1], ks[0] + 2)), n_init=1, fit_sample=min(len(data), _FIT_ROWS),
            n_jobs=n_jobs, random_state=np.random.SeedSequence(seed, spawn_key=(6, path)),
        )  # fmt: skip
        return _from_labels(ensemble, numbers, seed, engine, data)

    selection = select(X, ks, 0)
    k = selection.ks[np.nanargmax(selection.score)]
    centre = X.mean(axis=0)
    _, scale, directions = np.linalg.svd(X - centre, full_matrices=False)
    scale = scale / math.sqrt(len(X) - 1)  # standard deviations along the principal directions
    own, shares = selection.curves["neighbours"][selection.ks == k][0], np.zeros(n_references)
    for b in range(n_references):
        rng, shape = stream(seed, 9, b), (min(len(X), _REFERENCE_ROWS), len(scale))
        drawn = rng.uniform(-(3**0.5), 3**0.5, shape) if b % 2 else rng.standard_normal(shape)
        shares[b] = select(centre + (drawn * scale) @ directions, [int(k)], b + 1).curves["neighbours"][-1]
    score, scores = (-np.log(1.0 - share + _SOFTEN) for share in (own, shares))
    kinds = scores[::2], scores[1::2]
    z = (score - max(kind.mean() for kind in kinds)) / max(*(kind.std(ddof=1) for kind in kinds), _LEAST_SPREAD)
    compared = f"(share beyond chance {own:.3f}, {shares.max():.3f} at most without clusters, z = {z:.1f})"
    verdict = (
        f"{either([k, *selection.runners_up])} clusters: nearest neighbours share a cluster more than "
        f"on data without clusters of the same covariance {compared}."
        if z >= LEAST_Z
        else f"No structure: at {k} clusters, the best number, nearest neighbours do not share a cluster clearly more "
        f"than on data without clusters of the same covariance {compared}; z = {LEAST_Z:.0f} is needed."
    )
    return replace(
        selection, k=int(k) if z >= LEAST_Z else 1, structure=bool(z >= LEAST_Z), reference="gaussian", verdict=verdict,
        z=float(z), p_value=math.nan, runners_up=selection.runners_up if z >= LEAST_Z else [],
    )  # fmt: skip


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
