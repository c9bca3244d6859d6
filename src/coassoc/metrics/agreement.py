r"""Agreement between partitions: NMI as the paper defines it, its mean over the ensemble, and zero-effort scores."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ..core.counts import Counts
from ..core.densities import density_from_counts
from ..engines import resolve
from ..ensemble import check_ensemble
from .densities import counts_of, layout_of
from .labels import check_copies, check_labels, check_partition_weights

_OVERLAP_BYTES = 1 << 29  # HᵀH up to this size; beyond, one counting pass per partition


class ZeroEffort(NamedTuple):
    """What one gets by picking a base partition instead of computing a consensus."""

    mean: float
    best: float


def nmi(a: Any, b: Any, *, sample_weight: Any = None) -> float:
    r"""Normalised mutual information of two partitions, on the items both of them label.

    .. math:: NMI(a, b) = \frac{2\, I(a, b)}{\mathcal H(a) + \mathcal H(b)}

    1 when both have a single cluster, as in scikit-learn. Negative and missing labels take no part.

    Parameters
    ----------
    a, b : array-like of shape (n_samples,)
        Labels.
    sample_weight : array-like of int, default=None
        How often each item counts.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.nmi([0, 0, 1, 1], ["x", "x", "y", "y"])
    1.0
    """
    codes_a, k_a = check_labels(a, None, "a")
    codes_b, k_b = check_labels(b, len(codes_a), "b")
    copies = check_copies(sample_weight, len(codes_a))
    both = (codes_a >= 0) & (codes_b >= 0)
    cells = codes_a[both].astype(np.int64) * k_b + codes_b[both]
    weights = None if copies is None else copies[both]
    table = np.bincount(cells, weights=weights, minlength=k_a * k_b).astype(np.int64)
    return nmi_from_table(table.reshape(k_a, k_b))


def ensemble_nmi(
    X: Any, labels: Any, *, sample_weight: Any = None, partition_weights: Any = None, engine: Any = "auto"
) -> float:
    r"""Mean NMI of a partition with the base partitions, each on the items it observed.

    .. math:: \overline{NMI}(\pi) = \frac1p \sum_j NMI(\pi, \pi_j)

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The base partitions.
    labels : array-like of shape (n_samples,)
        The partition to score.
    sample_weight : array-like of int, default=None
        How often each item counts.
    partition_weights : array-like of float, default=None
        Weights of the mean; all 1 when None.
    engine : str or Engine, default="auto"
        Where the counting pass runs.

    Returns
    -------
    float

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.ensemble_nmi([[0, 5], [0, 5], [1, 6], [1, 6]], [7, 7, 8, 8])
    1.0
    """
    ensemble = check_ensemble(X)
    codes, k = check_labels(labels, ensemble.n_samples)
    v = check_partition_weights(partition_weights, ensemble.n_partitions)
    counts = counts_of(ensemble, codes, k, check_copies(sample_weight, ensemble.n_samples), engine)
    return math.fsum((v * nmi_from_counts(counts)).tolist()) / ensemble.n_partitions


def zero_effort(X: Any, metric: str = "nmi", *, sample_weight: Any = None, engine: Any = "auto") -> ZeroEffort:
    """Mean and best score reached by taking one of the base partitions as the consensus.

    For ``"nmi"`` a partition is compared with the others, itself excluded; for ``"density"`` with the whole
    ensemble, itself included: the readings that fit the paper's tables.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The base partitions.
    metric : {"nmi", "density"}, default="nmi"
        Score.
    sample_weight : array-like of int, default=None
        How often each item counts.
    engine : str or Engine, default="auto"
        Where the overlap pass runs.

    Returns
    -------
    ZeroEffort
        Named tuple (mean, best).

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.zero_effort([[0, 0], [0, 0], [1, 1], [1, 1]])
    ZeroEffort(mean=1.0, best=1.0)
    """
    scores = member_scores(X, metric, sample_weight=sample_weight, engine=engine)
    return ZeroEffort(math.fsum(scores.tolist()) / len(scores), float(scores.max()))


def member_scores(X: Any, metric: str = "nmi", *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """Score of each base partition as if it were the consensus, shape (n_partitions,). See :func:`zero_effort`."""
    if metric not in ("nmi", "density"):
        raise ValueError(f"metric must be 'nmi' or 'density', got {metric!r}.")
    ensemble = check_ensemble(X)
    copies = check_copies(sample_weight, ensemble.n_samples)
    p = ensemble.n_partitions
    scores = np.zeros(p)
    for j, counts in enumerate(_member_counts(ensemble, copies, engine)):
        if metric == "density":
            scores[j] = density_from_counts(counts, np.ones(p))
        else:
            others = np.delete(nmi_from_counts(counts), j)
            scores[j] = math.fsum(others.tolist()) / (p - 1) if p > 1 else 1.0
    return scores


def pairwise_nmi(X: Any, *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """NMI between every two base partitions, shape (n_partitions, n_partitions), 1 on the diagonal.

    Parameters are those of :func:`zero_effort`.
    """
    ensemble = check_ensemble(X)
    copies = check_copies(sample_weight, ensemble.n_samples)
    return np.array([nmi_from_counts(counts) for counts in _member_counts(ensemble, copies, engine)])


def _member_counts(ensemble, copies, engine):
    """Counts of each base partition taken as a consensus: columns of HᵀH, or a pass each when d² is too large."""
    layout = layout_of(ensemble)
    if layout.n_codes**2 * 8 <= _OVERLAP_BYTES:
        with resolve(engine, ensemble).load(ensemble, copies) as rows:
            overlap = rows.overlap()
        sizes = np.diagonal(overlap)
        for j in range(layout.n_partitions):
            part = slice(layout.offsets[j], layout.offsets[j + 1])
            yield Counts(np.ascontiguousarray(overlap[:, part]), sizes[part].copy(), layout)
    else:
        for j in range(layout.n_partitions):
            labels = ensemble.partition(j).astype(np.int32)
            yield counts_of(ensemble, labels, int(layout.n_clusters[j]), copies, engine)


def nmi_from_counts(counts: Counts) -> np.ndarray:
    """NMI of a partition with each base partition, from its counts, shape (n_partitions,)."""
    offsets = counts.layout.offsets
    return np.array([nmi_from_table(counts.alpha[start:stop]) for start, stop in itertools.pairwise(offsets)])


def nmi_from_table(table: np.ndarray) -> float:
    """NMI from a contingency table of integers. Sums are exactly rounded, so no order of clusters matters."""
    n = int(table.sum())
    rows, cols = table.sum(axis=1), table.sum(axis=0)
    if n == 0 or (np.count_nonzero(rows) == 1 and np.count_nonzero(cols) == 1):
        return 1.0
    whole = _xlogx(np.array([n]))
    minus_rows, minus_cols = [-x for x in _xlogx(rows)], [-x for x in _xlogx(cols)]
    entropy_rows = math.fsum(whole + minus_rows)
    entropy_cols = math.fsum(whole + minus_cols)
    shared = math.fsum(whole + _xlogx(table[table > 0]) + minus_rows + minus_cols)
    return min(1.0, max(0.0, 2.0 * shared / (entropy_rows + entropy_cols)))


def _xlogx(values: np.ndarray) -> list[float]:
    values = values[values > 0].astype(np.float64)
    return (values * np.log(values)).tolist()
