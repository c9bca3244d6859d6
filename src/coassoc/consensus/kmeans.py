"""KMeansConsensus: the paper's KM, k-means on the one-hot form of an ensemble."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..core.counts import Counts
from ..core.moves import DensityState
from ..core.tables import KMeansObjective, Objective, seeding_weights
from ..engines import Engine, Fit, Rows, Start
from ..ensemble import Ensemble
from ..metrics.labels import check_labels, fill_missing
from .base import ConsensusEstimator
from .exchange import exchange
from .grow import GrowingMixin
from .lloyd import TooFewRows, lloyd, random_rows, seed_rows, seeded_fits
from .weights import ClusterWeightObjective, resolve_cluster_weights


class TableConsensus(ConsensusEstimator):
    """Shared by the methods that are one pass with another table: starts, restarts, the best of them, predict."""

    def _objective(self, rows: Rows, v: np.ndarray) -> Objective:
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
            How often each item counts, exactly as if its row were repeated; 0 removes it.

        Returns
        -------
        self
        """
        k = check_integer(self.n_clusters, "n_clusters")
        n_init = check_integer(self.n_init, "n_init")
        max_iter = check_integer(self.max_iter, "max_iter")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            objective = self._objective(rows, v)
            init = self._check_init(ensemble, k)
            best = self._best_start(rows, engine, objective, v, init, k, n_init, max_iter, seed)
            self._keep_model(ensemble, best.table)
            counts = self._refined(rows, best, v, max_iter)
            self._store_partition(ensemble, rows.labels(best.labelling), counts, v)
            self.loss_ = best.loss if counts is best.counts else objective.loss(counts)
            self.losses_ = best.losses
            self.n_iter_ = best.n_iter
            self.converged_ = best.stop == "fixed_point"
            self.stop_reason_ = best.stop
            return self

    def _best_start(
        self,
        rows: Rows,
        engine: Engine,
        objective: Objective,
        v: np.ndarray,
        init: str | np.ndarray,
        k: int,
        n_init: int,
        max_iter: int,
        seed: int,
    ) -> Fit:
        """The start that ends with the lowest loss; its labelling holds its labels."""
        best: Fit | None = None
        every = rows
        if isinstance(init, str) and not self.verbose:  # a report counts the items that move
            rows = every.distinct(n_init)
        restarts = range(n_init if isinstance(init, str) else 1)
        # starts that run one after the other share one labelling, and their reports do not mix
        at_once = 1 if self.verbose else min(engine.starts_at_once(rows), len(restarts))
        shared = rows.labelling(k) if at_once == 1 else None

        def run(restart: int) -> Fit:
            start = self._start(rows, init, k, v, stream(seed, restart))
            return lloyd(rows, objective, start, max_iter, shared, self._reporter(restart))

        for first in range(0, len(restarts), at_once):
            some = restarts[first : first + at_once]
            if isinstance(init, str) and init == "k-means++" and k > 1:
                starts = [Start(rows, stream(seed, restart)) for restart in some]
                weights, report = seeding_weights(v), self._reporter(first)
                fits = seeded_fits(engine, starts, objective, k, weights, max_iter, shared, report)
            else:
                fits = engine.side_by_side(run, some)
            for fit in fits:
                if isinstance(fit, TooFewRows):
                    raise fit
                if best is None or fit.loss < best.loss:
                    best = fit
        assert best is not None
        if shared is not None and best is not fit:
            rows.assign(shared, best.table)  # labels are a function of the table
        return best if rows is every else replace(best, labelling=rows.spread(best.labelling))

    def predict(self, X: Any) -> np.ndarray:
        """Consensus label of each row of base labels.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            New rows, one column per base partition in the order of `fit`. Labels unseen at fit count as missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            −1 for rows without a single known label. On the rows of `fit` this is ``labels_``.
        """
        return self._predict(X)

    def _refined(self, rows: Rows, best: Fit, v: np.ndarray, max_iter: int) -> Counts:
        """A last step on the labels of the best start, if the method has one."""
        return best.counts

    def _check_init(self, ensemble: Ensemble, k: int) -> str | np.ndarray:
        if isinstance(self.init, str):
            return check_choice(self.init, "init", ("k-means++", "random"))
        labels, found = check_labels(self.init, ensemble.n_samples, "init", on_card=True)
        if found > k:
            raise ValueError(f"init has {found} clusters, more than n_clusters={k}; raise n_clusters or merge some.")
        return labels

    def _start(self, rows: Rows, init: str | np.ndarray, k: int, v: np.ndarray, rng: np.random.Generator) -> Counts:
        """Counts whose centres the first pass uses."""
        if not isinstance(init, str):  # items without a start go to a cluster of their own, which is then dropped
            counts = rows.counts(rows.labelling_of(fill_missing(init, k), k + 1))
            return Counts(counts.alpha[:, :k].copy(), counts.sizes[:k].copy(), counts.layout)
        if k == 1:
            return rows.whole_counts()
        chosen = random_rows(rows, k, rng) if init == "random" else seed_rows(rows, k, seeding_weights(v), rng)
        return Counts.of_rows(chosen, rows.layout)

    def _reporter(self, restart: int):
        if not self.verbose:
            return None

        def report(n_iter: int, loss: float, moved: int) -> None:
            print(f"{type(self).__name__}: start {restart}, pass {n_iter}, loss {loss:.6g}, {moved} rows moved")

        return report


class KMeansConsensus(GrowingMixin, TableConsensus):
    r"""Consensus partition by k-means on the one-hot form of an ensemble.

    With :math:`A` the co-association matrix of :math:`p` partitions, the k-means cost of a partition is
    :math:`p\,(n - \sum_C |C| \bar A_C)`, where :math:`\bar A_C` is the mean of :math:`A` over all ordered pairs of
    cluster :math:`C`, an item with itself included. Evidence is thus accumulated without ever building :math:`A`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters in the consensus. Empty clusters are refilled from the worst-placed row.
    n_init : int, default=10
        Starts; the one with the lowest exact loss is kept (the first of equals).
    init : {"k-means++", "random"} or array-like of shape (n_samples,), default="k-means++"
        How a start is made: greedy k-means++ on integer distances, items drawn at random, or a given partition.
    max_iter : int, default=300
        Passes per start at most.
    refine : {"density"} or None, default=None
        ``"density"``: end by exchanging single items on the exact density S until no move raises it. ``labels_`` are
        then no longer those of the nearest centres, which is what `predict` gives.
    partition_weights : {"agreement"} or array-like of shape (n_partitions,), default=None
        Weight of each base partition, brought to mean 1; all 1 when None. ``"agreement"``: its mean NMI with the
        other partitions.
    cluster_weights : {"uncertainty"} or array-like of shape (d,), default=None
        Weight of each base cluster, for weighted k-means on rows that are normalised to sum 1. ``"uncertainty"``: see
        `cluster_uncertainty`. Scores such as ``density_`` stay unweighted by it.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine, thread count and chunk size.
    engine : {"auto", "native", "numpy"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print a line per pass.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items no partition labels.
    density_ : float
        Density S of the partition.
    cluster_density_, cluster_sizes_ : ndarray of shape (n_clusters,)
        Density and number of items of each cluster.
    loss_ : float
        k-means loss on H.
    losses_ : list of float
        Loss after each pass of the best start, strictly falling.
    n_iter_ : int
        Passes of the best start.
    converged_ : bool
        True when one more pass would leave every label unchanged. Otherwise `stop_reason_` is ``"no_gain"`` (a pass
        would not lower the exact loss) or ``"max_iter"``.
    stop_reason_ : str
        ``"fixed_point"``, ``"no_gain"`` or ``"max_iter"``.

    See Also
    --------
    BisectingConsensus : A tree of consensus partitions, when the number of clusters is not known.

    Notes
    -----
    A pass takes O(n_samples * n_partitions * n_clusters) small integer additions, and memory for the codes, the
    labels and a table of n_codes * n_clusters integers. Scores are int32 fixed point and counts int64, so results
    are the same for any order of partitions and any names of clusters.

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
        self,
        n_clusters=8,
        *,
        n_init=10,
        init="k-means++",
        max_iter=300,
        refine=None,
        partition_weights=None,
        cluster_weights=None,
        random_state=None,
        engine="auto",
        verbose=0,
    ):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.init = init
        self.max_iter = max_iter
        self.refine = refine
        self.partition_weights = partition_weights
        self.cluster_weights = cluster_weights
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _objective(self, rows: Rows, v: np.ndarray) -> Objective:
        if self.refine is not None:
            check_choice(self.refine, "refine", ("density",))
        u = resolve_cluster_weights(self.cluster_weights, rows)
        if u is None:
            return KMeansObjective(v)
        return ClusterWeightObjective.of(rows, u * np.repeat(v, rows.layout.n_clusters))

    def _refined(self, rows: Rows, best: Fit, v: np.ndarray, max_iter: int) -> Counts:
        if self.refine is None:
            return best.counts
        return exchange(rows, best.labelling, DensityState(best.counts, v), max_iter).counts
