"""LWEA: average linkage of the locally weighted co-association, over micro-clusters."""

from __future__ import annotations

import numpy as np

from ..core.checks import seed_from, stream
from ..engines import Rows
from ..metrics.weights import THETA
from .eac import EAC
from .embedding import Sample


class LWEA(EAC):
    r"""Locally weighted evidence accumulation: average linkage in which certain base clusters count more.

    A co-occurrence in base cluster f counts :math:`ECI(f)`, which falls as the other partitions cut f into more pieces
    (see :func:`coassoc.metrics.cluster_uncertainty`). Items are over-segmented by :class:`KMeansConsensus` first, and
    the micro-clusters are linked by their mean weighted co-association: linear in the number of items.

    Parameters
    ----------
    n_clusters : int, default=8
        Clusters of ``labels_``.
    theta : float, default=0.4
        How fast the weight of a base cluster falls with its uncertainty.
    micro_clusters : int, "auto" or None, default="auto"
        Clusters of the over-segmentation. ``"auto"``: 100, or 5 * `n_clusters` when that is more. None, or fewer
        different rows than that: exact linkage of the different rows.
    partition_weights : array-like of shape (n_partitions,), default=None
        Weight of each base partition, brought to mean 1; all 1 when None.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the over-segmentation.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes of the over-segmentation run.
    verbose : int, default=0
        Print a line per stage.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels, numbered by first appearance among the leaves; −1 for items no partition labels and for
        those of weight 0 whose row occurs nowhere else.
    cluster_weights_ : ndarray of shape (d,)
        ECI of each base cluster.
    linkage_, leaf_of_item_, leaf_sizes_, n_leaves_, n_ties_
        The tree over micro-clusters, as in :class:`EAC`.
    density_, cluster_density_, cluster_sizes_
        Scores of ``labels_``.

    See Also
    --------
    LWGP : The same weights in a normalised cut.
    EAC : Other linkages; with ``cluster_weights="uncertainty"`` the same similarities.

    Notes
    -----
    One start of k-means with `micro_clusters` clusters and 30 passes at most, then as many squared sums of counts. The
    weights come from at most two million labels (items times partitions), evenly spread.

    References
    ----------
    .. [1] D. Huang, C.-D. Wang and J.-H. Lai, "Locally weighted ensemble clustering", IEEE Transactions on
       Cybernetics 48(5), 2018, https://doi.org/10.1109/TCYB.2017.2702343

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.LWEA(n_clusters=2).fit(table).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    # settings of EAC that LWEA fixes
    linkage = "average"
    enhanced = False
    similarity = "walk"
    cluster_weights = "uncertainty"
    max_bytes = 1 << 31

    def __init__(
        self,
        n_clusters=8,
        *,
        theta=THETA,
        micro_clusters="auto",
        partition_weights=None,
        random_state=None,
        engine="auto",
        verbose=0,
    ):
        self.n_clusters = n_clusters
        self.theta = theta
        self.micro_clusters = micro_clusters
        self.partition_weights = partition_weights
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _cluster_weights(self, rows: Rows) -> np.ndarray:
        sample = Sample(rows, stream(seed_from(self.random_state), 0))
        self.cluster_weights_ = sample.uncertainty(self.theta)
        return self.cluster_weights_
