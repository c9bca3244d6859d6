"""Confidence: how far the answer depends on which partitions were used, for items, clusters and partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.counts import Counts
from ..engines import Rows
from .choosing import member_nmi
from .micro import MicroClusters

FOUND_AGAIN = 0.5  # Jaccard index from which a cluster of a refit is the same cluster
TYPICAL = 0.9  # quantile of the association with the own cluster that counts as full
OWN_PART = 0.7  # weight of an item's own value in its confidence; the mean over all items has the remaining 0.3
_CHUNK = 1 << 17  # rows whose codes are read at a time
_LEVELS = 1 << 12  # associations are kept as multiples of 1 / _LEVELS
_BITS = 20  # fixed point of the associations in single partitions


@dataclass(frozen=True)
class Recurrence:
    """What the refits say about micro-clusters, clusters and partitions."""

    leaves: np.ndarray  # (m,) share of the own cluster that a refit keeps together with the micro-cluster, on average
    clusters: np.ndarray  # (k,) share of the refits in which the cluster is found again
    partitions: np.ndarray  # (p,) mean NMI with the refits that did not use the partition


def recurrence(
    micro: MicroClusters, answer: np.ndarray, k: int, refits: Sequence[np.ndarray], left_out: Sequence[np.ndarray]
) -> Recurrence:
    """Compare the answer, of k clusters, with its refits, all given as the cluster of each micro-cluster.

    `left_out` tells for each refit which partitions it did not use.
    """
    p = micro.layout.n_partitions
    leaves, clusters = np.zeros(micro.n_leaves), np.zeros(k)
    total, times = np.zeros(p), np.zeros(p)
    for refit, absent in zip(refits, left_out):
        shared = np.zeros((k, int(refit.max()) + 1), np.int64)
        np.add.at(shared, (answer, refit), micro.sizes)
        size = np.maximum(shared.sum(axis=1, keepdims=True), 1)
        union = np.maximum(size + shared.sum(axis=0) - shared, 1)
        clusters += (shared / union).max(axis=1) >= FOUND_AGAIN
        leaves += (shared / size)[answer, refit]
        total[absent] += member_nmi(micro, refit)[absent]
        times += absent
    n = len(refits)
    return Recurrence(leaves / n, clusters / n, total / np.maximum(times, 1))


def item_confidence(
    rows: Rows,
    leaf: np.ndarray,
    labels: np.ndarray,
    counts: Counts,
    weights: np.ndarray,
    stability: float,
    of_leaf: np.ndarray,
    copies: np.ndarray | None,
) -> np.ndarray:
    """OWN_PART · c + (1 - OWN_PART) · mean of c, where c = √(stability · recurrence · association), from 0 to 1.

    The association is that of the item with its cluster, relative to its quantile TYPICAL over all items, and at most
    1. Adding the mean over all items brings items that differ little closer together. One pass over the codes.

    Parameters
    ----------
    leaf, labels : ndarray of shape (n,)
        Micro-cluster and cluster of each item.
    counts, weights
        Of the clusters and the partitions, in the order of the rows' codes.
    stability, of_leaf
        Of the answer; recurrence of each micro-cluster (m,).
    copies : ndarray of int, shape (n,), or None
        How often each item counts.
    """
    levels = own_association(rows, labels, counts, weights)
    mass = np.zeros(_LEVELS + 1)
    for part in _chunks(len(labels)):
        mass += np.bincount(levels[part], weights=None if copies is None else copies[part], minlength=_LEVELS + 1)
    full = max(int(np.argmax(np.cumsum(mass) >= TYPICAL * mass.sum())), 1)
    factor = stability * np.minimum(np.arange(_LEVELS + 1) / full, 1.0)
    found, total = np.empty(len(labels), np.float32), 0
    for part in _chunks(len(labels)):
        # fixed point: sums of whole numbers do not depend on the order of the items
        own = np.rint(2.0**_BITS * np.sqrt(of_leaf[leaf[part]] * factor[levels[part]])).astype(np.int64)
        total += int((own if copies is None else own * copies[part]).sum())
        found[part] = own  # below 2²⁴, so exact
    found *= np.float32(OWN_PART / 2.0**_BITS)
    found += np.float32((1 - OWN_PART) / 2.0**_BITS * total / mass.sum())
    found[(labels < 0) | (leaf < 0)] = 0.0
    return np.minimum(found, np.float32(1.0), out=found)


def _chunks(n: int) -> Iterator[slice]:
    """Slices of n rows, so that temporary arrays stay small."""
    return (slice(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK))


def own_association(rows: Rows, labels: np.ndarray, counts: Counts, weights: np.ndarray) -> np.ndarray:
    """Mean co-association of each item with its own cluster, in multiples of 1 / _LEVELS: whole numbers (n,).

    Sums are integers, so neither chunks nor the order of the partitions matter.
    """
    layout = counts.layout
    per_code = np.repeat(np.arange(layout.n_partitions), layout.n_clusters)
    share = counts.alpha / np.maximum(counts.cells, 1)[per_code]
    fixed = np.rint(weights * 2.0**_BITS).astype(np.int64)
    table = np.rint(share * fixed[per_code][:, None]).astype(np.int64)
    found = np.empty(len(labels), np.uint16)
    for part in _chunks(len(labels)):
        codes, own = rows.codes_at(np.arange(part.start, part.stop)), labels[part]
        together, observed = np.zeros((2, len(own)), np.int64)
        for j, (first, k) in enumerate(zip(layout.offsets.tolist(), layout.n_clusters.tolist())):
            code = codes[:, j].astype(np.int64)
            seen = code < k
            together += np.where(seen, table[first + np.minimum(code, k - 1), own], 0)
            observed += fixed[j] * seen
        found[part] = (_LEVELS * together) // np.maximum(observed, 1)
    return found
