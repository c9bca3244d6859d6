"""Three consensus methods on micro-clusters: average linkage of strong ties or with local weights, and k-means.

All work on small matrices (m, m) over the m micro-clusters, in float64 and in a fixed order.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..core.checks import stream
from .linkage import Merges, agglomerate
from .micro import MicroClusters
from .similarity import cluster_sums

THETA = 0.4  # local weights are exp(-entropy / THETA), the constant of the literature
LEAST_SHARE = 0.05  # of n / k: a smaller group is an outlier and does not count as a cluster of a cut
_STARTS, _PASSES = 10, 50  # k-means
_POLISH_PASSES = 20  # k-means passes after average linkage
CANDIDATES = {"average": "average linkage", "lwea": "locally weighted average linkage", "kmeans": "k-means"}


class CutTree:
    """Average linkage of micro-clusters, and its cuts."""

    def __init__(self, together: np.ndarray, observed: np.ndarray, sizes: np.ndarray, complete: bool):
        # without missing labels, the pairs observed are products of sizes, up to a factor
        self.sizes, self._together, self._observed = sizes, together, None if complete else observed
        upper = np.triu_indices(len(sizes), 1)
        pairs = None if complete else observed[upper]
        self.merges = _smallest_first(agglomerate(together[upper], sizes, "average", observed=pairs), sizes)
        scale = float(observed[0, 0]) / float(sizes[0]) ** 2 if complete else 1.0
        # of the merge that leaves k clusters at position k - 1; at the end, that of equal rows
        self.similarity = np.append(self.merges.similarity[::-1] / scale, 1.0)

    @cached_property
    def _joined(self) -> np.ndarray:
        """Items of the two clusters that each merge joins (2, m - 1)."""
        size = self.sizes.copy()
        found = np.zeros((2, len(self.merges.first)), np.int64)
        for step, (a, b) in enumerate(zip(self.merges.first.tolist(), self.merges.second.tolist())):
            found[:, step] = size[a], size[b]
            size[a] += size[b]
        return found

    def cut(self, k: int) -> np.ndarray:
        """The coarsest cut with k clusters of at least LEAST_SHARE · n / k items; smaller groups join the nearest.

        The plain cut where there is no such level.
        """
        least = LEAST_SHARE * float(self.sizes.sum()) / k
        first, second = self._joined
        more = (first >= least).astype(int) + (second >= least) - (first + second >= least)
        levels = np.flatnonzero(1 + np.cumsum(more[::-1]) == k)  # large clusters after undoing 1, 2, ... merges
        if k == 1 or not len(levels):
            return self.merges.labels(k)
        labels = self.merges.labels(int(levels[0]) + 2)
        size = np.bincount(labels, weights=self.sizes)
        if size.min() >= least:
            return labels
        keep = np.flatnonzero(size >= least)
        together = _grouped(self._together, labels)
        observed = np.outer(size, size) if self._observed is None else _grouped(self._observed, labels)
        near = np.divide(together, observed, out=np.zeros_like(together), where=observed > 0)
        home = keep[np.argmax(near[:, keep], axis=1)]
        home[keep] = keep
        return np.unique(home[labels], return_inverse=True)[1]


def _smallest_first(merges: Merges, sizes: np.ndarray) -> Merges:
    """The same merges down to similarity 0; at 0, where linkage cannot tell, the two smallest clusters merge."""
    start = int(np.searchsorted(-merges.similarity, 0.0))  # similarities fall
    if start >= len(merges.first) - 1:
        return merges
    left = dict(enumerate(sizes.tolist()))
    for a, b in zip(merges.first[:start].tolist(), merges.second[:start].tolist()):
        left[a] += left.pop(b)
    first, second = merges.first.copy(), merges.second.copy()
    for step in range(start, len(first)):
        a, b = sorted(sorted(left, key=lambda c: (left[c], c))[:2])
        first[step], second[step] = a, b
        left[a] += left.pop(b)
    return Merges(first, second, merges.similarity, merges.n_ties)


def _indicator(labels: np.ndarray, k: int) -> np.ndarray:
    member = np.zeros((len(labels), k))
    member[np.arange(len(labels)), labels] = 1.0
    return member


def _grouped(square: np.ndarray, labels: np.ndarray) -> np.ndarray:
    member = _indicator(labels, int(labels.max()) + 1)
    return member.T @ square @ member


class WeightedMicro:
    """Micro-clusters under one set of partition weights; matrices and trees are made when first needed."""

    def __init__(self, micro: MicroClusters, weights: np.ndarray, cluster_entropy: np.ndarray, seed: int):
        self.micro, self.weights, self.cluster_entropy, self.seed = micro, weights, cluster_entropy, seed

    def fit(self, name: str, k: int) -> np.ndarray:
        """Cluster of each micro-cluster by one of CANDIDATES; k clusters, except that k-means may end with fewer."""
        if k >= self.micro.n_leaves:
            return np.arange(self.micro.n_leaves)
        if name == "kmeans":
            return _without_empty(self._kmeans(k))
        if name == "lwea":
            return self._local_tree.cut(k)
        return self.passes_from(self._strong_tree.cut(k), k)

    def passes_from(self, labels: np.ndarray, k: int) -> np.ndarray:
        """K-means passes from a partition of the micro-clusters; no cluster is lost."""
        return _passes(self.gram, self.micro.sizes, labels, k, _POLISH_PASSES, keep_all=True)[0]

    def plain_tree(self) -> CutTree:
        """Average linkage; not kept, since it is large and used once."""
        return self._tree()

    @cached_property
    def _local_tree(self) -> CutTree:
        return self._tree(self.local_weights())

    @cached_property
    def _strong_tree(self) -> CutTree:
        """Of the fourth power of the similarity: a few strong ties count more than many weak ones."""
        return self._tree(strong=True)

    def _tree(self, cluster_weights: np.ndarray | None = None, strong: bool = False) -> CutTree:
        counts = self.micro.counts
        weights = self.weights
        together, observed = cluster_sums(counts.alpha, counts.cells, counts.layout, weights, None, cluster_weights)
        if strong:
            square = np.square(np.divide(together, observed, out=np.zeros_like(together), where=observed > 0))
            together = square * square * observed
        return CutTree(together, observed, counts.sizes, bool((counts.cells == counts.sizes).all()))

    def local_weights(self) -> np.ndarray:
        """exp(-mean entropy / THETA) of each base cluster, its entropy averaged over partitions with their weights."""
        return np.exp(-(self.cluster_entropy @ self.weights) / (THETA * self.weights.sum()))

    @cached_property
    def gram(self) -> np.ndarray:
        """Inner products (m, m) of the mean rows of H of the micro-clusters, partitions weighted."""
        counts, total = self.micro.counts, np.zeros((self.micro.n_leaves, self.micro.n_leaves))
        share = counts.alpha / np.maximum(counts.cells, 1)[self.micro.partition_of]
        for j, (a, b) in enumerate(zip(counts.layout.offsets[:-1], counts.layout.offsets[1:])):
            total += self.weights[j] * (share[a:b].T @ share[a:b])
        return (total + total.T) / 2.0

    def _kmeans(self, k: int) -> np.ndarray:
        """K-means: greedy seeding, the best of several starts."""
        rng = stream(self.seed, 4)
        best_loss, best = np.inf, np.zeros(self.micro.n_leaves, dtype=np.int64)
        for _ in range(_STARTS):
            seeds = _seeds(self.gram, self.micro.sizes, k, rng)
            start = (2.0 * self.gram[:, seeds] - np.diagonal(self.gram)[seeds]).argmax(axis=1)
            labels, loss = _passes(self.gram, self.micro.sizes, start, k, _PASSES, keep_all=False)
            if loss < best_loss:
                best_loss, best = loss, labels
        return best


def _passes(
    gram: np.ndarray, sizes: np.ndarray, labels: np.ndarray, k: int, max_iter: int, keep_all: bool
) -> tuple[np.ndarray, float]:
    """K-means passes from a labelling, and the loss at their end; centers are known by their inner products.

    With `keep_all` the passes stop before a cluster would be lost; else an empty cluster keeps its center.
    """
    share = np.zeros((len(sizes), k))  # of each micro-cluster in each center
    for _ in range(max_iter):
        member = _indicator(labels, k) * sizes[:, None]
        total = member.sum(axis=0)
        share = np.where(total > 0, member / np.maximum(total, 1.0), share)
        products = gram @ share
        score = 2.0 * products - (share * products).sum(axis=0)
        moved = score.argmax(axis=1)
        if (moved == labels).all() or (keep_all and len(np.unique(moved)) < k):
            break
        labels = moved
    loss = (sizes * (np.diagonal(gram) - score[np.arange(len(labels)), labels])).sum()
    return labels, float(loss)


def _seeds(gram: np.ndarray, sizes: np.ndarray, k: int, rng: np.random.Generator) -> list[int]:
    """Greedy k-means++: three draws for each center, the one that lowers the loss most."""
    norms = np.diagonal(gram)

    def distances(i: int) -> np.ndarray:
        return np.maximum(norms + norms[i] - 2.0 * gram[:, i], 0.0)

    chosen = [int(rng.choice(len(sizes), p=sizes / sizes.sum()))]
    nearest = distances(chosen[0])
    for _ in range(k - 1):
        mass = nearest * sizes
        if mass.sum() <= 0:
            chosen.append(int(rng.integers(len(sizes))))
            continue
        drawn = rng.choice(len(sizes), size=3, p=mass / mass.sum())
        after = [np.minimum(nearest, distances(i)) for i in drawn]
        best = int(np.argmin([(sizes * one).sum() for one in after]))
        chosen.append(int(drawn[best]))
        nearest = after[best]
    return chosen


def _without_empty(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1]
