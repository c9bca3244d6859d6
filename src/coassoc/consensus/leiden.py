"""GraphConsensus and stable_leiden: one stable set of communities from many Leiden runs that differ."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_matrix, triu
from sklearn.metrics import adjusted_rand_score

from ..core.checks import check_integer, seed_from, stream
from ..ensemble import Ensemble
from ..ensemble.graphs import adjacency, node_names, pair_shares
from ..metrics.scores import counts_of
from .base import ConsensusEstimator, host_ensemble, inherit_docs

RESOLUTIONS = (1.0, 2.0, 4.0)
_FLOOR = 1e-3  # share of an edge that no run joins: without any weight its ends would fall out of the graph
_ITERATIONS = 5  # of Leiden on the weighted graph; until nothing changes takes several times as long, for no gain
_LEAST_MODULARITY = 0.75  # of the best among the resolutions, that an answer must have
_TIE = 0.02  # stabilities this near are equal, and the finer answer is taken; benchmarks/communities.py


class Resolution(NamedTuple):
    """What the runs at one resolution gave."""

    resolution: float
    stability: float
    n_clusters: int


@inherit_docs
class GraphConsensus(ConsensusEstimator):
    r"""Consensus of clusterings of the nodes of a graph: edges weighted by agreement, then clustered by Leiden.

    The weight of an edge is multiplied by the share of clusterings that join its two ends, among those that label both.
    Leiden's algorithm then maximises the modularity of the weighted graph. More rounds of weighting gained nothing.
    :func:`stable_leiden` makes the runs itself and chooses the resolution.

    Parameters
    ----------
    resolution : float, default=1.0
        Resolution of the modularity; a larger one gives more communities. Best that of the clusterings.
    n_init : int, default=3
        Runs of Leiden on the weighted graph, of which the one with the highest modularity is kept.
    {random_state} {engine}

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Community of each node, the largest first; −1 for nodes that no clustering labels.
    stability_ : float
        Adjusted Rand index between the answers of two random halves of the clusterings; NaN for fewer than four.
    modularity_ : float
        Modularity of the answer in the weighted graph.
    n_clusters_ : int
        Number of communities.
    {density_} {n_features_in_}
    ensemble_, resolution_, resolutions_ : Ensemble, float, list of Resolution
        Of `stable_leiden` alone: its runs, the resolution chosen, and each one tried with its stability and number of
        communities.

    Notes
    -----
    Time is O(edges * n_partitions) for the weights and that of a few Leiden runs. Needs igraph: ``pip install
    coassoc[graph]``.

    References
    ----------
    .. [1] A. Lancichinetti and S. Fortunato, "Consensus clustering in complex networks", Scientific Reports 2, 2012,
       https://doi.org/10.1038/srep00336
    .. [2] V. Traag, L. Waltman and N. J. van Eck, "From Louvain to Leiden: guaranteeing well-connected communities",
       Scientific Reports 9, 2019, https://doi.org/10.1038/s41598-019-41695-z

    Examples
    --------
    >>> import igraph, coassoc as ca
    >>> graph = igraph.Graph.Famous("Zachary")
    >>> runs = [graph.community_leiden("modularity", resolution=r) for r in (0.8, 1, 1.2)]
    >>> ca.GraphConsensus(random_state=0).fit(ca.Ensemble.from_communities(runs), graph=graph).n_clusters_
    4
    """

    def __init__(self, resolution: float = 1.0, *, n_init: int = 3, random_state: Any = None, engine: Any = "auto"):
        self.resolution = resolution
        self.n_init = n_init
        self.random_state = random_state
        self.engine = engine

    def fit(self, X: Any, y: Any = None, *, graph: Any = None) -> Self:  # type: ignore[override]
        """Find the communities.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            Clusterings of the nodes.
        y : None
            Ignored; scikit-learn passes it.
        graph : SciPy sparse matrix, igraph or networkx graph
            One node per item. Weights are similarities; a directed graph is taken as undirected. The
            nodes of a networkx graph are matched to ``item_ids``, where the ensemble has them.
        """
        ensemble = host_ensemble(self._check_input(X))
        resolution, n_init = check_resolution(self.resolution), check_integer(self.n_init, "n_init")
        if graph is None:
            raise ValueError("graph must be given: fit(ensemble, graph=...), a SciPy sparse, igraph or networkx graph.")
        edges = Edges.of(graph, ensemble.item_ids)
        n_nodes, n_items = edges.matrix.shape[0], ensemble.n_samples
        if n_nodes != n_items:
            raise ValueError(f"graph must have one node per item, got {n_nodes} nodes and {n_items} items.")
        rng, p = stream(seed_from(self.random_state), 0), ensemble.n_partitions
        order = rng.permutation(p)
        with seeded(rng):
            labels, self.modularity_ = self._cluster(ensemble, edges, resolution, n_init)
            halves = []
            for half in (order[::2], order[1::2]) if p >= 4 else ():
                part = Ensemble.from_codes(np.ascontiguousarray(ensemble.codes[:, half]), ensemble.n_clusters[half])
                halves.append(self._cluster(part, edges, resolution, n_init)[0])
        self.stability_ = float(adjusted_rand_score(*halves)) if halves else float("nan")
        self._keep_model(ensemble, None)
        counts = counts_of(ensemble, labels, int(labels.max()) + 1, None, self.engine)
        self._store_partition(ensemble, labels, counts, np.ones(p))
        return self

    def _cluster(self, ensemble: Ensemble, edges: Edges, resolution: float, n_init: int) -> tuple[np.ndarray, float]:
        """Labels and modularity of the best of some Leiden runs on the weighted graph."""
        shares = pair_shares(ensemble, edges.pairs, self.engine)
        weights = (edges.weights * np.maximum(shares, _FLOOR)).tolist()
        graph = edges.igraph()
        settings = {"weights": weights, "resolution": resolution}

        def run(_: int) -> tuple[list[int], float]:
            found = graph.community_leiden("modularity", n_iterations=_ITERATIONS, **settings)
            return found.membership, graph.modularity(found, **settings) if edges.pairs.size else 0.0

        membership, modularity = max(map(run, range(n_init)), key=lambda found: found[1])
        by_size = np.argsort(-np.bincount(membership), kind="stable")
        return np.argsort(by_size)[membership].astype(np.int32), float(modularity)


def stable_leiden(
    graph: Any,
    n_runs: int = 20,
    *,
    resolution: float | Sequence[float] = RESOLUTIONS,
    random_state: Any = None,
    engine: Any = "auto",
) -> GraphConsensus:
    """Stable communities of a graph: many Leiden runs, and their consensus on the graph.

    Parameters
    ----------
    graph : SciPy sparse matrix, igraph or networkx graph
        Weights are similarities; a directed graph is taken as undirected.
    n_runs : int, default=20
        Leiden runs at each resolution.
    resolution : float or list of float, default=(1.0, 2.0, 4.0)
        Resolution of the modularity. Of several, the one whose consensus is the most stable between two halves of its
        runs, the finest one on ties; those whose plain modularity is far below the best are left out.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels; the global random state is not touched.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the edges are counted.

    Returns
    -------
    GraphConsensus
        Fitted: ``labels_``, ``stability_``, ``resolution_``, ``resolutions_`` (one row per resolution) and
        ``ensemble_`` (the runs, with the nodes of the graph in ``item_ids``).

    Examples
    --------
    >>> import igraph, coassoc as ca
    >>> answer = ca.stable_leiden(igraph.Graph.Famous("Zachary"), resolution=1, random_state=0)
    >>> answer.n_clusters_, answer.labels_.shape
    (4, (34,))
    """
    n_runs, seed = check_integer(n_runs, "n_runs", 4), seed_from(random_state)
    edges = Edges.of(graph)
    fitted = []
    for number, gamma in enumerate(sorted(map(check_resolution, np.atleast_1d(resolution).tolist()))):
        with seeded(stream(seed, 1, number)):
            runs = edges.runs([gamma] * n_runs)
        ensemble = Ensemble.from_partitions(runs)
        ensemble.item_ids = None if hasattr(graph, "tocsr") else np.array([*node_names(graph), None], dtype=object)[:-1]
        model = GraphConsensus(gamma, random_state=seed, engine=engine).fit(ensemble, graph=edges.matrix)
        model.ensemble_, model.resolution_ = ensemble, gamma
        fitted.append(model)
    if not fitted:
        raise ValueError("resolution must hold at least one number, got none.")
    plain, weights = edges.igraph(), edges.weights.tolist()
    # without the resolution: communities much below the best of these cut through others, at the end single nodes
    quality = [plain.modularity(model.labels_, weights=weights) if weights else 0.0 for model in fitted]
    sound = [model for model, own in zip(fitted, quality) if own >= _LEAST_MODULARITY * max(quality)] or fitted[:1]
    best = max(model.stability_ for model in sound)
    chosen = [model for model in sound if model.stability_ >= best - _TIE][-1]
    chosen.resolutions_ = [Resolution(model.resolution_, model.stability_, model.n_clusters_) for model in fitted]
    return chosen


class Edges(NamedTuple):
    """The undirected edges of a graph, each once."""

    matrix: csr_matrix  # upper triangle
    pairs: np.ndarray  # (m, 2)
    weights: np.ndarray  # (m,)

    @classmethod
    def of(cls, graph: Any, nodes: Any = None) -> Edges:
        matrix = adjacency(graph, nodes).astype(np.float64)
        if matrix.nnz and not (matrix.data.min() >= 0 and np.isfinite(matrix.data).all()):
            raise ValueError("graph must have finite weights of at least 0, similarities; got others.")
        matrix = csr_matrix(triu(matrix.maximum(matrix.T), 1))
        matrix.eliminate_zeros()
        starts = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
        return cls(matrix, np.column_stack([starts, matrix.indices]).astype(np.int64), matrix.data)

    def igraph(self) -> Any:
        return import_igraph().Graph(n=self.matrix.shape[0], edges=self.pairs)

    def runs(self, resolutions: Sequence[float]) -> list[list[int]]:
        """A run of Leiden at each resolution, with igraph's number of iterations."""
        graph, weights = self.igraph(), self.weights.tolist()
        return [graph.community_leiden("modularity", weights, gamma).membership for gamma in resolutions]


def check_resolution(value: Any) -> float:
    """A positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise ValueError(f"resolution must be a number above 0, got {value!r}.")
    return float(value)


def import_igraph() -> Any:
    """The package igraph, or what to install."""
    try:
        import igraph
    except ImportError as error:
        raise ImportError("Leiden runs need igraph: pip install coassoc[graph]") from error
    return igraph


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Let igraph draw from a generator of its own; afterwards it uses Python's again, as after its import."""
    igraph = import_igraph()
    igraph.set_random_number_generator(random.Random(int(rng.integers(2**63))))
    try:
        yield
    finally:
        igraph.set_random_number_generator(random)
