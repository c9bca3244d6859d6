"""MCLA and CSPA: graph partitioning of base clusters, or of items, with METIS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..core.checks import check_integer, seed_from
from ..core.counts import Counts, Layout, ScoreTable
from ..core.objectives import fix_table
from ..engines import Engine, Labelling, Rows
from ..ensemble import Ensemble
from ..ensemble.gpu import beside
from ..metrics.labels import check_copies
from .base import ConsensusEstimator, PredictMixin, host_ensemble, inherit_docs, look_up, where_codes_are
from .linkage import cluster_sums, jaccard_graph, weighted_rows
from .lloyd import warn_if_fewer
from .micro import MANY_MICRO_CLUSTERS, MICRO_PASSES, different_in_sample, micro_clusters

_EDGE_BYTES = 48  # index and weight of an edge, here and in METIS's coarser copies
_PIECES = 20  # an average cluster has at least so many vertices, so that parts can be balanced


@inherit_docs
class MCLA(PredictMixin):
    r"""Meta-clustering: base clusters are grouped into meta-clusters, items go where most of their labels are.

    The graph of base clusters has the Jaccard indices :math:`|f \cap g| / |f \cup g|` as edge weights; METIS cuts it
    into k meta-clusters M. An item goes to the meta-cluster with the highest association, the share of its base
    clusters that the item belongs to (:math:`|M \cap i| / |M|`), the lowest one on ties.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of meta-clusters. One that wins no item is placed anew, on the labels of the item with the lowest
        association, until all have items.
    at_most : bool, default=False
        Leave out meta-clusters that win no item instead, as in the publication: fewer clusters are common then.
    max_bytes : int, default=2147483648
        Largest memory that the graph may need; more is an error.
    {random_state} {engine} {verbose}

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    meta_clusters_ : ndarray of shape (n_codes,)
        Consensus label of each base cluster; −1 where its meta-cluster has no item.
    {n_features_in_}

    Notes
    -----
    Two passes over the items, O(n_samples * n_partitions²) and O(n_samples * n_partitions * n_clusters), and a graph
    of at most n_codes² edges. METIS gets Jaccard indices in whole percent; an index that rounds to 0 is no edge.

    References
    ----------
    .. [1] A. Strehl, J. Ghosh, "Cluster ensembles: a knowledge reuse framework for combining multiple partitions",
       JMLR 3, 2002, https://www.jmlr.org/papers/v3/strehl02a.html

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], ca.MCLA(2, random_state=0).fit_predict(table)).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self, n_clusters: int = 8, *, at_most: bool = False, max_bytes: int = 1 << 31, random_state: Any = None,
        engine: Any = "auto", verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.at_most = at_most
        self.max_bytes = max_bytes
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = check_integer(self.n_clusters, "n_clusters")
        load_pymetis()
        seed = _metis_seed(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, _):
            d = ensemble.n_codes
            need = (16 + _EDGE_BYTES) * d * d
            if need > self.max_bytes:
                raise MemoryError(
                    f"MCLA over {d} base clusters needs up to {need} bytes, above max_bytes={self.max_bytes}; raise "
                    "max_bytes, or use HBGF or LWGP, which keep no pairs of base clusters."
                )
            overlap = rows.overlap()
            present = np.flatnonzero(np.diagonal(overlap))
            if self.at_most:
                warn_if_fewer(k, len(present), "base clusters")
            asked, k = k, min(k, len(present))
            graph = mcla_graph(overlap[np.ix_(present, present)])
            if self.verbose:
                print(f"MCLA: {len(present)} base clusters, {graph.nnz // 2} edges")
            meta = np.full(d, -1, dtype=np.int64)
            meta[present] = partition_graph(graph, np.ones(len(present), np.int64), k, seed)

            members = meta[:, None] == np.arange(k)
            tries = 0 if self.at_most else 2 * k
            members, origin, labelling = place_items(rows, members, tries, association_table)
            filled = np.flatnonzero(rows.counts(labelling).sizes)
            # meta-clusters without items are never the best, so dropping them changes no label
            table = association_table(members[:, filled], rows.layout)
            labelling = rows.labelling(len(filled))
            rows.assign(labelling, table)
            self._keep_model(ensemble, table)
            self._store_partition(
                ensemble, rows.labels(labelling), rows.counts(labelling), np.ones(ensemble.n_partitions)
            )
            label_of = {set_: label for label, set_ in enumerate(origin[filled].tolist()) if set_ >= 0}
            self.meta_clusters_ = np.array([label_of.get(set_, -1) for set_ in meta.tolist()], dtype=np.int64)
            if not self.at_most:
                warn_if_fewer(asked, self.n_clusters_, "meta-clusters that get an item")


@inherit_docs
class CSPA(ConsensusEstimator):
    r"""Cluster-based similarity partitioning: METIS on the co-association graph of the items.

    Items with equal rows form one vertex, weighted by their number. The edge between two vertices is the sum of the
    co-occurrences over their pairs of items, so a cut has the same cost as in the graph of all items. METIS balances
    the weight of the parts; rows that weigh more than a twentieth of an average cluster are therefore split into
    several vertices.

    Parameters
    ----------
    {n_clusters}
    max_bytes : int, default=2147483648
        Largest memory that the graph of distinct rows may need; above, the vertices are 1000 micro-clusters, or
        5 * `n_clusters` when that is more, and the items of one stay together.
    {random_state} {engine} {verbose}

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition, and for items of weight 0.
    {n_clusters_} {density_}
    n_vertices_, n_micro_clusters_ : int
        Vertices of the graph; how many micro-clusters these were, 0 when they were rows.
    {n_features_in_}

    Notes
    -----
    With u vertices, time and memory grow with the number of pairs that share a base cluster, at most u²; with
    micro-clusters, time is linear in the number of items. Parts have nearly equal sizes, so items with equal rows may
    be in different parts. An item of weight m is in one part, where m copies of its row could be in several.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], ca.CSPA(2, random_state=0).fit_predict(table)).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self, n_clusters: int = 8, *, max_bytes: int = 1 << 31, random_state: Any = None, engine: Any = "auto",
        verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.max_bytes = max_bytes
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = check_integer(self.n_clusters, "n_clusters")
        load_pymetis()
        seed = _metis_seed(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            self.n_micro_clusters_ = 0
            of_rows = self._parts_of_rows(ensemble, rows, sample_weight, k, seed)
            part, vertex = of_rows or self._parts_of_micro_clusters(rows, engine, sample_weight, k, seed)
            present, part = np.unique(part, return_inverse=True)
            labels = look_up(np.append(part, -1).astype(np.int32), vertex)
            counts = rows.counts(rows.labelling(len(present), np.maximum(labels, 0)))
            self._keep_model(ensemble, None)
            self._store_partition(ensemble, labels, counts, np.ones(ensemble.n_partitions))

    def _parts_of_rows(
        self, ensemble: Ensemble, rows: Rows, sample_weight: Any, k: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Part of each vertex and vertex of each item (−1: none); None when the graph is above `max_bytes`."""
        sample = different_in_sample(rows, seed)
        if sample is not None and _edge_bytes(Ensemble.from_codes(sample, ensemble.n_clusters)) > self.max_bytes:
            return None
        given, ensemble = ensemble, host_ensemble(ensemble)
        vertex, first, weights = vertices(ensemble, check_copies(sample_weight, ensemble.n_samples), k)
        chosen = ensemble.take(first)
        if _edge_bytes(chosen) > self.max_bytes:
            return None
        part = self._cut(cspa_graph(chosen, weights), weights, k, seed)
        return part, where_codes_are(vertex, given)

    def _parts_of_micro_clusters(
        self, rows: Rows, engine: Engine, sample_weight: Any, k: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same with micro-clusters in place of rows."""
        micro = micro_clusters(rows, engine, max(MANY_MICRO_CLUSTERS, 5 * k), MICRO_PASSES, seed)
        self.n_micro_clusters_ = micro.n_leaves
        part = self._cut(micro_graph(micro.counts), micro.sizes, k, seed)
        leaf, copies = rows.labels(micro.labelling), check_copies(sample_weight, rows.n_rows, on_gpu=True)
        if copies is not None:
            leaf = leaf.copy()
            leaf[beside(copies, leaf) == 0] = -1
        return part, leaf

    def _cut(self, graph: csr_matrix, weights: np.ndarray, k: int, seed: int) -> np.ndarray:
        warn_if_fewer(k, len(weights), "items")
        self.n_vertices_ = len(weights)
        if self.verbose:
            print(f"CSPA: {len(weights)} vertices, {graph.nnz // 2} edges")
        return partition_graph(graph, weights, min(k, len(weights)), seed)


def mcla_graph(overlap: np.ndarray) -> csr_matrix:
    """Jaccard indices between base clusters in whole percent: METIS takes integer weights."""
    return csr_matrix(np.rint(100.0 * jaccard_graph(overlap)).astype(np.int64))


def place_items(
    rows: Rows, members: np.ndarray, tries: int, table_of: Callable[[np.ndarray, Layout], ScoreTable]
) -> tuple[np.ndarray, np.ndarray, Labelling]:
    """Label the items by the table of sets of base clusters, the columns of `members` (d, k), and fill empty clusters.

    An empty cluster gets the labels of the item with the lowest score as its set, and becomes the first one, which wins
    ties. At most `tries` times. Gives the sets, which of the given ones each is (−1: a new one), and the labels.
    """
    origin, labelling = np.arange(members.shape[1]), rows.labelling(members.shape[1])
    while True:
        table = table_of(members, rows.layout)
        rows.assign(labelling, table)
        empty = np.flatnonzero(rows.counts(labelling).sizes == 0)
        if tries == 0 or not len(empty):
            return members, origin, labelling
        codes, _ = rows.worst_rows(labelling, ScoreTable(-table.values, table.bits), 1)
        fresh = np.zeros((len(members), 1), dtype=bool)
        fresh[rows.layout.columns_of(codes[0])] = True
        members = np.concatenate([fresh, np.delete(members, empty[0], axis=1)], axis=1)
        origin = np.concatenate([[-1], np.delete(origin, empty[0])])
        tries -= 1


def vote_table(members: np.ndarray, layout: Layout) -> ScoreTable:
    """Scores |M ∩ i| of sets M of base clusters, the columns of `members` (d, k)."""
    return ScoreTable(members.astype(np.int32), 0)


def association_table(members: np.ndarray, layout: Layout) -> ScoreTable:
    """Scores |M ∩ i| / |M| of sets M of base clusters, the columns of `members` (d, k)."""
    sizes = members.sum(axis=0)
    filled = np.maximum(sizes, 1)
    multiple = math.lcm(*(int(s) for s in filled))
    if layout.n_partitions * (multiple // int(filled.min()) + 1) < 2**31:  # equal shares are then equal scores
        return ScoreTable((members * (multiple // filled)).astype(np.int32), 0)
    return fix_table(members / filled, layout)


def vertices(ensemble: Ensemble, copies: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertex of each item (−1: none), first item and weight of each. Equal rows share one up to 1/20 of a cluster."""
    _, _, row_of = weighted_rows(ensemble, copies)
    weight = np.ones(ensemble.n_samples, np.int64) if copies is None else copies
    items = np.flatnonzero((weight > 0) & (row_of >= 0))
    items = items[np.argsort(row_of[items], kind="stable")]
    row, before = row_of[items], np.cumsum(weight[items]) - weight[items]
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    before = before - np.repeat(before[starts], np.diff(starts, append=len(row)))
    most = max(1, int(weight[items].sum()) // (_PIECES * k))
    piece = before // most
    new = (np.diff(row, prepend=-1) != 0) | (np.diff(piece, prepend=-1) != 0)
    number = np.cumsum(new) - 1
    vertex = np.full(ensemble.n_samples, -1, dtype=np.int64)
    vertex[items] = number
    return vertex, items[new], np.bincount(number, weights=weight[items]).astype(np.int64)


def cspa_graph(rows: Ensemble, weights: np.ndarray) -> csr_matrix:
    """Co-occurrences between vertices, summed over pairs of items; where labels are missing, p times the share."""
    onehot = rows.one_hot(np.int64)
    together = (onehot @ onehot.T).tocoo()
    apart = together.row != together.col
    i, j, counts = together.row[apart], together.col[apart], together.data[apart]
    if rows.has_missing:
        seen = rows.observed().astype(np.int64)
        step = max(1, (1 << 24) // rows.n_partitions)
        both = np.concatenate(
            [(seen[i[a : a + step]] * seen[j[a : a + step]]).sum(axis=1) for a in range(0, len(i), step)]
            or [np.zeros(0, np.int64)]
        )
        counts = np.maximum(1, np.rint(rows.n_partitions * counts / np.maximum(both, 1))).astype(np.int64)
    values = counts * weights[i] * weights[j]
    return csr_matrix((values, (i, j)), shape=together.shape)


def micro_graph(counts: Counts) -> csr_matrix:
    """Co-occurrences between micro-clusters, summed over their pairs of items; see `cspa_graph`."""
    p = counts.layout.n_partitions
    together, observed = cluster_sums(counts.alpha, counts.cells, counts.layout, np.ones(p))
    mean = np.divide(together, observed, out=np.zeros_like(together), where=observed > 0)
    values = np.rint(p * mean * np.multiply.outer(counts.sizes, counts.sizes)).astype(np.int64)
    np.fill_diagonal(values, 0)
    return csr_matrix(values)


def _edge_bytes(vertices: Ensemble) -> int:
    """Bound on the memory of a graph over the rows of an ensemble."""
    return _EDGE_BYTES * min(vertices.n_samples**2, int((vertices.sizes.astype(object) ** 2).sum()))


def _metis_seed(random_state: Any) -> int:
    return int(np.random.SeedSequence(seed_from(random_state)).generate_state(1)[0]) >> 1


def load_pymetis() -> Any:
    """The pymetis module, or an error that says what to install."""
    try:
        import pymetis
    except ImportError as error:
        raise ImportError(
            "MCLA and CSPA partition a graph with METIS, which is not installed; run: pip install 'coassoc[metis]'"
        ) from error
    return pymetis


def partition_graph(graph: csr_matrix, weights: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Part 0..k-1 of each vertex; parts may come out empty.

    METIS does not check its input: `graph` (n, n) must be symmetric, with positive integer weights of edges and no
    diagonal, `weights` (n,) positive integers, and `k` at most n.
    """
    pymetis = load_pymetis()
    n = graph.shape[0]
    if k == 1:
        return np.zeros(n, dtype=np.int64)
    if k == n:
        return np.arange(n, dtype=np.int64)
    graph.sort_indices()
    if graph.nnz == 0:
        return _balance(weights, k)
    index = np.dtype(getattr(pymetis, "zero_copy_dtype", lambda: np.int32)())
    if graph.nnz > np.iinfo(index).max:
        raise MemoryError(f"the graph has {graph.nnz} edge entries, more than METIS counts with {index}.")
    starts, ends = graph.indptr.astype(index), graph.indices.astype(index)
    arguments = {
        "vweights": _fit(weights, index),
        "eweights": _fit(graph.data, index),
        "options": pymetis.Options(seed=int(seed) % (1 << 31)),
    }
    if hasattr(pymetis, "CSRAdjacency"):
        cut_and_parts = pymetis.part_graph(k, pymetis.CSRAdjacency(starts, ends), **arguments)
    else:  # before 2025.2
        cut_and_parts = pymetis.part_graph(k, xadj=starts, adjncy=ends, **arguments)
    return np.asarray(cut_and_parts[1], dtype=np.int64)


def _fit(weights: np.ndarray, index: np.dtype) -> np.ndarray:
    """Weights scaled down, never to 0, so that their sum is below an eighth of METIS's largest integer."""
    most = int(np.iinfo(index).max) // 8
    total = float(np.sum(weights, dtype=np.float64))
    if total > most:
        share = (most - len(weights)) / total
        if share <= 0:
            raise MemoryError(f"{len(weights)} weights cannot be held by METIS's integers ({index}).")
        weights = np.maximum(1, np.floor(weights * share))
    return np.ascontiguousarray(weights, dtype=index)


def _balance(weights: np.ndarray, k: int) -> np.ndarray:
    """Parts of a graph without edges: heaviest vertex first, into the lightest part."""
    parts, loads = np.zeros(len(weights), dtype=np.int64), np.zeros(k, dtype=np.int64)
    for vertex in np.argsort(-weights, kind="stable"):
        parts[vertex] = np.argmin(loads)
        loads[parts[vertex]] += weights[vertex]
    return parts
