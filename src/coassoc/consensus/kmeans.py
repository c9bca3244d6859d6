"""KMeansConsensus: the paper's KM, k-means on the one-hot form of an ensemble."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.checks import check_choice, check_integer, seed_from
from ..core.counts import Counts
from ..core.moves import DensityState
from ..core.objectives import KMeansObjective, Objective
from ..engines import Fit, Rows
from ..ensemble import Ensemble
from ..metrics.labels import check_labels
from .base import ConsensusEstimator, PredictMixin
from .exchange import exchange
from .starts import Starts, best_start, warn_if_fewer, with_fewer_clusters


class TableConsensus(PredictMixin, ConsensusEstimator):
    """Base of the methods that run k-means passes with a score table of their own."""

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, init: Any = "k-means++", max_iter: int = 300,
        partition_weights: Any = None, random_state: Any = None, engine: Any = "auto", verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.init = init
        self.max_iter = max_iter
        self.partition_weights = partition_weights
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def make_objective(self, rows: Rows, weights: np.ndarray) -> Objective:
        """The objective that the passes lower: write this for a method of your own.

        Parameters
        ----------
        rows : Rows
            The items as the engine keeps them; ``rows.counts(labelling)`` counts them.
        weights : ndarray of shape (n_partitions,)
            Weights of the partitions, mean 1.

        Returns
        -------
        Objective
            With ``table(counts)``, ``cost_table(counts)`` and ``loss(counts)``; see ``core/objectives.py``.
        """
        raise NotImplementedError

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = check_integer(self.n_clusters, "n_clusters")
        n_init = check_integer(self.n_init, "n_init")
        max_iter = check_integer(self.max_iter, "max_iter")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            objective = self.make_objective(rows, v)
            name = type(self).__name__ if self.verbose else ""
            starts = Starts(k, n_init, max_iter, seed, self._check_init(ensemble, k), name)

            def fit(k: int) -> Fit:
                return best_start(rows, engine, objective, v, replace(starts, n_clusters=k))

            best, k = with_fewer_clusters(fit, k)
            self._keep_model(ensemble, best.table)
            counts = self._refined(rows, best, v, max_iter)
            self._store_partition(ensemble, rows.labels(best.labelling), counts, v)
            self.loss_ = best.loss if counts is best.counts else objective.loss(counts)
            self.losses_, self.n_iter_ = best.losses, best.n_iter
            self.converged_, self.stop_reason_ = best.stop == "fixed_point", best.stop
            if best.stop != "max_iter":  # rows that differ in missing labels alone may leave a cluster empty
                warn_if_fewer(k, self.n_clusters_, "clusters that the labels tell apart")

    def _refined(self, rows: Rows, best: Fit, v: np.ndarray, max_iter: int) -> Counts:
        """Counts after a final improvement of the labels of the best start; this method makes none."""
        return best.counts

    def _check_init(self, ensemble: Ensemble, k: int) -> str | np.ndarray:
        if isinstance(self.init, str):
            return check_choice(self.init, "init", ("k-means++", "random"))
        labels, n_given = check_labels(self.init, ensemble.n_samples, "init", on_gpu=True)
        if n_given > k:
            raise ValueError(f"init has {n_given} clusters, more than n_clusters={k}; raise n_clusters or merge some.")
        return labels


class KMeansConsensus(TableConsensus):
    r"""Consensus partition by k-means on the one-hot form of an ensemble.

    With :math:`A` the co-association matrix of :math:`p` partitions, the k-means cost of a partition is
    :math:`p\,(n - \sum_C |C| \bar A_C)`, where :math:`\bar A_C` is the mean of :math:`A` over all ordered pairs of
    cluster :math:`C`, an item with itself included. Evidence is thus accumulated without ever building :math:`A`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters in the consensus. Empty clusters are refilled from the worst-placed row.
    n_init : int, default=10
        Number of starts; the one with the lowest exact loss is kept, the first one on ties.
    init : {"k-means++", "random"} or array-like of shape (n_samples,), default="k-means++"
        How a start is made: greedy k-means++ on integer distances, items drawn at random, or a given partition.
    max_iter : int, default=300
        Largest number of passes per start.
    partition_weights : {"agreement"} or array-like of shape (n_partitions,), default=None
        Weights of the clusterings, scaled to mean 1; None: all 1. ``"agreement"``: their mean NMI with the others.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine, thread count and chunk size.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print a line per start.
    refine : {"density"} or None, default=None
        ``"density"``: afterwards move single items while that raises the exact density S. `predict` still returns the
        nearest center, so near borders it may differ from ``labels_`` then.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    loss_, losses_ : float, list of float
        k-means loss on H; the same after each pass of the best start, strictly falling.
    n_iter_ : int
        Passes of the best start.
    converged_, stop_reason_ : bool, {"fixed_point", "no_gain", "max_iter"}
        Whether one more pass would change no label; why passes ended: that, no lower exact loss, or `max_iter`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    BisectingConsensus : A tree of consensus partitions, when the number of clusters is not known.

    Notes
    -----
    A pass takes O(n_samples * n_partitions * n_clusters) small integer additions, and memory for the codes, the
    labels and a table of n_codes * n_clusters integers. Scores are int32 fixed point and counts int64, so results
    are the same for any order of clusterings and any names of clusters.

    References
    ----------
    .. [1] G. Candel, "Linear Time Evidence Accumulation Clustering with KMeans", 2021.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.KMeansConsensus(n_clusters=2, random_state=0).fit(table).labels_.tolist()
    [1, 1, 1, 0, 0, 0]
    """

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, init: Any = "k-means++", max_iter: int = 300,
        partition_weights: Any = None, random_state: Any = None, engine: Any = "auto", verbose: int = 0,
        refine: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, n_init=n_init, init=init, max_iter=max_iter, partition_weights=partition_weights,
            random_state=random_state, engine=engine, verbose=verbose,
        )  # fmt: skip
        self.refine = refine

    def make_objective(self, rows: Rows, v: np.ndarray) -> Objective:
        if self.refine is not None:
            check_choice(self.refine, "refine", ("density",))
        return KMeansObjective(v)

    def _refined(self, rows: Rows, best: Fit, v: np.ndarray, max_iter: int) -> Counts:
        if self.refine is None:
            return best.counts
        return exchange(rows, best.labelling, DensityState(best.counts, v), max_iter).counts
