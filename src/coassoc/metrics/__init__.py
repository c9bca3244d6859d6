"""Scores: density, agreement, zero-effort baselines."""

from .agreement import best_partition, ensemble_nmi, nmi, pairwise_nmi, partition_nmi, zero_effort
from .align import align_labels, order_by_size
from .counting import ZeroEffort
from .densities import cluster_density, density, inter_density, kmeans_loss
from .membership import ItemConsensus, cluster_recovery, item_consensus
from .profiles import profile
from .weights import cluster_uncertainty

__all__ = [
    "ItemConsensus",
    "ZeroEffort",
    "align_labels",
    "best_partition",
    "cluster_density",
    "cluster_recovery",
    "cluster_uncertainty",
    "density",
    "ensemble_nmi",
    "inter_density",
    "item_consensus",
    "kmeans_loss",
    "nmi",
    "order_by_size",
    "pairwise_nmi",
    "partition_nmi",
    "profile",
    "zero_effort",
]
