"""EAC and LWEA: evidence accumulation by agglomerative linkage of weighted points from their similarities.

Similarities are in a condensed upper triangle, as SciPy's condensed distances, and are updated in place. For average
linkage the triangle holds sums over pairs of items: integer sums are exact, and the similarity of two clusters is one
division, sum / (weight · weight), so equal averages compare equal. A cluster has the lowest index of its points.
"""

from __future__ import annotations

import itertools
import math
import numbers
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..core.counts import smallest_unsigned
from ..engines import Engine, Rows
from ..engines.compiled import kernels as compiled
from ..ensemble import Ensemble
from ..ensemble.threads import one_thread
from ..metrics.labels import check_copies
from ..metrics.membership import THETA
from .base import ConsensusEstimator, host_ensemble, inherit_docs, look_up, mark_unlabelled, where_codes_are
from .lloyd import warn_if_fewer
from .micro import MANY_MICRO_CLUSTERS, MICRO_PASSES, check_micro_clusters, different_in_sample, micro_clusters
from .similarity import SQUARES, cluster_sums, jaccard_graph, row_similarities, walk_similarity, weighted_rows
from .spectral import Sample

LINKAGES = ("single", "average", "complete")
_JOIN = {"single": np.maximum, "average": np.add, "complete": np.minimum}  # of two entries of the triangle
_STEPS = 20  # of random walks, for enhanced similarities
_CELLS = 1 << 20  # of rows compared at a time
_BLOCKS = 1 << 25  # bytes of blocks while similarities are filled


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


def agglomerate(
    triangle: np.ndarray, weights: np.ndarray, linkage: str, *, observed: np.ndarray | None = None, kernels: bool = True
) -> Merges:
    """Merge the two most similar clusters until one is left; ties go to the lowest (first, second).

    `triangle` is overwritten, and so is `observed`: for average linkage, what a sum is divided by in place of the
    product of the `weights`, the items at each point. `kernels` allows compiled code, with the same result.
    """
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if kernels and observed is None and compiled is not None:
        return Merges(*compiled.agglomerate(triangle, weights, LINKAGES.index(linkage)))
    return _agglomerate(triangle, weights, linkage, observed)


def _agglomerate(triangle: np.ndarray, weights: np.ndarray, linkage: str, observed: np.ndarray | None) -> Merges:
    """The kernel in NumPy, with a nearest-neighbour array: for each cluster its most similar one of higher index."""
    n, weights, alive = len(weights), weights.copy(), np.arange(len(weights))
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


def row_counts(codes: np.ndarray) -> np.ndarray:
    """Number of partitions in which two rows of codes agree, plus 1, shape (n, n); linkage also writes 0."""
    n, p = codes.shape
    counts = np.ones((n, n), dtype=smallest_unsigned(p + 2))
    columns = np.ascontiguousarray(codes.T)
    rows = max(1, _CELLS // max(1, n))
    for a in range(0, n, rows):
        block = counts[a : a + rows]
        equal = np.empty(block.shape, dtype=bool)
        for column in columns:
            np.equal(column[a : a + rows, None], column[None, :], out=equal)
            np.add(block, equal.view(np.uint8), out=block)
    return counts


def single_linkage(counts: np.ndarray) -> Merges:
    """The merges of `agglomerate` with single linkage in O(n²) time, from a square matrix of integers.

    `counts` are similarities plus 1, symmetric, whatever the diagonal holds. They are overwritten: the row of a cluster
    holds its largest similarity to every point, 0 for its own. Ties are merged in order of index: a cluster first
    absorbs all clusters tied with it, lowest first.
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


@inherit_docs
class EAC(ConsensusEstimator):
    r"""Evidence accumulation clustering: hierarchical linkage of the co-association matrix.

    The distance of two items is :math:`1 - A_{ii'}`, with :math:`A_{ii'}` the share of clusterings that put them
    together, among those that label both. Items with equal label rows have distance 0, so the linkage runs over the
    distinct rows, each weighted by how often it occurs. This gives the same tree as linkage over all items.

    With ``enhanced=True``, a partition that separates two items contributes the similarity of their two clusters
    instead of 0.

    Parameters
    ----------
    n_clusters : int, default=8
        Clusters of ``labels_``.
    linkage : {"average", "single", "complete"}, default="average"
        Similarity of two clusters: mean, largest or smallest co-association over their pairs.
    enhanced : bool, default=False
        Replace absent pairs by the similarity of their clusters: the cosine of the 1..20-step random-walk
        trajectories on the Jaccard graph of base clusters.
    micro_clusters : int, "auto" or None, default=None
        Over-segment into this many clusters with :class:`KMeansConsensus` first, and link those by their pooled
        co-association :math:`D(C, C')`: linear in n, for any n. ``"auto"``: 100, or 5 * `n_clusters` when that is
        more. None: exact within `max_bytes`, else 1000, or 5 * `n_clusters` when that is more. Micro-clusters
        approximate average linkage well, single and complete linkage badly: these warn where None leads to them.
    max_bytes : int, default=2147483648
        Largest memory that an exact linkage may need; above, micro-clusters are linked.
    {partition_weights}
    random_state : int, Generator, RandomState or None, default=None
        Seed of the over-segmentation. Exact linkage is not random.
    {engine}
    verbose : int, default=0
        Print the number of leaves and what they take.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels, numbered by first appearance among the leaves; −1 for items without a label in any partition,
        and for items of weight 0 whose row no other item has.
    n_clusters_ : int
        Clusters of ``labels_``: fewer than asked for when there are fewer leaves.
    {density_}
    linkage_ : ndarray of shape (n_leaves - 1, 4)
        SciPy linkage over the leaves; heights are 1 − similarity.
    leaf_of_item_, leaf_sizes_ : ndarray of shape (n_samples,), ndarray of shape (n_leaves,)
        Leaf of each item, −1 for items without one; items at each leaf, copies counted.
    n_leaves_, n_micro_clusters_ : int
        Leaves (distinct rows in order of first appearance, or micro-clusters); micro-clusters, 0 when exact.
    n_ties_ : int
        Merges at which another pair was exactly as similar. The pair with the lowest leaves is merged first.
    {n_features_in_}

    Notes
    -----
    Exact, with u distinct rows: O(u² · n_partitions) for the similarities, O(u²) typically for the linkage (O(u³)
    at worst), and 4·u² bytes; for single linkage of plain counts O(u²) and, up to 254 partitions, u² bytes. With m
    micro-clusters: one k-means start of at most 30 passes, on a sample above 100 000 items, and m² sums of counts.

    References
    ----------
    .. [1] A. Fred, A. K. Jain, "Combining multiple clusterings using evidence accumulation", IEEE TPAMI, 2005,
       https://doi.org/10.1109/TPAMI.2005.113
    .. [2] D. Huang et al., "Enhanced ensemble clustering via fast propagation of cluster-wise similarities", IEEE
       TSMC: Systems, 2021, https://doi.org/10.1109/TSMC.2018.2876202

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> tree = ca.EAC(n_clusters=2).fit(table)
    >>> tree.labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    >>> tree.linkage_.tolist()
    [[1.0, 2.0, 0.5, 2.0], [0.0, 3.0, 1.0, 3.0]]
    """

    def __init__(
        self, n_clusters: int = 8, *, linkage: str = "average", enhanced: bool = False, micro_clusters: Any = None,
        max_bytes: int = 1 << 31, partition_weights: Any = None, random_state: Any = None, engine: Any = "auto",
        verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.linkage = linkage
        self.enhanced = enhanced
        self.micro_clusters = micro_clusters
        self.max_bytes = max_bytes
        self.partition_weights = partition_weights
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = check_integer(self.n_clusters, "n_clusters")
        check_choice(self.linkage, "linkage", LINKAGES)
        micro = check_micro_clusters(self.micro_clusters, k)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            self.n_micro_clusters_ = 0
            if micro is None or not self._link_micro_clusters(ensemble, rows, engine, v, micro):
                copies = check_copies(sample_weight, ensemble.n_samples)
                if not self._link_rows(ensemble, rows, copies, v):
                    if self.linkage != "average":  # micro-clusters are compared by the mean of their pairs
                        warnings.warn(
                            f"linkage={self.linkage!r} is not exact here: the different rows need more than max_bytes="
                            f"{self.max_bytes}, so micro-clusters are linked, and the result can be far from that of "
                            "the items. Raise max_bytes, or use linkage='average', which they approximate well.",
                            stacklevel=3,
                        )
                    self._link_micro_clusters(ensemble, rows, engine, v, max(MANY_MICRO_CLUSTERS, 5 * k), few=True)
            warn_if_fewer(k, self.n_leaves_)
            k = min(k, self.n_leaves_)
            labels = self.cut(k)
            counts = rows.counts(rows.labelling(k, np.maximum(labels, 0)))
            self._keep_model(ensemble, None)
            self._store_partition(ensemble, labels, counts, v)

    def cut(self, k: int | None = None, *, height: float | None = None) -> np.ndarray:
        """A partition from the tree.

        Parameters
        ----------
        k : int, optional
            Number of clusters, from 1 to ``n_leaves_``; exactly as many are returned, also where merges tie.
        height : float, optional
            Instead of k: undo the merges above this height (1 − similarity).

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> import coassoc as ca
        >>> tree = ca.EAC(2).fit([[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]])
        >>> tree.cut(3).tolist(), tree.cut(height=0.6).tolist()
        ([0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 1])
        """
        check_is_fitted(self)
        if (k is None) == (height is None):
            raise TypeError(f"cut takes either k or height, got k={k!r}, height={height!r}.")
        if height is not None:
            if not isinstance(height, numbers.Real) or math.isnan(float(height)):
                raise TypeError(f"height must be a number, got {height!r}.")
            k = self.n_leaves_ - int(np.searchsorted(self.linkage_[:, 2], float(height), side="right"))
        k = check_integer(k, "k")
        if k > self.n_leaves_:
            raise ValueError(f"k={k} is larger than the {self.n_leaves_} leaves of the tree.")
        return look_up(np.append(self._merges.labels(k), -1).astype(np.int32), self.leaf_of_item_)

    def _link_rows(self, ensemble: Ensemble, rows: Rows, copies: np.ndarray | None, v: np.ndarray) -> bool:
        """Link the distinct rows; False when that needs more than `max_bytes`."""
        plain = not self.enhanced and not ensemble.has_missing and (v == 1.0).all()
        square = plain and self.linkage == "single"
        sample = different_in_sample(rows, seed_from(self.random_state))
        if sample is not None and self._bytes(len(sample), square, len(v)) > self.max_bytes:
            return False  # known from the sample, before all rows are fetched
        given, ensemble = ensemble, host_ensemble(ensemble)
        first, weights, leaf_of_item = weighted_rows(ensemble, copies)
        leaf_of_item = where_codes_are(leaf_of_item, given)
        n_bytes = self._bytes(len(weights), square, len(v))
        if n_bytes > self.max_bytes:
            return False
        if self.verbose:
            print(f"EAC: {len(weights)} distinct rows, {n_bytes} bytes")
        codes = np.ascontiguousarray(ensemble.codes[first])
        if square:
            self._finish(single_linkage(row_counts(codes)), weights, float(ensemble.n_partitions), leaf_of_item)
            return True
        u = self._cluster_weights(rows)
        triangle, scale = row_similarities(codes, rows.layout, ensemble.has_missing, v, self._blocks(rows), u)
        if self.linkage == "average" and (weights != 1).any():
            _weigh(triangle, weights)
        self._finish(agglomerate(triangle, weights, self.linkage), weights, scale, leaf_of_item)
        return True

    def _bytes(self, n_leaves: int, square: bool, n_partitions: int) -> int:
        """What exact linkage of so many rows needs."""
        cell = smallest_unsigned(n_partitions + 2).itemsize
        return _BLOCKS + (n_leaves**2 * cell if square else 8 * (n_leaves * (n_leaves - 1) // 2))

    def _link_micro_clusters(
        self, ensemble: Ensemble, rows: Rows, engine: Engine, v: np.ndarray, m: int, few: bool = False
    ) -> bool:
        """Link micro-clusters. False, with nothing linked, when fewer than `m` rows differ, unless `few` allows it."""
        seed = seed_from(self.random_state)
        micro = micro_clusters(rows, engine, m, MICRO_PASSES, seed, v, "EAC" if self.verbose else "")
        if micro.few_rows and not few:
            return False
        self.n_micro_clusters_ = micro.n_leaves
        leaf_of_item = mark_unlabelled(rows.labels(micro.labelling), ensemble)
        counts = micro.in_given_order(micro.counts, rows.layout)
        u = self._cluster_weights(rows)
        together, observed = cluster_sums(counts.alpha, counts.cells, rows.layout, v, self._blocks(rows), u)
        upper = np.triu_indices(micro.n_leaves, 1)
        triangle, pairs = together[upper], observed[upper]
        if self.linkage != "average":
            triangle = np.divide(triangle, pairs, out=np.zeros_like(triangle), where=pairs > 0)
        merges = agglomerate(triangle, counts.sizes, self.linkage, observed=pairs)
        self._finish(merges, counts.sizes, 1.0, leaf_of_item)
        return True

    def _blocks(self, rows: Rows) -> list[np.ndarray] | None:
        if not self.enhanced:
            return None
        need = SQUARES * 8 * rows.layout.n_codes**2
        if need > self.max_bytes:
            raise MemoryError(
                f"EAC(enhanced=True) over {rows.layout.n_codes} base clusters needs {need} bytes, above "
                f"max_bytes={self.max_bytes}; raise max_bytes, or set enhanced=False."
            )
        with one_thread("blas"):  # sums of floats depend on the number of threads
            cosine = walk_similarity(jaccard_graph(rows.overlap()), _STEPS)
        # clusters of one clustering share no item: the walks compare what they overlap with in the others
        return [cosine[a:b, a:b] for a, b in itertools.pairwise(rows.layout.offsets)]

    def _cluster_weights(self, rows: Rows) -> np.ndarray | None:
        """How much a co-occurrence in each base cluster counts (d,); None: 1 each."""
        return None

    def _finish(self, merges: Merges, weights: np.ndarray, scale: float, leaf_of_item: np.ndarray) -> None:
        self._merges = merges
        self.n_leaves_ = merges.n_points
        self.n_ties_ = merges.n_ties
        self.linkage_ = merges.linkage(scale)
        self.leaf_sizes_ = np.asarray(weights)
        self.leaf_of_item_ = leaf_of_item


def _weigh(triangle: np.ndarray, weights: np.ndarray) -> None:
    """Turn similarities of rows into sums over pairs of items, in place: times both multiplicities."""
    n, stop = len(weights), 0
    factors = weights.astype(np.float64)
    for i in range(n - 1):
        start, stop = stop, stop + n - 1 - i
        triangle[start:stop] *= factors[i] * factors[i + 1 :]


@inherit_docs
class LWEA(EAC):
    r"""Locally weighted evidence accumulation: average linkage in which certain base clusters count more.

    A co-occurrence in base cluster f counts :math:`ECI(f)`, which falls as the other clusterings cut f into more pieces
    (see :func:`coassoc.metrics.cluster_uncertainty`). Items are over-segmented by :class:`KMeansConsensus` first, and
    the micro-clusters are linked by their mean weighted co-association: linear in the number of items.

    Parameters
    ----------
    {n_clusters}
    micro_clusters : int, "auto" or None, default="auto"
        Clusters of the over-segmentation. ``"auto"``: 100, or 5 * `n_clusters` when that is more. None, or fewer
        distinct rows than that: exact linkage of the distinct rows, if it needs no more than 2 GiB.
    {partition_weights}
    random_state : int, Generator, RandomState or None, default=None
        Seed of the over-segmentation and of the sample that the weights come from.
    {engine} {verbose}
    theta : float, default=0.4
        How fast the weight of a base cluster falls with its uncertainty.

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    {linkage_} {leaf_of_item_} {n_leaves_} {n_ties_}
    cluster_weights_ : ndarray of shape (d,)
        ECI of each base cluster.
    {n_features_in_}

    Notes
    -----
    As `EAC` with micro-clusters. Weights come from at most two million labels (items times partitions), evenly spread.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.LWEA(n_clusters=2).fit(table).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self, n_clusters: int = 8, *, micro_clusters: Any = "auto", partition_weights: Any = None,
        random_state: Any = None, engine: Any = "auto", verbose: int = 0, theta: float = THETA,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, micro_clusters=micro_clusters, partition_weights=partition_weights, random_state=random_state,
            engine=engine, verbose=verbose,
        )  # fmt: skip
        self.theta = theta

    def _cluster_weights(self, rows: Rows) -> np.ndarray:
        sample = Sample(rows, stream(seed_from(self.random_state), 0))
        self.cluster_weights_ = sample.uncertainty(self.theta)
        return self.cluster_weights_
