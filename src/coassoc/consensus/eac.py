"""EAC and LWEA: evidence accumulation by linkage of the co-association, over distinct rows or over micro-clusters."""

from __future__ import annotations

import itertools
import numbers
import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..engines import Engine, Rows
from ..ensemble import Ensemble
from ..ensemble.generate import one_thread
from ..metrics.labels import check_copies
from ..metrics.membership import THETA
from .base import ConsensusEstimator, host_ensemble, inherit_docs, look_up, mark_unlabelled, where_codes_are
from .linkage import (
    LINKAGES,
    SQUARES,
    Merges,
    agglomerate,
    cluster_sums,
    jaccard_graph,
    row_similarities,
    walk_similarity,
    weighted_rows,
)
from .lloyd import warn_if_fewer
from .micro import MANY_MICRO_CLUSTERS, MICRO_PASSES, check_micro_clusters, different_in_sample, micro_clusters
from .spectral import Sample

_BLOCKS = 1 << 25  # bytes of blocks while similarities are filled


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
    {n_clusters}
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
    {engine} {verbose}

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels, numbered by first appearance among the leaves; −1 for items without a label in any partition,
        and for items of weight 0 whose row no other item has.
    {n_clusters_} {density_}
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
    at worst), and 4·u² bytes. With m micro-clusters: one k-means start of at most 30 passes, on a sample above 100 000
    items, and m² sums of counts.

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
            if not isinstance(height, numbers.Real) or height != height:
                raise TypeError(f"height must be a number, got {height!r}.")
            k = self.n_leaves_ - int(np.searchsorted(self.linkage_[:, 2], float(height), side="right"))
        k = check_integer(k, "k")
        if k > self.n_leaves_:
            raise ValueError(f"k={k} is larger than the {self.n_leaves_} leaves of the tree.")
        return look_up(np.append(self._merges.labels(k), -1).astype(np.int32), self.leaf_of_item_)

    def _link_rows(self, ensemble: Ensemble, rows: Rows, copies: np.ndarray | None, v: np.ndarray) -> bool:
        """Link the distinct rows; False when that needs more than `max_bytes`."""
        sample = different_in_sample(rows, seed_from(self.random_state))
        if sample is not None and _linkage_bytes(len(sample)) > self.max_bytes:
            return False  # known from the sample, before all rows are fetched
        given, ensemble = ensemble, host_ensemble(ensemble)
        first, weights, leaf_of_item = weighted_rows(ensemble, copies)
        leaf_of_item = where_codes_are(leaf_of_item, given)
        n_bytes = _linkage_bytes(len(weights))
        if n_bytes > self.max_bytes:
            return False
        if self.verbose:
            print(f"EAC: {len(weights)} distinct rows, {n_bytes} bytes")
        codes = np.ascontiguousarray(ensemble.codes[first])
        u = self._cluster_weights(rows)
        triangle, scale = row_similarities(codes, rows.layout, ensemble.has_missing, v, self._blocks(rows), u)
        if self.linkage == "average" and (weights != 1).any():
            _weigh(triangle, weights)
        self._finish(agglomerate(triangle, weights, self.linkage), weights, scale, leaf_of_item)
        return True

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
        merges = agglomerate(triangle, counts.sizes, self.linkage, pairs)
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
            cosine = walk_similarity(jaccard_graph(rows.overlap()))
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


def _linkage_bytes(n_leaves: int) -> int:
    """Bytes that exact linkage of so many rows needs."""
    return _BLOCKS + 8 * (n_leaves * (n_leaves - 1) // 2)


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
