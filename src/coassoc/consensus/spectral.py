"""HBGF, LWGP and ECPCS: spectral consensus from the overlap of base clusters, linear in the number of items."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ..core.checks import check_integer, seed_from, stream
from ..core.counts import Counts, Layout
from ..core.objectives import EmbeddingObjective, lengths_of, round_vectors
from ..engines import Fit, Rows, resolve
from ..ensemble import Ensemble
from ..ensemble.generate import one_thread
from ..ensemble.rows import distinct_rows
from ..metrics.membership import THETA, uncertainty_from_overlap
from .base import PredictMixin, inherit_docs
from .lloyd import lloyd, seed_rows, unit_weights, warn_if_fewer, with_fewer_clusters
from .metis import place_items, vote_table
from .micro import local_rows, sampled_codes
from .similarity import SQUARES, jaccard_graph, walk_similarity

MOST_LABELS = 1 << 21  # labels (items times partitions) in the sample; with fewer, all items are in it
MOST_CODES = 4096  # base clusters up to which their overlap is an array; above, products with sparse matrices
_REFERENCES = 32  # partitions that the uncertainty of so many base clusters is estimated from
START_ROWS = 4096  # items of the sample on which starts are made, at least
_ROWS_PER_CLUSTER = 50  # and for each cluster
_SEED_ROWS = (1024, 4096)  # rows from which seeds are drawn: 20 for each cluster, within these limits
_START_PASSES = 5  # after which starts are compared
_BEST_PASSES = 100  # passes of the best start on the sample
_WHOLE = 200  # matrices up to this size are decomposed whole
_WHOLE_PER_VECTOR = 20  # or up to this many times the number of vectors
_SPARE = 8  # vectors iterated beyond those asked for
_MAX_ITER = 100
# Largest residual |M v − λ v|. An eigenvalue is then wrong by the square of that over the gap to the next, and labels
# are those of exact eigenvectors but for items on a border: tests/consensus/test_spectral.py compares them.
_TOLERANCE = 1e-4
_MAX_BYTES = 1 << 34  # ECPCS refuses similarities of base clusters beyond this


class SpectralConsensus(PredictMixin):
    """Base of the methods that embed items by the eigenvectors of base clusters: k-means by score tables.

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
    verbose : int, default=0
        Print the size of the sample, the passes over all items and the loss.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_clusters,)
        Leading eigenvalues, largest first; a gap after the k-th speaks for k clusters.
    loss_, losses_ : float, list of float
        −Σ over clusters of the length of their summed embedding; the same after each pass, strictly falling.
    n_iter_, n_sampled_ : int
        Passes over all items; items from which the graph of base clusters was made.
    """

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
        k, n_init, max_iter = self._integers("n_clusters", "n_init", "max_iter")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, _):
            sample = Sample(rows, stream(seed, 0))

            def fit(k: int) -> Fit:
                starts = sample.starts(rows, k, stream(seed, 2))
                vectors = starts.even(self._embedding(sample, k, stream(seed, 1)))
                objective = EmbeddingObjective(round_vectors(vectors, rows.whole_counts().alpha[:, 0]))
                start = self._start(starts, objective, k, n_init, seed)
                return lloyd(rows, objective, lloyd(starts.rows, objective, start, _BEST_PASSES).counts, max_iter)

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
        return starts.best(objective, k, n_init, seed)


@inherit_docs
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
    {n_clusters} {n_init} {max_iter} {random_state} {engine} {verbose}

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    {eigenvalues_} {loss_} {n_iter_} {converged_}
    {n_features_in_}

    Notes
    -----
    An item's embedding is a sum over its labels, so k-means on it is the pass of :class:`KMeansConsensus` with another
    table, on any engine. Vectors are scaled so that items have lengths near 1, and compared by cosine. The graph comes
    from at most two million labels (items times partitions), a sample spread evenly over the items, the starts from at
    most 4096 of those items or 50 per cluster. Up to 4096 base clusters the graph is an array; above, eigenvectors
    come from products with sparse matrices, and memory grows with d * n_clusters.

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


@inherit_docs
class LWGP(SpectralConsensus):
    r"""Locally weighted graph partitioning: `HBGF` with uncertain base clusters weighted down.

    A base cluster that the other clusterings cut into many pieces is uncertain. Ties to base cluster f weigh
    :math:`ECI(f)` (see :func:`coassoc.metrics.cluster_uncertainty`), and the bipartite graph is cut as in `HBGF`.

    Parameters
    ----------
    {n_clusters} {n_init} {max_iter} {random_state} {engine} {verbose}
    theta : float, default=0.4
        How fast the weight of a base cluster falls with its uncertainty.

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    {eigenvalues_} {loss_} {n_iter_} {converged_}
    cluster_weights_ : ndarray of shape (d,)
        ECI of each base cluster.
    {n_features_in_}

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


@inherit_docs
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
    {n_clusters}
    n_init : int, default=10
        Starts of k-means on the base clusters.
    {max_iter} {random_state} {engine} {verbose}
    steps : int, default=20
        Length t of the walks.

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    {eigenvalues_} {loss_} {n_iter_} {converged_}
    {n_features_in_}

    Notes
    -----
    As `HBGF`, and O(d³) time and 80 d² bytes for the d base clusters, which are refused above 16 GiB (d = 14 654).
    :class:`EAC` with ``enhanced=True`` and average linkage is the hierarchical form, ECPCS-HC.

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


class Sample:
    """Some of the items, or all if they are few, in the memory of this process; the same items on every engine."""

    def __init__(self, rows: Rows, rng: np.random.Generator):
        self.layout = rows.layout
        self.n_items = min(rows.n_copies, max(START_ROWS, MOST_LABELS // self.layout.n_partitions))
        self.codes = sampled_codes(rows, self.n_items, rng)

    @cached_property
    def local(self) -> Rows:
        """The sampled items, loaded here."""
        return local_rows(self.codes, self.layout)[0]

    @cached_property
    def overlap(self) -> np.ndarray:
        """HᵀH (d, d) of the sample."""
        return self.local.overlap()

    @cached_property
    def indicator(self) -> csr_array:
        """H of the sample."""
        return indicator(self.codes, self.layout)

    def uncertainty(self, theta: float) -> np.ndarray:
        """ECI of every base cluster (d,)."""
        if self.layout.n_codes <= MOST_CODES:
            return uncertainty_from_overlap(self.overlap, self.layout.offsets, theta)
        if not (math.isfinite(theta) and theta > 0):
            raise ValueError(f"theta must be a positive number, got {theta!r}.")
        p, offsets = self.layout.n_partitions, self.layout.offsets
        chosen = np.unique(np.linspace(0, p - 1, min(p, _REFERENCES)).round().astype(int))
        by_cluster = self.indicator.T.tocsr()
        entropy, compared = np.zeros((2, self.layout.n_codes))
        for j in chosen:
            overlap = by_cluster @ self.indicator[:, offsets[j] : offsets[j + 1]]
            share = overlap.data / np.repeat(overlap.sum(axis=1), np.diff(overlap.indptr))
            terms = csr_array((-share * np.log2(share), overlap.indices, overlap.indptr), overlap.shape)
            entropy += terms.sum(axis=1)
            compared += 1.0
            compared[offsets[j] : offsets[j + 1]] -= 1.0  # the entropy in its own partition is 0
        mean = np.divide(entropy, compared, out=np.zeros_like(entropy), where=compared > 0)
        return np.exp(-mean * (p - 1) / (theta * p))

    def vectors(self, weights: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Vectors (d, k) of base clusters, 0 without sampled items, and eigenvalues: those of G = Bᵀ D_X⁻¹ B."""
        if self.layout.n_codes <= MOST_CODES:
            if (weights == 1.0).all() and (self.codes < self.layout.n_clusters).all():
                return graph_vectors(self.overlap / self.layout.n_partitions, k, rng)
            return graph_vectors((weights[:, None] * self.local.weighted_overlap(weights)) * weights, k, rng)
        sums = self.indicator @ weights
        degree = weights * self.indicator.sum(axis=0)  # G 1, since B 1 is what D_X divides by
        scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
        ties = (diags_array(1.0 / np.sqrt(sums)) @ self.indicator @ diags_array(weights * scale)).tocsr()
        back = ties.T.tocsr()
        most = min(k, int(np.count_nonzero(degree)), self.n_items)
        values, vectors = leading_eigenvectors(lambda X: back @ (ties @ X), np.sqrt(degree), most, rng)
        return scale[:, None] * vectors, values

    def starts(self, rows: Rows, k: int, rng: np.random.Generator) -> StartRows:
        """A smaller sample of different rows to make starts on; `rows` are all items."""
        m = max(START_ROWS, _ROWS_PER_CLUSTER * k)
        codes = self.codes if self.n_items <= m else self.codes[np.arange(m) * self.n_items // m]
        first, copies, _ = distinct_rows(codes)
        if len(first) < k:  # k-means++ on the labels finds rows that differ, or says that there are too few
            more = seed_rows(rows, k, unit_weights(rows), rng)
            first, copies, _ = distinct_rows(codes := np.concatenate([codes, more]))
        return StartRows(codes[first], copies, self.layout)


class StartRows:
    """Starts of k-means on an embedding, on a few thousand different rows that count as often as they were drawn."""

    def __init__(self, codes: np.ndarray, copies: np.ndarray, layout: Layout):
        self.codes, self.copies, self.layout = codes, copies, layout
        self.indicator = indicator(codes, layout)

    def even(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (d, q), each divided by the harmonic mean length of its items, which then count about the same."""
        lengths = lengths_of(self.indicator @ vectors)
        inverse = np.divide(self.copies, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        carrying = self.indicator.T @ self.copies.astype(np.float64)
        alone = self.layout.n_partitions * lengths_of(vectors)  # outside the sample: as if all labels agreed
        scale = np.divide(1.0, alone, out=np.zeros_like(alone), where=alone > 0)
        np.divide(self.indicator.T @ inverse, carrying, out=scale, where=carrying > 0)
        return vectors * scale[:, None]

    @cached_property
    def rows(self) -> Rows:
        """These rows, loaded here."""
        return resolve("auto").load(Ensemble.from_codes(self.codes, self.layout.n_clusters), self.copies)

    def best(self, objective: EmbeddingObjective, k: int, n_init: int, seed: int) -> Counts:
        """Counts of the best of `n_init` starts after a few passes."""
        u = len(self.codes)
        m = min(u, max(k, min(max(20 * k, _SEED_ROWS[0]), _SEED_ROWS[1])))
        among = np.arange(m) * u // m
        seeding = SphereSeeding(self.indicator[among] @ objective.vectors, self.copies[among])
        labelling = self.rows.labelling(k)

        def start(restart: int) -> Fit:
            seeds = self.codes[among[seeding.choose(k, stream(seed, 3, restart))]]
            return lloyd(self.rows, objective, Counts.of_rows(seeds, self.layout), _START_PASSES, labelling)

        return min(map(start, range(n_init)), key=lambda fit: fit.loss).counts


class SphereSeeding:
    """k-means++ for spherical k-means: the loss of a point is copies * length * (1 − cosine to the nearest seed)."""

    def __init__(self, points: np.ndarray, copies: np.ndarray):
        points = points.astype(np.float32)  # enough to choose rows; sums over clusters come from exact counts
        lengths = lengths_of(points)[:, None]
        unit = np.divide(points, lengths, out=np.zeros_like(points), where=lengths > 0)
        self.mass = copies.astype(np.float32) * lengths[:, 0]
        self.apart = np.maximum(1.0 - unit @ unit.T, 0.0)  # shared by all starts
        np.fill_diagonal(self.apart, 0.0)

    def choose(self, k: int, rng: np.random.Generator) -> np.ndarray:
        """k different points, each the best of 2 + log k candidates."""
        chosen = np.empty(k, dtype=np.int64)
        loss = self.mass
        for c in range(k):
            running = np.cumsum(loss, dtype=np.float64)
            if running[-1] <= 0:  # every point lies on a seed: any others will do
                chosen[c:] = np.setdiff1d(np.arange(len(loss)), chosen[:c])[: k - c]
                break
            draws = rng.random(2 + int(math.log(k)) if c else 1) * running[-1]
            candidates = np.minimum(np.searchsorted(running, draws, side="right"), len(loss) - 1)
            losses = self.apart[candidates] * self.mass
            if c:
                np.minimum(losses, loss, out=losses)
            best = int(np.argmin(losses.sum(axis=1)))
            chosen[c], loss = candidates[best], losses[best]
        return chosen


def graph_vectors(graph: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvectors of D^{-1/2} G D^{-1/2} times D^{-1/2} (d, k), 0 without weight, and their eigenvalues."""
    degree = graph.sum(axis=1)
    used = np.flatnonzero(degree > 0)
    scale = 1.0 / np.sqrt(degree[used])
    matrix = (scale[:, None] * (graph if len(used) == len(graph) else graph[np.ix_(used, used)])) * scale
    values, vectors = leading_eigenvectors(matrix, 1.0 / scale, min(k, len(used)), rng)
    full = np.zeros((len(graph), vectors.shape[1]))
    full[used] = scale[:, None] * vectors
    return full, values


def indicator(codes: np.ndarray, layout: Layout) -> csr_array:
    """Rows of H for rows of codes, as float64."""
    return csr_array(Ensemble.from_codes(codes, layout.n_clusters).one_hot())


def leading_eigenvectors(
    matrix: np.ndarray | Callable[[np.ndarray], np.ndarray], start: np.ndarray, k: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, largest first, and their eigenvectors (n, k), each with a positive largest entry.

    `matrix` may be a function that multiplies a block of columns with it; `start` (n,) is an eigenvector or a guess.
    LOBPCG finds eigenvalues that occur several times, as those of a graph in several pieces do; ``eigsh`` misses some.
    It breaks down where the rank is a few times the width of its block; a wider random block then holds the range.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import lobpcg

    n, product = len(start), matrix if callable(matrix) else matrix.__matmul__
    if n <= max(_WHOLE, _WHOLE_PER_VECTOR * k):
        whole = _symmetric(product(np.eye(n)) if callable(matrix) else matrix)
        values, vectors = eigh(whole, subset_by_index=(n - k, n - 1), overwrite_a=True, check_finite=False)
        return values[::-1], _signed(vectors[:, ::-1])
    m = k + _SPARE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # spare vectors need not converge
        block = np.column_stack([start, rng.standard_normal((n, m - 1))])
        values, vectors = lobpcg(product, block, tol=_TOLERANCE, maxiter=_MAX_ITER)
    width = 4 * m
    while width < n and np.linalg.norm((product(vectors) - vectors * values)[:, :k], axis=0).max() > 2 * _TOLERANCE:
        basis = np.linalg.qr(product(rng.standard_normal((n, width))))[0]
        values, rotation = np.linalg.eigh(_symmetric(basis.T @ product(basis)))
        values, vectors = values[: -m - 1 : -1], basis @ rotation[:, : -m - 1 : -1]
        width *= 2
    return values[:k], _signed(vectors[:, :k])


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2.0


def _signed(vectors: np.ndarray) -> np.ndarray:
    peak = np.argmax(np.abs(vectors), axis=0)
    return vectors * np.where(vectors[peak, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
