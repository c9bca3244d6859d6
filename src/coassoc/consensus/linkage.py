"""Agglomerative linkage of weighted points, and similarities of label rows, clusters and base clusters.

Linkage takes a condensed upper triangle, as SciPy's condensed distances, and updates it in place. For average linkage
the triangle holds sums over pairs of items: integer sums are exact, and the similarity of two clusters is one division,
sum / (weight · weight), so equal averages compare equal. A cluster has the lowest index of its points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.counts import Layout, smallest_unsigned
from ..engines.compiled import kernels as compiled
from ..ensemble import Ensemble

LINKAGES = ("single", "average", "complete")
SQUARES = 10  # arrays of d² numbers that `walk_similarity` holds at a time
_BLOCK = 1 << 20  # cells computed at a time
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


def weighted_rows(ensemble: Ensemble, copies: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different rows: first item of each (ascending), its number of items, and the row of each item.

    Items without a label and items of multiplicity 0 add no row; their row is that of an equal item, or −1.
    """
    _, _, inverse = ensemble.distinct()
    weight = np.ones(ensemble.n_samples, np.int64) if copies is None else copies.copy()
    absent = ensemble.unlabelled()
    if absent is not None:
        weight[absent] = 0
    items = np.flatnonzero(weight)
    present, first = np.unique(inverse[items], return_index=True)
    order = np.argsort(first)
    row_of = np.full(int(inverse.max()) + 1, -1, dtype=np.int64)
    row_of[present[order]] = np.arange(len(order))
    row = row_of[inverse]
    weights = np.bincount(row[items], weights=weight[items], minlength=len(order)).astype(np.int64)
    return items[first[order]], weights, row


def jaccard_graph(overlap: np.ndarray) -> np.ndarray:
    """Jaccard index between base clusters from HᵀH, 0 on the diagonal: J = O_fg / (O_ff + O_gg − O_fg)."""
    sizes = np.diagonal(overlap)
    union = sizes[:, None] + sizes[None, :] - overlap
    graph = np.divide(overlap, union, out=np.zeros(overlap.shape), where=union > 0)
    np.fill_diagonal(graph, 0.0)
    return graph


def walk_similarity(graph: np.ndarray, steps: int = 20) -> np.ndarray:
    """Cosine between the trajectories of random walks on a symmetric graph, for every two nodes.

    With P the step matrix, Σ_s P^s (P^s)ᵀ comes from one eigendecomposition of the symmetric normalised graph.
    """
    degree = graph.sum(axis=1)
    root = np.sqrt(degree)
    scale = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    values, vectors = np.linalg.eigh((scale[:, None] * graph) * scale)
    middle = vectors.T @ (degree[:, None] * vectors)
    ratio = np.multiply.outer(values, values)
    powers = np.ones_like(ratio)
    for _ in range(steps - 1):  # Horner's rule, in place: ratio + ratio² + ... + ratio^steps
        powers *= ratio
        powers += 1.0
    middle *= powers
    middle *= ratio
    del ratio, powers
    vectors *= scale[:, None]
    product = vectors @ middle @ vectors.T
    norms = np.sqrt(np.maximum(np.diagonal(product), 0.0))
    bound = np.multiply.outer(norms, norms)
    cosine = np.divide(product, bound, out=np.zeros_like(product), where=bound > 0)
    cosine = np.clip((cosine + cosine.T) / 2.0, 0.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    return cosine


def row_similarities(
    codes: np.ndarray,
    layout: Layout,
    has_missing: bool,
    v: np.ndarray,
    blocks: list[np.ndarray] | None = None,
    cluster_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Condensed similarities between rows of codes, and the value that means similarity 1.

    Σ_j v_j M_j[code, code'] over the partitions that label both rows, with M_j the identity (raw) or the similarity
    of clusters (enhanced, `blocks`), its entries scaled by √(u_f u_g) when `cluster_weights` u (d,) are given. Where
    labels are missing it is divided by Σ_j v_j over the partitions that label both.

    Raw, unweighted and without missing labels the values are integers from 0 to p, counted by compiled code if any.
    """
    n, p = codes.shape
    triangle = np.empty(n * (n - 1) // 2)
    at = 0  # in the triangle
    columns = np.ascontiguousarray(codes.T)
    counting = blocks is None and cluster_weights is None and bool((v == 1.0).all())
    if counting and not has_missing and compiled is not None and p <= np.iinfo(codes.dtype).max:
        compiled.co_occurrences(columns, triangle)
        return triangle, float(p)
    kind = smallest_unsigned(p + 1) if counting else np.dtype(np.float64)
    tables = [] if counting else [_table(j, layout, v, blocks, cluster_weights) for j in range(p)]
    rows = max(1, _BLOCK // max(1, n))
    for a in range(0, n, rows):
        total = np.zeros((min(rows, n - a), n - a), dtype=kind)
        pairs = np.zeros(total.shape if has_missing else 0, dtype=kind)
        for j in range(p):
            left, right = columns[j, a : a + rows], columns[j, a:]
            if has_missing:
                seen = (left != layout.n_clusters[j])[:, None] & (right != layout.n_clusters[j])
                pairs += seen.view(np.uint8) if counting else v[j] * seen
            if counting:
                equal = left[:, None] == right
                total += (equal & seen if has_missing else equal).view(np.uint8)
            else:
                total += np.take(tables[j][left], right, axis=1)
        values = np.divide(total, pairs, out=np.zeros(total.shape), where=pairs > 0) if has_missing else total
        for i, row in enumerate(values, a):
            triangle[at : at + n - 1 - i] = row[i - a + 1 :]
            at += n - 1 - i
    return triangle, 1.0 if has_missing else float(v.sum())


def _table(j: int, layout: Layout, v, blocks, cluster_weights) -> np.ndarray:
    """v_j M_j with a row and a column of zeros for a missing label."""
    k = int(layout.n_clusters[j])
    table = np.zeros((k + 1, k + 1))
    table[:k, :k] = np.eye(k) if blocks is None else blocks[j]
    if cluster_weights is not None:
        u = cluster_weights[layout.offsets[j] : layout.offsets[j + 1]]
        scaling = np.sqrt(u[:, None] * u)
        np.fill_diagonal(scaling, u)  # exactly
        table[:k, :k] *= scaling
    return v[j] * table


def cluster_sums(
    alpha: np.ndarray,
    cells: np.ndarray,
    layout: Layout,
    v: np.ndarray,
    blocks: list[np.ndarray] | None = None,
    cluster_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Similarity and observed pairs (k, k) summed over the pairs of items of every two clusters, from their counts."""
    k, counts = alpha.shape[1], alpha.astype(np.float64)
    together, observed, equal = np.zeros((k, k)), np.zeros((k, k)), (v == 1.0).all()
    if equal:  # integers, so exact in any order
        observed = cells.T.astype(np.float64) @ cells
    if equal and blocks is None:
        together = counts.T @ (counts if cluster_weights is None else cluster_weights[:, None] * counts)
        return (together + together.T) / 2.0, observed
    for j in np.argsort(v, kind="stable"):
        own = slice(layout.offsets[j], layout.offsets[j + 1])
        part = counts[own]
        if blocks is None:
            product = part.T @ (part if cluster_weights is None else cluster_weights[own, None] * part)
        else:
            product = part.T @ (_table(j, layout, np.ones_like(v), blocks, cluster_weights)[:-1, :-1] @ part)
        together += v[j] * (product + product.T) / 2.0
        if not equal:
            observed += v[j] * np.outer(cells[j], cells[j]).astype(np.float64)
    return together, observed
