"""Tables of features, in any of the file formats: their columns as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..encode import Dictionary
from .cells import is_number
from .coding import batch_columns, ids_in
from .formats import open_table
from .table import Options, Table, naming

MISSING = ("", "?", "na", "n/a", "nan", "null", "none", "<na>")


def number_in(cell: str) -> float:
    """The number that a cell holds; NaN for a word and a missing cell."""
    return float(cell) if is_number(cell) else np.nan


class Features(NamedTuple):
    """Features, the names of their columns, and the names and classes of the items where they were asked for."""

    X: np.ndarray
    names: list[str]
    ids: np.ndarray | None = None
    classes: np.ndarray | None = None


def read_features(
    path: str | Path,
    *,
    exclude: Sequence[str] = (),
    id_column: str | None = None,
    class_column: str | None = None,
) -> Features:
    """Read a table of numbers; columns in `exclude` and those of ids and classes are not features.

    Text needs a header. An empty cell is NaN. An array that a file holds as it is is mapped, not loaded.
    """
    path = Path(path)
    with naming(path):
        table, found = open_table(path, None, Options(header=True, trusted=True))
        if found.is_text and all(is_number(name) for name in table.names):
            raise ValueError(f"{path.name}: the first line holds numbers only; a header must come first.")
        aside = [name for name in (id_column, class_column) if name is not None]
        for name in [*exclude, *aside]:
            table.require(name, "features")
        names = [name for name in table.names if name not in exclude and name not in aside]
        if not names:
            raise ValueError(f"{path.name} has no feature column left.")
        mapped = table.array() if names == table.names else None
        if mapped is not None and mapped.dtype.kind not in "fiub":
            raise ValueError(f"{path.name} must hold a table of numbers, got {mapped.dtype}.")
        X = _matrix(table, names) if mapped is None else mapped
        ids, classes = (None if name is None else _texts(table, name) for name in (id_column, class_column))
    return Features(X, names, ids, classes)


def _texts(table: Table, name: str) -> np.ndarray:
    return np.concatenate([ids_in(batch, name).astype(str) for batch in table.batches([name], name)])


def _matrix(table: Table, names: list[str]) -> np.ndarray:
    parts, start = [], 0
    for batch in table.batches(names):
        columns = zip(names, batch_columns(batch, names)[1])
        parts.append(np.column_stack([_numbers(*pair, name, table, start) for name, pair in columns]))
        start += len(parts[-1])
    return np.concatenate(parts)


def _numbers(values: Any, nulls: np.ndarray | None, name: str, table: Table, start: int) -> np.ndarray:
    """A column as float64, or an error that names the cell that is not a number."""
    if not isinstance(values, Dictionary):
        if values.dtype.kind in "fiub":
            return np.where(nulls, np.nan, values) if nulls is not None else values.astype(np.float64)
        values = Dictionary(np.arange(len(values)), values)
    numbers = np.full(len(values.labels) + 1, np.nan)  # the last entry serves index −1
    for i, label in enumerate(values.labels.tolist()):
        word = "" if label is None else str(label).strip()
        numbers[i] = number_in(word)
        if numbers[i] != numbers[i] and word.lower() not in MISSING:
            row = start + int(np.flatnonzero(values.indices == i)[0]) + 1
            raise ValueError(
                f"{table.path.name}: column {name!r}, row {row} is {word!r}, not a number; leave the column out with "
                f"--exclude {name}, or code it as numbers."
            )
    return numbers[values.indices]
