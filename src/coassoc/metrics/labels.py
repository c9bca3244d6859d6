"""Labels, multiplicities and partition weights: checked, counted against each other, and renamed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
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
    return column.indices, len(column.labels)


def check_copies(sample_weight: Any, n_samples: int, *, on_gpu: bool = False) -> np.ndarray | None:
    """Multiplicities as int64, or None when every item counts once.

    With `on_gpu`, those on the GPU go back there, as uint32.
    """
    if sample_weight is None:
        return None
    if is_on_gpu(sample_weight):
        _check_place("sample_weight", on_gpu)
        return through_host(sample_weight, lambda array: check_copies(array, n_samples), np.uint32)
    weight = _numbers(sample_weight, "sample_weight")
    if weight.ndim == 0:
        weight = np.full(n_samples, weight)
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {weight.shape}.")
    whole = np.isfinite(weight) & (weight == np.floor(weight))
    if not whole.all():
        raise ValueError(
            f"sample_weight must hold whole numbers (how often each item counts), got {weight[~whole][0]}; scale your "
            "weights to integers."
        )
    lowest, highest = int(weight.min()), int(weight.max())
    if lowest < 0:
        raise ValueError(f"sample_weight must not be negative, got {lowest}; 0 removes an item.")
    if highest > MAX_COPIES:
        raise ValueError(
            f"sample_weight must be at most {MAX_COPIES}, the number of items that exact counts can hold, got "
            f"{highest}; divide your weights by a common factor."
        )
    if highest == 0:
        raise ValueError("sample_weight must be positive for at least one item, got all zeros.")
    return None if lowest == highest == 1 else weight.astype(np.int64)


def check_partition_weights(weights: Any, n_partitions: int) -> np.ndarray:
    """Partition weights as float64 scaled to mean 1."""
    if weights is None:
        return np.ones(n_partitions)
    v = _numbers(weights, "partition_weights")
    if v.shape != (n_partitions,):
        raise ValueError(f"partition_weights must have one entry per partition ({n_partitions}), got shape {v.shape}.")
    if not np.isfinite(v).all() or (v < 0).any() or not v.any():
        raise ValueError(f"partition_weights must be finite, not negative, and not all zero, got {v.tolist()}.")
    if (v == v[0]).all():
        return np.ones(n_partitions)
    total = math.fsum((v / v.max()).tolist())  # of ratios, so that the sum cannot overflow
    return v / v.max() * (n_partitions / total)


def _check_place(name: str, on_gpu: bool) -> None:
    if not on_gpu:
        raise TypeError(f"{name} must lie in the host's memory here, got an array on the GPU; copy it to the host.")


def _numbers(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be a vector of numbers, got lists of different lengths.") from None
    if array.dtype.kind not in "iubfO":
        raise TypeError(f"{name} must hold numbers, got an array of {array.dtype}.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers: {error}.") from None


def fill_missing(labels: Any, instead: int) -> Any:
    """A copy of labels with `instead` where they are negative, in the memory where they are."""
    labels = labels.copy()
    labels[labels < 0] = instead
    return labels


# -- two partitions, and names of clusters ---------------------------------------------------------------------


def contingency(
    a: np.ndarray, b: np.ndarray, shape: tuple[int, int] | None = None, copies: np.ndarray | None = None
) -> np.ndarray:
    """How many items have each label of `a` and of `b`; those with a negative label in either do not count."""
    k_a, k_b = shape or (int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1)
    both = (a >= 0) & (b >= 0)
    cells = a[both].astype(np.int64) * k_b + b[both]
    weights = None if copies is None else copies[both]
    return np.bincount(cells, weights=weights, minlength=k_a * k_b).astype(np.int64).reshape(k_a, k_b)


def align_labels(reference: Any, labels: Any) -> np.ndarray:
    """Rename the clusters of a partition to match those of another partition as well as possible.

    The one-to-one matching of clusters with the most items in common is found by the Hungarian method. A cluster
    without a match gets a name of its own: integers above the reference's when those are integers, else ``"new 0"``,
    ``"new 1"`` and so on.

    Parameters
    ----------
    reference : array-like of shape (n_samples,)
        Partition whose names are wanted.
    labels : array-like of shape (n_samples,)
        Partition to rename.

    Returns
    -------
    ndarray of shape (n_samples,)
        Renamed labels; missing ones are −1, or None when names are strings.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.align_labels([0, 0, 1, 1, 2], [5, 5, 3, 3, 3]).tolist()
    [0, 0, 1, 1, 1]
    """
    from scipy.optimize import linear_sum_assignment

    names = reference.tolist() if hasattr(reference, "tolist") else list(reference)
    ref, k_ref = check_labels(reference, len(names), "reference")
    mine, k = check_labels(labels, len(names))
    overlap = contingency(mine, ref, (k, k_ref))
    rows, columns = linear_sum_assignment(-overlap)
    first = {int(code): names[i] for code, i in zip(*np.unique(ref, return_index=True)) if code >= 0}
    integers = all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in first.values())
    start = max(first.values(), default=-1) + 1 if integers else 0
    fresh = (number if integers else f"new {number}" for number in itertools.count(start))
    matched = {row: first[column] for row, column in zip(rows, columns.tolist()) if overlap[row, column]}
    chosen = [matched[row] if row in matched else next(fresh) for row in range(k)]
    lookup = np.array([*chosen, -1] if integers else [*chosen, None], dtype=np.int64 if integers else object)
    return lookup[mine]


def order_by_size(labels: Any) -> np.ndarray:
    """Clusters numbered 0, 1, ... from the largest to the smallest, equal sizes in the order they first appear.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        A partition; missing labels become −1.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.metrics.order_by_size(["b", "a", "a", None]).tolist()
    [1, 0, 0, -1]
    """
    codes, k = check_labels(labels, len(labels))
    return ranks_by_size([count_labels(codes, k)], k)[codes]


def count_labels(part: np.ndarray, k: int) -> tuple[int, np.ndarray, np.ndarray]:
    """How many labels there are, how often each of 0..k-1 occurs, and where first (−1: nowhere)."""
    first = np.full(k + 1, -1, np.int64)  # from the end on: the place written last is the first one
    first[part[::-1]] = np.arange(len(part))[::-1]
    return len(part), np.bincount(part[part >= 0], minlength=k), first[:k]


def ranks_by_size(counted: Iterable[tuple[int, np.ndarray, np.ndarray]], k: int) -> np.ndarray:
    """The number that `order_by_size` gives to each of the labels 0..k-1; last, −1 for −1.

    `counted` is what `count_labels` gives for each part of the labels, in order.
    """
    sizes, first, start = np.zeros(k, np.int64), np.full(k, -1, np.int64), 0
    for rows, occurrences, here in counted:
        first = np.where((first < 0) & (here >= 0), start + here, first)
        sizes, start = sizes + occurrences, start + rows
    present = np.flatnonzero(sizes)
    order = present[np.lexsort((first[present], -sizes[present]))]
    ranks = np.full(k + 1, -1, dtype=np.int32)
    ranks[order] = np.arange(len(order))
    return ranks
