"""A warning for methods that could not make as many clusters as they were asked for."""

from __future__ import annotations

import warnings
from typing import Any


class FewerClustersWarning(UserWarning):
    """A consensus has fewer clusters than asked for."""


def warn_if_fewer(estimator: Any, found: int, asked: int) -> None:
    """Warn that the data gave `found` clusters where `asked` were asked for."""
    if found < asked:
        message = (
            f"{type(estimator).__name__} found {found} clusters, fewer than n_clusters={asked}: too few items differ "
            "in what tells clusters apart; ask for fewer clusters, or use KMeansConsensus."
        )
        warnings.warn(message, FewerClustersWarning, stacklevel=3)
