"""k-means with weights of base clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import check_choice
from ..core.counts import Counts
from ..engines import Rows
from ..metrics.weights import check_cluster_weights, uncertainty_from_overlap


def resolve_cluster_weights(weights: Any, rows: Rows) -> np.ndarray | None:
    """Weight of each base cluster (d,) from None, ``"uncertainty"`` or numbers; None: 1 each."""
    if weights is None:
        return None
    if isinstance(weights, str):
        check_choice(weights, "cluster_weights", ("uncertainty",))
        return uncertainty_from_overlap(rows.overlap(), rows.layout.offsets)
    return check_cluster_weights(weights, rows.layout.n_codes)


@dataclass(frozen=True)
class ClusterWeightObjective:
    r"""Weighted k-means: rows :math:`x_i = u \circ h_i / r_i` with weight :math:`r_i = \sum_j u_f`.

    With :math:`R_C = \sum_f u_f \alpha_f(C)` the center is :math:`m_f = u_f \alpha_f / R_C`, and the loss is
    :math:`\sum_i r_i |x_i|^2 - \sum_C R_C |m_C|^2`. Dividing by :math:`r_i` puts every row on the simplex; otherwise
    rows with small weights would all be near the origin, in one cluster.
    """

    weights: np.ndarray  # u, one per base cluster
    constant: float  # Σ_i r_i |x_i|²

    @classmethod
    def of(cls, rows: Rows, u: np.ndarray) -> ClusterWeightObjective:
        shares = np.diagonal(rows.weighted_overlap(u))  # Σ_i h_if / r_i
        return cls(u, math.fsum((u * u * shares).tolist()))

    def _centers(self, counts: Counts) -> tuple[np.ndarray, np.ndarray]:
        mass = self.weights[:, None] * counts.alpha
        total = mass.sum(axis=0)
        return np.divide(mass, total, out=np.zeros_like(mass), where=total > 0), total

    def table(self, counts: Counts) -> np.ndarray:
        centers, _ = self._centers(counts)
        return self.weights[:, None] * (2.0 * centers - (centers * centers).sum(axis=0))

    def cost_table(self, counts: Counts) -> np.ndarray:
        return self.weights[:, None] - self.table(counts)

    def loss(self, counts: Counts) -> float:
        centers, total = self._centers(counts)
        squares = [math.fsum((column * column).tolist()) for column in centers.T]
        return math.fsum([self.constant, *(-total * np.array(squares)).tolist()])
