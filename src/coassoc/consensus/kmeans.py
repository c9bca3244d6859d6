"""KMeansConsensus, SEC and ECC: k-means passes over an ensemble, each with a score table of its own."""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.checks import check_choice, seed_from
from ..core.objectives import ECCObjective, KMeansObjective, Objective, SECObjective
from ..engines import Fit, Rows
from ..ensemble import Ensemble
from ..metrics.labels import check_labels
from .base import PredictMixin, inherit_docs
from .lloyd import Starts, best_start, warn_if_fewer, with_fewer_clusters


class TableConsensus(PredictMixin):
    """Base of the methods that run k-means passes with a score table of their own.

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

    Attributes
    ----------
    n_iter_ : int
        Passes of the best start.
    """

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
        k, n_init, max_iter = self._integers("n_clusters", "n_init", "max_iter")
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
            self._store_partition(ensemble, rows.labels(best.labelling), best.counts, v)
            self.loss_, self.losses_, self.n_iter_ = best.loss, best.losses, best.n_iter
            self.converged_, self.stop_reason_ = best.stop == "fixed_point", best.stop
            if best.stop != "max_iter":  # rows that differ in missing labels alone may leave a cluster empty
                warn_if_fewer(k, self.n_clusters_, "clusters that the labels tell apart")

    def _check_init(self, ensemble: Ensemble, k: int) -> str | np.ndarray:
        if isinstance(self.init, str):
            return check_choice(self.init, "init", ("k-means++", "random"))
        labels, n_given = check_labels(self.init, ensemble.n_samples, "init", on_gpu=True)
        if n_given > k:
            raise ValueError(f"init has {n_given} clusters, more than n_clusters={k}; raise n_clusters or merge some.")
        return labels


@inherit_docs
class KMeansConsensus(TableConsensus):
    r"""Consensus partition by k-means on the one-hot form of an ensemble.

    With :math:`A` the co-association matrix of :math:`p` partitions, the k-means cost of a partition is
    :math:`p\,(n - \sum_C |C| \bar A_C)`, where :math:`\bar A_C` is the mean of :math:`A` over all ordered pairs of
    cluster :math:`C`, an item with itself included. Evidence is thus accumulated without ever building :math:`A`.

    Parameters
    ----------
    {n_clusters} {n_init} {init} {max_iter}
    {partition_weights} {random_state} {engine} {verbose}

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    loss_, losses_ : float, list of float
        k-means loss on H; the same after each pass of the best start, strictly falling.
    {n_iter_} {converged_} {n_features_in_}

    Notes
    -----
    A pass takes O(n_samples * n_partitions * n_clusters) small integer additions, and memory for the codes, the
    labels and a table of n_codes * n_clusters integers.

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

    def make_objective(self, rows: Rows, v: np.ndarray) -> KMeansObjective:
        return KMeansObjective(v)


@inherit_docs
class SEC(TableConsensus):
    r"""Spectral ensemble clustering: the normalised cut of the co-association graph, by weighted k-means.

    With :math:`s_f` the items of base cluster f, item i has degree :math:`w_i = \sum_{f \in i} s_f` in the graph
    :math:`HH^T`. Minimising the normalised cut of that graph is k-means on the rows :math:`h_i / w_i` with
    weights :math:`w_i`. With :math:`w(C) = \sum_f s_f \alpha_f(C)`, an item goes to the cluster with the largest

    .. math:: \sum_{f \in i} \Big( \frac{2\alpha_f}{w(C)} - s_f \frac{\sum_{f'} \alpha_{f'}^2}{w(C)^2} \Big),

    a table look-up like that of :class:`KMeansConsensus`: neither the graph nor the n×d matrix is built.

    Parameters
    ----------
    {n_clusters} {n_init} {init} {max_iter}
    {partition_weights} {random_state} {engine} {verbose}

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    loss_, losses_ : float, list of float
        Normalised cut :math:`k - \sum_C \sum_f \alpha_f^2 / w(C)`, which the weighted k-means cost differs from by a
        constant of the ensemble; the same after each pass of the best start, strictly falling.
    {n_iter_} {converged_} {n_features_in_}

    Notes
    -----
    Time and memory are those of :class:`KMeansConsensus`. Large base clusters weigh more: the normalised cut favours
    clusters of equal total degree, not of equal density. ``init="random", n_init=1`` fits the paper's figures on its
    small sets.

    References
    ----------
    .. [1] H. Liu, T. Liu, J. Wu, D. Tao, Y. Fu, "Spectral Ensemble Clustering", KDD 2015,
       https://doi.org/10.1145/2783258.2783287

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.SEC(n_clusters=2, random_state=0).fit(table).labels_.tolist()
    [1, 1, 1, 0, 0, 0]
    """

    def make_objective(self, rows: Rows, v: np.ndarray) -> SECObjective:
        whole = rows.whole_counts()
        return SECObjective(v, whole.alpha[:, 0])


@inherit_docs
class ECC(TableConsensus):
    r"""Entropy-based consensus clustering: k-means on H with the Kullback–Leibler divergence.

    The consensus keeps the entropy of the base labels inside its clusters low. An item goes to the cluster with
    the largest :math:`\sum_j v_j \log q_f(C)`, f its label in partition j and :math:`q_f(C)` the share of the label
    among the items of C. The log of a label that does not occur in the cluster would be infinite, so shares are
    smoothed:

    * ``smoothing="additive"``: :math:`q_f = (\alpha_f + \epsilon) / (n_{Cj} + \epsilon k_j)`. The penalised loss
      :math:`-\sum_C \sum_j v_j \sum_{f \in j} (\alpha_f + \epsilon) \log q_f(C)` falls with every pass.
    * ``smoothing="floor"``: :math:`q_f = \max(\alpha_f / n_{Cj}, \epsilon)`, which reproduces the paper's figures.
      Shares no longer add up to 1, so the loss (:math:`\epsilon = 0` above) may rise; the fit then stops.

    Parameters
    ----------
    {n_clusters} {n_init} {init} {max_iter}
    {partition_weights} {random_state} {engine} {verbose}
    smoothing : {"additive", "floor"}, default="additive"
        How shares are smoothed, see above.
    epsilon : float, default=0.001
        Strength of the smoothing. Smaller values make a single unseen label cost more.

    Attributes
    ----------
    {labels_} {n_clusters_} {density_}
    loss_, losses_ : float, list of float
        Penalised loss in nats (plain loss with a floor); the same after each pass of the best start, strictly falling.
    {n_iter_} {converged_} {n_features_in_}

    Notes
    -----
    Time and memory are those of :class:`KMeansConsensus`. When starts are single rows, scores in the first pass are
    the number of shared labels times log(1/ε), so ties are frequent.

    References
    ----------
    .. [1] H. Liu, R. Zhao, H. Fang, F. Cheng, Y. Fu, Y.-Y. Liu, "Entropy-based consensus clustering for patient
       stratification", Bioinformatics, 2017, https://doi.org/10.1093/bioinformatics/btx167
    .. [2] J. Wu, H. Liu, H. Xiong, J. Cao, J. Chen, "K-means-based consensus clustering: a unified view", IEEE
       TKDE, 2015, https://doi.org/10.1109/TKDE.2014.2316512

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.ECC(n_clusters=2, random_state=0).fit(table).labels_.tolist()
    [1, 1, 1, 0, 0, 0]
    """

    def __init__(
        self, n_clusters: int = 8, *, n_init: int = 10, init: Any = "k-means++", max_iter: int = 300,
        partition_weights: Any = None, random_state: Any = None, engine: Any = "auto", verbose: int = 0,
        smoothing: str = "additive", epsilon: float = 1e-3,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, n_init=n_init, init=init, max_iter=max_iter, partition_weights=partition_weights,
            random_state=random_state, engine=engine, verbose=verbose,
        )  # fmt: skip
        self.smoothing = smoothing
        self.epsilon = epsilon

    def make_objective(self, rows: Rows, v: np.ndarray) -> ECCObjective:
        floor = check_choice(self.smoothing, "smoothing", ("additive", "floor")) == "floor"
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, numbers.Real):
            raise TypeError(f"epsilon must be a number, got {self.epsilon!r}.")
        most = 1.0 if floor else math.inf  # a floor is a share
        if not 0.0 < self.epsilon < most:
            given = f"with smoothing={self.smoothing!r}, got {self.epsilon}"
            raise ValueError(f"epsilon must be above 0 and below {most} {given}.")
        return ECCObjective(v, float(self.epsilon), floor)
