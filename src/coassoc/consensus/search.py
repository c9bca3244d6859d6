"""Search for a partition with a large exact objective: over-segment, merge on counts, move rows, split and merge."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..core.counts import Counts, loss_from_counts
from ..core.moves import AgreementObjective, AgreementState, DensityState, agreement_term, fixed_xlogx
from ..core.objectives import KMeansObjective, fix_table, seeding_weights
from ..engines import Engine, Fit, Labelling, Rows
from ..metrics.labels import check_labels, fill_missing
from .base import ConsensusEstimator, PredictMixin
from .exchange import SearchResult, exchange
from .lloyd import TooFewRows, lloyd, seed_rows
from .merge import PairSums, joined_counts, merge_clusters
from .micro import local_rows, sampled_codes
from .starts import with_fewer_clusters

_SPLIT_STARTS = 2  # two-means starts for each cluster
_SPLIT_PASSES = 50
_SAVE_PASSES_ABOVE = 100_000  # rows above which the search saves passes; see `is_large`
_TRIAL_SWEEPS = 4
_LARGE_TRIALS = 4
_SAMPLE_ITEMS, _SAMPLE_PER_CLUSTER = 20_000, 100  # items of a sample: the first, or the second for each cluster
_LEAST_GAIN = 1e-9  # relative gain below which a split and merge is not kept


@dataclass(frozen=True)
class Plan:
    """Split cluster `split` (−1: none), whose second half becomes the last cluster; merge `drop` into `into`."""

    net: float
    split: int
    into: int  # −1: no merge
    drop: int


def _best_merge(gains: np.ndarray, split: int, gain: float = 0.0) -> Plan:
    """The best two clusters to merge after the split of cluster `split` (−1: none) that gains `gain`.

    The second half is the last cluster; the two halves are not merged again.
    """
    np.fill_diagonal(gains, -np.inf)
    if split >= 0:
        gains[split, -1] = gains[-1, split] = -np.inf
    a, b = (int(at) for at in np.unravel_index(int(np.argmax(gains)), gains.shape))
    return Plan(gain + float(gains[a, b]), split, min(a, b), max(a, b))


def _ranked(plans: list[Plan]) -> list[Plan]:
    return sorted((plan for plan in plans if plan.net > -math.inf), key=lambda plan: (-plan.net, plan.split, plan.into))


@dataclass(frozen=True)
class DensityGoal:
    """n·S. The loss of a merge and the gain of a split depend on no other cluster; a plan gains their sum."""

    v: np.ndarray
    least: int = 1

    def state(self, counts: Counts) -> DensityState:
        return DensityState(counts, self.v, self.least)

    def passes(self) -> KMeansObjective:
        """What passes over all rows lower, so that the goal rises."""
        return KMeansObjective(self.v)  # its table is the derivative of n·S, up to terms of order 1 / |C|

    def score(self, objective: float, n_items: int) -> float:
        """The objective as users know it."""
        return objective / n_items

    def plans(self, counts: Counts, pieces: dict[int, Counts], spare: int) -> list[Plan]:
        """Best plan for each cluster that can be split, best first; up to `spare` clusters may be added."""
        k, plans = counts.n_clusters, []
        sums = PairSums(joined_counts([counts, *pieces.values()]), self.v)
        values, losses = sums.values(), sums.merge_losses()
        for position, c in enumerate(pieces):
            after = np.arange(k + 1)
            after[c], after[k] = first, second = k + 2 * position, k + 2 * position + 1
            gain = float(values[first] + values[second] - values[c])
            plans.append(_best_merge(-losses[np.ix_(after, after)], c, gain))
        return _ranked(plans)


@dataclass(frozen=True)
class AgreementGoal:
    """Σ_j v_j NMI_j. Changes of its fixed-point terms are added; ratios are computed at the end."""

    v: np.ndarray
    least: int = 2
    at_most: bool = False

    def state(self, counts: Counts) -> AgreementState:
        return AgreementState(counts, self.v, self.least, self.at_most)

    def passes(self) -> AgreementObjective:
        return AgreementObjective(self.v)

    def score(self, objective: float, n_items: int) -> float:
        """Mean NMI over partitions, from Σ_j v_j NMI_j."""
        return min(1.0, objective / math.fsum(self.v.tolist()))

    def plans(self, counts: Counts, pieces: dict[int, Counts], spare: int) -> list[Plan]:
        """Best plan for each cluster that can be split; with `at_most` also merges alone, and splits alone."""
        state, k, plans = self.state(counts), counts.n_clusters, []
        merged, now = _pair_changes(counts, counts, state.bits), state.objective()
        if self.at_most:
            plans.append(_best_merge(self._value(state, merged) - now, -1))
        for c, halves in pieces.items():
            split = -_pair_changes(halves.of_cluster(0), halves.of_cluster(1), state.bits)[:, 0]
            if self.at_most and spare > 0:
                plans.append(Plan(float(self._value(state, split)[0] - now), c, -1, -1))
            # pairs after the split: cluster c is now the first half, cluster k the second
            changes = np.zeros((2, k + 1, k + 1, merged.shape[-1]), np.int64)
            changes[:, :k, :k] = merged
            changes[:, [c, k], :k] = to_halves = _pair_changes(halves, counts, state.bits)
            changes[:, :k, [c, k]] = to_halves.transpose(0, 2, 1, 3)
            plans.append(_best_merge(self._value(state, changes + split[:, None]) - now, c))
        return _ranked(plans)

    def _value(self, state: AgreementState, changes: np.ndarray) -> np.ndarray:
        """The objective after changes (2, ..., p) of Σ h(α) and Σ h(n_Cj)."""
        joint, own = changes
        shared, entropy = state.shared + joint - own, state.entropy - own
        terms = agreement_term(self.v, 2.0 * self.v, shared, entropy)
        total = np.zeros(terms.shape[:-1])
        for j in range(terms.shape[-1]):  # a fixed order of summation
            total = total + terms[..., j]
        return total


@dataclass(frozen=True)
class Search:
    """Rows, objective and limits of one search."""

    rows: Rows
    engine: Engine
    goal: DensityGoal | AgreementGoal
    seed: int
    n_init: int
    micro: int | None  # clusters of an over-segmentation
    fewer: bool  # whether fewer clusters than asked for will do
    max_iter: int  # passes of k-means, sweeps of an exchange
    max_rounds: int
    n_trials: int

    def climb(self, labelling: Labelling, max_sweeps: int | None = None) -> SearchResult:
        """Exchange from the given labels, in place."""
        state = self.goal.state(self.rows.counts(labelling))
        return exchange(self.rows, labelling, state, max_sweeps or self.max_iter)

    def merged_start(self, k: int, criterion: str, restart: int) -> SearchResult:
        """Over-segment into `micro` clusters, merge on counts down to `k`, exchange."""
        n_micro = min(self.micro or k, self.rows.n_rows)
        labelling, counts = over_segment(self.rows, self.goal.v, n_micro, k, self.max_iter, self.seed, restart)
        merged = self.rows.renumbered(labelling, merge_clusters(counts, self.goal.v, k, criterion), k)
        return self.climb(merged)


class SearchConsensus(PredictMixin, ConsensusEstimator):
    """Base of the estimators that search from several starts, by splitting and merging, and keep the best result."""

    _least_n_init = 1
    _sampled_above: ClassVar[int]  # items above which starts and rounds are searched on samples
    _n_samples = 1

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, micro_clusters: Any = "auto", init: Any = None,
        max_iter: int = 300, max_rounds: int = 50, n_trials: int = 8, partition_weights: Any = None,
        random_state: Any = None, engine: Any = "auto", verbose: int = 0,
    ) -> None:  # fmt: skip
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
            for name, least in (("n_init", self._least_n_init), ("max_iter", 1), ("max_rounds", 0), ("n_trials", 1))
        }
        fewer = bool(getattr(self, "at_most", False))
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            search = Search(rows, engine, self._goal(v), seed, micro=micro, fewer=fewer, **limits)
            self.n_sampled_, self.n_rounds_ = rows.n_copies, 0
            if self.init is None:
                best, steps = self._from_samples(search, k) or self._from_starts(search, k)
            else:
                labels, given = check_labels(self.init, ensemble.n_samples, "init", on_gpu=True)
                if given > k or (given < k and not fewer):
                    raise ValueError(f"init must have n_clusters={k} clusters, got {given}.")
                start = search.climb(rows.labelling(given, fill_missing(labels, 0)))
                best, steps = self._best_of(search, [start], k)
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
        best: Fit | None = None
        fit: Fit | None = None
        for draw in range(self._n_samples):
            sample, engine = local_rows(sampled_codes(rows, n_items, stream(search.seed + draw, 3)), rows.layout)
            there = replace(search, rows=sample, engine=engine, seed=search.seed + draw, fewer=True)
            try:
                on_sample, _ = self._from_starts(there, k)
            except TooFewRows:
                return None
            if on_sample.counts.n_clusters < k and not search.fewer:  # rare rows are not in the sample
                return None
            fit = lloyd(rows, search.goal.passes(), on_sample.counts, search.max_iter, fit.labelling if fit else None)
            if best is None or fit.loss < best.loss:
                best = fit
        assert best is not None and fit is not None
        if best is not fit:
            rows.assign(fit.labelling, best.table)  # labels are a function of the table
        self.n_sampled_ = n_items
        end = without_empty(rows, search.climb(fit.labelling))
        return end, [end.objective]

    def _from_starts(self, search: Search, k: int) -> tuple[SearchResult, list[float]]:
        """The best result of the searches from all starts, and its objective after each step."""
        starts, k = with_fewer_clusters(lambda k: self._starts(search, k), k, silent=search.fewer)
        return self._best_of(search, starts, k)

    def _best_of(self, search: Search, starts: list[SearchResult], k: int) -> tuple[SearchResult, list[float]]:
        best: SearchResult | None = None
        for number, start in enumerate(starts):
            end, steps, rounds = split_merge(search, without_empty(search.rows, start), k)
            self.n_rounds_ += rounds
            if self.verbose:
                score = search.goal.score(end.objective, search.rows.n_copies)
                clusters = f"{end.counts.n_clusters} clusters, {score:.6g}"
                print(f"{type(self).__name__}: start {number}, {rounds} rounds, {clusters}")
            if best is None or end.objective > best.objective:
                best, best_steps = end, steps
        assert best is not None
        return best, best_steps

    def _store_scores(self, scores: list[float]) -> None:
        """Keep the score at the start and after each step that raised it."""
        raise NotImplementedError


def over_segment(
    rows: Rows, v: np.ndarray, n_micro: int, n_least: int, max_iter: int, seed: int, restart: int
) -> tuple[Labelling, Counts]:
    """Labels and counts of k-means with `n_micro` clusters, or with as many as there are different rows."""
    weights = seeding_weights(v, rows.whole_counts())

    def seeds(k: int) -> np.ndarray:
        return seed_rows(rows, k, weights, stream(seed, 1, restart))

    chosen, k = with_fewer_clusters(seeds, n_micro, silent=True)
    if k < n_least:
        raise TooFewRows(n_least, k)
    fit = lloyd(rows, KMeansObjective(v), Counts.of_rows(chosen, rows.layout), max_iter)
    return fit.labelling, fit.counts


def split_merge(search: Search, current: SearchResult, k: int) -> tuple[SearchResult, list[float], int]:
    """Split one cluster and merge two, then exchange, while the objective rises.

    Also gives the objective at the start and after each round that raised it, and the number of rounds.

    A round splits every cluster in two on its own rows, ranks all plans by their exact net gain, and tries the best
    `n_trials` of them until one, after its exchange, has a larger objective. With many rows fewer plans are tried,
    with fewer sweeps each.
    """
    rows, rounds, n_trials, sweeps = search.rows, 0, search.n_trials, search.max_iter
    steps = [current.objective]
    if is_large(rows):
        n_trials, sweeps = min(n_trials, _LARGE_TRIALS), min(sweeps, _TRIAL_SWEEPS)
    while rounds < search.max_rounds:
        rounds += 1
        n_now = current.counts.n_clusters
        fine, halves = _halves(search, current, rounds)
        plans = search.goal.plans(current.counts, halves, k - n_now)
        for plan in plans[:n_trials]:
            tried = search.climb(rows.renumbered(fine, *_carried_out(plan, halves, n_now)), sweeps)
            if tried.objective > current.objective * (1.0 + _LEAST_GAIN):
                if not tried.converged and sweeps < search.max_iter:
                    tried = search.climb(tried.labelling)
                current = without_empty(rows, tried)
                steps.append(current.objective)
                break
        else:
            break
    return current, steps, rounds


def is_large(rows: Rows) -> bool:
    """Whether there are so many rows that passes should be saved."""
    return rows.n_rows > _SAVE_PASSES_ABOVE


def _halves(search: Search, current: SearchResult, rounds: int) -> tuple[Labelling, dict[int, Counts]]:
    """Every cluster split in two where it can be.

    Returns for each row its leaf, and for each split cluster the counts of its two leaves; the leaves come in the
    order of the clusters, and an unsplit one has a single leaf.
    """
    rows, goal = search.rows, search.goal
    parts = rows.split(current.labelling)
    weights = seeding_weights(goal.v, current.counts)
    objective = KMeansObjective(goal.v)

    def two(task: tuple[int, Rows]) -> SearchResult | None:
        c, part = task
        best: SearchResult | None = None
        if part.n_copies < 2 * goal.least:
            return None
        for restart in range(_SPLIT_STARTS):
            try:
                seeds = seed_rows(part, 2, weights, stream(search.seed, 2, rounds, c, restart))
            except TooFewRows:
                return None
            fit = lloyd(part, objective, Counts.of_rows(seeds, part.layout), _SPLIT_PASSES)
            if (fit.counts.sizes < goal.least).any():
                continue
            pair = exchange(part, fit.labelling, DensityState(fit.counts, goal.v, goal.least), _SPLIT_PASSES)
            if best is None or pair.objective > best.objective:
                best = pair
        return best

    pairs = search.engine.side_by_side(two, list(enumerate(parts)))
    fine = rows.joined(parts, [None if pair is None else pair.labelling for pair in pairs])
    return fine, {c: pair.counts for c, pair in enumerate(pairs) if pair is not None}


def _carried_out(plan: Plan, halves: Container[int], k: int) -> tuple[np.ndarray, int]:
    """Cluster of each leaf after a plan, and the number of clusters; clusters in `halves` have two leaves."""
    cluster_of_leaf = []
    for c in range(k):
        cluster_of_leaf.append(c)
        if c in halves:
            cluster_of_leaf.append(k if c == plan.split else c)
    number = np.array(cluster_of_leaf, dtype=np.int32)
    n_after = k + (plan.split >= 0)
    if plan.into >= 0:
        last = n_after - 1
        number[number == plan.drop] = plan.into
        number[number == last] = plan.drop if plan.drop != last else plan.into
        n_after -= 1
    return number, n_after


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


def _pair_changes(left: Counts, right: Counts, bits: int) -> np.ndarray:
    """Changes (2, left, right, p) of Σ h(α) and Σ h(n_Cj) when a cluster of `left` and one of `right` become one."""
    starts, p = left.layout.offsets[:-1], left.layout.n_partitions
    joint, own = changes = np.empty((2, left.n_clusters, right.n_clusters, p), np.int64)
    h_right, h_right_cells = fixed_xlogx(right.alpha, bits), fixed_xlogx(right.cells, bits)
    for a in range(left.n_clusters):
        alpha, cells = left.alpha[:, [a]], left.cells[:, [a]]
        change = fixed_xlogx(alpha + right.alpha, bits) - h_right - fixed_xlogx(alpha, bits)
        joint[a] = np.add.reduceat(change, starts, axis=0).T
        own[a] = (fixed_xlogx(cells + right.cells, bits) - h_right_cells - fixed_xlogx(cells, bits)).T
    return changes


def check_micro_clusters(asked: Any, k: int) -> int | None:
    """Clusters of an over-segmentation: the number asked for, 100 or 5 k when "auto", None for none."""
    if asked is None:
        return None
    if isinstance(asked, str):
        check_choice(asked, "micro_clusters", ("auto",))
        return max(100, 5 * k)
    micro = check_integer(asked, "micro_clusters")
    if micro < k:
        raise ValueError(f"micro_clusters={micro} must be at least n_clusters={k}.")
    return micro
