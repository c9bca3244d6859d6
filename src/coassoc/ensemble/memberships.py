"""Soft memberships -> hard labels drawn from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..core.checks import check_integer, seed_from, stream

_FIRST_ROWS = 64  # of a table are enough to recognise memberships
_TOLERANCE = 1e-6  # of the sum of a row: single precision


def drawn_labels(memberships: Iterable[Any], n_draws: int, random_state: Any) -> Iterator[np.ndarray]:
    """`n_draws` label vectors for each matrix of memberships, −1 with the probability that a row lacks to 1."""
    n_draws, seed = check_integer(n_draws, "n_draws"), seed_from(random_state)
    n_rows = None
    for j, given in enumerate(memberships):
        matrix = _check_matrix(given, f"memberships[{j}]")
        if n_rows not in (None, len(matrix)):
            raise ValueError(f"memberships[{j}] has {len(matrix)} rows but memberships[0] has {n_rows}.")
        n_rows = len(matrix)
        ends = np.cumsum(matrix, axis=1)
        total = np.where(ends[:, -1] > 1 - _TOLERANCE, ends[:, -1], 1.0)
        for draw in range(n_draws):
            at = stream(seed, j, draw).random(n_rows) * total
            labels = np.count_nonzero(ends <= at[:, None], axis=1)
            yield np.where(labels < matrix.shape[1], labels, -1)


def is_membership_matrix(table: Any) -> bool:
    """Whether a table holds shares of clusters and no labels, by its first rows: they sum to 1, and are not whole."""
    if hasattr(table, "tocsr"):  # sparse, which `Ensemble` refuses
        return False
    try:
        values = np.asarray(table[:_FIRST_ROWS])
    except (TypeError, ValueError, KeyError, IndexError):
        return False
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind != "f" or (values == np.floor(values)).all():
        return False
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= _TOLERANCE).all())


def check_no_memberships(table: Any) -> None:
    """Reject soft memberships in the place of a label table, and name the function that takes them."""
    if is_membership_matrix(table):
        raise ValueError(
            "partitions must hold labels, got soft memberships: every row sums to 1. Use "
            "Ensemble.from_memberships([P1, P2, ...]), or labels P.argmax(axis=1)."
        )


def _check_matrix(given: Any, name: str) -> np.ndarray:
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"{name} must have shape (n_samples, n_clusters), got {matrix.shape}; memberships is a list of matrices "
            "(write [P] for a single one)."
        )
    highest = matrix.sum(axis=1).max()
    if not (matrix >= 0).all() or not highest <= 1 + _TOLERANCE:  # NaN is neither
        raise ValueError(
            f"{name} must hold probabilities, rows with a sum of at most 1; the smallest entry is {matrix.min()}, the "
            f"largest sum {highest}. Divide each row by its sum."
        )
    return matrix
