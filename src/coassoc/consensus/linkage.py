"""Agglomerative linkage of weighted points from their similarities.

Similarities are in a condensed upper triangle, in the order of SciPy's condensed distances, and are updated in place.
For average linkage the triangle holds sums over pairs of items. Integer sums are exact, and the similarity of two
clusters is one division, sum / (weight · weight), so equal averages compare equal. The index of a cluster is the
lowest index of its points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engines.compiled import kernels as compiled

LINKAGES = ("single", "average", "complete")


@dataclass(frozen=True)
class Merges:
    """The merges of a linkage, in order."""

    first: np.ndarray  # (n - 1,) lowest index of one cluster
    second: np.ndarray  # (n - 1,) lowest index of the other, larger than `first`
    similarity: np.ndarray  # (n - 1,)
    n_ties: int  # merges at which another pair was equally similar

    @property
    def n_points(self) -> int:
        return len(self.first) + 1

    def labels(self, k: int) -> np.ndarray:
        """The partition into exactly k clusters, numbered by their lowest point."""
        owner = np.arange(self.n_points)
        for a, b in zip(self.first[::-1][k - 1 :][::-1], self.second[::-1][k - 1 :][::-1]):
            owner[b] = a
        for point in range(self.n_points):  # an owner has a lower index, so its own owner is final
            owner[point] = owner[owner[point]]
        return np.unique(owner, return_inverse=True)[1].astype(np.int32)

    def linkage(self, scale: float) -> np.ndarray:
        """SciPy's linkage matrix over the points, with heights 1 − similarity / scale."""
        n = self.n_points
        name, points = np.arange(n), np.ones(n)
        matrix = np.zeros((n - 1, 4))
        for row, (a, b) in enumerate(zip(self.first, self.second)):
            points[a] += points[b]
            matrix[row, :2] = sorted((name[a], name[b]))
            matrix[row, 3] = points[a]
            name[a] = n + row
        # where sums are not integers, rounding may make equal heights fall by an ulp
        matrix[:, 2] = np.maximum.accumulate(np.maximum(1.0 - self.similarity / scale, 0.0))
        return matrix


def condensed_length(n: int) -> int:
    return n * (n - 1) // 2


def row_starts(n: int) -> np.ndarray:
    """Offsets b such that triangle[b[i] + j] is the entry of i < j."""
    i = np.arange(n, dtype=np.int64)
    return i * n - i * (i + 1) // 2 - i - 1


def agglomerate(
    triangle: np.ndarray,
    weights: np.ndarray,
    linkage: str,
    *,
    observed: np.ndarray | None = None,
    kernels: bool = True,
) -> Merges:
    """Merge the two most similar clusters until one is left; ties go to the lowest (first, second).

    Parameters
    ----------
    triangle : ndarray of float64, shape (n(n-1)/2,)
        Similarities, or their sums over pairs of items for average linkage. Overwritten.
    weights : ndarray of shape (n,)
        Items at each point.
    linkage : {"single", "average", "complete"}
    observed : ndarray like `triangle`, optional
        For average linkage, what a sum is divided by instead of the product of the weights. Overwritten.
    kernels : bool, default=True
        Use the compiled kernel where there is one; the result is the same.
    """
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if kernels and observed is None and compiled is not None:
        return Merges(*compiled.agglomerate(triangle, weights, LINKAGES.index(linkage)))
    return _Agglomeration(triangle, weights, linkage, observed).run()


class _Agglomeration:
    """Linkage with a nearest-neighbour array: for each cluster its most similar cluster of higher index.

    A merge never raises the similarity to a third cluster, so a stored similarity stays an upper bound. It is
    recomputed only when it is the largest.
    """

    def __init__(self, triangle, weights, linkage, observed):
        n = len(weights)
        self.n, self.triangle, self.observed, self.linkage = n, triangle, observed, linkage
        self.weights = weights.copy()
        self.start = row_starts(n)
        self.alive = np.arange(n)
        self.best = np.full(n, -np.inf)
        self.nearest = np.zeros(n, dtype=np.int64)
        self.stale = np.zeros(n, dtype=bool)
        for i in range(n - 1):
            self._look(i)

    def run(self) -> Merges:
        first, second = np.zeros((2, self.n - 1), dtype=np.int64)
        similarity = np.zeros(self.n - 1)
        n_ties = 0
        for step in range(self.n - 1):
            a = self._top()
            b = int(self.nearest[a])
            first[step], second[step], similarity[step] = a, b, self.best[a]
            n_ties += self._tied(a)
            self._merge(a, b)
        return Merges(first, second, similarity, n_ties)

    def _top(self) -> int:
        while True:
            i = int(np.argmax(self.best))
            if not self.stale[i]:
                return i
            self._look(i)

    def _tied(self, a: int) -> bool:
        """Whether a pair other than (a, nearest of a) is equally similar."""
        value = self.best[a]
        for i in np.flatnonzero(self.best == value).tolist():
            if i != a:
                if self.stale[i]:
                    self._look(i)
                if self.best[i] == value:
                    return True
        return int(np.count_nonzero(self._row(a) == value)) > 1

    def _row(self, i: int) -> np.ndarray:
        """Similarities of i to the remaining clusters of higher index."""
        later = self.alive[np.searchsorted(self.alive, i, side="right") :]
        cells = self.start[i] + later
        return self._similarity(cells, i, later)

    def _similarity(self, cells, i, others) -> np.ndarray:
        values = self.triangle[cells]
        if self.linkage != "average":
            return values
        if self.observed is None:
            return values / (self.weights[i] * self.weights[others])
        pairs = self.observed[cells]
        return np.divide(values, pairs, out=np.zeros_like(values), where=pairs > 0)

    def _look(self, i: int) -> None:
        row = self._row(i)
        self.stale[i] = False
        if not len(row):
            self.best[i] = -np.inf
            return
        position = int(np.argmax(row))
        self.best[i] = row[position]
        self.nearest[i] = self.alive[np.searchsorted(self.alive, i, side="right") + position]

    def _merge(self, a: int, b: int) -> None:
        self.alive = np.delete(self.alive, np.searchsorted(self.alive, b))
        self.best[b] = -np.inf
        others = self.alive[self.alive != a]
        to_a = np.where(others < a, self.start[others] + a, self.start[a] + others)
        to_b = np.where(others < b, self.start[others] + b, self.start[b] + others)
        if self.linkage == "single":
            self.triangle[to_a] = np.maximum(self.triangle[to_a], self.triangle[to_b])
        elif self.linkage == "complete":
            self.triangle[to_a] = np.minimum(self.triangle[to_a], self.triangle[to_b])
        else:
            self.triangle[to_a] += self.triangle[to_b]
            if self.observed is not None:
                self.observed[to_a] += self.observed[to_b]
        self.weights[a] += self.weights[b]

        # clusters between a and b store neighbours of higher index only: b was one of them, a is not
        between = others[(others > a) & (others < b)]
        self.stale[between[self.nearest[between] == b]] = True
        before = others[others < a]
        if len(before):
            self._update_before(before, a, b)
        self._look(a)

    def _update_before(self, before: np.ndarray, a: int, b: int) -> None:
        """Update clusters before `a`: the merged cluster is their new nearest, or their similarity is now a bound."""
        new = self._similarity(self.start[before] + a, a, before)
        best, nearest = self.best[before], self.nearest[before]
        lost = ((nearest == a) | (nearest == b)) & ~self.stale[before]
        as_good = (new == best) & ~self.stale[before] & (lost | (a < nearest))
        taken = (new > best) | as_good
        chosen = before[taken]
        self.nearest[chosen], self.best[chosen], self.stale[chosen] = a, new[taken], False
        self.stale[before[lost & ~taken]] = True


def single_linkage(counts: np.ndarray) -> Merges:
    """The merges of `agglomerate` with single linkage, from a square matrix of integers, without compiled code.

    The row of a cluster holds its largest similarity to every point. A merge takes the maximum of two rows and
    changes no column. Ties are merged in order of index: a cluster first absorbs all clusters tied with it, lowest
    first, then the next cluster follows. O(n²) time and memory.

    Parameters
    ----------
    counts : ndarray of unsigned integers, shape (n, n)
        Similarities plus 1, symmetric; the diagonal is ignored. Overwritten: 0 marks the points of a cluster.
    """
    n = len(counts)
    np.fill_diagonal(counts, 0)
    best = counts.max(axis=1)  # largest similarity of each cluster; 0 once it is merged into another
    owner = np.arange(n)
    first, second = np.zeros((2, n - 1), dtype=np.int64)
    similarity = np.zeros(n - 1)
    step = n_levels = 0
    while step < n - 1:
        level = int(best.max())
        n_levels += 1
        for a in np.flatnonzero(best == level).tolist():
            if best[a] == 0:
                continue
            row = counts[a]
            while (tied := np.flatnonzero(row == level)).size:
                b = int(owner[tied].min())
                first[step], second[step], similarity[step] = a, b, level - 1.0
                step += 1
                np.maximum(row, counts[b], out=row)
                owner[owner == b] = a
                row[owner == a] = 0
                best[b] = 0
            best[a] = row.max()
    return Merges(first, second, similarity, n - 1 - n_levels)  # the last merge of each level had no tie
