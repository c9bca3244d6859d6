r"""Densities and losses of a partition, from counts alone.

With :math:`\alpha_f(C)` the items of cluster C that carry base cluster f, and :math:`n_{Cj}` those observed in
partition j, every quantity of the paper is a ratio of integers: linear in the number of items, exact to the last
division. Missing labels follow the pooled-pairs rule: pairs seen together over pairs observed together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.counts import Counts
from ..core.densities import cluster_densities, density_from_counts, inter_densities, loss_from_counts
from ..ensemble import check_ensemble
from .counting import counts_of
from .labels import check_copies, check_labels
from .weights import resolve_partition_weights


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

    Returns
    -------
    float

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 0], [0, 0], [1, 0], [1, 1]]
    >>> ca.density(table, [0, 0, 1, 1])
    0.75
    """
    counts, v = scored_counts(X, labels, sample_weight, partition_weights, engine)
    return density_from_counts(counts, v)


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
    counts, v = scored_counts(X, labels, sample_weight, partition_weights, engine)
    return cluster_densities(counts, v)


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
    counts, v = scored_counts(X, labels, sample_weight, partition_weights, engine)
    return inter_densities(counts, v)


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
    counts, v = scored_counts(X, labels, sample_weight, partition_weights, engine)
    return loss_from_counts(counts, v)


def scored_counts(
    X: Any, labels: Any, sample_weight: Any, partition_weights: Any, engine: Any
) -> tuple[Counts, np.ndarray]:
    """Counts of `labels` on the ensemble `X`, and the partition weights."""
    ensemble = check_ensemble(X)
    codes, k = check_labels(labels, ensemble.n_samples)
    copies = check_copies(sample_weight, ensemble.n_samples)
    v = resolve_partition_weights(partition_weights, ensemble, copies, engine)
    return counts_of(ensemble, codes, k, copies, engine), v
