r"""Scores of a partition, and of the clusterings themselves, from counts: densities, loss, NMI.

With :math:`\alpha_f(C)` the items of cluster C that carry base cluster f, and :math:`n_{Cj}` those observed in
partition j, every quantity of the paper is a ratio of integers: linear in the number of items, exact to the last
division. Missing labels follow the pooled-pairs rule: pairs seen together over pairs observed together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.counts import Counts, Layout, cluster_densities, density_from_counts, inter_densities, loss_from_counts
from ..engines import Rows, resolve
from ..ensemble import Ensemble, check_ensemble
from .labels import check_copies, check_labels, check_partition_weights, contingency

_OVERLAP_BYTES = 1 << 29  # HᵀH up to this size; beyond, one counting pass per partition


def density(
    X: Any, labels: Any, *, sample_weight: Any = None, partition_weights: Any = None, engine: Any = "auto"
) -> float:
    r"""Density S of a partition: the size-weighted mean of its clusters' densities, in [0, 1].

    .. math:: S(\pi) = \frac1n \sum_C |C|\, D(C)

    Do not compare it between partitions with different numbers of clusters: more clusters are denser.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The clusterings.
    labels : array-like of shape (n_samples,)
        The partition to score; negative or missing labels take no part.
    sample_weight : array-like of int, default=None
        How often each item counts; 0 removes it.
    partition_weights : {"agreement"} or array-like of float, default=None
        Weight of each clustering, scaled to mean 1; all 1 when None. ``"agreement"``: see `partition_nmi`.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the counting pass runs.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.density([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])
    0.75
    """
    return density_from_counts(*scored_counts(X, labels, sample_weight, partition_weights, engine))


def cluster_density(
    X: Any, labels: Any, *, sample_weight: Any = None, partition_weights: Any = None, engine: Any = "auto"
) -> np.ndarray:
    r"""Density of each cluster: the mean co-association over its pairs of items, 0 for singletons.

    .. math:: D(C) = \frac{\sum_j v_j \sum_{f \in j} \alpha_f (\alpha_f - 1)}{\sum_j v_j n_{Cj} (n_{Cj} - 1)}

    This is the cluster consensus of Monti et al. (see :func:`item_consensus`). Parameters are those of :func:`density`.
    Clusters come in the sorted order of their labels.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.cluster_density([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])
    array([1. , 0.5])
    """
    return cluster_densities(*scored_counts(X, labels, sample_weight, partition_weights, engine))


def inter_density(
    X: Any, labels: Any, *, sample_weight: Any = None, partition_weights: Any = None, engine: Any = "auto"
) -> np.ndarray:
    r"""Mean co-association between every two clusters; the diagonal holds the densities of the clusters.

    .. math:: D(C, C') = \frac{\sum_j v_j \sum_{f \in j} \alpha_f \alpha'_f}{\sum_j v_j n_{Cj} n_{C'j}}

    Parameters are those of :func:`density`.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.inter_density([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])
    array([[1.  , 0.25],
           [0.25, 0.5 ]])
    """
    return inter_densities(*scored_counts(X, labels, sample_weight, partition_weights, engine))


def kmeans_loss(
    X: Any, labels: Any, *, sample_weight: Any = None, partition_weights: Any = None, engine: Any = "auto"
) -> float:
    r"""k-means loss of a partition on the one-hot matrix H.

    .. math:: \sum_j v_j \Big( n_j - \sum_C \sum_{f \in j} \alpha_f^2 / n_{Cj} \Big)

    Parameters are those of :func:`density`.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.kmeans_loss([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])
    1.0
    """
    return loss_from_counts(*scored_counts(X, labels, sample_weight, partition_weights, engine))


def nmi(a: Any, b: Any, *, sample_weight: Any = None) -> float:
    r"""Normalised mutual information of two partitions, on the items both of them label.

    .. math:: NMI(a, b) = \frac{2\, I(a, b)}{\mathcal H(a) + \mathcal H(b)}

    It is between 0 and 1; 1 when both have a single cluster, as in scikit-learn.

    Parameters
    ----------
    a, b : array-like of shape (n_samples,)
        Labels; negative and missing ones take no part.
    sample_weight : array-like of int, default=None
        How often each item counts.

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

    Parameters are those of :func:`density`.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.ensemble_nmi([[0, 5], [0, 5], [1, 6], [1, 6]], [7, 7, 8, 8])
    1.0
    """
    return mean_nmi(*scored_counts(X, labels, sample_weight, partition_weights, engine))


# -- the clusterings as partitions -----------------------------------------------------------------------------


class ZeroEffort(NamedTuple):
    """Scores of taking one base partition instead of computing a consensus."""

    mean: float
    best: float

    @classmethod
    def of(cls, scores: np.ndarray) -> ZeroEffort:
        """From the scores of all base partitions."""
        return cls(math.fsum(scores.tolist()) / len(scores), float(scores.max()))


def zero_effort(X: Any, metric: str = "nmi", *, sample_weight: Any = None, engine: Any = "auto") -> ZeroEffort:
    """Mean and best score reached by taking one of the clusterings as the consensus.

    Parameters
    ----------
    X, sample_weight, engine
        As for :func:`density`.
    metric : {"nmi", "density"}, default="nmi"
        NMI with the other clusterings, or density in the whole ensemble; this reproduces the paper's tables.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.zero_effort([[0, 0], [0, 0], [1, 1], [1, 1]])
    ZeroEffort(mean=1.0, best=1.0)
    """
    if metric not in ("nmi", "density"):
        raise ValueError(f"metric must be 'nmi' or 'density', got {metric!r}.")
    if metric == "nmi":
        return ZeroEffort.of(partition_nmi(X, sample_weight=sample_weight, engine=engine))
    ensemble = check_ensemble(X)
    counted = member_counts(ensemble, check_copies(sample_weight, ensemble.n_samples), engine)
    equal = np.ones(ensemble.n_partitions)
    return ZeroEffort.of(np.array([density_from_counts(counts, equal) for counts in counted]))


def pairwise_nmi(X: Any, *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """NMI between every two clusterings, shape (n_partitions, n_partitions), 1 on the diagonal.

    Parameters are those of :func:`density`.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.metrics.pairwise_nmi([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    ensemble = check_ensemble(X)
    counted = member_counts(ensemble, check_copies(sample_weight, ensemble.n_samples), engine)
    return np.array([nmi_from_counts(counts) for counts in counted])


def partition_nmi(X: Any, labels: Any = None, *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    """NMI of each clustering with the consensus `labels`, or, without them, its mean NMI with the others.

    Low values show the clusterings that disagree; as weights they are ``partition_weights="agreement"``. The largest
    mean with the others is that of the medoid, ``ensemble.partition(partition_nmi(ensemble).argmax())``.

    Parameters
    ----------
    X, sample_weight, engine
        As for :func:`density`.
    labels : array-like of shape (n_samples,), default=None
        A consensus.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.partition_nmi([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1]).round(3).tolist()
    [1.0, 0.344]
    >>> ca.partition_nmi([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]).tolist()
    [0.5, 0.5, 0.0]
    """
    if labels is None:
        return mean_with_others(pairwise_nmi(X, sample_weight=sample_weight, engine=engine))
    return nmi_from_counts(scored_counts(X, labels, sample_weight, None, engine)[0])


# -- counts ----------------------------------------------------------------------------------------------------


def scored_counts(
    X: Any, labels: Any, sample_weight: Any, partition_weights: Any, engine: Any
) -> tuple[Counts, np.ndarray]:
    """Counts of `labels` on the ensemble `X`, and the partition weights."""
    ensemble = check_ensemble(X)
    codes, k = check_labels(labels, ensemble.n_samples)
    copies = check_copies(sample_weight, ensemble.n_samples)
    v = resolve_partition_weights(partition_weights, ensemble, copies, engine)
    return counts_of(ensemble, codes, k, copies, engine), v


def resolve_partition_weights(
    weights: Any, ensemble: Ensemble, copies: np.ndarray | None = None, engine: Any = "auto"
) -> np.ndarray:
    """Partition weights of mean 1 from None, ``"agreement"`` or numbers."""
    if isinstance(weights, str):
        if weights != "agreement":
            raise ValueError(
                f"partition_weights must be None, 'agreement' or one number per partition, got {weights!r}."
            )
        weights = partition_nmi(ensemble, sample_weight=copies, engine=engine)
        if not weights.any():  # no two partitions agree at all
            weights = None
    return check_partition_weights(weights, ensemble.n_partitions)


def counts_of(ensemble: Ensemble, codes: np.ndarray, k: int, copies: np.ndarray | None, engine: Any) -> Counts:
    """Counts by one pass over the items; those with a negative label are left out."""
    absent = codes < 0
    if absent.any():
        copies = np.ones(len(codes), np.int64) if copies is None else copies.copy()
        copies[absent] = 0
        codes = np.where(absent, 0, codes)
    with resolve(engine, ensemble).load(ensemble, copies) as rows:
        return rows.counts(rows.labelling(k, codes))


def member_tables(ensemble: Ensemble, rows: Rows, order: Iterable[int]) -> Iterator[np.ndarray]:
    """α (d, k_j) of each clustering j taken as a consensus: columns of HᵀH, or a pass each when d² is too large."""
    layout = rows.layout
    overlap = rows.overlap() if layout.n_codes**2 * 8 <= _OVERLAP_BYTES else None
    for j in order:
        k = int(layout.n_clusters[j])
        if overlap is not None:
            yield overlap[:, layout.offsets[j] : layout.offsets[j + 1]]
        else:  # items without a label in j form one more cluster, which is dropped
            labels = ensemble.partition(j)
            yield rows.counts(rows.labelling(k + 1, np.where(labels < 0, k, labels).astype(np.int32))).alpha[:, :k]


def member_counts(ensemble: Ensemble, copies: np.ndarray | None, engine: Any) -> Iterator[Counts]:
    """Counts of each clustering taken as a consensus."""
    layout = Layout.of(ensemble)
    with resolve(engine, ensemble).load(ensemble, copies) as rows:
        for j, alpha in enumerate(member_tables(ensemble, rows, range(layout.n_partitions))):
            sizes = np.diagonal(alpha[layout.offsets[j] : layout.offsets[j + 1]])
            yield Counts(np.ascontiguousarray(alpha), sizes.copy(), layout)


# -- NMI from counts -------------------------------------------------------------------------------------------


def mean_with_others(nmi: np.ndarray) -> np.ndarray:
    """Mean of each row of a square without its diagonal; 1 for a single partition."""
    p = len(nmi)
    if p == 1:
        return np.ones(1)
    return np.array([math.fsum(np.delete(row, j).tolist()) / (p - 1) for j, row in enumerate(nmi)])


def nmi_from_counts(counts: Counts) -> np.ndarray:
    """NMI of a partition with each clustering, from its counts, shape (n_partitions,)."""
    offsets = counts.layout.offsets
    return np.array([nmi_from_table(counts.alpha[start:stop]) for start, stop in itertools.pairwise(offsets)])


def mean_nmi(counts: Counts, weights: np.ndarray) -> float:
    """Mean of these NMI, weighted."""
    return math.fsum((weights * nmi_from_counts(counts)).tolist()) / len(weights)


def nmi_from_table(table: np.ndarray) -> float:
    """NMI from a contingency table of integers. Sums are exactly rounded, so no order of clusters matters."""
    n = int(table.sum())
    rows, cols = table.sum(axis=1), table.sum(axis=0)
    if n == 0 or (np.count_nonzero(rows) == 1 and np.count_nonzero(cols) == 1):
        return 1.0
    whole = _xlogx(np.array([n]))
    minus_rows, minus_cols = [-x for x in _xlogx(rows)], [-x for x in _xlogx(cols)]
    shared = math.fsum(whole + _xlogx(table[table > 0]) + minus_rows + minus_cols)
    return min(1.0, max(0.0, 2.0 * shared / (math.fsum(whole + minus_rows) + math.fsum(whole + minus_cols))))


def _xlogx(values: np.ndarray) -> list[float]:
    values = values[values > 0].astype(np.float64)
    return (values * np.log(values)).tolist()
