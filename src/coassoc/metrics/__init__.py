"""Scores: density, agreement, zero-effort baselines."""

from ._agreement import ZeroEffort, ensemble_nmi, member_scores, nmi, pairwise_nmi, zero_effort
from ._align import align_labels, order_by_size
from ._density import (
    cluster_density,
    cluster_weight,
    density,
    inter_density,
    inter_weight,
    kmeans_loss,
    split_gain,
)

__all__ = [
    "ZeroEffort",
    "align_labels",
    "cluster_density",
    "cluster_weight",
    "density",
    "ensemble_nmi",
    "inter_density",
    "inter_weight",
    "kmeans_loss",
    "member_scores",
    "nmi",
    "order_by_size",
    "pairwise_nmi",
    "split_gain",
    "zero_effort",
]
