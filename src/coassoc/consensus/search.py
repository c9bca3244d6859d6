"""Search for a partition with a large exact objective: over-segment, merge on counts, move rows, split and merge."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..core.counts import Counts
from ..core.densities import loss_from_counts
from ..core.moves import AgreementObjective, AgreementState, DensityState, agreement_term, fixed_xlogx
from ..core.tables import KMeansObjective, Objective, fix_table, seeding_weights
from ..engines import Engine, Fit, Labelling, Rows
from ..ensemble import Ensemble
from ..metrics.labels import check_labels, fill_missing
from .base import ConsensusEstimator, PredictMixin
from .exchange import Climb, exchange
from .grow import GrowingMixin
from .lloyd import TooFewRows, lloyd, seed_rows
from .merge import PairSums, joined_counts, merge_clusters
from .micro import local_rows, sampled_codes
from .starts import with_fewer_clusters

_SPLIT_STARTS = 2  # two-means starts for each cluster
_SPLIT_PASSES = 50
_LARGE = 100_000  # rows above which the search saves passes; see `is_large`
_TRIAL_SWEEPS = 4
_LARGE_TRIALS = 4
_SAMPLE, _PER_CLUSTER = 20_000, 100  # items that many rows are searched on: so many, or so many for each cluster
_WORTH = 1e-9  # relative gain below which a split and merge is not kept


@dataclass
class Found:
    """A partition during the search: its labels, kept by the engine, and the exchange that gave them."""

    labelling: Labelling
    climb: Climb

    @property
    def objective(self) -> float:
        return self.climb.objective

    @property
    def n_clusters(self) -> int:
        return self.climb.counts.n_clusters


@dataclass(frozen=True)
class Plan:
    """Split cluster `split` (−1: none), whose second half becomes the last cluster; merge `drop` into `into`."""

    net: float
    split: int
    into: int  # −1: no merge
    drop: int


class Goal(Protocol):
    """The objective of a search."""

    @property
    def v(self) -> np.ndarray: ...

    @property
    def least(self) -> int: ...

    def state(self, counts: Counts) -> DensityState | AgreementState: ...

    def passes(self) -> Objective:
        """What passes over all rows lower, so that the goal rises."""

    def plans(self, counts: Counts, pieces: dict[int, Counts], spare: int) -> list[Plan]:
        """Best plan for each cluster that can be split, best first; up to `spare` clusters may be added."""


@dataclass(frozen=True)
class DensityGoal:
    """n·S. The loss of a merge and the gain of a split depend on no other cluster; a plan gains their sum."""

    v: np.ndarray
    least: int = 1

    def state(self, counts: Counts) -> DensityState:
        return DensityState(counts, self.v, self.least)

    def passes(self) -> KMeansObjective:
        return KMeansObjective(self.v)  # its table is the derivative of n·S, up to terms of order 1 / |C|

    def plans(self, counts: Counts, pieces: dict[int, Counts], spare: int) -> list[Plan]:
        k = counts.n_clusters
        order = list(pieces)
        both = joined_counts([counts, *(pieces[c] for c in order)])
        sums = PairSums(both, self.v)
        values, losses = sums.values(), sums.merge_losses()
        found = []
        for position, c in enumerate(order):
            first, second = k + 2 * position, k + 2 * position + 1
            gain = float(values[first] + values[second] - values[c])
            after = np.arange(k + 1)
            after[c], after[k] = first, second
            here = losses[np.ix_(after, after)]
            here[c, k] = here[k, c] = np.inf
            a, b = np.unravel_index(int(np.argmin(here)), here.shape)
            if np.isfinite(here[a, b]):
                found.append(Plan(gain - float(here[a, b]), c, int(min(a, b)), int(max(a, b))))
        return sorted(found, key=lambda plan: (-plan.net, plan.split))


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

    def plans(self, counts: Counts, pieces: dict[int, Counts], spare: int) -> list[Plan]:
        state = self.state(counts)
        k = counts.n_clusters
        joint, own = _pair_changes(counts, counts, state.bits)
        now = state.objective()
        nothing = np.zeros(counts.layout.n_partitions, np.int64)
        found = []
        if self.at_most and k > 1:
            gains = self._value(state, joint, own) - now
            np.fill_diagonal(gains, -np.inf)
            a, b = np.unravel_index(int(np.argmax(gains)), gains.shape)
            found.append(Plan(float(gains[a, b]), -1, int(min(a, b)), int(max(a, b))))
        for c, halves in pieces.items():
            split_joint, split_own = _split_changes(counts, c, halves, state.bits)
            if self.at_most and spare > 0:
                gain = float(self._value(state, split_joint, split_own) - now)
                found.append(Plan(gain, c, -1, -1))
            # pairs after the split: cluster c is now the first half, cluster k the second
            to_halves, own_halves = _pair_changes(halves, counts, state.bits)
            after_joint = np.zeros((k + 1, k + 1, len(nothing)), np.int64)
            after_own = np.zeros_like(after_joint)
            after_joint[:k, :k], after_own[:k, :k] = joint, own
            for square, strips in ((after_joint, to_halves), (after_own, own_halves)):
                square[c, :k] = square[:k, c] = strips[0]
                square[k, :k] = square[:k, k] = strips[1]
            gains = self._value(state, after_joint + split_joint, after_own + split_own) - now
            np.fill_diagonal(gains, -np.inf)
            gains[c, k] = gains[k, c] = -np.inf
            a, b = np.unravel_index(int(np.argmax(gains)), gains.shape)
            if np.isfinite(gains[a, b]):
                found.append(Plan(float(gains[a, b]), c, int(min(a, b)), int(max(a, b))))
        return sorted(found, key=lambda plan: (-plan.net, plan.split, plan.into))

    def _value(self, state: AgreementState, joint: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The objective after changes (..., p) of Σ h(α) and Σ h(n_Cj)."""
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
    goal: Goal
    seed: int
    max_iter: int  # passes of k-means, sweeps of an exchange
    max_rounds: int
    n_trials: int

    def climb(self, labelling: Labelling, max_sweeps: int | None = None) -> Found:
        """Exchange from the given labels, in place."""
        state = self.goal.state(self.rows.counts(labelling))
        return Found(labelling, exchange(self.rows, labelling, state, max_sweeps or self.max_iter))

    def merged_start(self, k: int, micro: int, criterion: str, restart: int) -> Found:
        """Over-segment into `micro` clusters, merge on counts down to `k`, exchange."""
        n_micro = min(micro, self.rows.n_rows)
        labelling, counts = over_segment(self.rows, self.goal.v, n_micro, k, self.max_iter, self.seed, restart)
        merged = self.rows.renumbered(labelling, merge_clusters(counts, self.goal.v, k, criterion), k)
        return self.climb(merged)


@dataclass(eq=False, repr=False)
class SearchConsensus(GrowingMixin, PredictMixin, ConsensusEstimator):
    """Base of the estimators that search: starts, split and merge from each, the best result."""

    _least_n_init = 1
    _many: ClassVar[int]  # items above which starts and rounds are searched on samples
    _n_samples = 1

    n_clusters: int = 8
    _: KW_ONLY
    n_init: int = 10
    micro_clusters: Any = "auto"
    init: Any = None
    max_iter: int = 300
    max_rounds: int = 50
    n_trials: int = 8
    partition_weights: Any = None
    random_state: Any = None
    engine: Any = "auto"
    verbose: int = 0

    def _goal(self, v: np.ndarray) -> Goal:
        raise NotImplementedError

    def _starts(self, search: Search, k: int, n_init: int, micro: int | None) -> list[Found]:
        """Partitions to search from; TooFewRows when the rows cannot form `k` clusters."""
        raise NotImplementedError

    def _score(self, found: Found, v: np.ndarray) -> float:
        """The objective as users know it: S, or the mean NMI."""
        raise NotImplementedError

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = check_integer(self.n_clusters, "n_clusters")
        n_init = check_integer(self.n_init, "n_init", self._least_n_init)
        micro = check_micro_clusters(self.micro_clusters, k)
        limits = {
            name: check_integer(getattr(self, name), name, least)
            for name, least in (("max_iter", 1), ("max_rounds", 0), ("n_trials", 1))
        }
        fewer = bool(getattr(self, "at_most", False))
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            search = Search(rows, engine, self._goal(v), seed, **limits)
            self.n_sampled_, self.n_rounds_ = rows.n_copies, 0
            if self.init is not None:
                given = self._given_start(ensemble, search, k, fewer or self._is_growing)
                best, steps = self._best_of(search, [given], k)
            else:
                best, steps = self._from_samples(search, k, n_init, micro, fewer) or self._from_starts(
                    search, k, n_init, micro, fewer
                )
            self._store_found(ensemble, rows, best, v)
            self._store_scores(steps)

    def _from_samples(
        self, search: Search, k: int, n_init: int, micro: int | None, fewer: bool
    ) -> tuple[Found, list[float]] | None:
        """The result of a search on samples, improved on all rows; None where all rows are to be searched."""
        rows, n_items = search.rows, max(_SAMPLE, _PER_CLUSTER * k)
        if rows.n_copies <= max(self._many, n_items):
            return None
        best: Fit | None = None
        labelling = None
        for draw in range(self._n_samples):
            sample, engine = local_rows(sampled_codes(rows, n_items, stream(search.seed + draw, 3)), rows.layout)
            there = replace(search, rows=sample, engine=engine, seed=search.seed + draw)
            try:
                found, _ = self._from_starts(there, k, n_init, micro, True)
            except TooFewRows:
                return None
            if found.n_clusters < k and not fewer:  # rare rows are not in the sample
                return None
            fit = lloyd(rows, search.goal.passes(), found.climb.counts, search.max_iter, labelling)
            labelling = fit.labelling
            if best is None or fit.loss < best.loss:
                best = fit
        assert best is not None and labelling is not None
        if best is not fit:
            rows.assign(labelling, best.table)  # labels are a function of the table
        self.n_sampled_ = n_items
        end = without_empty(rows, search.climb(labelling))
        return end, [self._score(end, search.goal.v)]

    def _from_starts(
        self, search: Search, k: int, n_init: int, micro: int | None, fewer: bool
    ) -> tuple[Found, list[float]]:
        """The best result of the searches from all starts, and its scores."""
        starts, k = with_fewer_clusters(lambda k: self._starts(search, k, n_init, micro), k, silent=fewer)
        return self._best_of(search, starts, k)

    def _best_of(self, search: Search, starts: list[Found], k: int) -> tuple[Found, list[float]]:
        best: Found | None = None
        for number, start in enumerate(starts):
            end, steps, rounds = self._search_from(search, without_empty(search.rows, start), k, number)
            self.n_rounds_ += rounds
            if best is None or end.objective > best.objective:
                best, best_steps = end, steps
        assert best is not None
        return best, best_steps

    def _search_from(self, search: Search, start: Found, k: int, number: int) -> tuple[Found, list[float], int]:
        """The result of the search from one start, its scores, and the number of rounds."""
        steps = [self._score(start, search.goal.v)]

        def report(step: str, found: Found) -> None:
            steps.append(self._score(found, search.goal.v))
            if self.verbose:
                text = f"{step}, {found.n_clusters} clusters, {steps[-1]:.6g}"
                print(f"{type(self).__name__}: start {number}, {text}")

        end, rounds = split_merge(search, start, k, report)
        return end, steps, rounds

    def _given_start(self, ensemble: Ensemble, search: Search, k: int, fewer: bool) -> Found:
        labels, n_found = check_labels(self.init, ensemble.n_samples, "init", on_gpu=True)
        if n_found > k or (n_found < k and not fewer):
            raise ValueError(f"init must have n_clusters={k} clusters, got {n_found}.")
        return search.climb(search.rows.labelling(n_found, fill_missing(labels, 0)))

    def _store_found(self, ensemble: Ensemble, rows: Rows, found: Found, v: np.ndarray) -> None:
        counts = found.climb.counts
        self._keep_model(ensemble, fix_table(KMeansObjective(v).table(counts), rows.layout))
        self._store_partition(ensemble, rows.labels(found.labelling), counts, v)
        self.loss_ = loss_from_counts(counts, v)
        self.n_iter_ = found.climb.n_sweeps
        self.converged_ = found.climb.converged

    def _store_scores(self, steps: list[float]) -> None:
        """Keep the score after each step that raised it."""
        raise NotImplementedError


def over_segment(
    rows: Rows, v: np.ndarray, n_micro: int, n_least: int, max_iter: int, seed: int, restart: int
) -> tuple[Labelling, Counts]:
    """Labels and counts of k-means with `n_micro` clusters, or with as many as there are different rows."""
    seeds, k = None, n_micro
    while seeds is None:  # with missing labels, how many rows can be told apart depends on the seeds drawn
        try:
            seeds = seed_rows(rows, k, seeding_weights(v), stream(seed, 1, restart))
        except TooFewRows as few:
            if few.n_different < n_least:
                raise TooFewRows(n_least, few.n_different) from None
            k = few.n_different
    fit = lloyd(rows, KMeansObjective(v), Counts.of_rows(seeds, rows.layout), max_iter)
    return fit.labelling, fit.counts


def split_merge(
    search: Search, found: Found, k: int, report: Callable[[str, Found], None] | None = None
) -> tuple[Found, int]:
    """Split one cluster and merge two, then exchange, while the objective rises. Also returns the number of rounds.

    A round splits every cluster in two on its own rows, ranks all plans by their exact net gain, and tries the best
    `n_trials` of them until one, after its exchange, has a larger objective. With many rows fewer plans are tried,
    with fewer sweeps each.
    """
    rows, rounds, n_trials, sweeps = search.rows, 0, search.n_trials, search.max_iter
    if is_large(rows):
        n_trials, sweeps = min(n_trials, _LARGE_TRIALS), min(sweeps, _TRIAL_SWEEPS)
    while rounds < search.max_rounds:
        rounds += 1
        n_now = found.n_clusters
        fine, halves = _halves(search, found, rounds)
        plans = search.goal.plans(found.climb.counts, halves, k - n_now)
        for plan in plans[:n_trials]:
            tried = search.climb(rows.renumbered(fine, *_carried_out(plan, halves, n_now)), sweeps)
            if tried.objective > found.objective * (1.0 + _WORTH):
                if not tried.climb.converged and sweeps < search.max_iter:
                    tried = search.climb(tried.labelling)
                found = without_empty(rows, tried)
                if report is not None:
                    report(f"round {rounds}", found)
                break
        else:
            break
    return found, rounds


def is_large(rows: Rows) -> bool:
    """Whether there are so many rows that passes should be saved."""
    return rows.n_rows > _LARGE


def _halves(search: Search, found: Found, rounds: int) -> tuple[Labelling, dict[int, Counts]]:
    """Every cluster split in two where it can be.

    Returns for each row its leaf, and for each split cluster the counts of its two leaves; the leaves come in the
    order of the clusters, and an unsplit one has a single leaf.
    """
    rows, goal = search.rows, search.goal
    parts = rows.split(found.labelling)
    weights = seeding_weights(goal.v)
    objective = KMeansObjective(goal.v)

    def two(task: tuple[int, Rows]) -> Found | None:
        c, part = task
        best: Found | None = None
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
            climb = exchange(part, fit.labelling, DensityState(fit.counts, goal.v, goal.least), _SPLIT_PASSES)
            if best is None or climb.objective > best.objective:
                best = Found(fit.labelling, climb)
        return best

    pairs = search.engine.side_by_side(two, list(enumerate(parts)))
    fine = rows.joined(parts, [None if pair is None else pair.labelling for pair in pairs])
    return fine, {c: pair.climb.counts for c, pair in enumerate(pairs) if pair is not None}


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


def without_empty(rows: Rows, found: Found) -> Found:
    """The same partition without its empty clusters."""
    counts = found.climb.counts
    kept = counts.sizes > 0
    if kept.all():
        return found
    # rows with multiplicity 0 may have the number of an empty cluster
    number = np.maximum(np.cumsum(kept) - 1, 0).astype(np.int32)
    smaller = Counts(np.ascontiguousarray(counts.alpha[:, kept]), counts.sizes[kept], counts.layout)
    labelling = rows.renumbered(found.labelling, number, smaller.n_clusters)
    return Found(labelling, replace(found.climb, counts=smaller))


def _pair_changes(left: Counts, right: Counts, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Changes (left, right, p) of Σ h(α) and Σ h(n_Cj) when a cluster of `left` and one of `right` become one."""
    starts, p = left.layout.offsets[:-1], left.layout.n_partitions
    shape = (left.n_clusters, right.n_clusters, p)
    joint, own = np.empty(shape, np.int64), np.empty(shape, np.int64)
    h_right, h_right_cells = fixed_xlogx(right.alpha, bits), fixed_xlogx(right.cells, bits)
    for a in range(left.n_clusters):
        alpha, cells = left.alpha[:, [a]], left.cells[:, [a]]
        change = fixed_xlogx(alpha + right.alpha, bits) - h_right - fixed_xlogx(alpha, bits)
        joint[a] = np.add.reduceat(change, starts, axis=0).T
        own[a] = (fixed_xlogx(cells + right.cells, bits) - h_right_cells - fixed_xlogx(cells, bits)).T
    return joint, own


def _split_changes(counts: Counts, c: int, halves: Counts, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Changes (p,) of Σ h(α) and Σ h(n_Cj) when cluster c becomes two."""
    starts = counts.layout.offsets[:-1]
    change = fixed_xlogx(halves.alpha, bits).sum(axis=1) - fixed_xlogx(counts.alpha[:, c], bits)
    own = fixed_xlogx(halves.cells, bits).sum(axis=1) - fixed_xlogx(counts.cells[:, c], bits)
    return np.add.reduceat(change, starts), own


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
