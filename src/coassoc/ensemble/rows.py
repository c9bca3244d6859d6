"""Tables of small integers, labels or codes: coded and counted by blocks of rows, and without duplicate rows.

Working on one column of a row-wise table after the other would read the whole table for each column. Instead a block of
rows that fits in the cache is transposed, and all its columns are worked on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engines import native

_BLOCK_CELLS = 1 << 17  # cells transposed at a time
_MOST_VALUES = 1 << 16  # numbers between the least and the greatest label of a column
_SCAN_BYTES = 1 << 24  # rows are scanned in pieces of about this size


@dataclass(frozen=True)
class Tally:
    """The labels of one column, sorted, how often each occurs, and how many are missing."""

    labels: np.ndarray
    counts: np.ndarray
    missing: int


def ranges_of(table: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds of the numbers in each column of an integer table; None for any other table and for wide ranges."""
    if type(table) not in (np.ndarray, np.memmap) or table.dtype.kind not in "iu" or table.ndim != 2 or not table.size:
        return None
    if table.dtype == np.uint8:  # narrow enough without looking
        return np.zeros(table.shape[1], np.int64), np.full(table.shape[1], 255, np.int64)
    low, high = table.min(axis=0), table.max(axis=0)
    if table.dtype == np.uint64 and int(high.max()) >= 1 << 63:
        return None
    low, high = low.astype(np.int64), high.astype(np.int64)
    if any(b - a >= _MOST_VALUES for a, b in zip(low.tolist(), high.tolist())):
        return None
    return low, high


def tally_integers(table: Any, negative_is_missing: bool) -> list[Tally] | None:
    """Labels of every column; None for tables that need `encode_column`."""
    ranges = ranges_of(table)
    if ranges is None:
        return None
    tallies = []
    for first, count in zip(ranges[0].tolist(), count_values(table, *ranges)):
        n_negative = min(max(-first, 0), len(count)) if negative_is_missing else 0
        used = np.flatnonzero(count[n_negative:])
        known = count[n_negative:][used]
        tallies.append(Tally(used + (first + n_negative), known, int(count[:n_negative].sum())))
    return tallies


def code_integers(table: Any, labels: Sequence[np.ndarray], negative_is_missing: bool, dtype: Any) -> np.ndarray | None:
    """Codes (n, p): the place of each label among the sorted `labels` of its column, their number when missing.

    Every label must be among them. None for tables that need `encode_column`.
    """
    ranges = ranges_of(table)
    if ranges is None:
        return None
    low, high = ranges
    if are_codes(table, labels, dtype):
        return np.asanyarray(table, order="C")
    lookups = []
    for a, b, known in zip(low.tolist(), high.tolist(), labels):
        lookup = np.searchsorted(known, np.arange(a, b + 1))
        if negative_is_missing and a < 0:
            lookup[: min(-a, len(lookup))] = len(known)
        lookups.append(lookup.astype(dtype))
    codes = np.empty(table.shape, dtype=dtype)
    for start, columns in transposed_blocks(table, low):
        coded = np.array([lookup[column] for lookup, column in zip(lookups, columns)])
        codes[start : start + columns.shape[1]] = coded.T
    return codes


def are_codes(table: np.ndarray, labels: Sequence[np.ndarray], dtype: Any) -> bool:
    """Whether a table with these sorted labels is that of its codes."""
    return table.dtype == dtype and all(
        len(known) and known[-1] == len(known) - 1 and known[0] == 0 for known in labels
    )


def transposed_blocks(table: np.ndarray, low: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """First row and transposed cells (p, rows) of each block, minus `low`, as indices."""
    step = max(1, _BLOCK_CELLS // table.shape[1])
    for start in range(0, len(table), step):
        columns = table[start : start + step].T.astype(np.intp, order="C")
        columns -= low[:, None]
        yield start, columns


def distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First index of each different row (ascending), its count, and for each row its rank among them."""
    codes = np.ascontiguousarray(codes)
    compiled = native.distinct_rows(codes)
    if compiled is not None:
        return compiled
    whole = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
    _, first, inverse, counts = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    return first[order], counts[order], np.argsort(order)[inverse.ravel()]


def row_chunks(codes: np.ndarray) -> Iterator[tuple[int, int]]:
    """(start, stop) of row chunks of a bounded number of bytes."""
    step = max(1, _SCAN_BYTES // max(1, codes.dtype.itemsize * codes.shape[1]))
    for start in range(0, len(codes), step):
        yield start, min(start + step, len(codes))


def count_values(table: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """How often each number from `low` to `high`, which no other exceeds, occurs in each column."""
    counts = [np.zeros(size, dtype=np.int64) for size in (high - low + 1).tolist()]
    for _, columns in transposed_blocks(table, low):
        for column, count in zip(columns, counts):
            count += np.bincount(column, minlength=len(count))
    return counts
