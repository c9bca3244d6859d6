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
    n_clusters, n_init, init, max_iter, partition_weights, random_state, engine, verbose
        As for `KMeansConsensus`; ``init="random", n_init=1`` fits the paper's figures on its small sets.

    Attributes
    ----------
    labels_, losses_, density_, n_clusters_, cluster_density_, cluster_sizes_, n_iter_, converged_, stop_reason_
        As for `KMeansConsensus`.
    loss_ : float
        Normalised cut :math:`k - \sum_C \sum_f \alpha_f^2 / w(C)`; the weighted k-means cost differs from it by a
        constant of the ensemble.

    See Also
    --------
    KMeansConsensus : The same without item weights; usually denser.

    Notes
    -----
    Time and memory are those of :class:`KMeansConsensus`. Large base clusters weigh more: the normalised cut favours
    clusters of equal total degree, not of equal density.

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
