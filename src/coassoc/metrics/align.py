"""Renaming clusters: to match another partition, or in the order of their sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from .counting import contingency
from .labels import check_labels


def align_labels(reference: Any, labels: Any) -> np.ndarray:
    r"""Rename the clusters of a partition to match those of another partition as well as possible.

    The one-to-one matching :math:`\sigma` of clusters that maximises :math:`\sum_C |C \cap R_{\sigma(C)}|` is found
    by the Hungarian method. A cluster without a match gets a name of its own: integers above the reference's when
    those are integers, else ``"new 0"``, ``"new 1"`` and so on. The partition itself does not change.

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

    Notes
    -----
    O(n_samples) to count overlaps, plus O(k³) for the matching of k clusters.

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
        A partition.

    Returns
    -------
    ndarray of shape (n_samples,)
        −1 where the label is missing.

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
