"""DensityConsensus and AgreementConsensus: over-segment, merge on counts, move items, split and merge."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..core.checks import check_integer, seed_from, stream
from ..core.counts import Counts, loss_from_counts
from ..core.moves import DensityState
from ..core.objectives import KMeansObjective, fix_table, seeding_weights
from ..engines import Engine, Fit, Labelling, Rows
from ..metrics.labels import check_labels, check_partition_weights, fill_missing
from .base import PredictMixin, inherit_docs
from .lloyd import Starts, TooFewRows, best_start, lloyd, seed_rows, with_fewer_clusters
from .merge import AgreementGoal, DensityGoal, Plan, SearchResult, exchange, merge_clusters
from .micro import check_micro_clusters, local_rows, sampled_codes

_SPLIT_STARTS = 2  # two-means starts for each cluster
_SPLIT_PASSES = 50
_SAVE_PASSES_ABOVE = 100_000  # rows above which the search saves passes
_TRIAL_SWEEPS = 4
_TRIALS, _LARGE_TRIALS = 8, 4  # plans tried in a round before the search ends; with many rows
_SAMPLE_ITEMS, _SAMPLE_PER_CLUSTER = 20_000, 100  # items of a sample: the first, or the second for each cluster
_LEAST_GAIN = 1e-9  # relative gain below which a split and merge is not kept


@dataclass(frozen=True)
class Search:
    """Rows, objective and limits of one search."""

    rows: Rows
    engine: Engine
    goal: DensityGoal | AgreementGoal
    seed: int
    n_init: int
    micro: int | None  # clusters of an over-segmentation
    max_iter: int  # passes of k-means, sweeps of an exchange
    max_rounds: int

    def climb(self, labelling: Labelling, max_sweeps: int | None = None) -> SearchResult:
        """Exchange from the given labels, in place."""
        state = self.goal.state(self.rows.counts(labelling))
        return exchange(self.rows, labelling, state, max_sweeps or self.max_iter)

    def merged_start(self, k: int, criterion: str, restart: int) -> SearchResult:
        """Over-segment into `micro` clusters, merge on counts down to `k`, exchange."""
        rows, v = self.rows, self.goal.v
        weights = seeding_weights(v, rows.whole_counts())

        def seeds(n_micro: int) -> np.ndarray:
            return seed_rows(rows, n_micro, weights, stream(self.seed, 1, restart))

        chosen, n_micro = with_fewer_clusters(seeds, min(self.micro or k, rows.n_rows), silent=True)
        if n_micro < k:
            raise TooFewRows(k, n_micro)
        fit = lloyd(rows, KMeansObjective(v), Counts.of_rows(chosen, rows.layout), self.max_iter)
        return self.climb(rows.renumbered(fit.labelling, merge_clusters(fit.counts, v, k, criterion), k))


class SearchConsensus(PredictMixin):
    """Base of the estimators that search from several starts, by splitting and merging, and keep the best result.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, exactly.
    init : array-like of shape (n_samples,), default=None
        A partition to start from instead.
    max_iter : int, default=300
        Largest number of passes of a k-means start, and of sweeps of one exchange.
    max_rounds : int, default=50
        Largest number of split–merge rounds from one start; 0 makes none.

    Attributes
    ----------
    n_iter_, n_rounds_ : int
        Sweeps of the last exchange; split–merge rounds, all starts together.
    n_sampled_ : int
        Items that starts and rounds were searched on: all, or those of one sample.
    """

    _least_n_init = 1
    _sampled_above: ClassVar[int]  # items above which starts and rounds are searched on samples
    _n_samples = 1

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, micro_clusters: Any = "auto", init: Any = None,
        max_iter: int = 300, max_rounds: int = 50, partition_weights: Any = None,
        random_state: Any = None, engine: Any = "auto", verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.micro_clusters = micro_clusters
        self.init = init
        self.max_iter = max_iter
        self.max_rounds = max_rounds
        self.partition_weights = partition_weights
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _goal(self, v: np.ndarray) -> DensityGoal | AgreementGoal:
        raise NotImplementedError

    def _starts(self, search: Search, k: int) -> list[SearchResult]:
        """Partitions to search from; TooFewRows when the rows cannot form `k` clusters."""
        raise NotImplementedError

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = check_integer(self.n_clusters, "n_clusters")
        micro = check_micro_clusters(self.micro_clusters, k)
        limits = {
            name: check_integer(getattr(self, name), name, least)
            for name, least in (("n_init", self._least_n_init), ("max_iter", 1), ("max_rounds", 0))
        }
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            search = Search(rows, engine, self._goal(v), seed, micro=micro, **limits)
            self.n_sampled_, self.n_rounds_ = rows.n_copies, 0
            if self.init is None:
                result = self._from_samples(search, k)
                if result is None:
                    starts, _ = with_fewer_clusters(lambda k: self._starts(search, k), k)
                    result = self._best_of(search, starts)
            else:
                labels, given = check_labels(self.init, ensemble.n_samples, "init", on_gpu=True)
                if given != k:
                    raise ValueError(f"init must have n_clusters={k} clusters, got {given}.")
                start = search.climb(rows.labelling(given, fill_missing(labels, 0)))
                result = self._best_of(search, [start])
            best, steps = result
            self._keep_model(ensemble, fix_table(KMeansObjective(v).table(best.counts), rows.layout))
            self._store_partition(ensemble, rows.labels(best.labelling), best.counts, v)
            self.loss_ = loss_from_counts(best.counts, v)
            self.n_iter_, self.converged_ = best.n_sweeps, best.converged
            self._store_scores([search.goal.score(step, rows.n_copies) for step in steps])

    def _from_samples(self, search: Search, k: int) -> tuple[SearchResult, list[float]] | None:
        """A result from samples, improved on all rows, and its objective; None where all rows must be searched."""
        rows, n_items = search.rows, max(_SAMPLE_ITEMS, _SAMPLE_PER_CLUSTER * k)
        if rows.n_copies <= max(self._sampled_above, n_items):
            return None
        fits: list[Fit] = []
        for draw in range(self._n_samples):
            sample, engine = local_rows(sampled_codes(rows, n_items, stream(search.seed + draw, 3)), rows.layout)
            there = replace(search, rows=sample, engine=engine, seed=search.seed + draw)
            try:
                on_sample, _ = self._best_of(there, self._starts(there, k))
            except TooFewRows:
                return None
            if on_sample.counts.n_clusters < k:  # rare rows are not in the sample
                return None
            labelling = fits[-1].labelling if fits else None
            fits.append(lloyd(rows, search.goal.passes(), on_sample.counts, search.max_iter, labelling))
        best = min(fits, key=lambda fit: fit.loss)
        if best is not fits[-1]:
            rows.assign(best.labelling, best.table)  # which they share; labels are a function of the table
        self.n_sampled_ = n_items
        end = without_empty(rows, search.climb(best.labelling))
        return end, [end.objective]

    def _best_of(self, search: Search, starts: list[SearchResult]) -> tuple[SearchResult, list[float]]:
        """The best result of the searches from all starts, and its objective after each step."""
        found = []
        for number, start in enumerate(starts):
            end, steps, rounds = split_merge(search, without_empty(search.rows, start))
            self.n_rounds_ += rounds
            if self.verbose:
                score = search.goal.score(end.objective, search.rows.n_copies)
                clusters = f"{end.counts.n_clusters} clusters, {score:.6g}"
                print(f"{type(self).__name__}: start {number}, {rounds} rounds, {clusters}")
            found.append((end, steps))
        return max(found, key=lambda one: one[0].objective)

    def _store_scores(self, scores: list[float]) -> None:
        """Keep the score at the start and after each step that raised it."""
        raise NotImplementedError


def split_merge(search: Search, current: SearchResult) -> tuple[SearchResult, list[float], int]:
    """Split one cluster and merge two, then exchange, while the objective rises; its values, and the number of rounds.

    A round splits every cluster in two on its own rows, ranks all plans by their exact net gain, and tries the best
    eight of them until one, after its exchange, has a larger objective. With many rows fewer plans are tried,
    with fewer sweeps each.
    """
    rows, rounds, n_trials, sweeps = search.rows, 0, _TRIALS, search.max_iter
    steps = [current.objective]
    if rows.n_rows > _SAVE_PASSES_ABOVE:
        n_trials, sweeps = _LARGE_TRIALS, min(sweeps, _TRIAL_SWEEPS)
    while rounds < search.max_rounds:
        rounds += 1
        k = current.counts.n_clusters
        fine, halves = _halves(search, current, rounds)
        plans = search.goal.plans(current.counts, halves)
        for plan in plans[:n_trials]:
            tried = search.climb(rows.renumbered(fine, _carried_out(plan, halves, k), k), sweeps)
            if tried.objective > current.objective * (1.0 + _LEAST_GAIN):
                if not tried.converged and sweeps < search.max_iter:
                    tried = search.climb(tried.labelling)
                current = without_empty(rows, tried)
                steps.append(current.objective)
                break
        else:
            break
    return current, steps, rounds


def _halves(search: Search, current: SearchResult, rounds: int) -> tuple[Labelling, dict[int, Counts]]:
    """Every cluster split in two where it can be: the leaf of each row, and the counts of the two leaves of a cluster.

    Leaves come in the order of the clusters; an unsplit one has a single leaf.
    """
    rows, goal = search.rows, search.goal
    parts = rows.split(current.labelling)
    weights = seeding_weights(goal.v, current.counts)
    objective = KMeansObjective(goal.v)

    def two(task: tuple[int, Rows]) -> SearchResult | None:
        c, part = task
        found = []
        if part.n_copies < 2 * goal.least:
            return None
        for restart in range(_SPLIT_STARTS):
            try:
                seeds = seed_rows(part, 2, weights, stream(search.seed, 2, rounds, c, restart))
            except TooFewRows:
                return None
            fit = lloyd(part, objective, Counts.of_rows(seeds, part.layout), _SPLIT_PASSES)
            if (fit.counts.sizes >= goal.least).all():
                state = DensityState(fit.counts, goal.v, goal.least)
                found.append(exchange(part, fit.labelling, state, _SPLIT_PASSES))
        return max(found, key=lambda pair: pair.objective, default=None)

    pairs = search.engine.side_by_side(two, list(enumerate(parts)))
    fine = rows.joined(parts, [None if pair is None else pair.labelling for pair in pairs])
    return fine, {c: pair.counts for c, pair in enumerate(pairs) if pair is not None}


def _carried_out(plan: Plan, halves: Container[int], k: int) -> np.ndarray:
    """Which of the k clusters each leaf is in after a plan; clusters in `halves` have two leaves."""
    leaves = [1 + (c in halves) for c in range(k)]
    number = np.repeat(np.arange(k, dtype=np.int32), leaves)
    number[sum(leaves[: plan.split + 1]) - 1] = k
    number[number == plan.drop] = plan.into
    number[number == k] = plan.drop  # no leaf is left in cluster k where that was merged into another
    return number


def without_empty(rows: Rows, result: SearchResult) -> SearchResult:
    """The same partition without its empty clusters."""
    counts = result.counts
    kept = counts.sizes > 0
    if kept.all():
        return result
    # rows with multiplicity 0 may have the number of an empty cluster
    number = np.maximum(np.cumsum(kept) - 1, 0).astype(np.int32)
    smaller = Counts(np.ascontiguousarray(counts.alpha[:, kept]), counts.sizes[kept], counts.layout)
    labelling = rows.renumbered(result.labelling, number, smaller.n_clusters)
    return replace(result, labelling=labelling, counts=smaller)


@inherit_docs
class DensityConsensus(SearchConsensus):
    r"""Consensus partition with a large exact density S.

    A low k-means loss on H means a high density :math:`S(\pi) = \frac1n \sum_C |C|\, D(C)`, but they are not the same.
    This search raises S itself, from two starts: the best of `n_init` k-means consensus partitions, and an
    over-segmentation into many clusters, which are merged on their counts by least loss of S. From each start single
    items are moved until no move raises S; then one cluster is split and two others are merged while that raises S.
    S never falls.

    Parameters
    ----------
    {n_clusters}
    n_init : int, default=10
        Number of k-means starts, as in `KMeansConsensus`; 0 leaves that start out.
    micro_clusters : int, "auto" or None, default="auto"
        Clusters of the over-segmentation; None leaves that start out. ``"auto"``: 100, or 5 * `n_clusters` when that
        is more.
    {init} {max_iter} {max_rounds} {partition_weights} {random_state} {engine} {verbose}

    Attributes
    ----------
    {labels_} {n_clusters_} {density_} {loss_}
    densities_ : list of float
        S at the better start and after each step that raised it; of a search on samples, S of all items at the end.
    {n_iter_} {n_sampled_}
    converged_ : bool
        True when no move of a single item raises S.
    {n_features_in_}

    Notes
    -----
    Every step is linear in the number of items: a sweep of the exchange costs about as much as two k-means passes.
    Above 100 000 items only the better start is searched from. Above 1 000 000 the search runs on two samples (of
    20 000 items, or 100 for each cluster), each of which labels all items by k-means passes; moves of single items,
    from the better one, then raise S further. ``predict`` returns the cluster with the nearest center in H, which may
    differ from ``labels_`` near borders. Raising S does not raise the agreement with true classes.

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
        if search.rows.n_rows > _SAVE_PASSES_ABOVE:  # results of the starts are close: search from the better
            return [max(starts, key=lambda start: start.objective)]
        return starts

    def _store_scores(self, scores: list[float]) -> None:
        self.densities_ = scores


@inherit_docs
class AgreementConsensus(SearchConsensus):
    r"""Consensus partition with a large mean NMI with the clusterings.

    Items are over-segmented into micro-clusters, which average linkage merges on their counts
    (:math:`D(C, C')`, without an n × n matrix). Then single items are moved while that raises the exact
    :math:`\frac1p \sum_j NMI(\pi, \pi_j)`, and one cluster is split and two others are merged while that raises it.
    The agreement never falls.

    Parameters
    ----------
    {n_clusters}
    n_init : int, default=1
        Number of over-segmentations, at least one; the one with the best result is kept.
    micro_clusters : int or "auto", default="auto"
        Clusters of an over-segmentation. ``"auto"``: 100, or 5 * `n_clusters` when that is more.
    {init} {max_iter} {max_rounds} {partition_weights} {random_state} {engine} {verbose}
    min_cluster_size : int, default=2
        The search makes no cluster smaller than this, because NMI rewards clusters of single items, which mean
        nothing. Smaller clusters found by average linkage are kept.

    Attributes
    ----------
    {labels_} {n_clusters_} {density_} {loss_} {n_iter_} {n_sampled_}
    ensemble_nmi_ : float
        Mean NMI with the clusterings.
    converged_ : bool
        True when no move of a single item that `min_cluster_size` allows raises the agreement.
    {n_features_in_}

    Notes
    -----
    Every step is linear in the number of items. Above 100 000 items the search runs on a sample (20 000 items, or 100
    for each cluster), which labels all items; passes and moves over all items then raise the agreement further. x log x
    of counts is kept as 64-bit fixed point, so results do not depend on threads, chunks or the engine.

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
        max_iter: int = 300, max_rounds: int = 50, partition_weights: Any = None,
        random_state: Any = None, engine: Any = "auto", verbose: int = 0, min_cluster_size: int = 2,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, n_init=n_init, micro_clusters=micro_clusters, init=init, max_iter=max_iter,
            max_rounds=max_rounds, partition_weights=partition_weights, random_state=random_state, engine=engine,
            verbose=verbose,
        )  # fmt: skip
        self.min_cluster_size = min_cluster_size

    def _goal(self, v: np.ndarray) -> AgreementGoal:
        return AgreementGoal(v, check_integer(self.min_cluster_size, "min_cluster_size"))

    def _starts(self, search: Search, k: int) -> list[SearchResult]:
        if search.micro is None:
            raise TypeError("micro_clusters must be an integer or 'auto', got None.")
        return [search.merged_start(k, "average", restart) for restart in range(search.n_init)]

    def _store_scores(self, scores: list[float]) -> None:
        self.ensemble_nmi_ = scores[-1]
