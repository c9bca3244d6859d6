"""Which columns of a file are partitions, ids and classes: one rule for every format and size.

By name first: a first column with a usual name for ids holds ids, a column with a usual name for known classes holds
classes. Then by the first rows: a column in which hardly any value repeats, and a column of measurements, is no
clustering. Such columns are left out, with a warning, unless the user chose them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..encode import Dictionary
from ..tables import columns_of
from .coding import batch_columns
from .formats import Table, listing

ID_NAMES = ("", "id", "ids", "index", "item", "item_id", "barcode", "cell_barcode", "unnamed: 0", "__index_level_0__")
CLASS_NAMES = ("class", "classes", "truth", "ground_truth", "target")
# names that hold classes beside at least two clusterings; alone they are the clustering
LIKELY_CLASS_NAMES = ("label", "labels", "true_label", "true_labels", "y", "y_true", "gt", "cell_type", "celltype")
HEAD_ROWS = 4096  # rows in which a clustering repeats its labels
_FEWEST_ROWS = 20  # so few items may all be clusters of their own
_FRAME_ROWS = 100  # a frame with fewer may hold a few new rows, whose labels need not repeat
_MANY_VALUES = 20  # so many different numbers, none of them 0 or 1, are a measurement
_MANY_COLUMNS = 200
_CHOOSE = "Choose with columns=, id_column=, class_column= (--columns, --id, --class-column)."


@dataclass(frozen=True)
class Roles:
    """Columns by what they are."""

    partitions: list[str]
    ids: str | None
    classes: str | None

    @property
    def all(self) -> list[str]:
        return list(dict.fromkeys(name for name in (self.ids, self.classes, *self.partitions) if name is not None))


def roles_of(table: Table) -> Roles:
    """The parts that the columns of a table play, by what the user said and by their names."""
    options, names, file = table.options, table.names, table.path.name
    guess = options.columns is None and table.guess_ids
    ids, classes = (name if isinstance(name, str) else None for name in (options.id_column, options.class_column))
    for name, argument in ((ids, "id_column"), (classes, "class_column")):
        if name is not None and name not in names:
            raise ValueError(f"{argument}: {file} has no column {name!r}; it has {listing(names)}.")
    if ids is None and options.id_column is not False:
        first = names[0] if table.guess_ids and names else None
        usual = first is not None and is_id_name(first) and first not in (options.columns or ())
        ids = first if usual else table.id_name
    excluded = {name for name in names for given in options.exclude if name == given or fnmatchcase(name, given)}
    if classes is None and options.class_column is not False:
        usual_names = (name for name in names if guess and is_class_name(name) and name not in excluded)
        classes = next(usual_names, table.class_name)
    found = [name for name in _chosen(table) if name not in {ids, classes} | excluded]
    if not found:
        raise ValueError(f"{file} has no column of labels left; it has {listing(names)}{table.hint}.")
    likely = class_names(found) if guess and options.class_column is None else []
    if not likely:
        return Roles(found, ids, classes)
    kept = [name for name in found if name not in likely]
    what = f"by its name, {listing(likely)} holds known classes"
    warnings.warn(f"{file}: {what}; the clusterings are {listing(kept)}. {_CHOOSE}", stacklevel=5)
    return Roles(kept, ids, likely[0] if classes is None else classes)


def _chosen(table: Table) -> list[str]:
    """Names of the partitions, in the order asked for."""
    names, patterns, file = table.names, table.options.columns, table.path.name
    if patterns is None and table.guess == []:
        raise ValueError(
            f"columns must say which columns of {file} are clusterings, for example columns='leiden*' "
            f"(--columns 'leiden*'); it has {listing(names)}."
        )
    if patterns is None:
        return table.guess or names
    found, known = [], set(names)
    for pattern in patterns:
        matches = [pattern] if pattern in known else [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            raise ValueError(f"columns: {file} has no column {pattern!r}; it has {listing(names)}{table.hint}.")
        found += matches
    return list(dict.fromkeys(found))


def look(roles: Roles, table: Table, batches: Sequence[Any]) -> Roles:
    """The same roles without columns that hold no clustering, judged by the first rows, those of `batches`.

    Nothing is left out of what the user chose, or what the file itself says are clusterings.
    """
    if table.options.columns is not None or table.guess:
        return roles
    values: dict[str, list[Any]] = {name: [] for name in roles.partitions}
    left, name = HEAD_ROWS, table.path.name
    for batch in batches:
        for partition, column in zip(roles.partitions, batch_columns(batch, roles.partitions)):
            values[partition] += _present(column, left)
        left = max(0, left - len(batch))
    warn_of_transposed(name, table.n_rows or max(map(len, values.values())), len(roles.partitions))
    odd = odd_columns(values)
    if not odd:
        return roles
    kept = [partition for partition in roles.partitions if partition not in odd]
    if not kept:
        raise ValueError(
            f"{name}: no column is a clustering: {reasons_of(odd)}{table.hint}. Name the columns that are "
            "(columns=, --columns); to cluster measurements, use make_ensemble (coassoc ensemble); select-k "
            "takes them by --features."
        )
    what = f"left out {reasons_of(odd)}"
    warnings.warn(f"{name}: {what}; the clusterings are {listing(kept)}. {_CHOOSE}", stacklevel=5)
    return replace(roles, partitions=kept)


def is_id_name(name: str) -> bool:
    """Whether a first column of that name holds ids."""
    return name.lower() in ID_NAMES or name.lower().endswith("_id")


def is_class_name(name: str) -> bool:
    """Whether a column of that name holds known classes."""
    return name.lower() in CLASS_NAMES


def class_names(partitions: Sequence[str]) -> list[str]:
    """Those of the columns that hold known classes by their names, beside at least two clusterings."""
    likely = [name for name in partitions if name.lower() in (*CLASS_NAMES, *LIKELY_CLASS_NAMES)]
    return likely if len(partitions) - len(likely) >= 2 else []


def _present(column: tuple[Any, np.ndarray | None], n_rows: int) -> list[Any]:
    """Those of the first values that are not missing."""
    values, nulls = column
    if isinstance(values, Dictionary):
        indices = values.indices[:n_rows]
        return values.labels[indices[indices >= 0]].tolist()
    first = np.ma.array(values[:n_rows], mask=False if nulls is None else nulls[:n_rows]).compressed()
    return [value for value in first.tolist() if value is not None and value == value]


def warn_of_transposed(name: str, n_rows: int, n_columns: int) -> None:
    """Warn when a table has so many more columns than rows that its rows may be the clusterings."""
    if n_columns >= max(_MANY_COLUMNS, 10 * n_rows):
        warnings.warn(
            f"{name} has {n_columns} columns and {n_rows} rows; a label table has one row per item and one column per "
            "clustering. Is it transposed?",
            stacklevel=5,
        )


def warn_of_odd_columns(frame: Any) -> None:
    """Warn when columns of a frame or an array of text are hardly clusterings; of a file they would be left out."""
    is_frame = type(frame).__module__.split(".")[0] in ("pandas", "polars", "pyarrow")
    is_text = isinstance(frame, np.ndarray) and frame.dtype.kind in "OSU"
    if not (is_frame or is_text) or len(frame.shape) != 2 or frame.shape[0] < _FRAME_ROWS:
        return
    names, columns, _ = columns_of(frame.head(HEAD_ROWS) if hasattr(frame, "head") else frame[:HEAD_ROWS])
    odd = odd_columns({name: _present(column, HEAD_ROWS) for name, column in zip(names, columns)})
    odd |= dict.fromkeys(class_names([name for name in names if name not in odd]), "named like known classes")
    if odd:
        warnings.warn(
            f"partitions: these columns count as clusterings and may be something else: {reasons_of(odd)}. "
            "If so, drop them, or make the ids the index of a frame.",
            stacklevel=4,
        )


def odd_columns(values: dict[str, list[Any]]) -> dict[str, str]:
    """Columns whose first values are no clustering, and why not."""
    ends = {max(numbers) for column in values.values() if (numbers := _numbers(column))}
    return {name: why for name, column in values.items() if (why := _why_not(column, ends))}


def reasons_of(odd: dict[str, str]) -> str:
    """Columns by the reason why they are odd, for a message."""
    return "; ".join(
        f"{listing([name for name in odd if odd[name] == why])} ({why})" for why in dict.fromkeys(odd.values())
    )


def _numbers(values: list[Any]) -> list[Any]:
    """The values when all of them are numbers, else nothing."""
    return values if all(isinstance(value, (int, float)) for value in values) else []


def _why_not(values: list[Any], ends: set[Any]) -> str | None:
    """Why the first rows of a column are no clustering; None when they may be one. `ends` are the largest labels of
    all columns: clusters may be numbered on from one column to the next."""
    if len(values) <= _FEWEST_ROWS:
        return None
    if isinstance(values[0], (date, time, timedelta)):
        return "dates or times"
    different, numbers = set(values), _numbers(values)
    if any(not float(value).is_integer() for value in numbers):
        return "measurements"
    if len(different) > 0.9 * len(values):
        return "hardly any value repeats"
    low = min((value for value in numbers if value >= 0), default=0)
    if len(different) > _MANY_VALUES and low > 1 and low - 1 not in ends:
        return "whole numbers far from 0, such as an age or a count"
    return None
