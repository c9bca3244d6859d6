"""From raw cells to the numbers that are clustered: nominal columns, missing cells, scaling."""

from __future__ import annotations

import numpy as np

from .table import RawTable

SCALINGS = ("raw", "z", "minmax")


def prepare(table: RawTable, scaling: str, ordinal: tuple[str, ...] = ()) -> tuple[np.ndarray, list[str]]:
    """Features as float64, and the names of their columns.

    Nominal columns named in `ordinal` become the rank of their word in alphabetical order (one column); the others
    become one 0/1 column per word, in alphabetical order. A missing number takes the mean of its column.
    """
    blocks, names = [], []
    for j, name in enumerate(table.names):
        if j not in table.nominal:
            blocks.append(table.numbers[:, j : j + 1])
            names.append(name)
            continue
        values, codes = np.unique(table.nominal[j], return_inverse=True)
        if name in ordinal:
            blocks.append(codes.reshape(-1, 1).astype(np.float64))
            names.append(name)
        else:
            blocks.append((codes.reshape(-1, 1) == np.arange(len(values))).astype(np.float64))
            names.extend(f"{name}={value}" for value in values)
    X = np.concatenate(blocks, axis=1)
    return scale(fill_missing(X, names), scaling), names


def fill_missing(X: np.ndarray, names: list[str]) -> np.ndarray:
    """Missing cells replaced by the mean of their column."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    empty = np.flatnonzero(missing.all(axis=0))
    if len(empty):
        raise ValueError(f"column {names[empty[0]]} has no value at all; drop it.")
    columns = np.flatnonzero(missing.any(axis=0))
    X = X.copy()
    for j in columns:
        X[missing[:, j], j] = X[~missing[:, j], j].mean()
    return X


def scale(X: np.ndarray, scaling: str) -> np.ndarray:
    """`X` as it is, with mean 0 and deviation 1 per column, or on [0, 1] per column; constants become 0."""
    if scaling == "raw":
        return X
    shift = X.mean(axis=0) if scaling == "z" else X.min(axis=0)
    width = X.std(axis=0) if scaling == "z" else X.max(axis=0) - X.min(axis=0)
    constant = X.max(axis=0) == X.min(axis=0)
    scaled = (X - shift) / np.where(constant, 1.0, width)
    scaled[:, constant] = 0.0
    return scaled
