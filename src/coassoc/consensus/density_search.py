"""DensityConsensus: the densest partition a linear-time search finds."""

from __future__ import annotations

from typing import Any

from ..core.checks import check_integer, seed_from
from ..core.tables import KMeansObjective
from ..engines import Engine, Rows
from ..metrics.labels import check_partition_weights
from .kmeans import KMeansConsensus
from .search import (
    DensityGoal,
    Found,
    SearchConsensus,
    check_micro_clusters,
    climb_from,
    is_large,
    merged_start,
    split_merge,
)


class DensityConsensus(SearchConsensus):
    r"""Consensus partition that climbs the exact density S.

    The k-means loss on H is close to the density :math:`S(\pi) = \frac1n \sum_C |C|\, D(C)` but not the same thing.
    This search climbs S itself. It starts twice: from the best of `n_init` k-means consensus partitions, and from an
    over-segmentation into many clusters that are
    merged, on their counts alone, by least loss of S. From each start single items are exchanged until no move of
    one item raises S, and then one cluster is split while two others are merged, as long as that helps. S never
    falls on the way.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, exactly.
    n_init : int, default=10
        k-means starts, as in `KMeansConsensus`; 0 leaves that start out.
    micro_clusters : int, "auto" or None, default="auto"
        Clusters of the over-segmentation; None leaves that start out. ``"auto"``: 100, or 5 * `n_clusters` when that
        is more.
    init : array-like of shape (n_samples,), default=None
        A partition to start from instead of both.
    max_iter : int, default=300
        Passes of one k-means start, and sweeps of one exchange, at most.
    max_rounds : int, default=50
        Split–merge rounds from one start at most; 0 leaves them out.
    n_trials : int, default=8
        Split–merge plans climbed from in a round before the search gives up.
    partition_weights : {"agreement"} or array-like of shape (n_partitions,), default=None
        Weight of each base partition, brought to mean 1; all 1 when None. ``"agreement"``: see `partition_agreement`.
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
    density_ : float
        Density S of the partition.
    densities_ : list of float
        S after each step that raised it, from the better of the starts to the end.
    cluster_density_, cluster_sizes_ : ndarray of shape (n_clusters,)
        Density and number of items of each cluster.
    loss_ : float
        k-means loss on H.
    n_iter_ : int
        Sweeps of the last exchange.
    n_rounds_ : int
        Split–merge rounds, all starts together.
    converged_ : bool
        True when no move of a single item raises S.

    See Also
    --------
    KMeansConsensus : Faster; ``refine="density"`` for the exchange alone.
    AgreementConsensus : The same search on the ensemble NMI.

    Notes
    -----
    Every step is linear in the number of items: a sweep of the exchange costs about as much as two k-means passes.
    Above 100 000 items the search goes on from the better start only and gives up on a plan after a few sweeps.
    Memory is that of `KMeansConsensus` with `micro_clusters` clusters. ``predict`` gives new rows the cluster with the
    nearest centre in H, which on the rows of `fit` may differ from ``labels_`` near borders.

    Raising S does not raise the agreement with true classes; see the page on choosing a method.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> dense = ca.DensityConsensus(n_clusters=2, random_state=0).fit(table)
    >>> sorted(dense.cluster_sizes_.tolist()), round(dense.density_, 4)
    ([3, 3], 0.8333)
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        n_init=10,
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DensityConsensus:
        """Find a dense partition.

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
        n_init = check_integer(self.n_init, "n_init", 0)
        micro = check_micro_clusters(self.micro_clusters, k)
        max_iter = check_integer(self.max_iter, "max_iter")
        max_rounds = check_integer(self.max_rounds, "max_rounds", 0)
        n_trials = check_integer(self.n_trials, "n_trials")
        if not n_init and micro is None and self.init is None:
            raise ValueError("n_init=0 and micro_clusters=None leave nothing to start from; set one, or give init.")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            goal = DensityGoal(v)

            starts: list[Found] = []
            if self.init is not None:
                starts.append(self._given_start(ensemble, rows, goal, k, max_iter))
            else:
                if micro is not None:
                    n_micro = min(micro, rows.n_rows)
                    starts.append(merged_start(rows, goal, k, n_micro, "density", max_iter, max_iter, seed, 0))
                if n_init:
                    starts.append(_kmeans_start(rows, engine, goal, k, n_init, max_iter, seed))
            n = int(starts[0].climb.counts.sizes.sum())
            if is_large(rows):  # the starts end close to each other: search on from the better one only
                starts = [max(starts, key=lambda start: start.objective)]
            best: Found | None = None
            self.n_rounds_ = 0
            for number, start in enumerate(starts):
                steps = [start.objective / n]

                def report(step: str, found: Found, number: int = number, steps: list[float] = steps) -> None:
                    steps.append(found.objective / n)
                    if self.verbose:
                        print(f"DensityConsensus: start {number}, {step}, S {found.objective / n:.6g}")

                report_found, rounds = split_merge(
                    rows,
                    engine,
                    start,
                    goal,
                    k,
                    max_rounds=max_rounds,
                    n_trials=n_trials,
                    max_sweeps=max_iter,
                    seed=seed,
                    report=report,
                )
                self.n_rounds_ += rounds
                if best is None or report_found.objective > best.objective:
                    best, self.densities_ = report_found, steps
            assert best is not None
            self._store_found(ensemble, rows, best, v)
            return self


def _kmeans_start(
    rows: Rows, engine: Engine, goal: DensityGoal, k: int, n_init: int, max_iter: int, seed: int
) -> Found:
    """Exchange from the labels of `KMeansConsensus` with the same seed."""
    v = check_partition_weights(goal.v, len(goal.v))  # as it would bring them to mean 1, to the last bit
    best = KMeansConsensus(k)._best_start(rows, engine, KMeansObjective(v), v, "k-means++", k, n_init, max_iter, seed)
    return climb_from(rows, best.labelling, goal, max_iter)
