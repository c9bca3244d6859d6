"""LWEA: average linkage of the locally weighted co-association, over micro-clusters."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from ..core.checks import seed_from, stream
from ..engines import Rows
from ..metrics.weights import THETA
from .eac import EAC
from .embedding import Sample


@dataclass(eq=False, repr=False)
class LWEA(EAC):
    r"""Locally weighted evidence accumulation: average linkage in which certain base clusters count more.

    A co-occurrence in base cluster f counts :math:`ECI(f)`, which falls as the other partitions cut f into more pieces
    (see :func:`coassoc.metrics.cluster_uncertainty`). Items are over-segmented by :class:`KMeansConsensus` first, and
    the micro-clusters are linked by their mean weighted co-association: linear in the number of items.

    Parameters
    ----------
    n_clusters : int, default=8
        Clusters of ``labels_``.
    micro_clusters : int, "auto" or None, default="auto"
        Clusters of the over-segmentation. ``"auto"``: 100, or 5 * `n_clusters` when that is more. None, or fewer
        different rows than that: exact linkage of the different rows, if it needs no more than 2 GiB.
    partition_weights, random_state, engine, verbose
        As for `EAC`.
    theta : float, default=0.4
        How fast the weight of a base cluster falls with its uncertainty.

    Attributes
    ----------
    labels_, linkage_, n_leaves_ and the others
        As for `EAC`.
    cluster_weights_ : ndarray of shape (d,)
        ECI of each base cluster.

    See Also
    --------
    LWGP : The same weights in a normalised cut, from the same publication.
    EAC : Other linkages; with ``cluster_weights="uncertainty"`` the same similarities.

    Notes
    -----
    As `EAC` with micro-clusters. Weights come from at most two million labels (items times partitions), evenly spread.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> ca.LWEA(n_clusters=2).fit(table).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    _: KW_ONLY
    # settings of EAC that LWEA fixes
    linkage: str = field(default="average", init=False)
    enhanced: bool = field(default=False, init=False)
    similarity: str = field(default="walk", init=False)
    max_bytes: int = field(default=1 << 31, init=False)
    cluster_weights: Any = field(default="uncertainty", init=False)
    micro_clusters: Any = "auto"
    theta: float = THETA

    def _cluster_weights(self, rows: Rows) -> np.ndarray:
        sample = Sample(rows, stream(seed_from(self.random_state), 0))
        self.cluster_weights_ = sample.uncertainty(self.theta)
        return self.cluster_weights_
