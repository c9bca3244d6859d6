"""How strongly items belong to clusters, and how well clusters and base clusters are found again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.counts import cluster_densities
from ..engines import resolve
from ..ensemble import Ensemble, check_ensemble
from ..ensemble.encode import row_chunks
from .labels import check_copies, check_labels
from .scores import counts_of, resolve_partition_weights, scored_counts

CORE, BOUNDARY, OUTLIER = 0, 1, 2
THETA = 0.4  # the value of Huang, Wang and Lai
_BITS = 40  # of entropies in fixed point; their sum over 2**20 partitions fits
_CHUNK_CELLS = 1 << 21  # cells of a chunk of item × cluster strengths


@dataclass(frozen=True)
class ItemConsensus:
    """Item consensus of each item with its own cluster and with the best other one.

    Attributes
    ----------
    own, other : ndarray of shape (n_samples,)
        Mean co-association with the other items of its cluster (0 for singletons and items without a label), and with
        those of the best other cluster (0 when there is none).
    nearest : ndarray of shape (n_samples,)
        That cluster, in the sorted order of labels; −1 when there is none.
    role : ndarray of shape (n_samples,)
        0 core, 1 boundary, 2 outlier. An outlier's `own` is below half of its cluster's density, so that S would rise
        without it; a boundary item is at least half as strongly tied to another cluster as to its own.
    """

    own: np.ndarray
    other: np.ndarray
    nearest: np.ndarray
    role: np.ndarray

    @property
    def margin(self) -> np.ndarray:
        """`own` − `other`: large where the cluster of the item is clear, negative where another cluster is closer."""
        return self.own - self.other

    def __repr__(self) -> str:
        core, boundary, outliers = np.bincount(self.role, minlength=3)
        return (
            f"ItemConsensus({len(self.own)} items: {core} core, {boundary} boundary, {outliers} outliers; "
            f"mean own {self.own.mean():.3f}, other {self.other.mean():.3f})"
        )


def item_consensus(
    X: Any, labels: Any, *, sample_weight: Any = None, partition_weights: Any = None, engine: Any = "auto"
) -> ItemConsensus:
    r"""Mean co-association of every item with its own cluster and with the best other one.

    .. math:: M(i, C) = \frac{\sum_j v_j\, \alpha_{f_{ij}}(C \setminus i)}{\sum_j v_j\, |(C \setminus i)_j|}

    over the clusterings that label item i: the item consensus of Monti et al. [1]_, which ``calcICL`` of
    ConsensusClusterPlus gives. Their cluster consensus is :func:`cluster_density`. Never builds a matrix over items.
    Parameters are those of :func:`density`; other copies of an item are among its cluster's items.

    Returns
    -------
    ItemConsensus
        ``own``, ``other``, ``nearest`` and ``role`` of each item, and ``margin``.

    References
    ----------
    .. [1] S. Monti, P. Tamayo, J. Mesirov, T. Golub, "Consensus clustering: a resampling-based method for class
       discovery and visualization of gene expression microarray data", Machine Learning 52, 2003,
       https://doi.org/10.1023/A:1023949509487

    Examples
    --------
    >>> import coassoc as ca
    >>> found = ca.item_consensus([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])
    >>> found.own.tolist(), found.other.tolist()
    ([1.0, 1.0, 0.5, 0.5], [0.25, 0.25, 0.5, 0.0])
    """
    ensemble = check_ensemble(X)
    codes, k = check_labels(labels, ensemble.n_samples)
    copies = check_copies(sample_weight, ensemble.n_samples)
    v = resolve_partition_weights(partition_weights, ensemble, copies, engine)
    counts = counts_of(ensemble, codes, k, copies, engine)
    labelled = codes >= 0
    counted = labelled if copies is None else labelled & (copies > 0)
    n = ensemble.n_samples
    own, other, nearest = np.zeros(n), np.zeros(n), np.full(n, -1, dtype=np.int32)
    for part, above, below, weight in _sums(ensemble, counts.alpha, v):
        # an item is not compared with itself: subtract one copy of it from its cluster
        there = np.flatnonzero(counted[part])
        at = there, codes[part][there]
        above[at] -= weight[there]
        below[at] -= weight[there]
        # the difference of equal sums may be a rounding error
        strengths = np.clip(np.divide(above, below, out=np.zeros_like(above), where=below > 1e-9), 0.0, 1.0)
        there = np.flatnonzero(labelled[part])
        at = there, codes[part][there]
        own[part][there] = strengths[at]
        if k > 1:
            strengths[at] = -1.0
            nearest[part][there] = best = strengths.argmax(axis=1)[there]
            other[part][there] = strengths[there, best]
    role = np.where(other >= 0.5 * own, BOUNDARY, CORE).astype(np.int8)
    role[~labelled | (own < 0.5 * cluster_densities(counts, v)[codes]) | (counts.sizes[codes] < 2)] = OUTLIER
    return ItemConsensus(own, other, nearest, role)


def cluster_recovery(X: Any, labels: Any, *, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    r"""How well each cluster is found again in the clusterings: the mean of its best Jaccard index in each.

    .. math:: \frac1p \sum_j \max_{f \in j} \frac{|C \cap f|}{|C \cup f|}

    on the items clustering j labels; clusterings that label nothing of C are left out. Unlike the density it falls when
    base clusters reach beyond C, so it says whether C is a cluster of its own or a piece of one. Hennig [1]_ computes
    the same index over bootstrap samples (``clusterboot`` of the R package fpc). Parameters are those of
    :func:`density`.

    Returns
    -------
    ndarray of shape (n_clusters,)
        In the sorted order of labels; between 0 and 1.

    References
    ----------
    .. [1] C. Hennig, "Cluster-wise assessment of cluster stability", Computational Statistics & Data Analysis 52,
       2007, https://doi.org/10.1016/j.csda.2006.11.025

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.cluster_recovery([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1]).round(3).tolist()
    [0.833, 0.75]
    """
    counts = scored_counts(X, labels, sample_weight, None, engine)[0]
    best = np.zeros(counts.cells.shape)  # in each partition; 0 where it labels nothing of the cluster
    for j, (start, stop) in enumerate(itertools.pairwise(counts.layout.offsets)):
        alpha = counts.alpha[start:stop]
        union = alpha.sum(axis=1, keepdims=True) + counts.cells[j] - alpha
        best[j] = np.divide(alpha, union, out=np.zeros(alpha.shape), where=union > 0).max(axis=0)
    total = np.cumsum(best, axis=0)[-1]  # one after the other, whatever the number of clusters
    return total / np.maximum((counts.cells > 0).sum(axis=0), 1)


# -- base clusters -------------------------------------------------------------------------------------------------


def cluster_uncertainty(X: Any, *, theta: float = THETA, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    r"""Weight of each base cluster: 1 when no other partition splits it, smaller the more they do.

    .. math:: ECI(f) = \exp\Big(-\frac{E(f)}{\theta p}\Big), \qquad
              E(f) = -\sum_m \sum_{g \in m} q_{fg} \log_2 q_{fg}

    with :math:`q_{fg}` the share of f's items, among those partition m labels, that lie in its cluster g [1]_.

    Parameters
    ----------
    X, sample_weight, engine
        As for :func:`density`.
    theta : float, default=0.4
        How fast the weight falls.

    Returns
    -------
    ndarray of shape (d,)
        Weights in (0, 1], in the order of ``ensemble.offsets``.

    References
    ----------
    .. [1] D. Huang, C.-D. Wang and J.-H. Lai, "Locally weighted ensemble clustering", IEEE Transactions on
       Cybernetics 48(5), 2018, https://doi.org/10.1109/TCYB.2017.2702343

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.metrics.cluster_uncertainty([[0, 0], [0, 0], [1, 0], [1, 1]]).round(3).tolist()
    [1.0, 0.287, 0.317, 1.0]
    """
    ensemble = check_ensemble(X)
    with resolve(engine, ensemble).load(ensemble, check_copies(sample_weight, ensemble.n_samples)) as rows:
        return uncertainty_from_overlap(rows.overlap(), rows.layout.offsets, theta)


def uncertainty_from_overlap(overlap: np.ndarray, offsets: np.ndarray, theta: float = THETA) -> np.ndarray:
    """ECI of every base cluster from HᵀH; partitions that label no item of f are ignored."""
    if not (math.isfinite(theta) and theta > 0):
        raise ValueError(f"theta must be a positive number, got {theta!r}.")
    # terms in fixed point: their sum depends neither on the order of clusters nor on how the overlap lies in memory
    entropy = np.zeros(len(overlap), dtype=np.int64)
    for start, stop in itertools.pairwise(offsets.tolist()):
        block = overlap[:, start:stop].astype(np.float64)
        whole = block.sum(axis=1, keepdims=True)
        share = np.divide(block, whole, out=np.zeros_like(block), where=whole > 0)
        terms = share * np.log2(np.where(share > 0, share, 1.0))
        entropy -= np.rint(np.ldexp(terms, _BITS)).astype(np.int64).sum(axis=1)
    return np.exp(-np.ldexp(entropy.astype(np.float64), -_BITS) / (theta * (len(offsets) - 1)))


# -- strengths -----------------------------------------------------------------------------------------------------


def membership_strengths(ensemble: Ensemble, alpha: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Mean co-association of rows with the clusters whose counts are `alpha`, shape (n_samples, k)."""
    together = np.empty((ensemble.n_samples, alpha.shape[1]))
    for part, above, below, _ in _sums(ensemble, alpha, v):
        together[part] = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return together


def _sums(ensemble: Ensemble, alpha: np.ndarray, v: np.ndarray) -> Iterator[tuple[slice, Any, Any, Any]]:
    """For rows in parts: Σ_j v_j α_f(C) and Σ_j v_j n_Cj, (rows, k) each, and Σ_j v_j, where j labels the row."""
    cells = v[:, None] * np.add.reduceat(alpha, ensemble.offsets[:-1], axis=0)
    weighted = np.repeat(v, ensemble.n_clusters)[:, None] * alpha
    step = max(1, _CHUNK_CELLS // max(alpha.shape[1], 1))
    for start, stop in row_chunks(ensemble.codes):
        for first in range(start, stop, step):
            part = slice(first, min(first + step, stop))
            observed = ensemble.observed(part)
            yield part, ensemble.one_hot(rows=part) @ weighted, observed @ cells, observed @ v
