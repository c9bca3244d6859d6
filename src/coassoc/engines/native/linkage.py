"""Compiled kernels of linkage, where they are installed."""

from __future__ import annotations

import numpy as np

from ..compiled import kernels as _kernels


def has_kernels() -> bool:
    return _kernels is not None and hasattr(_kernels, "agglomerate")


def agglomerate(triangle: np.ndarray, weights: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """first, second, similarity and number of ties; see `coassoc.consensus.linkage`. Overwrites `triangle`."""
    return _kernels.agglomerate(triangle, weights, kind)


def co_occurrences(columns: np.ndarray, triangle: np.ndarray) -> None:
    """Fill the condensed `triangle` with the number of rows of `columns` (p, n) in which two of its columns agree."""
    _kernels.co_occurrences(columns, triangle)
