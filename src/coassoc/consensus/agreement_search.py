"""AgreementConsensus: a linear-time search for the partition with the largest mean NMI with the ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.checks import check_integer
from .exchange import SearchResult
from .search import AgreementGoal, Search, SearchConsensus


class AgreementConsensus(SearchConsensus):
    r"""Consensus partition with a large mean NMI with the clusterings.

    Items are over-segmented into micro-clusters, which average linkage merges on their counts
    (:math:`D(C, C')`, without an n × n matrix). Then single items are moved while that raises the exact
    :math:`\frac1p \sum_j NMI(\pi, \pi_j)`, and one cluster is split and two others are merged while that raises it.
    The agreement never falls.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_init : int, default=1
        Number of over-segmentations, at least one; the one with the best result is kept.
    micro_clusters : int or "auto", default="auto"
        Clusters of an over-segmentation. ``"auto"``: 100, or 5 * `n_clusters` when that is more.
    init : array-like of shape (n_samples,), default=None
        A partition to start from instead.
    max_iter : int, default=300
        Largest number of passes of an over-segmentation, and of sweeps of one exchange.
    max_rounds : int, default=50
        Largest number of split–merge rounds from one start; 0 makes none.
    n_trials : int, default=8
        Split–merge plans tried in a round before the search ends.
    partition_weights : {"agreement"} or array-like of shape (n_partitions,), default=None
        Weights of the clusterings, scaled to mean 1; None: all 1. ``"agreement"``: their mean NMI with the others.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine, thread count and chunk size.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print a line per start.
    at_most : bool, default=False
        Allow fewer clusters when they agree better. Otherwise there are exactly `n_clusters`.
    min_cluster_size : int, default=2
        The search makes no cluster smaller than this, because NMI rewards clusters of single items, which mean
        nothing. Smaller clusters found by average linkage are kept.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    loss_ : float
        k-means loss on H.
    n_iter_, n_rounds_ : int
        Sweeps of the last exchange; split–merge rounds, all starts together.
    n_sampled_ : int
        Items that starts and rounds were searched on: all, or those of a sample.
    ensemble_nmi_ : float
        Mean NMI with the clusterings.
    converged_ : bool
        True when no move of a single item that `min_cluster_size` allows raises the agreement.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    DensityConsensus : The same search on the density S.
    EAC : Average linkage itself.

    Notes
    -----
    Every step is linear in the number of items. Above 100 000 items the search runs on a sample (20 000 items, or 100
    for each cluster), which labels all items; passes and moves over all items then raise the agreement further. x log x
    of counts is kept as 64-bit fixed point, so sums are exact and results do not depend on threads, chunks or the
    engine.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> agreed = ca.AgreementConsensus(n_clusters=2, random_state=0).fit(table)
    >>> sorted(agreed.cluster_sizes_.tolist()), round(agreed.ensemble_nmi_, 4)
    ([3, 3], 0.9066)
    """

    _sampled_above = 100_000

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 1, micro_clusters: Any = "auto", init: Any = None,
        max_iter: int = 300, max_rounds: int = 50, n_trials: int = 8, partition_weights: Any = None,
        random_state: Any = None, engine: Any = "auto", verbose: int = 0, at_most: bool = False,
        min_cluster_size: int = 2,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, n_init=n_init, micro_clusters=micro_clusters, init=init, max_iter=max_iter,
            max_rounds=max_rounds, n_trials=n_trials, partition_weights=partition_weights, random_state=random_state,
            engine=engine, verbose=verbose,
        )  # fmt: skip
        self.at_most = at_most
        self.min_cluster_size = min_cluster_size

    def _goal(self, v: np.ndarray) -> AgreementGoal:
        if not isinstance(self.at_most, (bool, np.bool_)):
            raise TypeError(f"at_most must be True or False, got {self.at_most!r}.")
        return AgreementGoal(v, check_integer(self.min_cluster_size, "min_cluster_size"), bool(self.at_most))

    def _starts(self, search: Search, k: int) -> list[SearchResult]:
        if search.micro is None:
            raise TypeError("micro_clusters must be an integer or 'auto', got None.")
        return [search.merged_start(k, "average", restart) for restart in range(search.n_init)]

    def _store_scores(self, scores: list[float]) -> None:
        self.ensemble_nmi_ = scores[-1]
