"""Items that most clusterings leave without a label: −1 in the answer, where that is asked for."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ..base import host_ensemble, on_host
from .confidence import SURE


def check_noise(noise: Any) -> None:
    """A share from 0 to below 1, or None."""
    if noise is None:
        return
    if isinstance(noise, bool) or not isinstance(noise, numbers.Real) or not 0 <= float(noise) < 1:
        raise ValueError(f"noise must be None or a share from 0 to below 1, such as 0.5, got {noise!r}.")


def mark_noise(model: Any, ensemble: Any, copies: np.ndarray | None) -> tuple[int, float]:
    """Take the items above the share ``model.noise`` out of the clusters; most other attributes describe all items.

    Returns the number of items taken out, and the share of the others that are placed surely.
    """
    noisy = np.flatnonzero(host_ensemble(ensemble).noise_share() > model.noise)
    labels = on_host(model.labels_).copy()
    taken = noisy[labels[noisy] >= 0]
    weights = np.ones(len(labels), np.int64) if copies is None else copies
    lost = np.bincount(labels[taken], weights[taken], minlength=len(model.cluster_sizes_))
    model.cluster_sizes_ = model.cluster_sizes_ - lost.astype(np.int64)
    labels[taken] = -1
    model.labels_ = labels
    model.confidence_ = on_host(model.confidence_).copy()
    model.confidence_[taken] = 0
    sure = weights[model.confidence_ >= SURE].sum() / max(weights[labels >= 0].sum(), 1)
    return int(weights[noisy].sum()), float(sure)
