"""Checks shared by everything that takes labels, multiplicities or partition weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ensemble._encode import encode_column


def check_labels(labels: Any, n_samples: int, name: str = "labels") -> tuple[np.ndarray, int]:
    """Labels as codes 0..k-1 in the sorted order of their names, −1 where missing; and k."""
    values = np.asarray(labels, dtype=object) if isinstance(labels, (list, tuple)) else np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {values.shape}.")
    if len(values) != n_samples:
        raise ValueError(f"{name} must have one entry per item ({n_samples}), got {len(values)}.")
    try:
        column = encode_column(values, None, name)
    except ValueError as error:
        raise ValueError(str(error).replace("partitions: column labels", "labels")) from None
    codes = column.codes.astype(np.int32)
    if column.has_missing:
        codes[codes == column.n_clusters] = -1
    return codes, column.n_clusters


def check_copies(sample_weight: Any, n_samples: int) -> np.ndarray | None:
    """Multiplicities as int64, or None when every item counts once."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight)
    if weight.ndim == 0:
        weight = np.full(n_samples, weight)
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {weight.shape}.")
    if weight.dtype.kind not in "iub":
        as_float = np.asarray(weight, dtype=np.float64)
        whole = np.isfinite(as_float) & (as_float == np.floor(as_float))
        if not whole.all():
            raise ValueError(
                "sample_weight must hold whole numbers (how often each item counts), got "
                f"{as_float[~whole][0]}; scale your weights to integers."
            )
        weight = as_float
    weight = weight.astype(np.int64)
    if (weight < 0).any():
        raise ValueError(f"sample_weight must not be negative, got {int(weight.min())}; 0 removes an item.")
    if not weight.any():
        raise ValueError("sample_weight must be positive for at least one item, got all zeros.")
    return None if (weight == 1).all() else weight


def check_partition_weights(weights: Any, n_partitions: int) -> np.ndarray:
    """Partition weights as float64 brought to mean 1."""
    if weights is None:
        return np.ones(n_partitions)
    v = np.asarray(weights, dtype=np.float64)
    if v.shape != (n_partitions,):
        raise ValueError(f"partition_weights must have one entry per partition ({n_partitions}), got shape {v.shape}.")
    if not np.isfinite(v).all() or (v < 0).any() or not v.any():
        raise ValueError(f"partition_weights must be finite, not negative, and not all zero, got {v.tolist()}.")
    if (v == v[0]).all():
        return np.ones(n_partitions)
    import math

    return v * (n_partitions / math.fsum(v.tolist()))
