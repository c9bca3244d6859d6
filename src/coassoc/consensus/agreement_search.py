"""AgreementConsensus: a linear-time search for the partition with the largest mean NMI with the ensemble."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.checks import check_integer
from .exchange import Found
from .search import AgreementGoal, Search, SearchConsensus


@dataclass(eq=False, repr=False, kw_only=True)
class AgreementConsensus(SearchConsensus):
    r"""Consensus partition with a large mean NMI with the base partitions.

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
    micro_clusters, init, max_iter, max_rounds, n_trials, partition_weights, random_state, engine, verbose
        As for `DensityConsensus`.
    at_most : bool, default=False
        Allow fewer clusters when they agree better. Otherwise there are exactly `n_clusters`.
    min_cluster_size : int, default=2
        The search makes no cluster smaller than this, because NMI rewards clusters of single items, which mean
        nothing. Smaller clusters found by average linkage are kept.

    Attributes
    ----------
    labels_, density_, n_clusters_, cluster_density_, cluster_sizes_, loss_, n_iter_, n_rounds_, n_sampled_
        As for `DensityConsensus`.
    ensemble_nmi_ : float
        Mean NMI with the base partitions.
    converged_ : bool
        True when no move of a single item that `min_cluster_size` allows raises the agreement.

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
    >>> sorted(agreed.cluster_sizes_.tolist())
    [3, 3]
    """

    _many = 100_000

    n_init: int = 1
    at_most: bool = False
    min_cluster_size: int = 2

    def _goal(self, v: np.ndarray) -> AgreementGoal:
        if not isinstance(self.at_most, (bool, np.bool_)):
            raise TypeError(f"at_most must be True or False, got {self.at_most!r}.")
        return AgreementGoal(v, check_integer(self.min_cluster_size, "min_cluster_size"), bool(self.at_most))

    def _starts(self, search: Search, k: int) -> list[Found]:
        if search.micro is None:
            raise TypeError("micro_clusters must be an integer or 'auto', got None.")
        return [search.merged_start(k, "average", restart) for restart in range(search.n_init)]

    def _store_scores(self, scores: list[float]) -> None:
        self.ensemble_nmi_ = scores[-1]
