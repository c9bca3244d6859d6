"""The objective of spectral consensus: items embedded as sums of the vectors of their base clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .counts import Counts


@dataclass(frozen=True)
class EmbeddingObjective:
    r"""Spherical k-means on :math:`x_i = \sum_{f \in i} V_f`, the summed vectors of an item's base clusters.

    The sum of a cluster's items comes from its counts, :math:`s_C = \sum_f \alpha_f(C) V_f`, and the best unit centre
    is :math:`s_C / \|s_C\|`. The loss :math:`-\sum_C \|s_C\|` equals :math:`-\sum_i \|x_i\| \cos(x_i, s_{C(i)})`, which
    falls with every pass: an item goes to the centre of largest cosine.
    """

    vectors: np.ndarray  # V (d, q), from `round_vectors`
    _latest: list = field(default_factory=list, repr=False, compare=False)  # counts and their sums

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
        if not self._latest or self._latest[0] is not counts:  # the loss of a pass and the next table share them
            self._latest[:] = counts, np.ascontiguousarray(counts.alpha.T, dtype=np.float64) @ self.vectors
        return self._latest[1]


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
