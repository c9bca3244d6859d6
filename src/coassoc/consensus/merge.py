"""Merging clusters on their counts, without a pass over the items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from ..core.counts import Counts
from .similarity import cluster_sums


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

    `criterion` is "density" (least loss of S) or "average" (largest mean co-association between two clusters).
    Ties go to the pair with the lowest numbers; empty clusters join the first cluster.
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


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
