"""Rows of codes: in chunks, counted, and without duplicates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..engines.native import engine as native
from .integers import transposed_blocks

_SCAN_BYTES = 1 << 24  # rows are scanned in pieces of about this size


def distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First index of each different row (ascending), its count, and for each row its rank among them."""
    codes = np.ascontiguousarray(codes)
    compiled = native.distinct_rows(codes)
    if compiled is not None:
        return compiled
    whole = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    inverse = rank[inverse.ravel()]
    return first[order], np.bincount(inverse), inverse


def row_chunks(codes: np.ndarray) -> Iterator[tuple[int, int]]:
    """(start, stop) of row chunks of a bounded number of bytes."""
    step = max(1, _SCAN_BYTES // max(1, codes.dtype.itemsize * codes.shape[1]))
    for start in range(0, len(codes), step):
        yield start, min(start + step, len(codes))


def count_codes(codes: np.ndarray, n_values: int) -> np.ndarray:
    """How often each code value occurs in each column, shape (n_partitions, n_values)."""
    longest = int(codes.max()) + 1 if codes.size else 0
    counts = np.zeros((codes.shape[1], max(n_values, longest)), dtype=np.int64)
    for _, columns in transposed_blocks(codes):
        for j, column in enumerate(columns):
            found = np.bincount(column)
            counts[j, : len(found)] += found
    return counts
