"""Agglomerative linkage of weighted points from their similarities.

Similarities are in a condensed upper triangle, as SciPy's condensed distances, and are updated in place. For average
linkage the triangle holds sums over pairs of items: integer sums are exact, and the similarity of two clusters is one
division, sum / (weight · weight), so equal averages compare equal. A cluster has the lowest index of its points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engines.compiled import kernels as compiled

LINKAGES = ("single", "average", "complete")
_JOIN = {"single": np.maximum, "average": np.add, "complete": np.minimum}  # of two entries of the triangle


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
        points, n_merges = np.arange(self.n_points), self.n_points - k
        owner = points.copy()
        owner[self.second[:n_merges]] = self.first[:n_merges]
        while (owner[owner] != owner).any():
            owner = owner[owner]
        return (np.cumsum(owner == points) - 1)[owner].astype(np.int32)  # the lowest point of a cluster owns it

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


def agglomerate(triangle: np.ndarray, weights: np.ndarray, linkage: str, observed: np.ndarray | None = None) -> Merges:
    """Merge the two most similar clusters until one is left; ties go to the lowest (first, second).

    `triangle` is overwritten, and so is `observed`: for average linkage, what a sum is divided by in place of the
    product of the `weights`, the items at each point. The compiled kernel, which takes no `observed`, keeps the same
    nearest-neighbour array: for each cluster its most similar one of higher index.
    """
    weights = np.array(weights, dtype=np.float64)
    if observed is None and compiled is not None:
        return Merges(*compiled.agglomerate(triangle, weights, LINKAGES.index(linkage)))
    n, alive = len(weights), np.arange(len(weights))
    start = alive * n - alive * (alive + 1) // 2 - alive - 1  # triangle[start[i] + j] is the entry of i < j
    best, nearest = np.full(n, -np.inf), np.full(n, -1)
    first, second = np.zeros((2, n - 1), dtype=np.int64)
    similarity, n_ties = np.zeros(n - 1), 0

    def similarities(cells: np.ndarray, i: int, others: np.ndarray) -> np.ndarray:
        if linkage != "average":
            return triangle[cells]
        if observed is None:
            return triangle[cells] / (weights[i] * weights[others])
        return np.divide(triangle[cells], observed[cells], out=np.zeros(len(cells)), where=observed[cells] > 0)

    def find_nearest(i: int) -> None:
        later = alive[np.searchsorted(alive, i, side="right") :]
        row = similarities(start[i] + later, i, later)
        best[i], nearest[i] = (row.max(), later[row.argmax()]) if len(row) else (-np.inf, -1)

    def is_tied(a: int) -> bool:
        if np.count_nonzero(best == best[a]) > 1:
            return True
        later = alive[np.searchsorted(alive, a, side="right") :]
        return int(np.count_nonzero(similarities(start[a] + later, a, later) == best[a])) > 1

    for i in range(n - 1):
        find_nearest(i)
    for step in range(n - 1):
        a = int(np.argmax(best))
        b = int(nearest[a])
        first[step], second[step], similarity[step] = a, b, best[a]
        n_ties += is_tied(a)
        alive = alive[alive != b]
        best[b], nearest[b] = -np.inf, -1
        others = alive[alive != a]
        to_a = np.where(others < a, start[others] + a, start[a] + others)
        to_b = np.where(others < b, start[others] + b, start[b] + others)
        for values in (triangle,) if observed is None else (triangle, observed):
            values[to_a] = _JOIN[linkage](values[to_a], values[to_b])
        weights[a] += weights[b]
        before = others[others < a]
        now = similarities(start[before] + a, a, before)
        nearest[before[(now > best[before]) | ((now == best[before]) & (nearest[before] > a))]] = a
        for i in np.flatnonzero((nearest == a) | (nearest == b)).tolist():
            find_nearest(i)
        find_nearest(a)
    return Merges(first, second, similarity, n_ties)
