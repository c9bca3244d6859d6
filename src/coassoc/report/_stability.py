"""How sure the ensemble is of each item, each cluster and each base partition: counts, in linear time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ensemble import Ensemble
from ..metrics import pairwise_nmi
from ..metrics._agreement import nmi_from_counts
from ..metrics._density import counts_of

_CHUNK_BYTES = 1 << 25


@dataclass(frozen=True)
class ItemStability:
    """Mean co-association of each item with its own cluster and with the best other one.

    Attributes
    ----------
    own, other : ndarray of shape (n_samples,)
        In [0, 1]; the item itself is not counted in its own cluster.
    other_cluster : ndarray of shape (n_samples,)
        The best other cluster, −1 when there is none.
    cluster_mean : ndarray of shape (n_clusters,)
        Mean of ``own − other`` over each cluster.
    """

    own: np.ndarray
    other: np.ndarray
    other_cluster: np.ndarray
    cluster_mean: np.ndarray


@dataclass(frozen=True)
class PartitionAgreement:
    """How the base partitions agree with each other and with the consensus, by NMI.

    Attributes
    ----------
    matrix : ndarray of shape (n_partitions, n_partitions)
        NMI between every two partitions.
    mean : ndarray of shape (n_partitions,)
        Mean NMI with the other partitions.
    consensus : ndarray of shape (n_partitions,)
        NMI with the consensus.
    outlier : ndarray of bool of shape (n_partitions,)
        Far below the others: more than 3 scaled median absolute deviations under the median of `mean`.
    """

    matrix: np.ndarray
    mean: np.ndarray
    consensus: np.ndarray
    outlier: np.ndarray


def item_stability(ensemble: Ensemble, labels: np.ndarray, engine: Any = "auto") -> ItemStability:
    """Stability of every item under `labels` (0..k−1, −1 for none): O(n·p·k) time, one chunk of rows in memory."""
    k = int(labels.max()) + 1
    counts = counts_of(ensemble, labels, k, None, engine)
    n, p = ensemble.n_samples, ensemble.n_partitions
    alpha, cells = counts.alpha.astype(np.float64), counts.cells.astype(np.float64)
    own, other = np.zeros(n), np.zeros(n)
    other_cluster = np.full(n, -1, dtype=np.int32)
    step = max(1, _CHUNK_BYTES // (16 * k))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        codes, mine = ensemble.codes[rows], labels[rows]
        together, observed = np.zeros((len(mine), k)), np.zeros((len(mine), k))
        here, seen_here = np.zeros(len(mine)), np.zeros(len(mine))
        index = np.arange(len(mine))
        for j in range(p):
            code = codes[:, j].astype(np.int64)
            seen = code < ensemble.n_clusters[j]
            found = alpha[ensemble.offsets[j] + np.where(seen, code, 0)]
            together += found * seen[:, None]
            observed += cells[j] * seen[:, None]
            here += seen * found[index, np.maximum(mine, 0)] - seen
            seen_here += seen * cells[j, np.maximum(mine, 0)] - seen
        means = np.divide(together, observed, out=np.zeros_like(together), where=observed > 0)
        labelled = mine >= 0
        own[rows] = np.where(labelled & (seen_here > 0), here / np.maximum(seen_here, 1.0), 0.0)
        means[index[labelled], mine[labelled]] = -1.0
        if k > 1:
            best = means.argmax(axis=1)
            other[rows] = np.where(labelled, means[index, best], 0.0)
            other_cluster[rows] = np.where(labelled, best, -1)
    margin = own - other
    present = labels >= 0
    sizes = np.bincount(labels[present], minlength=k)
    total = np.bincount(labels[present], weights=margin[present], minlength=k)
    return ItemStability(own, other, other_cluster, total / np.maximum(sizes, 1))


def partition_agreement(ensemble: Ensemble, labels: np.ndarray, engine: Any = "auto") -> PartitionAgreement:
    """NMI between all base partitions and with the consensus; one overlap pass."""
    p = ensemble.n_partitions
    matrix = pairwise_nmi(ensemble, engine=engine)
    mean = (matrix.sum(axis=1) - np.diagonal(matrix)) / max(p - 1, 1) if p > 1 else np.ones(1)
    counts = counts_of(ensemble, labels, int(labels.max()) + 1, None, engine)
    centre = float(np.median(mean))
    spread = 1.4826 * float(np.median(np.abs(mean - centre)))
    outlier = mean < centre - 3 * max(spread, 0.01) if p >= 4 else np.zeros(p, dtype=bool)
    return PartitionAgreement(matrix, mean, nmi_from_counts(counts), outlier)
