"""Scores: density, agreement, zero-effort baselines."""

from .agreement import ZeroEffort, ensemble_nmi, member_scores, nmi, pairwise_nmi, zero_effort
from .align import align_labels, order_by_size
from .densities import cluster_density, density, inter_density, kmeans_loss
from .profiles import profile
from .stability import ItemStability, best_member, cluster_stability, item_stability, partition_agreement
from .weights import cluster_uncertainty

__all__ = [
    "ItemStability",
    "ZeroEffort",
    "align_labels",
    "best_member",
    "cluster_density",
    "cluster_stability",
    "cluster_uncertainty",
    "density",
    "ensemble_nmi",
    "inter_density",
    "item_stability",
    "kmeans_loss",
    "member_scores",
    "nmi",
    "order_by_size",
    "pairwise_nmi",
    "partition_agreement",
    "profile",
    "zero_effort",
]
