"""Weights of clusterings by their agreement, and of base clusters by how often other clusterings cut them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..engines import resolve
from ..ensemble import Ensemble, check_ensemble
from .counting import mean_with_others, member_nmi
from .labels import check_copies, check_partition_weights

THETA = 0.4  # the value of Huang, Wang and Lai
_BITS = 40  # of entropies in fixed point; their sum over 2**20 partitions fits


def resolve_partition_weights(
    weights: Any, ensemble: Ensemble, copies: np.ndarray | None = None, engine: Any = "auto"
) -> np.ndarray:
    """Partition weights of mean 1 from None, ``"agreement"`` or numbers."""
    if isinstance(weights, str):
        if weights != "agreement":
            raise ValueError(
                f"partition_weights must be None, 'agreement' or one number per partition, got {weights!r}."
            )
        weights = mean_with_others(member_nmi(ensemble, copies, engine))
        if not weights.any():  # no two partitions agree at all
            weights = None
    return check_partition_weights(weights, ensemble.n_partitions)


def cluster_uncertainty(X: Any, *, theta: float = THETA, sample_weight: Any = None, engine: Any = "auto") -> np.ndarray:
    r"""Weight of each base cluster: 1 when no other partition splits it, smaller the more they do.

    .. math:: ECI(f) = \exp\Big(-\frac{E(f)}{\theta p}\Big), \qquad
              E(f) = -\sum_m \sum_{g \in m} q_{fg} \log_2 q_{fg}

    with :math:`q_{fg}` the share of f's items, among those partition m labels, that lie in its cluster g.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The clusterings.
    theta : float, default=0.4
        How fast the weight falls.
    sample_weight : array-like of int, default=None
        How often each item counts.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the overlap pass runs.

    Returns
    -------
    ndarray of shape (d,)
        One weight in (0, 1] per base cluster, in the order of ``ensemble.offsets``.

    References
    ----------
    .. [1] D. Huang, C.-D. Wang and J.-H. Lai, "Locally weighted ensemble clustering", IEEE Transactions on
       Cybernetics 48(5), 2018, https://doi.org/10.1109/TCYB.2017.2702343

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.metrics.cluster_uncertainty([[0, 0], [0, 0], [1, 0], [1, 1]]).round(3).tolist()
    [1.0, 0.287, 0.317, 1.0]
    """
    ensemble = check_ensemble(X)
    with resolve(engine, ensemble).load(ensemble, check_copies(sample_weight, ensemble.n_samples)) as rows:
        return uncertainty_from_overlap(rows.overlap(), rows.layout.offsets, theta)


def uncertainty_from_overlap(overlap: np.ndarray, offsets: np.ndarray, theta: float = THETA) -> np.ndarray:
    """ECI of every base cluster from HᵀH; partitions that label no item of f are ignored."""
    if not (math.isfinite(theta) and theta > 0):
        raise ValueError(f"theta must be a positive number, got {theta!r}.")
    # terms in fixed point: their sum depends neither on the order of clusters nor on how the overlap lies in memory
    entropy = np.zeros(len(overlap), dtype=np.int64)
    for start, stop in itertools.pairwise(offsets.tolist()):
        block = overlap[:, start:stop].astype(np.float64)
        whole = block.sum(axis=1, keepdims=True)
        share = np.divide(block, whole, out=np.zeros_like(block), where=whole > 0)
        terms = share * np.log2(np.where(share > 0, share, 1.0))
        entropy -= np.rint(np.ldexp(terms, _BITS)).astype(np.int64).sum(axis=1)
    return np.exp(-np.ldexp(entropy.astype(np.float64), -_BITS) / (theta * (len(offsets) - 1)))
