"""SEC: spectral ensemble clustering as weighted k-means."""

from __future__ import annotations

import numpy as np

from ..core.objectives import SECObjective
from ..engines import Rows
from .kmeans import TableConsensus


class SEC(TableConsensus):
    r"""Spectral ensemble clustering: the normalised cut of the co-association graph, by weighted k-means.

    With :math:`s_f` the items of base cluster f, item i has degree :math:`w_i = \sum_{f \in i} s_f` in the graph
    :math:`HH^T`. Minimising the normalised cut of that graph is k-means on the rows :math:`h_i / w_i` with
    weights :math:`w_i`. With :math:`w(C) = \sum_f s_f \alpha_f(C)`, an item goes to the cluster with the largest

    .. math:: \sum_{f \in i} \Big( \frac{2\alpha_f}{w(C)} - s_f \frac{\sum_{f'} \alpha_{f'}^2}{w(C)^2} \Big),

    a table look-up like that of :class:`KMeansConsensus`: neither the graph nor the n×d matrix is built.

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

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    loss_ : float
        Normalised cut :math:`k - \sum_C \sum_f \alpha_f^2 / w(C)`; the weighted k-means cost differs from it by a
        constant of the ensemble.
    losses_ : list of float
        Loss after each pass of the best start, strictly falling.
    n_iter_ : int
        Passes of the best start.
    converged_, stop_reason_ : bool, {"fixed_point", "no_gain", "max_iter"}
        Whether one more pass would change no label; why passes ended: that, no lower exact loss, or `max_iter`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    See Also
    --------
    KMeansConsensus : The same without item weights; usually denser.

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
