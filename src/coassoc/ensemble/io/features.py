"""Tables of features, in any of the file formats: their columns as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..encode import Dictionary
from .cells import is_number
from .coding import batch_columns, ids_in, named
from .formats import open_table
from .roles import is_id_name
from .table import Options, Table, naming

MISSING = ("", "?", "na", "n/a", "nan", "null", "none", "<na>")
MOST_CATEGORIES = 50  # different words of a column that becomes one feature per word
_WAY_OUT = "leave it out with --exclude {}, or code it as numbers"


class NotANumber(ValueError):
    """A cell of a column of features is a word."""


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
    categories: bool = False,
) -> Features:
    """Read a table of numbers; columns in `exclude` (names or patterns) and those of ids and classes are not features.

    A first column named like ids is one. With `categories`, a column of words becomes one feature of 0 and 1 per word,
    unless all its words differ: then it is left out with a warning. Text needs a header. An empty cell is NaN. An array
    that a file holds as it is is mapped, not loaded.
    """
    path = Path(path)
    with naming(path):
        table, known = open_table(path, None, Options(header=True, trusted=True))
        if known.is_text and all(is_number(name) for name in table.names):
            raise ValueError(f"{path.name}: the first line holds numbers only; a header must come first.")
        left = [name for name in table.names if not any(fnmatchcase(name, pattern) for pattern in exclude)]
        if id_column is None and left and left[0] == table.names[0] and is_id_name(left[0]):
            id_column = left[0]
        aside = [name for name in (id_column, class_column) if name is not None]
        for name in aside:
            table.require(name, "features")
        names = [name for name in left if name not in aside]
        if not names:
            raise ValueError(f"{path.name} has no feature column left.")
        ids, classes = (None if name is None else _texts(table, name) for name in (id_column, class_column))
        if table.array is None or names != table.names:
            return Features(*_matrix(table, names, categories), ids, classes)
        if table.array.dtype.kind not in "fiub":
            raise ValueError(f"{path.name} must hold a table of numbers, got {table.array.dtype}.")
        return Features(table.array, names)


def _texts(table: Table, name: str) -> np.ndarray:
    batches = named(table.batches([name], name), [name])
    return np.concatenate([ids_in(batch, name).astype(str) for batch in batches])


def _matrix(table: Table, names: list[str], categories: bool) -> tuple[np.ndarray, list[str]]:
    """The features and their names."""
    parts, start, words = [], 0, set()
    for batch in table.batches(names):
        n_rows, given = batch_columns(batch, names)
        part = np.zeros((n_rows, len(names)))
        for j, (name, (values, nulls)) in enumerate(zip(names, given)):
            try:
                part[:, j] = _numbers(values, nulls, name, table, start)
            except NotANumber:
                if not categories:
                    raise
                words.add(name)
        parts.append(part)
        start += n_rows
    X = np.concatenate(parts)
    if not words:
        return X, names
    columns: dict[str, np.ndarray] = {}
    for j, name in enumerate(names):
        columns |= _one_hot(table, name) if name in words else {name: X[:, j]}
    if not columns:
        raise ValueError(f"{table.path.name} has no feature column left.")
    return np.column_stack(list(columns.values())), list(columns)


def _one_hot(table: Table, name: str) -> dict[str, np.ndarray]:
    """A feature of 0 and 1 for each word of a column; none for a column of ids."""
    texts = np.char.strip(_texts(table, name))
    words = [word for word in np.unique(texts).tolist() if word.lower() not in MISSING]
    if len(words) == len(texts):
        warnings.warn(f"{table.path.name}: left out column {name!r}, whose values all differ, as ids do.", stacklevel=6)
        return {}
    if len(words) > MOST_CATEGORIES:
        raise ValueError(f"{table.path.name}: column {name!r} has {len(words)} different words, more than "
                         f"{MOST_CATEGORIES}; {_WAY_OUT.format(name)}.")  # fmt: skip
    return {f"{name}={word}": (texts == word).astype(np.float64) for word in words}


def _numbers(values: Any, nulls: np.ndarray | None, name: str, table: Table, start: int) -> np.ndarray:
    """A column as float64, or an error that names the cell that is not a number."""
    if not isinstance(values, Dictionary):
        if values.dtype.kind in "fiub":
            return np.where(nulls, np.nan, values) if nulls is not None else values.astype(np.float64)
        values = Dictionary(np.arange(len(values)), values)
    numbers = np.full(len(values.labels) + 1, np.nan)  # the last entry serves index −1
    for i, label in enumerate(values.labels.tolist()):
        word = "" if label is None else str(label).strip()
        if is_number(word):
            numbers[i] = float(word)
        elif word.lower() not in MISSING:
            row = start + int(np.flatnonzero(values.indices == i)[0]) + 1
            raise NotANumber(f"{table.path.name}: column {name!r}, row {row} is {word!r}, not a number; "
                             f"{_WAY_OUT.format(name)}.")  # fmt: skip
    return numbers[values.indices]
