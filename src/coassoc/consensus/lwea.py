"""LWEA: average linkage of the locally weighted co-association, over micro-clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.checks import seed_from, stream
from ..engines import Rows
from ..metrics.membership import THETA
from .eac import EAC
from .embedding import Sample


class LWEA(EAC):
    r"""Locally weighted evidence accumulation: average linkage in which certain base clusters count more.

    A co-occurrence in base cluster f counts :math:`ECI(f)`, which falls as the other clusterings cut f into more pieces
    (see :func:`coassoc.metrics.cluster_uncertainty`). Items are over-segmented by :class:`KMeansConsensus` first, and
    the micro-clusters are linked by their mean weighted co-association: linear in the number of items.

    Parameters
    ----------
    n_clusters : int, default=8
        Clusters of ``labels_``.
    micro_clusters : int, "auto" or None, default="auto"
        Clusters of the over-segmentation. ``"auto"``: 100, or 5 * `n_clusters` when that is more. None, or fewer
        distinct rows than that: exact linkage of the distinct rows, if it needs no more than 2 GiB.
    partition_weights : {"agreement"} or array-like of shape (n_partitions,), default=None
        Weights of the clusterings, scaled to mean 1; None: all 1. ``"agreement"``: their mean NMI with the others.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the over-segmentation and of the sample that the weights come from.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print the number of leaves and what they take.
    theta : float, default=0.4
        How fast the weight of a base cluster falls with its uncertainty.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels, numbered by first appearance among the leaves; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters of ``labels_``: fewer than asked for when there are fewer leaves.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    linkage_ : ndarray of shape (n_leaves - 1, 4)
        SciPy linkage over the leaves; heights are 1 − similarity.
    leaf_of_item_, leaf_sizes_ : ndarray of shape (n_samples,), ndarray of shape (n_leaves,)
        Leaf of each item, −1 for items without one; items at each leaf, copies counted.
    n_leaves_, n_micro_clusters_ : int
        Leaves (micro-clusters, or distinct rows in order of first appearance); micro-clusters, 0 when exact.
    n_ties_ : int
        Merges at which another pair was exactly as similar. The pair with the lowest leaves is merged first.
    cluster_weights_ : ndarray of shape (d,)
        ECI of each base cluster.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    LWGP : The same weights in a normalised cut, from the same publication.
    EAC : Other linkages, without weights.

    Notes
    -----
    As `EAC` with micro-clusters. Weights come from at most two million labels (items times partitions), evenly spread.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.LWEA(n_clusters=2).fit(table).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self, n_clusters: int = 8, *, micro_clusters: Any = "auto", partition_weights: Any = None,
        random_state: Any = None, engine: Any = "auto", verbose: int = 0, theta: float = THETA,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, micro_clusters=micro_clusters, partition_weights=partition_weights, random_state=random_state,
            engine=engine, verbose=verbose,
        )  # fmt: skip
        self.theta = theta

    def _cluster_weights(self, rows: Rows) -> np.ndarray:
        sample = Sample(rows, stream(seed_from(self.random_state), 0))
        self.cluster_weights_ = sample.uncertainty(self.theta)
        return self.cluster_weights_
