"""Objectives: small pure functions from counts to a score table and a loss.

K-means, SEC, ECC and spectral consensus make the same passes over the rows with different score tables, which this
module computes. Nothing here reads a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .counts import Counts, Layout, ScoreTable, loss_from_counts, weighted_columns

# In seeding distances, a partition that labels only one of two rows counts this part of its weight. At 0, a row with a
# missing label would equal rows that differ there, and k-means++ would not find them all.
ONE_SIDED = 64


class Objective(Protocol):
    """What a k-means-like method optimises.

    An objective that is k-means on H with partition weights v may say so with an attribute `kmeans_weights`, which
    holds v: engines may then run whole k-means starts.
    """

    def table(self, counts: Counts) -> np.ndarray:
        """Float64 scores (d, k): an item goes to the cluster with the largest sum over its labels."""

    def cost_table(self, counts: Counts) -> np.ndarray:
        """Float64 (d, k): the sum over an item's labels under its own cluster says how badly it is placed."""

    def loss(self, counts: Counts) -> float:
        """The loss that each pass lowers."""


@dataclass(frozen=True)
class KMeansObjective:
    r"""Weighted k-means on H: loss :math:`\sum_j v_j (n_j - \sum_C \sum_{f \in j} \alpha_f^2 / n_{Cj})`."""

    weights: np.ndarray  # v, one per partition

    @property
    def kmeans_weights(self) -> np.ndarray:
        return self.weights

    def table(self, counts: Counts) -> np.ndarray:
        """v_j (2 μ_f − Σ_{f'∈j} μ_f'²) with μ = α / n_Cj, 0 where nothing is observed."""
        repeats, cells = counts.layout.n_clusters, np.maximum(counts.cells, 1)  # an unobserved cell has α = 0
        penalty = counts.squares / cells / cells
        scores = 2.0 * counts.alpha / np.repeat(cells, repeats, axis=0) - np.repeat(penalty, repeats, axis=0)
        if (self.weights != 1.0).any():
            scores *= np.repeat(self.weights, repeats)[:, None]
        return scores

    def cost_table(self, counts: Counts) -> np.ndarray:
        return np.repeat(self.weights, counts.layout.n_clusters)[:, None] - self.table(counts)

    def loss(self, counts: Counts) -> float:
        return loss_from_counts(counts, self.weights)


@dataclass(frozen=True)
class SECObjective:
    r"""Spectral ensemble clustering: weighted k-means on :math:`h_i / w_i`, :math:`w_i = \sum_{f \in i} v_j s_f`.

    The center of C is :math:`\alpha(C) / w(C)` with :math:`w(C) = \sum_f v_j s_f \alpha_f`, and the item weights
    fold into the table. The loss :math:`k - \sum_C \sum_j v_j \sum_{f \in j} \alpha_f^2 / w(C)` is the normalised
    cut of the co-association graph; the weighted k-means cost differs from it by a constant of the ensemble.
    """

    weights: np.ndarray  # v, one per partition
    sizes: np.ndarray  # s, items in each base cluster, copies counted (d,)

    def table(self, counts: Counts) -> np.ndarray:
        inside, degree = self._links(counts)
        safe = np.where(degree > 0, degree, 1.0)
        scores = 2.0 * counts.alpha / safe - self.sizes[:, None] * (inside / safe / safe)
        # an empty cluster is a center at the origin: score 0
        return scores * np.repeat(self.weights, counts.layout.n_clusters)[:, None]

    def cost_table(self, counts: Counts) -> np.ndarray:
        # The exact cost contains |h_i|² / w_i, which is not a sum over labels. The plain distance to the mean of the
        # cluster's rows is such a sum, and it is 0 for the same rows: those whose removal gains nothing.
        return KMeansObjective(self.weights).cost_table(counts)

    def loss(self, counts: Counts) -> float:
        inside, degree = self._links(counts)
        shares = np.divide(inside, degree, out=np.zeros_like(inside), where=degree > 0)
        return math.fsum([float(counts.n_clusters), *(-shares).tolist()])

    def _links(self, counts: Counts) -> tuple[np.ndarray, np.ndarray]:
        """Σ_j v_j Σα² and w(C) of each cluster: integers per partition, then one exactly rounded sum."""
        starts = counts.layout.offsets[:-1]
        degree = np.add.reduceat(counts.alpha * self.sizes[:, None], starts, axis=0)
        return (
            np.array(weighted_columns(counts.squares, self.weights), dtype=np.float64),
            np.array(weighted_columns(degree, self.weights), dtype=np.float64),
        )


@dataclass(frozen=True)
class ECCObjective:
    r"""Entropy-based consensus: k-means with the Kullback–Leibler divergence.

    Smoothed, :math:`q_f(C) = (\alpha_f + \epsilon) / (n_{Cj} + \epsilon k_j)` and the loss

    .. math:: -\sum_C \sum_j v_j \sum_{f \in j} (\alpha_f + \epsilon) \log q_f(C)

    is minimised in turn by the labels and by q, so that it falls with every pass. With ``floor``,
    :math:`q_f = \max(\alpha_f / n_{Cj}, \epsilon)` scores the items and the loss is the plain one
    (:math:`\epsilon = 0` above), which need not fall.
    """

    weights: np.ndarray
    epsilon: float
    floor: bool = False

    def table(self, counts: Counts) -> np.ndarray:
        return np.repeat(self.weights, counts.layout.n_clusters)[:, None] * np.log(self._shares(counts))

    def cost_table(self, counts: Counts) -> np.ndarray:
        """By how much the loss falls, exactly, if the row becomes the center of an empty cluster."""
        if self.floor:
            return -self.table(counts)
        k, eps = counts.layout.n_clusters.astype(np.float64), self.epsilon
        alone = np.log((1.0 + eps) / (1.0 + eps * k))
        penalty = eps * (k * np.log(k) + alone + (k - 1.0) * np.log(eps / (1.0 + eps * k)))
        return np.repeat(self.weights * (alone + penalty), counts.layout.n_clusters)[:, None] - self.table(counts)

    def loss(self, counts: Counts) -> float:
        logs = np.log(np.where(counts.alpha > 0, self._shares(counts), 1.0) if self.floor else self._shares(counts))
        mass = counts.alpha if self.floor else counts.alpha + self.epsilon
        weights = np.repeat(self.weights, counts.layout.n_clusters)[:, None]
        return math.fsum((-weights * (mass * logs)).ravel().tolist())

    def _shares(self, counts: Counts) -> np.ndarray:
        layout = counts.layout
        k = np.repeat(layout.n_clusters, layout.n_clusters)[:, None]
        cells = np.repeat(counts.cells, layout.n_clusters, axis=0)
        if not self.floor:
            return (counts.alpha + self.epsilon) / (cells + self.epsilon * k)
        # nothing observed: all labels are equally likely
        return np.where(cells > 0, np.maximum(counts.alpha / np.maximum(cells, 1), self.epsilon), 1.0 / k)


@dataclass(frozen=True)
class EmbeddingObjective:
    r"""Spherical k-means on :math:`x_i = \sum_{f \in i} V_f`, the summed vectors of an item's base clusters.

    The sum of a cluster's items comes from its counts, :math:`s_C = \sum_f \alpha_f(C) V_f`, and the best unit centre
    is :math:`s_C / \|s_C\|`. The loss :math:`-\sum_C \|s_C\|` equals :math:`-\sum_i \|x_i\| \cos(x_i, s_{C(i)})`, which
    falls with every pass: an item goes to the centre of largest cosine.
    """

    vectors: np.ndarray  # V (d, q), from `round_vectors`

    def table(self, counts: Counts) -> np.ndarray:
        sums = self.sums(counts)
        lengths = lengths_of(sums)[:, None]
        centres = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0)
        return self.vectors @ centres.T

    def cost_table(self, counts: Counts) -> np.ndarray:
        # |x_i| is no sum over labels; the sum of |V_f| is, and bounds it from above
        return lengths_of(self.vectors)[:, None] - self.table(counts)

    def loss(self, counts: Counts) -> float:
        return -math.fsum(lengths_of(self.sums(counts)).tolist())

    def sums(self, counts: Counts) -> np.ndarray:
        """Summed embedding of each cluster (k, q): exact, because of how the vectors are rounded."""
        return np.ascontiguousarray(counts.alpha.T, dtype=np.float64) @ self.vectors


def fix_table(scores: np.ndarray, layout: Layout) -> ScoreTable:
    """Round scores to int32 at the largest power of two whose sums over partitions cannot overflow."""
    largest = np.maximum.reduceat(np.abs(scores), layout.offsets[:-1], axis=0).max(axis=1)  # of each partition
    total = math.fsum(largest.tolist())
    bits = 0
    if total > 0:
        bits = math.floor(math.log2((2**31 - layout.n_partitions) / total))
        while total * 2.0**bits + layout.n_partitions >= 2**31:
            bits -= 1
        while total * 2.0 ** (bits + 1) + layout.n_partitions < 2**31:
            bits += 1
    return ScoreTable(np.rint(scores * 2.0**bits).astype(np.int32), bits)


def seeding_weights(weights: np.ndarray, counts: Counts) -> np.ndarray:
    """Partition weights as integers for seeding distances: 1 where all but 0 are equal, else fixed point on 16 bits.

    Partitions of weight 0 change no draw. `counts` cover all rows. Where some of these have no label, the weights are
    multiples of ONE_SIDED, so that a partition that labels only one of two rows can count a whole number too.
    """
    missing = counts.cells.sum(axis=1) < counts.sizes.sum()
    unit = ONE_SIDED if (missing & (weights > 0)).any() else 1
    if ((weights == 0) | (weights == weights.max())).all():
        return unit * (weights == weights.max()).astype(np.int64)
    top = ((1 << 16) if len(weights) < 1 << 14 else (1 << 31) // unit) - 1 - len(weights)
    scale = 2.0 ** math.floor(math.log2(top / math.fsum(weights.tolist())))
    return unit * np.rint(weights * scale).astype(np.int64)


def round_vectors(vectors: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Vectors (d, q) rounded to multiples of one power of two, so that sums over items are exact in float64.

    `sizes` (d,) are the items of each base cluster: no sum over items exceeds Σ_f sizes_f |V_f|, which gets 52 bits.
    """
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    bound = math.fsum((np.asarray(sizes, dtype=np.float64) * largest).tolist())
    if bound == 0.0:
        return np.zeros_like(vectors)
    scale = 2.0 ** (52 - math.frexp(bound)[1])
    return np.rint(vectors * scale) / scale


def lengths_of(vectors: np.ndarray) -> np.ndarray:
    """Euclidean length of each row."""
    return np.sqrt((vectors * vectors).sum(axis=1))
