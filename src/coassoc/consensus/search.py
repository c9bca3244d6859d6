"""Search over partitions by their exact objective: over-segment, merge on counts, exchange rows, split and merge."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..core.checks import check_choice, check_integer, stream
from ..core.counts import Counts
from ..core.densities import loss_from_counts
from ..core.moves import AgreementState, DensityState, agreement_term, fixed_xlogx
from ..core.tables import KMeansObjective, fix_table, seeding_weights
from ..engines import Engine, Labelling, Rows
from ..ensemble import Ensemble
from ..metrics.labels import check_labels, fill_missing
from .base import ConsensusEstimator
from .exchange import Climb, exchange
from .grow import GrowingMixin
from .lloyd import TooFewRows, lloyd, seed_rows
from .merge import PairSums, merge_clusters

_SPLIT_STARTS = 2  # two-means starts for each cluster tried
_SPLIT_PASSES = 50
_LARGE = 100_000  # rows from which the search spares passes; see `is_large`
_TRIAL_SWEEPS = 4
_LARGE_TRIALS = 4
_WORTH = 1e-9  # share of the objective a split and merge must add to be kept


@dataclass
class Found:
    """A partition on the way: its labels where the engine keeps them, and where its climb ended."""

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
    """Split cluster `split` (−1: none), whose second half becomes the last cluster, then merge `drop` into `into`."""

    net: float
    split: int
    into: int  # −1: no merge
    drop: int


class Goal(Protocol):
    """What a search climbs."""

    @property
    def v(self) -> np.ndarray: ...

    @property
    def least(self) -> int: ...

    def state(self, counts: Counts) -> DensityState | AgreementState: ...

    def plans(self, counts: Counts, pieces: dict[int, Counts], room: int) -> list[Plan]:
        """Best plan for each cluster that can be split, best first; `room` clusters may be added or lost."""


@dataclass(frozen=True)
class DensityGoal:
    """n·S. A merge's loss and a split's gain are independent of all else, so a plan is their difference."""

    v: np.ndarray
    least: int = 1

    def state(self, counts: Counts) -> DensityState:
        return DensityState(counts, self.v, self.least)

    def plans(self, counts: Counts, pieces: dict[int, Counts], room: int) -> list[Plan]:
        k = counts.n_clusters
        order = list(pieces)
        both = _side_by_side(counts, [pieces[c] for c in order])
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
    """Σ_j v_j NMI_j. The changes of its fixed-point parts add up, the ratio is taken at the end."""

    v: np.ndarray
    least: int = 2
    at_most: bool = False

    def state(self, counts: Counts) -> AgreementState:
        return AgreementState(counts, self.v, self.least, self.at_most)

    def plans(self, counts: Counts, pieces: dict[int, Counts], room: int) -> list[Plan]:
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
            if self.at_most and room > 0:
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


class SearchConsensus(GrowingMixin, ConsensusEstimator):
    """Shared by the estimators that search: a start that is given, what is kept of the end, predict."""

    def _given_start(
        self, ensemble: Ensemble, rows: Rows, goal: Goal, k: int, max_sweeps: int, fewer: bool = False
    ) -> Found:
        labels, n_found = check_labels(self.init, ensemble.n_samples, "init", on_card=True)
        if n_found > k or (n_found < k and not fewer):
            raise ValueError(f"init must have n_clusters={k} clusters, got {n_found}.")
        return climb_from(rows, rows.labelling_of(fill_missing(labels, 0), n_found), goal, max_sweeps)

    def _store_found(self, ensemble: Ensemble, rows: Rows, found: Found, v: np.ndarray) -> None:
        counts = found.climb.counts
        self._keep_model(ensemble, fix_table(KMeansObjective(v).table(counts), rows.layout))
        self._store_partition(ensemble, rows.labels(found.labelling), counts, v)
        self.loss_ = loss_from_counts(counts, v)
        self.n_iter_ = found.climb.n_sweeps
        self.converged_ = found.climb.converged

    def predict(self, X: Any) -> np.ndarray:
        """The cluster with the nearest centre in H, for each row of base labels.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            New rows; labels unseen at fit count as missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            −1 for rows without a single known label.
        """
        return self._predict(X)


def over_segment(
    rows: Rows, v: np.ndarray, n_micro: int, n_least: int, max_iter: int, seed: int, restart: int
) -> tuple[Labelling, Counts]:
    """Labels and counts of k-means with many clusters: as many as rows differ, when that is fewer than asked."""
    objective = KMeansObjective(v)
    weights = seeding_weights(v)
    try:
        seeds = seed_rows(rows, n_micro, weights, stream(seed, 1, restart))
    except TooFewRows as few:
        if few.n_different < n_least:
            raise TooFewRows(n_least, few.n_different) from None
        seeds = seed_rows(rows, few.n_different, weights, stream(seed, 1, restart))
    fit = lloyd(rows, objective, Counts.of_rows(seeds, rows.layout), max_iter)
    return fit.labelling, fit.counts


def climb_from(rows: Rows, labelling: Labelling, goal: Goal, max_sweeps: int) -> Found:
    """Exchange from the given labels, in place."""
    climb = exchange(rows, labelling, goal.state(rows.counts(labelling)), max_sweeps)
    return Found(labelling, climb)


def merged_start(
    rows: Rows,
    goal: Goal,
    k: int,
    n_micro: int,
    criterion: str,
    max_iter: int,
    max_sweeps: int,
    seed: int,
    restart: int,
) -> Found:
    """Over-segment, merge on counts down to `k`, exchange."""
    micro, counts = over_segment(rows, goal.v, n_micro, k, max_iter, seed, restart)
    merged = rows.renumbered(micro, merge_clusters(counts, goal.v, k, criterion), k)
    return climb_from(rows, merged, goal, max_sweeps)


def split_merge(
    rows: Rows,
    engine: Engine,
    found: Found,
    goal: Goal,
    k: int,
    *,
    max_rounds: int,
    n_trials: int,
    max_sweeps: int,
    seed: int,
    report: Callable[[str, Found], None] | None = None,
) -> tuple[Found, int]:
    """Split one cluster and merge two, then exchange; again while the objective rises. Also the rounds made.

    A round splits every cluster in two on its own rows, ranks all plans by their exact net gain, and climbs from the
    best `n_trials` of them in turn until one ends above the present objective. With many rows, fewer plans are tried,
    and a plan that is not ahead after a few sweeps is given up.
    """
    rounds = 0
    sweeps = max_sweeps
    if is_large(rows):
        n_trials, sweeps = min(n_trials, _LARGE_TRIALS), min(max_sweeps, _TRIAL_SWEEPS)
    while rounds < max_rounds:
        rounds += 1
        n_now = found.n_clusters
        fine, halves = _halves(rows, engine, found, goal, seed, rounds)
        plans = goal.plans(found.climb.counts, halves, k - n_now)
        for plan in plans[:n_trials]:
            tried = climb_from(rows, rows.renumbered(fine, *_carried_out(plan, halves, n_now)), goal, sweeps)
            if tried.objective > found.objective * (1.0 + _WORTH):
                if not tried.climb.converged and sweeps < max_sweeps:
                    tried = climb_from(rows, tried.labelling, goal, max_sweeps)
                found = without_empty(rows, tried)
                if report is not None:
                    report(f"round {rounds}", found)
                break
        else:
            break
    return found, rounds


def is_large(rows: Rows) -> bool:
    """Whether a pass over the rows costs enough to be spared."""
    return rows.n_rows > _LARGE


def _halves(
    rows: Rows, engine: Engine, found: Found, goal: Goal, seed: int, rounds: int
) -> tuple[Labelling, dict[int, Counts]]:
    """Every cluster split in two where it can be.

    Returns for each row its leaf, and for each split cluster the counts of its two leaves; the leaves come in the
    order of the clusters, and an unsplit one has a single leaf.
    """
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
                seeds = seed_rows(part, 2, weights, stream(seed, 2, rounds, c, restart))
            except TooFewRows:
                return None
            fit = lloyd(part, objective, Counts.of_rows(seeds, part.layout), _SPLIT_PASSES)
            if (fit.counts.sizes < goal.least).any():
                continue
            climb = exchange(part, fit.labelling, DensityState(fit.counts, goal.v, goal.least), _SPLIT_PASSES)
            best = better(best, Found(fit.labelling, climb))
        return best

    pairs = engine.side_by_side(two, list(enumerate(parts)))
    fine = rows.joined(parts, [None if pair is None else pair.labelling for pair in pairs])
    return fine, {c: pair.climb.counts for c, pair in enumerate(pairs) if pair is not None}


def _carried_out(plan: Plan, halves: Container[int], k: int) -> tuple[np.ndarray, int]:
    """Each leaf's cluster after a plan, and the number of clusters; `halves` are the clusters of two leaves."""
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
    """The same partition with clusters that vanished left out."""
    counts = found.climb.counts
    kept = counts.sizes > 0
    if kept.all():
        return found
    # rows that take no part may carry the number of a vanished cluster
    number = np.maximum(np.cumsum(kept) - 1, 0).astype(np.int32)
    smaller = Counts(np.ascontiguousarray(counts.alpha[:, kept]), counts.sizes[kept], counts.layout)
    labelling = rows.renumbered(found.labelling, number, smaller.n_clusters)
    return Found(labelling, replace(found.climb, counts=smaller))


def _side_by_side(counts: Counts, more: list[Counts]) -> Counts:
    alpha = np.concatenate([counts.alpha, *(c.alpha for c in more)], axis=1)
    return Counts(alpha, np.concatenate([counts.sizes, *(c.sizes for c in more)]), counts.layout)


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


def better(a: Found | None, b: Found) -> Found:
    """The one with the larger objective, the first of equals."""
    return b if a is None or b.objective > a.objective else a


def mean_nmi(objective: float, v: np.ndarray) -> float:
    """Σ_j v_j NMI_j as a mean over partitions."""
    return min(1.0, objective / math.fsum(v.tolist()))
