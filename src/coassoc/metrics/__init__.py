"""Scores: density, agreement, zero-effort baselines."""

from .agreement import ZeroEffort, ensemble_nmi, member_scores, nmi, pairwise_nmi, zero_effort
from .align import align_labels, order_by_size
from .densities import cluster_density, cluster_weight, density, inter_density, inter_weight, kmeans_loss, split_gain
from .stability import (
    ItemStability,
    WorseThanMemberWarning,
    best_member,
    cluster_stability,
    item_stability,
    partition_agreement,
    warn_if_worse_than_member,
)
from .weights import cluster_uncertainty

__all__ = [
    "ItemStability",
    "WorseThanMemberWarning",
    "ZeroEffort",
    "align_labels",
    "best_member",
    "cluster_density",
    "cluster_stability",
    "cluster_uncertainty",
    "cluster_weight",
    "density",
    "ensemble_nmi",
    "inter_density",
    "inter_weight",
    "item_stability",
    "kmeans_loss",
    "member_scores",
    "nmi",
    "order_by_size",
    "pairwise_nmi",
    "partition_agreement",
    "split_gain",
    "warn_if_worse_than_member",
    "zero_effort",
]
