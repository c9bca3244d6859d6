"""DensityConsensus: a linear-time search for the densest partition."""

from __future__ import annotations

import numpy as np

from ..core.objectives import KMeansObjective
from ..metrics.labels import check_partition_weights
from .exchange import SearchResult
from .search import DensityGoal, Search, SearchConsensus, is_large
from .starts import Starts, best_start


class DensityConsensus(SearchConsensus):
    r"""Consensus partition with a large exact density S.

    A low k-means loss on H means a high density :math:`S(\pi) = \frac1n \sum_C |C|\, D(C)`, but they are not the same.
    This search raises S itself, from two starts: the best of `n_init` k-means consensus partitions, and an
    over-segmentation into many clusters, which are merged on their counts by least loss of S. From each start single
    items are moved until no move raises S; then one cluster is split and two others are merged while that raises S.
    S never falls.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, exactly.
    n_init : int, default=10
        Number of k-means starts, as in `KMeansConsensus`; 0 leaves that start out.
    micro_clusters : int, "auto" or None, default="auto"
        Clusters of the over-segmentation; None leaves that start out. ``"auto"``: 100, or 5 * `n_clusters` when that
        is more.
    init : array-like of shape (n_samples,), default=None
        A partition to start from instead of these two.
    max_iter : int, default=300
        Largest number of passes of a k-means start, and of sweeps of one exchange.
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
    densities_ : list of float
        S at the better start and after each step that raised it; of a search on samples, S of all items at the end.
    n_iter_, n_rounds_ : int
        Sweeps of the last exchange; split–merge rounds, all starts together.
    n_sampled_ : int
        Items that starts and rounds were searched on: all, or those of one sample.
    converged_ : bool
        True when no move of a single item raises S.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    KMeansConsensus : Faster; ``refine="density"`` for the exchange alone.
    AgreementConsensus : The same search on the ensemble NMI.

    Notes
    -----
    Every step is linear in the number of items: a sweep of the exchange costs about as much as two k-means passes.
    Above 100 000 items only the better start is searched from, and a plan has a few sweeps to raise S. Above 1 000 000
    items the search runs on two samples (of 20 000 items, or 100 for each cluster), each of which labels all items by
    k-means passes; moves of single items, from the better one, then raise S further. Memory is that of
    `KMeansConsensus` with `micro_clusters` clusters. ``predict`` returns the cluster with the nearest center in H,
    which may differ from ``labels_`` for rows of `fit` near borders.

    Raising S does not raise the agreement with true classes; see the page on choosing a method.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> dense = ca.DensityConsensus(n_clusters=2, random_state=0).fit(table)
    >>> sorted(dense.cluster_sizes_.tolist()), round(dense.density_, 4)
    ([3, 3], 0.8333)
    """

    _least_n_init = 0
    _sampled_above = 1_000_000  # fewer items keep the labels of earlier versions
    _n_samples = 2  # what they cost on public data sets: docs/methods.md

    def _goal(self, v: np.ndarray) -> DensityGoal:
        return DensityGoal(v)

    def _starts(self, search: Search, k: int) -> list[SearchResult]:
        starts: list[SearchResult] = []
        if search.micro is not None:
            starts.append(search.merged_start(k, "density", 0))
        if search.n_init:  # the labels of `KMeansConsensus` with the same seed
            v = check_partition_weights(search.goal.v, len(search.goal.v))  # as it scales them, to the last bit
            settings = Starts(k, search.n_init, search.max_iter, search.seed)
            best = best_start(search.rows, search.engine, KMeansObjective(v), v, settings)
            starts.append(search.climb(best.labelling))
        if not starts:
            raise ValueError("n_init=0 and micro_clusters=None leave nothing to start from; set one, or give init.")
        if is_large(search.rows):  # the results of the starts are close: search from the better one only
            return [max(starts, key=lambda start: start.objective)]
        return starts

    def _store_scores(self, scores: list[float]) -> None:
        self.densities_ = scores
