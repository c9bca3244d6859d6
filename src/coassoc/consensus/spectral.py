"""HBGF, LWGP and ECPCS: spectral consensus from the overlap of base clusters, linear in the number of items."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ..core.checks import check_integer, seed_from, stream
from ..core.counts import Counts
from ..core.objectives import EmbeddingObjective, lengths_of, round_vectors
from ..engines import Fit
from ..ensemble.threads import one_thread
from ..metrics.membership import THETA
from .base import ConsensusEstimator, PredictMixin
from .embedding import Sample, StartRows, graph_vectors
from .graph import place_items, vote_table
from .lloyd import lloyd
from .similarity import SQUARES, jaccard_graph, walk_similarity
from .starts import warn_if_fewer, with_fewer_clusters

_MAX_BYTES = 1 << 34  # ECPCS refuses similarities of base clusters beyond this


class SpectralConsensus(PredictMixin, ConsensusEstimator):
    """Shared by the methods that embed items by the eigenvectors of base clusters: k-means by score tables."""

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, max_iter: int = 10, random_state: Any = None,
        engine: Any = "auto", verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _embedding(self, sample: Sample, k: int, rng: np.random.Generator) -> np.ndarray:
        """Vectors (d, q) whose sum over its labels embeds an item."""
        raise NotImplementedError

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = check_integer(self.n_clusters, "n_clusters")
        n_init = check_integer(self.n_init, "n_init")
        max_iter = check_integer(self.max_iter, "max_iter")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, _):
            sample = Sample(rows, stream(seed, 0))

            def fit(k: int) -> Fit:
                starts = sample.starts(rows, k, stream(seed, 2))
                vectors = starts.even(self._embedding(sample, k, stream(seed, 1)))
                objective = EmbeddingObjective(round_vectors(vectors, rows.whole_counts().alpha[:, 0]))
                start = starts.finished(objective, self._start(starts, objective, k, n_init, seed))
                return lloyd(rows, objective, start, max_iter)

            # sums of floats depend on the number of threads
            with one_thread("blas"):
                best, differ = with_fewer_clusters(fit, k, silent=True)
            self._keep_model(ensemble, best.table)
            self._store_partition(ensemble, rows.labels(best.labelling), best.counts, np.ones(ensemble.n_partitions))
            self.loss_, self.losses_, self.n_iter_ = best.loss, best.losses, best.n_iter
            self.converged_, self.stop_reason_ = best.stop == "fixed_point", best.stop
            self.n_sampled_ = sample.n_items
            if self.verbose:
                sizes = f"{sample.n_items} of {rows.n_copies} items sampled, {sample.layout.n_codes} base clusters"
                print(f"{type(self).__name__}: {sizes}, {best.n_iter} passes, loss {best.loss:.6g}")
            what = "different label rows" if self.n_clusters_ == differ else "clusters that the embedding tells apart"
            warn_if_fewer(k, self.n_clusters_, what)

    def _start(self, starts: StartRows, objective: EmbeddingObjective, k: int, n_init: int, seed: int) -> Counts:
        """Counts whose centers k-means on the sample begins with."""
        return starts.best(objective, k, n_init, lambda restart: stream(seed, 3, restart))


class HBGF(SpectralConsensus):
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
        Starts of k-means on a sample of the items, of which the best goes on to all items.
    max_iter : int, default=10
        Passes over all items at most. They begin where k-means on the sample ended, so a few are enough.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine of one machine; eigenvectors may differ elsewhere.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print the size of the sample, the passes over all items and the loss.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Leading eigenvalues, largest first; a gap after the k-th speaks for k clusters.
    loss_, losses_ : float, list of float
        −Σ over clusters of the length of their summed embedding; the same after each pass, strictly falling.
    n_iter_, n_sampled_ : int
        Passes over all items; items from which the graph of base clusters was made.
    converged_, stop_reason_ : bool, {"fixed_point", "no_gain", "max_iter"}
        Whether one more pass would change no label; why passes ended: that, no lower exact loss, or `max_iter`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    LWGP : The same graph with uncertain base clusters weighted down.

    Notes
    -----
    An item's embedding is a sum over its labels, so that k-means on it is the pass of :class:`KMeansConsensus` with
    another table: O(n_samples * n_partitions * n_clusters), on any engine, within the memory of that engine. Vectors
    are scaled so that items have lengths near 1, and compared by cosine. The graph comes from at most two million
    labels (items times partitions; all items when they are fewer, else a sample spread evenly over them), the starts
    from at most 4096 of those items or 50 per cluster. Up to 4096 base clusters the graph is an array; above,
    eigenvectors come from products with sparse matrices, and memory grows with d * n_clusters.

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
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], ca.HBGF(2, random_state=0).fit_predict(table)).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def _embedding(self, sample: Sample, k: int, rng: np.random.Generator) -> np.ndarray:
        vectors, self.eigenvalues_ = sample.vectors(np.ones(sample.layout.n_codes), k, rng)
        return vectors


class LWGP(SpectralConsensus):
    r"""Locally weighted graph partitioning: `HBGF` with uncertain base clusters weighted down.

    A base cluster that the other clusterings cut into many pieces is uncertain. Ties to base cluster f weigh
    :math:`ECI(f)` (see :func:`coassoc.metrics.cluster_uncertainty`), and the bipartite graph is cut as in `HBGF`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters in the consensus.
    n_init : int, default=10
        Starts of k-means on a sample of the items, of which the best goes on to all items.
    max_iter : int, default=10
        Passes over all items at most. They begin where k-means on the sample ended, so a few are enough.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine of one machine; eigenvectors may differ elsewhere.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print the size of the sample, the passes over all items and the loss.
    theta : float, default=0.4
        How fast the weight of a base cluster falls with its uncertainty.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Leading eigenvalues, largest first; a gap after the k-th speaks for k clusters.
    loss_, losses_ : float, list of float
        −Σ over clusters of the length of their summed embedding; the same after each pass, strictly falling.
    n_iter_, n_sampled_ : int
        Passes over all items; items from which the graph of base clusters was made.
    converged_, stop_reason_ : bool, {"fixed_point", "no_gain", "max_iter"}
        Whether one more pass would change no label; why passes ended: that, no lower exact loss, or `max_iter`.
    cluster_weights_ : ndarray of shape (d,)
        ECI of each base cluster.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    LWEA : The same weights in average linkage.

    Notes
    -----
    As `HBGF`. Above 4096 base clusters the weights are estimated from at most 32 of the clusterings.

    References
    ----------
    .. [1] D. Huang, C.-D. Wang and J.-H. Lai, "Locally weighted ensemble clustering", IEEE Transactions on
       Cybernetics 48(5), 2018, https://doi.org/10.1109/TCYB.2017.2702343

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], ca.LWGP(2, random_state=0).fit_predict(table)).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, max_iter: int = 10, random_state: Any = None,
        engine: Any = "auto", verbose: int = 0, theta: float = THETA,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, n_init=n_init, max_iter=max_iter, random_state=random_state, engine=engine, verbose=verbose,
        )  # fmt: skip
        self.theta = theta

    def _embedding(self, sample: Sample, k: int, rng: np.random.Generator) -> np.ndarray:
        self.cluster_weights_ = u = sample.uncertainty(self.theta)
        vectors, self.eigenvalues_ = sample.vectors(u, k, rng)
        return u[:, None] * vectors


class ECPCS(SpectralConsensus):
    r"""Consensus from random walks over base clusters.

    A random walk moves between base clusters with probabilities proportional to their Jaccard index. The
    trajectory of a base cluster lays its 1..t-step distributions side by side; two base clusters are as alike as the
    cosine :math:`Z_{fg}` of their trajectories. The leading eigenvectors of the normalised graph :math:`Z` embed the
    base clusters. k-means groups them into meta-clusters, and an item starts in the meta-cluster that holds most of its
    labels (a meta-cluster without items is placed on the item with the fewest votes). From there the items are
    clustered as in `HBGF`, an item being the sum of its labels; the publication stops at the votes, which often leave
    fewer clusters than asked for.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters in the consensus.
    n_init : int, default=10
        Starts of k-means on the base clusters.
    max_iter : int, default=10
        Passes over all items at most. They begin where k-means on the sample ended, so a few are enough.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine of one machine; eigenvectors may differ elsewhere.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print the size of the sample, the passes over all items and the loss.
    steps : int, default=20
        Length t of the walks.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Leading eigenvalues, largest first; a gap after the k-th speaks for k clusters.
    loss_, losses_ : float, list of float
        −Σ over clusters of the length of their summed embedding; the same after each pass, strictly falling.
    n_iter_, n_sampled_ : int
        Passes over all items; items from which the graph of base clusters was made.
    converged_, stop_reason_ : bool, {"fixed_point", "no_gain", "max_iter"}
        Whether one more pass would change no label; why passes ended: that, no lower exact loss, or `max_iter`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    EAC : With ``enhanced=True`` and average linkage this is the hierarchical form, ECPCS-HC.

    Notes
    -----
    As `HBGF`, and O(d³) time and 80 d² bytes for the d base clusters, which are refused above 16 GiB (d = 14 654).

    References
    ----------
    .. [1] D. Huang, C.-D. Wang, H. Peng, J. Lai and C.-K. Kwoh, "Enhanced ensemble clustering via fast propagation of
       cluster-wise similarities", IEEE Transactions on Systems, Man, and Cybernetics: Systems 51(1), 2021,
       https://doi.org/10.1109/TSMC.2018.2876202

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.align_labels([0, 0, 0, 1, 1, 1], ca.ECPCS(2, random_state=0).fit_predict(table)).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, max_iter: int = 10, random_state: Any = None,
        engine: Any = "auto", verbose: int = 0, steps: int = 20,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, n_init=n_init, max_iter=max_iter, random_state=random_state, engine=engine, verbose=verbose,
        )  # fmt: skip
        self.steps = steps

    def _embedding(self, sample: Sample, k: int, rng: np.random.Generator) -> np.ndarray:
        steps, d = check_integer(self.steps, "steps"), sample.layout.n_codes
        need = SQUARES * 8 * d * d
        if need > _MAX_BYTES:
            raise ValueError(
                f"ECPCS compares all pairs of {d} base clusters, which needs {need} bytes, above {_MAX_BYTES}; "
                "use LWGP or HBGF, or partitions with fewer clusters."
            )
        used = np.flatnonzero(np.diagonal(sample.overlap))
        similarity = walk_similarity(jaccard_graph(sample.overlap[np.ix_(used, used)]), steps)
        vectors = np.zeros((d, min(k, len(used))))
        vectors[used], self.eigenvalues_ = graph_vectors(similarity, k, rng)
        lengths = lengths_of(vectors)[:, None]
        return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)

    def _start(self, starts: StartRows, objective: EmbeddingObjective, k: int, n_init: int, seed: int) -> Counts:
        lengths = lengths_of(objective.vectors)
        used = np.flatnonzero(lengths)
        if len(used) < k:
            return super()._start(starts, objective, k, n_init, seed)
        unit = objective.vectors[used] / lengths[used, None]
        groups = KMeans(k, n_init=n_init, random_state=int(stream(seed, 3).integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # base clusters may share a vector
            meta = groups.fit_predict(unit)
        members = np.zeros((len(lengths), k), dtype=bool)
        members[used, meta] = True
        _, _, labelling = place_items(starts.rows, members, 2 * k, vote_table)
        return starts.rows.counts(labelling)
