"""HBGF, LWGP and ECPCS: spectral consensus from the overlap of base clusters, linear in the number of items."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.checks import check_integer, seed_from, stream
from ..core.counts import Layout, ScoreTable
from ..engines import Rows
from ..ensemble import Ensemble
from ..ensemble.ensemble import distinct_rows, row_chunks
from ..metrics.labels import check_copies
from .base import ConsensusEstimator
from .lloyd import TooFewRows
from .similarity import jaccard_graph
from .weights import THETA, uncertainty_from_overlap

_DENSE = 3000  # base clusters up to which all of the spectrum is computed
_SAMPLE = 25_000  # items the embedding is clustered on; all others get the nearest centre
_MAX_BYTES = 1 << 32  # HᵀH beyond this is refused


class _SpectralConsensus(ConsensusEstimator):
    """Shared by the methods that embed items by the eigenvectors of base clusters."""

    def _graph(self, ensemble: Ensemble, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Weights u (d,) of base clusters and G = Bᵀ D_X⁻¹ B (d, d), with B_if = u_f."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None):
        """Find the consensus partition.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            The base partitions.
        y : None
            Ignored, for scikit-learn's sake.
        sample_weight : array-like of int, default=None
            How often each item counts; 0 removes it.

        Returns
        -------
        self
        """
        k = check_integer(self.n_clusters, "n_clusters")
        n_init = check_integer(self.n_init, "n_init")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, _):
            check_overlap_size(rows.layout)
            weights, graph = self._graph(ensemble, rows)
            vectors, self.eigenvalues_ = leading_vectors(graph, k, seed)
            self._vectors = weights[:, None] * vectors
            copies = check_copies(sample_weight, ensemble.n_samples)
            self._centres = self._cluster(ensemble, copies, k, n_init, seed)
            self._keep_model(ensemble, None)
            labels = nearest_centres(ensemble, self._vectors, self._centres)
            counts = rows.counts(rows.labelling(k, labels))
            self._store_partition(ensemble, labels, counts, np.ones(ensemble.n_partitions))
            return self

    def _cluster(self, ensemble: Ensemble, copies, k: int, n_init: int, seed: int) -> np.ndarray:
        """Centres of k-means on the embedding of the different rows among all items, or among a sample of them."""
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits

        taking = np.ones(ensemble.n_samples, dtype=bool) if copies is None else copies > 0
        absent = ensemble.unlabelled()
        if absent is not None:
            taking[absent] = False
        items = np.flatnonzero(taking)
        if len(items) > _SAMPLE:
            items = np.sort(stream(seed, 3).choice(items, _SAMPLE, replace=False))
        codes = ensemble.codes[items]
        first, counts, inverse = distinct_rows(codes)
        if copies is not None:
            counts = np.bincount(inverse, weights=copies[items])
        if len(first) < k:
            raise TooFewRows(k, len(first))
        points = embed(codes[first], _layout(ensemble), self._vectors)
        model = KMeans(k, n_init=n_init, random_state=int(stream(seed, 4).integers(2**31)))
        # one thread: sums would otherwise depend on how many there are
        with threadpool_limits(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # different rows may share an embedding
            return model.fit(points, sample_weight=counts.astype(np.float64)).cluster_centers_

    def predict(self, X: Any) -> np.ndarray:
        """Consensus label of each row of base labels: the nearest centre in the embedding.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            New rows; labels unseen at fit count as missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            −1 for rows without a single known label. On the rows of `fit` this is ``labels_``.
        """
        X = self._check_new_rows(X)
        ensemble = self._vocabulary.ensemble_of(X)
        if ensemble is None:
            return np.full(X.shape[0] if hasattr(X, "shape") else len(X), -1, dtype=np.int32)
        labels = nearest_centres(ensemble, self._vectors, self._centres)
        absent = ensemble.unlabelled()
        if absent is not None:
            labels[absent] = -1
        return labels


class HBGF(_SpectralConsensus):
    r"""Consensus by cutting the bipartite graph of items and base clusters.

    Items and base clusters are the nodes, an item is tied to each of its labels, and the graph is cut into
    `n_clusters` parts by normalised cut. The cut transfers to the side of the base clusters: with :math:`B` the
    weights of the ties, :math:`D_X = \mathrm{diag}(B 1)`, :math:`G = B^T D_X^{-1} B` and
    :math:`D_Y = \mathrm{diag}(G 1)`, the leading eigenvectors :math:`u` of :math:`D_Y^{-1/2} G D_Y^{-1/2}` give an item
    the embedding :math:`D_X^{-1} B D_Y^{-1/2} u`, which k-means clusters. For :math:`B = H` without missing labels
    :math:`G = H^T H / p`: the overlap of base clusters is all it needs.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters in the consensus.
    n_init : int, default=10
        Starts of k-means on the embedding.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on one machine; eigenvectors may differ in the last bit elsewhere.
    engine : {"auto", "native", "numpy"} or Engine, default="auto"
        Where the overlap pass runs.
    verbose : int, default=0
        Kept for symmetry with the other methods; nothing is printed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items no partition labels.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Leading eigenvalues, largest first; a gap after the k-th speaks for k clusters.
    density_, cluster_density_, cluster_sizes_
        Scores of ``labels_``.

    See Also
    --------
    LWGP : The same graph with uncertain base clusters weighted down.

    Notes
    -----
    One pass for the overlap, an eigenproblem of the size of d (the number of base clusters, refused when d² numbers
    exceed 4 GiB), k-means on the different rows among at most 25 000 items drawn at random, and one pass that gives
    every item its nearest centre: linear in the number of items, and no n × k array is ever whole in memory.

    References
    ----------
    .. [1] X. Z. Fern and C. E. Brodley, "Solving cluster ensemble problems by bipartite graph partitioning", ICML
       2004, https://doi.org/10.1145/1015330.1015414
    .. [2] Z. Li, X.-M. Wu and S.-F. Chang, "Segmentation using superpixels: a bipartite graph partitioning
       approach", CVPR 2012, https://doi.org/10.1109/CVPR.2012.6247750

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> labels = ca.HBGF(n_clusters=2, random_state=0).fit_predict(table)
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], labels).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(self, n_clusters=8, *, n_init=10, random_state=None, engine="auto", verbose=0):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _graph(self, ensemble: Ensemble, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        u = np.ones(ensemble.n_codes)
        return u, rows.overlap(u) if ensemble.has_missing else rows.overlap() / ensemble.n_partitions


class LWGP(_SpectralConsensus):
    r"""Locally weighted graph partitioning: `HBGF` with uncertain base clusters weighted down.

    A base cluster that the other partitions cut into many pieces is uncertain. Ties to base cluster f weigh
    :math:`ECI(f)` (see :func:`cluster_uncertainty`), and the bipartite graph is cut as in `HBGF`. Items have different
    total weights now, so one more streaming pass is needed, with the factor :math:`1 / \sum_j ECI` per item.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters in the consensus.
    theta : float, default=0.4
        How fast the weight of a base cluster falls with its uncertainty.
    n_init : int, default=10
        Starts of k-means on the embedding.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on one machine; eigenvectors may differ in the last bit elsewhere.
    engine : {"auto", "native", "numpy"} or Engine, default="auto"
        Where the overlap passes run.
    verbose : int, default=0
        Kept for symmetry with the other methods; nothing is printed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items no partition labels.
    cluster_weights_ : ndarray of shape (d,)
        ECI of each base cluster.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Leading eigenvalues, largest first.
    density_, cluster_density_, cluster_sizes_
        Scores of ``labels_``.

    See Also
    --------
    cluster_uncertainty : The weights.
    EAC : With ``cluster_weights`` from `cluster_uncertainty` this is LWEA, the linkage variant.

    Notes
    -----
    As `HBGF`, with a second overlap pass.

    References
    ----------
    .. [1] D. Huang, C.-D. Wang and J.-H. Lai, "Locally weighted ensemble clustering", IEEE Transactions on
       Cybernetics 48(5), 2018, https://doi.org/10.1109/TCYB.2017.2702343

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> labels = ca.LWGP(n_clusters=2, random_state=0).fit_predict(table)
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], labels).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(self, n_clusters=8, *, theta=THETA, n_init=10, random_state=None, engine="auto", verbose=0):
        self.n_clusters = n_clusters
        self.theta = theta
        self.n_init = n_init
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _graph(self, ensemble: Ensemble, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        u = uncertainty_from_overlap(rows.overlap(), rows.layout.offsets, self.theta)
        self.cluster_weights_ = u
        return u, (u[:, None] * rows.overlap(u)) * u


class ECPCS(ConsensusEstimator):
    r"""Consensus from random walks over base clusters, in its meta-cluster form (ECPCS-MC).

    A random walk moves between base clusters with probabilities proportional to their Jaccard index. The
    trajectory of a base cluster lays its 1..t-step distributions side by side; two base clusters are as alike as the
    cosine :math:`Z_{fg}` of their trajectories. The graph :math:`Z` is cut into `n_clusters` meta-clusters by
    normalised cut, and an item goes to the meta-cluster that holds most of its labels (the lowest one on ties).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of meta-clusters. Some may win no item; ``n_clusters_`` counts those that do.
    steps : int, default=20
        Length t of the walks.
    n_init : int, default=10
        Starts of k-means on the embedding of base clusters.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on one machine.
    engine : {"auto", "native", "numpy"} or Engine, default="auto"
        Where the overlap pass and the voting pass run.
    verbose : int, default=0
        Kept for symmetry with the other methods; nothing is printed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items no partition labels.
    meta_cluster_ : ndarray of shape (d,)
        Meta-cluster of each base cluster.
    n_clusters_ : int
        Clusters that hold items.
    density_, cluster_density_, cluster_sizes_
        Scores of ``labels_``.

    See Also
    --------
    EAC : With ``enhanced=True`` and average linkage this is the hierarchical form, ECPCS-HC.

    Notes
    -----
    One overlap pass, O(d³) on base clusters, one voting pass: linear in the number of items.

    References
    ----------
    .. [1] D. Huang, C.-D. Wang, H. Peng, J. Lai and C.-K. Kwoh, "Enhanced ensemble clustering via fast propagation of
       cluster-wise similarities", IEEE Transactions on Systems, Man, and Cybernetics: Systems 51(1), 2021,
       https://doi.org/10.1109/TSMC.2018.2876202

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> labels = ca.ECPCS(n_clusters=2, random_state=0).fit_predict(table)
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], labels).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(self, n_clusters=8, *, steps=20, n_init=10, random_state=None, engine="auto", verbose=0):
        self.n_clusters = n_clusters
        self.steps = steps
        self.n_init = n_init
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> ECPCS:
        """Find the consensus partition.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            The base partitions.
        y : None
            Ignored, for scikit-learn's sake.
        sample_weight : array-like of int, default=None
            How often each item counts; 0 removes it.

        Returns
        -------
        self
        """
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits

        k = check_integer(self.n_clusters, "n_clusters")
        steps = check_integer(self.steps, "steps")
        n_init = check_integer(self.n_init, "n_init")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, _):
            check_overlap_size(rows.layout)
            overlap = rows.overlap()
            used = np.flatnonzero(np.diagonal(overlap) > 0)
            if len(used) < k:
                raise ValueError(
                    f"n_clusters={k} is larger than the number of base clusters, {len(used)}; "
                    f"ask for at most {len(used)}."
                )
            with threadpool_limits(limits=1):
                similarity = walk_similarity(jaccard_graph(overlap[np.ix_(used, used)]), steps)
            vectors, _ = leading_vectors(similarity, k, seed)
            model = KMeans(k, n_init=n_init, random_state=int(stream(seed, 4).integers(2**31)))
            with threadpool_limits(limits=1), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                meta = model.fit_predict(_unit(vectors))
            self.meta_cluster_ = np.zeros(ensemble.n_codes, dtype=np.int32)
            self.meta_cluster_[used] = meta
            votes = np.zeros((ensemble.n_codes, k), dtype=np.int32)
            votes[used, meta] = 1
            table = ScoreTable(votes, 0)
            labelling = rows.labelling(k)
            rows.assign(labelling, table)
            counts = rows.counts(labelling)
            self._keep_model(ensemble, table)
            self._store_partition(ensemble, rows.labels(labelling), counts, np.ones(ensemble.n_partitions))
            self.n_clusters_ = int(np.count_nonzero(counts.sizes))
            return self

    def predict(self, X: Any) -> np.ndarray:
        """Consensus label of each row of base labels, by the vote of its labels.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            New rows; labels unseen at fit count as missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            −1 for rows without a single known label. On the rows of `fit` this is ``labels_``.
        """
        return self._predict(X)


# -- the pieces --------------------------------------------------------------------------------------------


def leading_vectors(graph: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading k eigenvectors of D^{-1/2} G D^{-1/2}, scaled back by D^{-1/2} (d, k), and their eigenvalues.

    Base clusters without weight get zero rows. Fewer than k columns come back when fewer have weight.
    """
    from scipy.linalg import eigh
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import eigsh
    from threadpoolctl import threadpool_limits

    degree = graph.sum(axis=1)
    used = np.flatnonzero(degree > 0)
    scale = 1.0 / np.sqrt(degree[used])
    matrix = (scale[:, None] * graph[np.ix_(used, used)]) * scale
    matrix = (matrix + matrix.T) / 2.0
    n = len(used)
    k = min(k, n)
    with threadpool_limits(limits=1):
        if n <= _DENSE or k >= n - 1:
            values, vectors = eigh(matrix, subset_by_index=(n - k, n - 1), overwrite_a=True, check_finite=False)
        else:
            start = stream(seed, 5).standard_normal(n)
            values, vectors = eigsh(csr_matrix(matrix), k=k, which="LA", v0=start)
    order = np.argsort(-values, kind="stable")
    values, vectors = values[order], vectors[:, order]
    peak = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.where(vectors[peak, np.arange(k)] < 0, -1.0, 1.0)
    full = np.zeros((len(graph), k))
    full[used] = scale[:, None] * vectors
    return full, values


def walk_similarity(graph: np.ndarray, steps: int) -> np.ndarray:
    """Cosine between the trajectories of random walks on a symmetric graph, for every two nodes.

    With P the step matrix, Σ_s P^s (P^s)ᵀ comes from one eigendecomposition of the symmetric normalised graph.
    """
    degree = graph.sum(axis=1)
    root = np.sqrt(degree)
    scale = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    values, vectors = np.linalg.eigh((scale[:, None] * graph) * scale)
    middle = vectors.T @ (degree[:, None] * vectors)
    ratio = np.multiply.outer(values, values)
    powers = np.zeros_like(ratio)
    term = np.ones_like(ratio)
    for _ in range(steps):
        term = term * ratio
        powers += term
    left = scale[:, None] * vectors
    product = left @ (middle * powers) @ left.T
    norms = np.sqrt(np.maximum(np.diagonal(product), 0.0))
    bound = np.multiply.outer(norms, norms)
    cosine = np.divide(product, bound, out=np.zeros_like(product), where=bound > 0)
    cosine = np.clip((cosine + cosine.T) / 2.0, 0.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    return cosine


def embed(codes: np.ndarray, layout: Layout, vectors: np.ndarray) -> np.ndarray:
    """Unit rows in the direction of the weighted mean of each row's base clusters; `vectors` are weighted already."""
    from scipy.sparse import csr_matrix

    observed = codes < layout.n_clusters
    columns = (codes.astype(np.int64) + layout.offsets[:-1])[observed]
    ends = np.concatenate([[0], np.cumsum(observed.sum(axis=1))])
    shape = (len(codes), layout.n_codes)
    points = csr_matrix((np.ones(len(columns)), columns, ends), shape=shape) @ vectors
    return _unit(points)


def nearest_centres(ensemble: Ensemble, vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Label of every item, a chunk of rows at a time; the lowest of equally near centres."""
    from threadpoolctl import threadpool_limits

    layout = _layout(ensemble)
    labels = np.empty(ensemble.n_samples, dtype=np.int32)
    half = 0.5 * (centres * centres).sum(axis=1)
    with threadpool_limits(limits=1):
        for start, stop in _bounded_chunks(ensemble, vectors.shape[1]):
            points = embed(ensemble.codes[start:stop], layout, vectors)
            labels[start:stop] = (points @ centres.T - half).argmax(axis=1)
    return labels


def check_overlap_size(layout: Layout) -> None:
    need = layout.n_codes**2 * 8
    if need > _MAX_BYTES:
        raise ValueError(
            f"the overlap of {layout.n_codes} base clusters needs {need} bytes, above {_MAX_BYTES}; use partitions "
            "with fewer clusters, or KMeansConsensus, which needs no overlap."
        )


def _unit(points: np.ndarray) -> np.ndarray:
    norms = np.sqrt((points * points).sum(axis=1, keepdims=True))
    return np.divide(points, norms, out=np.zeros_like(points), where=norms > 0)


def _layout(ensemble: Ensemble) -> Layout:
    return Layout(ensemble.n_clusters, ensemble.offsets)


def _bounded_chunks(ensemble: Ensemble, width: int) -> Iterator[tuple[int, int]]:
    """Row ranges whose codes and embedding stay small."""
    step = max(1, (1 << 22) // max(width, ensemble.n_partitions))
    for start, stop in row_chunks(ensemble.codes):
        for first in range(start, stop, step):
            yield first, min(first + step, stop)
