"""Objectives: small pure functions from counts to a score table and a loss.

Every instance–cluster consensus method is the same pass over the rows with another table; this module holds the
tables. Nothing here sees a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..engines._verbs import Counts, Layout, ScoreTable
from ..metrics._density import loss_from_counts


class Objective(Protocol):
    """What a k-means-like method optimises."""

    def table(self, counts: Counts) -> np.ndarray:
        """Float64 scores (d, k): an item goes to the cluster with the largest sum over its labels."""

    def cost_table(self, counts: Counts) -> np.ndarray:
        """Float64 (d, k): the sum over an item's labels under its own cluster says how badly it is placed."""

    def loss(self, counts: Counts) -> float:
        """What falls from pass to pass."""


@dataclass(frozen=True)
class KMeansObjective:
    r"""Weighted k-means on H: loss :math:`\sum_j v_j (n_j - \sum_C \sum_{f \in j} \alpha_f^2 / n_{Cj})`."""

    weights: np.ndarray  # v, one per partition

    def table(self, counts: Counts) -> np.ndarray:
        cells = np.maximum(counts.cells, 1)  # an unobserved cell has α = 0, so its scores are 0
        penalty = counts.squares / cells / cells
        repeats = counts.layout.n_clusters
        scores = 2.0 * counts.alpha / np.repeat(cells, repeats, axis=0) - np.repeat(penalty, repeats, axis=0)
        if (self.weights != 1.0).any():
            scores *= np.repeat(self.weights, repeats)[:, None]
        return scores

    def cost_table(self, counts: Counts) -> np.ndarray:
        return np.repeat(self.weights, counts.layout.n_clusters)[:, None] - self.table(counts)

    def loss(self, counts: Counts) -> float:
        return loss_from_counts(counts, self.weights)


def fix_table(scores: np.ndarray, layout: Layout) -> ScoreTable:
    """Round scores to int32 at the largest power of two whose sums over partitions cannot overflow."""
    largest = np.maximum.reduceat(np.abs(scores).max(axis=1), layout.offsets[:-1])
    total = math.fsum(largest.tolist())
    bits = 0
    if total > 0:
        bits = math.floor(math.log2((2**31 - layout.n_partitions) / total))
        while total * 2.0**bits + layout.n_partitions >= 2**31:
            bits -= 1
        while total * 2.0 ** (bits + 1) + layout.n_partitions < 2**31:
            bits += 1
    return ScoreTable(np.rint(scores * 2.0**bits).astype(np.int32), bits)


def seeding_weights(weights: np.ndarray) -> np.ndarray:
    """Partition weights as integers for seeding distances: all 1 when equal, else fixed point on 16 bits."""
    if (weights == weights[0]).all():
        return np.ones(len(weights), dtype=np.int64)
    top = (1 << 16) - 1 - len(weights) if len(weights) < 1 << 14 else (1 << 31) - 1 - len(weights)
    scale = 2.0 ** math.floor(math.log2(top / math.fsum(weights.tolist())))
    return np.rint(weights * scale).astype(np.int64)
