"""Checks shared by everything that takes labels, multiplicities or partition weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.counts import MAX_COPIES
from ..ensemble.encode import encode_column
from ..ensemble.ensemble import is_on_gpu
from ..ensemble.gpu import through_host


def check_labels(
    labels: Any, n_samples: int | None, name: str = "labels", *, on_gpu: bool = False
) -> tuple[np.ndarray, int]:
    """Labels as codes 0..k-1 in the sorted order of their names, −1 where missing; and k.

    None for `n_samples` takes any number of items. With `on_gpu`, the codes of labels on the GPU go there.
    """
    if is_on_gpu(labels):
        _check_place(name, on_gpu)
        codes = through_host(labels, lambda array: check_labels(array, n_samples, name)[0], np.int32)
        return codes, int(codes.max()) + 1
    values = np.asarray(labels, dtype=object) if isinstance(labels, (list, tuple)) else np.asanyarray(labels)
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {values.shape}.")
    if len(values) == 0 or (n_samples is not None and len(values) != n_samples):
        wanted = "at least one entry" if n_samples is None else f"one entry per item ({n_samples})"
        raise ValueError(f"{name} must have {wanted}, got {len(values)}.")
    try:
        column = encode_column(values, None, name)
    except (TypeError, ValueError) as error:  # name this argument instead of a column of a table
        text = str(error).replace(f"partitions: column {name}", name).replace(f"column {name}, ", "")
        raise type(error)(text.replace("partitions", name).replace("; drop that column", "")) from None
    codes = column.codes.astype(np.int32)
    if column.has_missing:
        codes[codes == column.n_clusters] = -1
    return codes, column.n_clusters


def fill_missing(labels: Any, instead: int) -> Any:
    """A copy of labels with `instead` where they are negative, in the memory where they are."""
    labels = labels.copy()
    labels[labels < 0] = instead
    return labels


def _check_place(name: str, on_gpu: bool) -> None:
    if not on_gpu:
        raise TypeError(f"{name} must lie in the host's memory here, got an array on the GPU; copy it to the host.")


def check_copies(sample_weight: Any, n_samples: int, *, on_gpu: bool = False) -> np.ndarray | None:
    """Multiplicities as int64, or None when every item counts once.

    With `on_gpu`, those on the GPU go back there, as uint32.
    """
    if sample_weight is None:
        return None
    if is_on_gpu(sample_weight):
        _check_place("sample_weight", on_gpu)
        return through_host(sample_weight, lambda array: check_copies(array, n_samples), np.uint32)
    weight = _array(sample_weight, "sample_weight")
    if weight.dtype.kind not in "iubfO":
        raise TypeError(f"sample_weight must hold whole numbers, got an array of {weight.dtype}.")
    if weight.ndim == 0:
        weight = np.full(n_samples, weight)
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {weight.shape}.")
    if weight.dtype.kind not in "iub":
        as_float = _floats(weight, "sample_weight")
        whole = np.isfinite(as_float) & (as_float == np.floor(as_float))
        if not whole.all():
            raise ValueError(
                "sample_weight must hold whole numbers (how often each item counts), got "
                f"{as_float[~whole][0]}; scale your weights to integers."
            )
        weight = as_float
    lowest, highest = int(weight.min()), int(weight.max())
    check_copy_range(lowest, highest)  # before the conversion to int64 could overflow
    return None if lowest == highest == 1 else weight.astype(np.int64)


def check_copy_range(lowest: int, highest: int) -> None:
    """Reject multiplicities that are negative, too large for exact counts, or all zero."""
    if lowest < 0:
        raise ValueError(f"sample_weight must not be negative, got {lowest}; 0 removes an item.")
    if highest > MAX_COPIES:
        raise ValueError(
            f"sample_weight must be at most {MAX_COPIES}, the number of items that exact counts can hold, got "
            f"{highest}; divide your weights by a common factor."
        )
    if highest == 0:
        raise ValueError("sample_weight must be positive for at least one item, got all zeros.")


def check_partition_weights(weights: Any, n_partitions: int) -> np.ndarray:
    """Partition weights as float64 scaled to mean 1."""
    if weights is None:
        return np.ones(n_partitions)
    v = _floats(weights, "partition_weights")
    if v.shape != (n_partitions,):
        raise ValueError(f"partition_weights must have one entry per partition ({n_partitions}), got shape {v.shape}.")
    if not np.isfinite(v).all() or (v < 0).any() or not v.any():
        raise ValueError(f"partition_weights must be finite, not negative, and not all zero, got {v.tolist()}.")
    if (v == v[0]).all():
        return np.ones(n_partitions)
    total = math.fsum((v / v.max()).tolist())  # of ratios, so that the sum cannot overflow
    return v / v.max() * (n_partitions / total)


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be a vector of numbers, got lists of different lengths.") from None


def _floats(values: Any, name: str) -> np.ndarray:
    array = _array(values, name)
    if array.dtype.kind not in "iubfO":
        raise TypeError(f"{name} must hold numbers, got an array of {array.dtype}.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers: {error}.") from None
