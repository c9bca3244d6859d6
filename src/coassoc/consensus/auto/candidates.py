"""Three consensus methods on micro-clusters: average linkage of strong ties or with local weights, and k-means.

All work on small matrices (m, m) over the m micro-clusters, in float64 and in a fixed order.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from ...core.checks import stream
from ...core.counts import Counts, Layout
from ..linkage import Merges, agglomerate, cluster_sums
from ..micro import MicroClusters

THETA = 0.4  # local weights are exp(-entropy / THETA), the constant of the literature
_STARTS, _PASSES = 10, 50  # k-means
_POLISH_PASSES = 20  # k-means passes after average linkage
LINKAGES = ("average", "lwea")
CANDIDATES = {"average": "average linkage", "lwea": "locally weighted average linkage", "kmeans": "k-means"}


class MicroFits:
    """Fits of the candidates to micro-clusters; matrices and trees are made when first needed.

    `counts` are those of the clusterings in use, and `cluster_entropy` (d, p) is aligned with them.
    """

    def __init__(self, counts: Counts, cluster_entropy: np.ndarray, seed: int):
        self.counts, self.cluster_entropy, self.seed = counts, cluster_entropy, seed

    @classmethod
    def of(cls, micro: MicroClusters, used: np.ndarray, cluster_entropy: np.ndarray, seed: int) -> MicroFits:
        """With the clusterings that are True in `used`; `used` and `cluster_entropy` are in the order of the rows."""
        kept = used[micro.partitions]
        codes = np.repeat(kept, micro.layout.n_clusters)
        layout = Layout.of_sizes(micro.layout.n_clusters[kept])
        counts = Counts(np.ascontiguousarray(micro.counts.alpha[codes]), micro.sizes, layout)
        return cls(counts, cluster_entropy[np.ix_(micro.codes[codes], micro.partitions[kept])], seed)

    @property
    def sizes(self) -> np.ndarray:
        return self.counts.sizes

    @property
    def n_leaves(self) -> int:
        return self.counts.n_clusters

    def fit(self, name: str, k: int, least: float = 0.0) -> np.ndarray:
        """Cluster of each micro-cluster by one of CANDIDATES; k clusters, but k-means may end with fewer.

        Groups of fewer than `least` items join a larger one in linkage, and there may be fewer clusters then.
        """
        if k >= self.n_leaves:
            return np.arange(self.n_leaves)
        if name == "kmeans":
            return np.unique(self._kmeans(k), return_inverse=True)[1]
        labels = self._tree_of(name).cut(k, least)
        k = int(labels.max()) + 1
        if name == "lwea":
            return labels
        polished, _ = _passes(self.gram, self.sizes, labels, k, _POLISH_PASSES, keep_all=True)
        too_small = np.bincount(polished, weights=self.sizes).min() < least
        return labels if too_small else polished

    def n_absorbed(self, name: str, k: int, least: float) -> int:
        """Items in groups that linkage found apart and that joined a larger cluster."""
        if name not in LINKAGES or k >= self.n_leaves:
            return 0
        _, size = self._tree_of(name).groups(k, least)
        return int(size[size < least].sum())

    def _tree_of(self, name: str) -> CutTree:
        return self._local_tree if name == "lwea" else self.strong_tree

    @cached_property
    def _local_tree(self) -> CutTree:
        """Average linkage in which a co-occurrence counts by how certain the base cluster is."""
        return self._tree(np.exp(-self.cluster_entropy.mean(axis=1) / THETA))

    @cached_property
    def strong_tree(self) -> CutTree:
        """Of the fourth power of the similarity: a few strong ties count more than many weak ones."""
        return self._tree(strong=True)

    def _tree(self, cluster_weights: np.ndarray | None = None, strong: bool = False) -> CutTree:
        counts = self.counts
        equal = np.ones(counts.layout.n_partitions)
        together, observed = cluster_sums(counts.alpha, counts.cells, counts.layout, equal, None, cluster_weights)
        if strong:
            square = np.square(np.divide(together, observed, out=np.zeros_like(together), where=observed > 0))
            together = square * square * observed
        return CutTree(together, observed, counts.sizes, bool((counts.cells == counts.sizes).all()))

    @cached_property
    def gram(self) -> np.ndarray:
        """Inner products (m, m) of the mean rows of H of the micro-clusters."""
        counts, layout = self.counts, self.counts.layout
        share = counts.alpha / np.maximum(counts.cells, 1).repeat(layout.n_clusters, axis=0)
        total = share.T @ share
        return (total + total.T) / 2.0

    @cached_property
    def sizes_apart(self) -> np.ndarray:
        """Sizes of the groups that no clustering joins, of items that some clustering labels together."""
        labelled = (self.counts.cells > 0).astype(np.float64)
        _, group = connected_components((self.gram > 0) | (labelled.T @ labelled == 0), directed=False)
        return np.bincount(group, weights=self.sizes)

    def eigenvalues(self, count: int) -> np.ndarray:
        """Leading eigenvalues, largest first, of the normalised graph of micro-clusters and base clusters, squared."""
        ties = self.counts.alpha.astype(np.float64)
        rows, columns = np.maximum(ties.sum(axis=1), 1.0), np.maximum(ties.sum(axis=0), 1.0)
        scaled = ties / np.sqrt(rows)[:, None] / np.sqrt(columns)
        square, m, keep = scaled.T @ scaled, self.n_leaves, min(count, self.n_leaves)
        values = eigh((square + square.T) / 2.0, eigvals_only=True, subset_by_index=(m - keep, m - 1))
        return np.concatenate([values[::-1], np.zeros(count - keep)])

    def _kmeans(self, k: int) -> np.ndarray:
        """K-means: greedy seeding, the best of several starts."""
        gram, rng = self.gram, stream(self.seed, 4)
        best_loss, best = np.inf, np.zeros(self.n_leaves, dtype=np.int64)
        for _ in range(_STARTS):
            seeds = _seeds(gram, self.sizes, k, rng)
            start = (2.0 * gram[:, seeds] - np.diagonal(gram)[seeds]).argmax(axis=1)
            labels, loss = _passes(gram, self.sizes, start, k, _PASSES, keep_all=False)
            if loss < best_loss:
                best_loss, best = loss, labels
        return best


class CutTree:
    """Average linkage of micro-clusters, and its cuts."""

    def __init__(self, together: np.ndarray, observed: np.ndarray, sizes: np.ndarray, complete: bool):
        # without missing labels, the pairs observed are products of sizes, up to a factor
        self.sizes, self._together, self._observed = sizes, together, None if complete else observed
        upper = np.triu_indices(len(sizes), 1)
        pairs = None if complete else observed[upper]
        self.merges = _smallest_first(agglomerate(together[upper], sizes, "average", observed=pairs), sizes)

    @cached_property
    def _joined(self) -> np.ndarray:
        """Items of the two clusters that each merge joins (2, m - 1)."""
        size = self.sizes.copy()
        joined = np.zeros((2, len(self.merges.first)), np.int64)
        for step, (a, b) in enumerate(zip(self.merges.first.tolist(), self.merges.second.tolist())):
            joined[:, step] = size[a], size[b]
            size[a] += size[b]
        return joined

    def groups(self, k: int, least: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Groups of the coarsest cut with k clusters of at least `least` items, or the most below, and their sizes."""
        first, second = self._joined
        more = (first >= least).astype(int) + (second >= least) - (first + second >= least)
        n_large = np.concatenate([[1], 1 + np.cumsum(more[::-1])])  # large clusters after undoing 0, 1, 2, ... merges
        labels = self.merges.labels(int(np.argmax(np.where(n_large <= k, n_large, 0))) + 1)
        return labels, np.bincount(labels, weights=self.sizes)

    def cut(self, k: int, least: float = 0.0) -> np.ndarray:
        """The large clusters of `groups`; the others join them by similarity."""
        if k >= len(self.sizes):
            return np.arange(len(self.sizes))
        labels, size = self.groups(k, least)
        if size.min() >= least or size.max() < least:
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
    chosen = [int(rng.choice(len(sizes), p=sizes / sizes.sum()))]
    nearest = np.maximum(norms + norms[chosen[0]] - 2.0 * gram[:, chosen[0]], 0.0)
    for _ in range(k - 1):
        mass = np.cumsum(nearest * sizes)
        if mass[-1] <= 0:
            chosen.append(int(rng.integers(len(sizes))))
            continue
        drawn = np.searchsorted(mass, rng.random(3) * mass[-1], side="right")
        after = np.minimum(nearest, np.maximum(norms + norms[drawn, None] - 2.0 * gram[drawn], 0.0))
        best = int(np.argmin((after * sizes).sum(axis=1)))
        chosen.append(int(drawn[best]))
        nearest = after[best]
    return chosen
