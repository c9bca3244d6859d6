"""Agreement of the base partitions with each other and with the consensus, and outliers among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ensemble import Ensemble
from ..metrics import pairwise_nmi, partition_agreement

_SCALE = 1.4826  # makes the median absolute deviation of a normal sample its standard deviation
_LEAST_SPREAD = 0.01  # smallest deviation: partitions that agree almost perfectly have no outliers


@dataclass(frozen=True)
class PartitionAgreement:
    """Agreement by NMI.

    Attributes
    ----------
    matrix : ndarray of shape (n_partitions, n_partitions)
        NMI between every two partitions.
    mean : ndarray of shape (n_partitions,)
        Mean NMI with the other partitions.
    consensus : ndarray of shape (n_partitions,)
        NMI with the consensus.
    outlier : ndarray of bool of shape (n_partitions,)
        Far below the others: more than 3 scaled median absolute deviations under the median of `mean`. With fewer
        than four partitions none is marked.
    """

    matrix: np.ndarray
    mean: np.ndarray
    consensus: np.ndarray
    outlier: np.ndarray


def agreement_of_partitions(ensemble: Ensemble, labels: np.ndarray, engine: Any = "auto") -> PartitionAgreement:
    """NMI between all base partitions and with the consensus; one overlap pass and one counting pass."""
    p = ensemble.n_partitions
    matrix = pairwise_nmi(ensemble, engine=engine)
    mean = (matrix.sum(axis=1) - np.diagonal(matrix)) / (p - 1) if p > 1 else np.ones(1)
    centre = float(np.median(mean))
    spread = max(_SCALE * float(np.median(np.abs(mean - centre))), _LEAST_SPREAD)
    outlier = mean < centre - 3 * spread if p >= 4 else np.zeros(p, dtype=bool)
    return PartitionAgreement(matrix, mean, partition_agreement(ensemble, labels, engine=engine), outlier)
