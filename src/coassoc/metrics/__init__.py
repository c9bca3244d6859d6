"""Scores: density, agreement, zero-effort baselines."""

from .labels import align_labels, order_by_size
from .membership import ItemConsensus, cluster_recovery, cluster_uncertainty, item_consensus
from .profiles import profile
from .scores import (
    ZeroEffort,
    cluster_density,
    density,
    ensemble_nmi,
    inter_density,
    kmeans_loss,
    nmi,
    pairwise_nmi,
    partition_nmi,
    zero_effort,
)

__all__ = [
    "ItemConsensus",
    "ZeroEffort",
    "align_labels",
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
