"""Weighted overlaps in integers, so that rows may be added in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SUM_BITS = 34  # the weights of a row's labels sum to at most 2**34 units
_LOW_BITS = 26  # rows whose weights sum to fewer than 2**26 units may count less than they should, if items are many


@dataclass(frozen=True)
class RowShares:
    r"""What each row counts in :math:`\sum_i h_i h_i^T / \sum_{f \in i} u_f`, in fixed point.

    Base cluster f weighs `units[f]`, a whole number. A row counts ``min(2**bits // Σ units of its labels, most)`` for
    each of its copies, and 0 without a label. The sum over all copies stays below 2**63.
    """

    units: np.ndarray  # (d,) int64, at least 1 where the weight is positive
    bits: int
    most: int
    scale: float  # 1 / Σ u, for a row that counts 1

    @classmethod
    def of(cls, weights: np.ndarray, n_partitions: int, n_copies: int) -> RowShares:
        """Shares for `weights` u >= 0 (d,) of base clusters and rows that are `n_copies` items in all."""
        u = np.asarray(weights, dtype=np.float64)
        unit = 2.0 ** (_SUM_BITS - 1) / (n_partitions * (float(u.max()) or 1.0))
        units = np.where(u > 0, np.maximum(np.rint(u * unit), 1.0), 0.0).astype(np.int64)
        bits = min(62, 62 + _LOW_BITS - max(1, n_copies).bit_length())
        return cls(units, bits, (1 << 62) // max(1, n_copies), unit / 2.0**bits)

    def of_sums(self, sums: np.ndarray) -> np.ndarray:
        """What one copy of each row counts, given the summed units of its labels (int64)."""
        return np.where(sums > 0, np.minimum((1 << self.bits) // np.maximum(sums, 1), self.most), 0)
