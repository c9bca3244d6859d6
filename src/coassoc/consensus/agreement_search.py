"""AgreementConsensus: the partition that agrees best with the ensemble, by a linear-time search."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.checks import check_integer, seed_from
from .lloyd import TooFewRows
from .search import (
    AgreementGoal,
    Found,
    SearchConsensus,
    check_micro_clusters,
    mean_nmi,
    merged_start,
    split_merge,
    without_empty,
)


class AgreementConsensus(SearchConsensus):
    r"""Consensus partition that climbs the mean NMI with the base partitions.

    Items are over-segmented into micro-clusters, which average linkage joins on their counts alone
    (:math:`D(C, C')`, no n × n matrix). From there single items are exchanged on the exact
    :math:`\frac1p \sum_j NMI(\pi, \pi_j)`, and one cluster is split while two others are merged, as long as that
    helps. The agreement never falls on the way.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    at_most : bool, default=False
        Whether fewer clusters are fine when they agree better. Otherwise there are exactly `n_clusters`.
    min_cluster_size : int, default=2
        The search makes no cluster smaller than this: NMI rewards cutting off single items, and a count of clusters
        reached that way means nothing. Smaller clusters that average linkage itself found are left as they are.
    n_init : int, default=1
        Over-segmentations tried; the one that ends highest is kept.
    micro_clusters : int or "auto", default="auto"
        Clusters of an over-segmentation. ``"auto"``: 100, or 5 * `n_clusters` when that is more.
    init : array-like of shape (n_samples,), default=None
        A partition to start from instead.
    max_iter : int, default=300
        Passes of the over-segmentation, and sweeps of one exchange, at most.
    max_rounds : int, default=50
        Split–merge rounds from one start at most; 0 leaves them out.
    n_trials : int, default=8
        Split–merge plans climbed from in a round before the search gives up.
    partition_weights : {"agreement"} or array-like of shape (n_partitions,), default=None
        Weight of each base partition, brought to mean 1; all 1 when None.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine, thread count and chunk size.
    engine : {"auto", "native", "numpy"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print a line per step.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items no partition labels.
    ensemble_nmi_ : float
        Mean NMI with the base partitions.
    n_clusters_ : int
        Clusters found.
    density_, cluster_density_, cluster_sizes_, loss_
        Other scores of ``labels_``.
    n_iter_ : int
        Sweeps of the last exchange.
    n_rounds_ : int
        Split–merge rounds, all starts together.
    converged_ : bool
        True when no move of a single item that `min_cluster_size` allows raises the agreement.

    See Also
    --------
    DensityConsensus : The same search on the density S.
    EAC : Average linkage itself.

    Notes
    -----
    Every step is linear in the number of items. x log x of counts is kept as 64-bit fixed point, so sums are exact
    and results do not depend on threads, chunks or the engine.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> agreed = ca.AgreementConsensus(n_clusters=2, random_state=0).fit(table)
    >>> sorted(agreed.cluster_sizes_.tolist())
    [3, 3]
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        at_most=False,
        min_cluster_size=2,
        n_init=1,
        micro_clusters="auto",
        init=None,
        max_iter=300,
        max_rounds=50,
        n_trials=8,
        partition_weights=None,
        random_state=None,
        engine="auto",
        verbose=0,
    ):
        self.n_clusters = n_clusters
        self.at_most = at_most
        self.min_cluster_size = min_cluster_size
        self.n_init = n_init
        self.micro_clusters = micro_clusters
        self.init = init
        self.max_iter = max_iter
        self.max_rounds = max_rounds
        self.n_trials = n_trials
        self.partition_weights = partition_weights
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> AgreementConsensus:
        """Find a partition that agrees with the ensemble.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            The base partitions.
        y : None
            Ignored, for scikit-learn's sake.
        sample_weight : array-like of int, default=None
            How often each item counts, exactly as if its row were repeated; 0 removes it. All copies move together.

        Returns
        -------
        self
        """
        k = check_integer(self.n_clusters, "n_clusters")
        least = check_integer(self.min_cluster_size, "min_cluster_size")
        n_init = check_integer(self.n_init, "n_init")
        micro = check_micro_clusters(self.micro_clusters, k)
        if micro is None:
            raise TypeError("micro_clusters must be an integer or 'auto', got None.")
        max_iter = check_integer(self.max_iter, "max_iter")
        max_rounds = check_integer(self.max_rounds, "max_rounds", 0)
        n_trials = check_integer(self.n_trials, "n_trials")
        if not isinstance(self.at_most, (bool, np.bool_)):
            raise TypeError(f"at_most must be True or False, got {self.at_most!r}.")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            goal = AgreementGoal(v, least, bool(self.at_most))

            best: Found | None = None
            self.n_rounds_ = 0
            for restart in range(1 if self.init is not None else n_init):
                if self.init is not None:
                    start = self._given_start(ensemble, rows, goal, k, max_iter, fewer=bool(self.at_most))
                else:
                    start = self._start(rows, goal, k, micro, max_iter, seed, restart)
                end, rounds = split_merge(
                    rows,
                    engine,
                    without_empty(rows, start),
                    goal,
                    k,
                    max_rounds=max_rounds,
                    n_trials=n_trials,
                    max_sweeps=max_iter,
                    seed=seed,
                    report=self._report,
                )
                self.n_rounds_ += rounds
                if best is None or end.objective > best.objective:
                    best = end
            assert best is not None
            self._store_found(ensemble, rows, best, v)
            self.ensemble_nmi_ = mean_nmi(best.objective, v)
            self.n_clusters_ = best.n_clusters
            return self

    def _start(self, rows, goal: AgreementGoal, k: int, micro, max_iter: int, seed: int, restart: int) -> Found:
        n_micro = min(micro, rows.n_rows)
        try:
            return merged_start(rows, goal, k, n_micro, "average", max_iter, max_iter, seed, restart)
        except TooFewRows as few:
            if not self.at_most:
                raise
            return merged_start(rows, goal, few.n_different, n_micro, "average", max_iter, max_iter, seed, restart)

    def _report(self, step: str, found: Found) -> None:
        if self.verbose:
            print(f"AgreementConsensus: {step}, {found.n_clusters} clusters, objective {found.objective:.6g}")
