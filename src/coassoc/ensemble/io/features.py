"""Tables of features, in any of the file formats: their columns as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..encode import Dictionary
from .cells import MISSING, ids_in, is_number
from .coding import batch_columns, is_dask
from .reading import LabelFile
from .table import naming

_MISSING = {"?", *map(str.lower, MISSING)}
MOST_CATEGORIES = 50  # different words of a column that becomes one feature per word
_WAY_OUT = "leave it out with --exclude {}, or code it as numbers"


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
        file = features_in(path, exclude=exclude, id_column=id_column, class_column=class_column or False)
        names, array = file.names, file.table.array
        if file.format.is_text and all(map(is_number, file.table.names)):
            raise ValueError("the first line holds numbers only; a header must come first.")
        if array is not None and names == file.roles.all:
            if array.dtype.kind not in "fiub":
                raise ValueError(f"must hold a table of numbers, got {array.dtype}.")
            return Features(array if names == file.table.names else array[:, list(map(int, names))], names)
        batches = list(file.batches(all_roles=True))
        starts = [0, *accumulate(map(len, batches))]
        columns: dict[str, np.ndarray] = {}
        for name in names:
            try:
                parts = [numbers_in(batch, [name], start) for batch, start in zip(batches, starts)]
                columns[name] = np.concatenate(parts)
            except ValueError:
                if not categories:
                    raise
                columns |= _one_hot(_texts(batches, name), name, path)
        if not columns:
            raise ValueError("no feature column is left.")
        aside = (None if name is None else _texts(batches, name) for name in (file.roles.ids, file.roles.classes))
        return Features(np.column_stack(list(columns.values())), list(columns), *aside)


def features_in(path: Any, columns: Any = "*", **choice: Any) -> LabelFile:
    """A file of features, or a folder of files, opened by this process; `choice` as of `read_ensemble`."""
    if is_dask(path):
        raise ValueError("features must be a file or a folder; write the Dask collection: frame.to_parquet(folder).")
    choice = {"id_column": False, "class_column": False} | choice
    return LabelFile(Path(path), columns=columns, header=True, trusted=True, **choice)


def numbers_in(batch: Any, names: Sequence[str], start: int = 0) -> np.ndarray:
    """Columns of a batch, the first row of which is row `start`, as numbers, NaN where missing."""
    numbers = np.full((len(batch), len(names)), np.nan)
    batch = batch.select(names) if hasattr(batch, "select") else batch
    for j, (name, (values, nulls)) in enumerate(zip(names, batch_columns(batch, names))):
        if not isinstance(values, Dictionary) and values.dtype.kind in "fiub":
            numbers[:, j] = values if nulls is None else np.where(nulls, np.nan, values)
            continue
        column = values if isinstance(values, Dictionary) else Dictionary(np.arange(len(batch)), values)
        texts = ["" if label is None else str(label).strip() for label in column.labels.tolist()]
        wrong = [i for i, text in enumerate(texts) if not is_number(text) and text.lower() not in _MISSING]
        if wrong:
            row = start + int(np.flatnonzero(column.indices == wrong[0])[0]) + 1
            raise ValueError(f"column {name!r}, row {row} is {texts[wrong[0]]!r}, not a number; "
                             f"{_WAY_OUT.format(name)}.")  # fmt: skip
        found = [float(text) if is_number(text) else np.nan for text in texts]
        numbers[:, j] = np.array([*found, np.nan])[column.indices]  # the last entry serves index −1
    return numbers


def _texts(batches: Sequence[Any], name: str) -> np.ndarray:
    return np.concatenate([ids_in(batch, name).astype(str) for batch in batches])


def _one_hot(texts: np.ndarray, name: str, path: Path) -> dict[str, np.ndarray]:
    """A feature of 0 and 1 for each word of a column; none for a column of ids."""
    texts = np.char.strip(texts)
    words = [word for word in np.unique(texts).tolist() if word.lower() not in _MISSING]
    if len(words) == len(texts):
        warnings.warn(f"{path.name}: left out column {name!r}, whose values all differ, as ids do.", stacklevel=5)
        return {}
    if len(words) > MOST_CATEGORIES:
        raise ValueError(f"column {name!r} has {len(words)} different words, more than {MOST_CATEGORIES}; "
                         f"{_WAY_OUT.format(name)}.")  # fmt: skip
    return {f"{name}={word}": (texts == word).astype(np.float64) for word in words}
