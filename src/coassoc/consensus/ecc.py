"""ECC: k-means with the Kullback–Leibler divergence."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from ..core.checks import check_choice
from ..core.objectives import ECCObjective
from ..engines import Rows
from .kmeans import TableConsensus


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
    smoothing : {"additive", "floor"}, default="additive"
        How shares are smoothed, see above.
    epsilon : float, default=0.001
        Strength of the smoothing. Smaller values make a single unseen label cost more.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    loss_, losses_ : float, list of float
        Penalised loss in nats (plain loss with a floor); the same after each pass of the best start, strictly falling.
    n_iter_ : int
        Passes of the best start.
    converged_, stop_reason_ : bool, {"fixed_point", "no_gain", "max_iter"}
        Whether one more pass would change no label; why passes ended: that, no lower exact loss, or `max_iter`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    KMeansConsensus : The same pass with squared distances.

    Notes
    -----
    Time and memory are those of :class:`KMeansConsensus`. Which start reproduces the paper's figures: see the page on
    compared methods. When starts are single rows, scores in the first pass are
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
