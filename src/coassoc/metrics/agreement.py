r"""Agreement between partitions: NMI as the paper defines it, its mean over the ensemble, and zero-effort scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.densities import density_from_counts
from ..ensemble import check_ensemble
from .counting import (
    ZeroEffort,
    contingency,
    counts_of,
    mean_nmi,
    mean_with_others,
    member_counts,
    member_nmi,
    nmi_from_counts,
    nmi_from_table,
)
from .densities import scored_counts
from .labels import check_copies, check_labels


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
    return nmi_from_table(contingency(codes_a, codes_b, (k_a, k_b), copies))


def ensemble_nmi(
    X: Any, labels: Any, *, sample_weight: Any = None, partition_weights: Any = None, engine: Any = "auto"
) -> float:
    r"""Mean NMI of a partition with the clusterings, each on the items it observed.

    .. math:: \overline{NMI}(\pi) = \frac1p \sum_j NMI(\pi, \pi_j)

    Parameters
    ----------
    X, labels, sample_weight, partition_weights, engine
        As for :func:`density`.

    Returns
    -------
    float

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.ensemble_nmi([[0, 5], [0, 5], [1, 6], [1, 6]], [7, 7, 8, 8])
    1.0
    """
    counts, v = scored_counts(X, labels, sample_weight, partition_weights, engine)
    return mean_nmi(counts, v)


def zero_effort(X: Any, metric: str = "nmi", *, sample_weight: Any = None, engine: Any = "auto") -> ZeroEffort:
    """Mean and best score reached by taking one of the clusterings as the consensus.

    For ``"nmi"`` a clustering is compared with the others, itself excluded; for ``"density"`` with the whole
    ensemble, itself included; this reproduces the paper's tables.

    Parameters
    ----------
    X
        As for :func:`density`.
    metric : {"nmi", "density"}, default="nmi"
        Score.
    sample_weight, engine
        As for :func:`density`.

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
    return ZeroEffort.of(member_scores(X, metric, sample_weight=sample_weight, engine=engine))


def member_scores(X: Any, metric: str = "nmi", *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """Score of each clustering as if it were the consensus, shape (n_partitions,). See :func:`zero_effort`."""
    if metric not in ("nmi", "density"):
        raise ValueError(f"metric must be 'nmi' or 'density', got {metric!r}.")
    ensemble = check_ensemble(X)
    copies = check_copies(sample_weight, ensemble.n_samples)
    if metric == "nmi":
        return mean_with_others(member_nmi(ensemble, copies, engine))
    equal = np.ones(ensemble.n_partitions)
    return np.array([density_from_counts(counts, equal) for counts in member_counts(ensemble, copies, engine)])


def pairwise_nmi(X: Any, *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """NMI between every two clusterings, shape (n_partitions, n_partitions), 1 on the diagonal.

    Parameters are those of :func:`zero_effort`.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.metrics.pairwise_nmi([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    ensemble = check_ensemble(X)
    return member_nmi(ensemble, check_copies(sample_weight, ensemble.n_samples), engine)


def partition_nmi(X: Any, labels: Any = None, *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """NMI of each clustering with the consensus `labels`, or, without them, its mean NMI with the others.

    Low values show the clusterings that disagree; as weights they are ``partition_weights="agreement"``.

    Parameters
    ----------
    X
        As for :func:`density`.
    labels : array-like of shape (n_samples,), default=None
        A consensus.
    sample_weight, engine
        As for :func:`density`.

    Returns
    -------
    ndarray of shape (n_partitions,)

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.partition_nmi([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1]).round(3).tolist()
    [1.0, 0.344]
    >>> ca.partition_nmi([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]).tolist()
    [0.5, 0.5, 0.0]
    """
    ensemble = check_ensemble(X)
    if labels is None:
        return member_scores(ensemble, sample_weight=sample_weight, engine=engine)
    codes, k = check_labels(labels, ensemble.n_samples)
    return nmi_from_counts(counts_of(ensemble, codes, k, check_copies(sample_weight, ensemble.n_samples), engine))


def best_partition(X: Any, *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """The medoid of an ensemble: the clustering with the largest mean NMI with the others.

    Parameters
    ----------
    X, sample_weight, engine
        As for :func:`density`.

    Returns
    -------
    ndarray of shape (n_samples,)
        Its labels as codes, −1 where missing; the first of equals.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.best_partition([[0, 5, 0], [0, 5, 1], [1, 6, 0], [1, 6, 1]]).tolist()
    [0, 0, 1, 1]
    """
    ensemble = check_ensemble(X)
    return ensemble.partition(int(np.argmax(member_scores(ensemble, sample_weight=sample_weight, engine=engine))))
