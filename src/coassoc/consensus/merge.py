"""Exact changes of a partition from its counts: moves of single items, merges of clusters, splits with merges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ..core.counts import Counts
from ..core.moves import AgreementObjective, AgreementState, DensityState, agreement_term, fixed_xlogx
from ..core.objectives import KMeansObjective
from ..engines import Rows
from ..engines.contract import Labelling
from .linkage import cluster_sums

_LIMIT = 1 << 18  # moves fetched per call, which limits the coordinator's memory


@dataclass
class SearchResult:
    """The partition that an exchange ended with."""

    labelling: Labelling
    counts: Counts
    objective: float  # n·S, or Σ_j v_j NMI_j
    n_sweeps: int
    converged: bool  # no move of a single row raises the objective


def exchange(rows: Rows, labelling: Labelling, state: DensityState | AgreementState, max_sweeps: int) -> SearchResult:
    """Sweep over the rows until no single move raises the objective; changes `labelling` and `state` in place."""
    sweeps, converged = 0, False
    while sweeps < max_sweeps and not converged:
        sweeps += 1
        start, applied = 0, 0
        while start < rows.n_rows:
            table = state.table()
            moves = rows.propose_moves(labelling, table, start, _LIMIT)
            if len(moves):
                applied += rows.apply_moves(labelling, state, moves, table.threshold)
            start = moves.stop
        converged = applied == 0  # every row was tested against this state
    return SearchResult(labelling, state.counts(), state.objective(), sweeps, converged)


class PairSums:
    """Σ v_j Σ_f α_f α'_f and Σ v_j n_Cj n_C'j for every two clusters, updated while clusters merge."""

    def __init__(self, counts: Counts, v: np.ndarray):
        cells = counts.cells
        self.sizes = counts.sizes.astype(np.float64)
        self.together, self.observed = cluster_sums(counts.alpha, cells, counts.layout, v)
        self.inside_together = (v[:, None] * (counts.squares - cells)).sum(axis=0)  # T_C
        self.inside_observed = (v[:, None] * (cells * (cells - 1))).sum(axis=0)  # P_C

    def values(self) -> np.ndarray:
        """|C| D(C) of each cluster."""
        return self.sizes * _ratio(self.inside_together, self.inside_observed)

    def merge_losses(self) -> np.ndarray:
        """Decrease of n·S when two clusters are merged, for every two; infinite on the diagonal."""
        together = self.inside_together[:, None] + self.inside_together + 2.0 * self.together
        observed = self.inside_observed[:, None] + self.inside_observed + 2.0 * self.observed
        values = self.values()
        losses = (values[:, None] + values) - (self.sizes[:, None] + self.sizes) * _ratio(together, observed)
        np.fill_diagonal(losses, np.inf)
        return losses

    def average_distances(self) -> np.ndarray:
        """1 − D(C, C') for every two; infinite on the diagonal."""
        distances = 1.0 - _ratio(self.together, self.observed)
        np.fill_diagonal(distances, np.inf)
        return distances

    def merge(self, a: int, b: int) -> None:
        """Merge cluster `b` into cluster `a`; `b` is empty afterwards."""
        self.inside_together[a] += self.inside_together[b] + 2.0 * self.together[a, b]
        self.inside_observed[a] += self.inside_observed[b] + 2.0 * self.observed[a, b]
        self.sizes[a] += self.sizes[b]
        for square in (self.together, self.observed):
            square[a] += square[b]
            square[:, a] += square[:, b]
            square[b] = square[:, b] = 0.0
        self.inside_together[b] = self.inside_observed[b] = self.sizes[b] = 0.0


def merge_clusters(counts: Counts, v: np.ndarray, k: int, criterion: str) -> np.ndarray:
    """Greedy merging down to `k` clusters: for each of the given ones its new number, in order of first appearance.

    `criterion` is "density" (least loss of S) or "average" (largest D(C, C')). Empty clusters join the first one.
    """
    sums = PairSums(counts, v)
    n = counts.n_clusters
    group = np.arange(n)
    alive = counts.sizes > 0
    group[~alive] = np.flatnonzero(alive)[0]
    score = sums.merge_losses if criterion == "density" else sums.average_distances
    upper = np.triu(np.ones((n, n), dtype=bool), 1)
    for _ in range(int(alive.sum()) - k):
        cost = np.where(upper & alive[:, None] & alive, score(), np.inf)
        a, b = np.unravel_index(int(np.argmin(cost)), cost.shape)
        sums.merge(int(a), int(b))
        alive[b] = False
        group[group == b] = a
    return np.unique(group, return_inverse=True)[1].astype(np.int32)  # a group has the number of its first member


def joined_counts(parts: Sequence[Counts]) -> Counts:
    """The clusters of several counts side by side."""
    alpha = np.concatenate([part.alpha for part in parts], axis=1)
    return Counts(alpha, np.concatenate([part.sizes for part in parts]), parts[0].layout)


def merged_counts(counts: Counts, group: np.ndarray, k: int) -> Counts:
    """Counts of the merged clusters."""
    member = csr_array((np.ones(len(group), np.int64), group, np.arange(len(group) + 1)), (len(group), k)).T
    return Counts(np.ascontiguousarray((member @ counts.alpha.T).T), member @ counts.sizes, counts.layout)


@dataclass(frozen=True)
class Plan:
    """Split cluster `split`, whose second half becomes the last cluster; merge `drop` into `into`."""

    net: float
    split: int
    into: int
    drop: int


def _best_merge(gains: np.ndarray, split: int, gain: float = 0.0) -> Plan:
    """The best merge after a split that gains `gain` and has the halves `split` and the last cluster."""
    np.fill_diagonal(gains, -np.inf)
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

    def plans(self, counts: Counts, pieces: dict[int, Counts]) -> list[Plan]:
        """Best plan for each cluster that can be split, best first."""
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

    def state(self, counts: Counts) -> AgreementState:
        return AgreementState(counts, self.v, self.least)

    def passes(self) -> AgreementObjective:
        return AgreementObjective(self.v)

    def score(self, objective: float, n_items: int) -> float:
        """Mean NMI over partitions, from Σ_j v_j NMI_j."""
        return min(1.0, objective / math.fsum(self.v.tolist()))

    def plans(self, counts: Counts, pieces: dict[int, Counts]) -> list[Plan]:
        """Best plan for each cluster that can be split, best first."""
        state, k, plans = self.state(counts), counts.n_clusters, []
        merged, now = _pair_changes(counts, counts, state.bits), state.objective()
        for c, halves in pieces.items():
            split = -_pair_changes(halves.of_cluster(0), halves.of_cluster(1), state.bits)[:, 0]
            # pairs after the split: cluster c is now the first half, cluster k the second
            changes = np.zeros((2, k + 1, k + 1, merged.shape[-1]), np.int64)
            changes[:, :k, :k] = merged
            changes[:, [c, k], :k] = to_halves = _pair_changes(halves, counts, state.bits)
            changes[:, :k, [c, k]] = to_halves.transpose(0, 2, 1, 3)
            joint, own = changes + split[:, None]
            terms = agreement_term(self.v, 2.0 * self.v, state.shared + joint - own, state.entropy - own)
            total = np.zeros((k + 1, k + 1))
            for j in range(terms.shape[-1]):  # a fixed order of summation
                total += terms[..., j]
            plans.append(_best_merge(total - now, c))
        return _ranked(plans)


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


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
