"""Items that most clusterings leave without a label: −1 in the answer, where that is asked for."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ...ensemble.gpu import beside
from ...metrics.labels import check_copies
from ..base import host_ensemble, on_host


def check_noise(noise: Any) -> None:
    """A share from 0 to below 1, or None."""
    if noise is None:
        return
    if isinstance(noise, bool) or not isinstance(noise, numbers.Real) or not 0 <= float(noise) < 1:
        raise ValueError(f"noise must be None or a share from 0 to below 1, such as 0.5, got {noise!r}.")


def without_noise(ensemble: Any, noise: float | None, sample_weight: Any) -> tuple[np.ndarray | None, Any, int]:
    """Which items are above the share `noise`, if any, weights that are 0 for them, and how many they are."""
    noisy = None if noise is None else host_ensemble(ensemble).noise_share() > noise
    if noisy is None or not noisy.any():
        return None, sample_weight, 0
    if noisy.all():
        raise ValueError(f"noise={noise!r} leaves no item: each lacks more labels than that; raise it.")
    copies = check_copies(on_host(sample_weight), len(noisy)) if sample_weight is not None else None
    copies = np.ones(len(noisy), np.int64) if copies is None else copies
    return noisy, np.where(noisy, 0, copies), int(copies[noisy].sum())


def marked(values: Any, noisy: np.ndarray, value: int) -> Any:
    """`values` of all items, where they are, with `value` for those that are noise."""
    values = values.copy()
    values[beside(noisy, values).astype(bool)] = value
    return values
