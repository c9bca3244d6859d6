"""Which columns of a file are partitions, ids and classes: one rule for every format and size.

By name first. A first column with a usual name for ids holds ids; a column with a usual name for known classes holds
classes. Of the others, a column without a repeated value is no clustering: it is left out, with a warning, unless the
user chose it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..encode import Dictionary
from ..tables import column_values
from .table import Table

ID_NAMES = ("", "id", "ids", "index", "item", "item_id", "barcode", "cell_barcode", "unnamed: 0", "__index_level_0__")
CLASS_NAMES = ("class", "classes", "truth", "ground_truth", "target")
HEAD_ROWS = 4096  # rows in which a clustering repeats a label
_FEWEST_ROWS = 20  # so few items may all be clusters of their own
_MANY_COLUMNS = 200


@dataclass(frozen=True)
class Roles:
    """Columns by what they are."""

    partitions: list[str]
    ids: str | None
    classes: str | None

    @property
    def all(self) -> list[str]:
        return list(dict.fromkeys(name for name in (self.ids, self.classes, *self.partitions) if name is not None))


class Choice:
    """What the user said about columns."""

    def __init__(
        self,
        columns: str | Sequence[str] | None = None,
        exclude: str | Sequence[str] = (),
        id_column: str | bool | None = None,
        class_column: str | bool | None = None,
    ):
        self.patterns = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
        self.exclude = [exclude] if isinstance(exclude, str) else list(exclude)
        self.id_column, self.class_column = id_column, class_column

    def roles(self, table: Table) -> Roles:
        """The parts that the columns of a table play, by their names."""
        ids, classes = self._ids(table), self._classes(table)
        return Roles(self._partitions(table, {ids, classes}), ids, classes)

    def _named(self, name: str) -> bool:
        return name in (self.patterns or ())

    def _ids(self, table: Table) -> str | None:
        if self.id_column is False:
            return None
        if isinstance(self.id_column, str):
            _require(self.id_column, table, "id_column")
            return self.id_column
        first = table.names[0] if table.names else ""
        if table.guess_ids and table.names and is_id_name(first) and not self._named(first):
            return first
        return table.id_name

    def _classes(self, table: Table) -> str | None:
        if self.class_column is False:
            return None
        if isinstance(self.class_column, str):
            _require(self.class_column, table, "class_column")
            return self.class_column
        if self.patterns is None and table.guess_ids:
            names = [n for n in table.names if is_class_name(n) and not self._excluded(n)]
            return names[0] if names else table.class_name
        return table.class_name

    def _excluded(self, name: str) -> bool:
        return any(name == pattern or fnmatchcase(name, pattern) for pattern in self.exclude)

    def _partitions(self, table: Table, aside: set[str | None]) -> list[str]:
        """Names of the partitions, in the order asked for."""
        names, file = table.names, table.path.name
        if self.patterns is None:
            if table.must_choose:
                raise ValueError(
                    f"columns must say which columns of {file} are clusterings, for example columns='leiden*' "
                    f"(--columns 'leiden*'); it has {listing(names)}."
                )
            found = [name for name in names if name not in aside]
        else:
            known, found = set(names), []
            for pattern in self.patterns:
                matches = [pattern] if pattern in known else [name for name in names if fnmatchcase(name, pattern)]
                if not matches:
                    raise ValueError(f"columns: {file} has no column {pattern!r}; it has {listing(names)}.")
                found += [name for name in matches if name not in aside]
            found = list(dict.fromkeys(found))
        found = [name for name in found if not self._excluded(name)] if self.exclude else found
        if not found:
            raise ValueError(f"{file} has no column of labels left; it has {listing(names)}.")
        return found

    def look(self, roles: Roles, table: Table, head: dict[str, Any], n_rows: int) -> Roles:
        """The same roles without columns that hold no clustering, judged by the first rows."""
        if self.patterns is not None or not table.inspect:
            return roles
        if len(roles.partitions) >= max(_MANY_COLUMNS, 10 * n_rows):
            warnings.warn(
                f"{table.path.name} has {len(roles.partitions)} columns and {n_rows} rows; a label table has one row "
                "per item and one column per clustering. Is it transposed?",
                stacklevel=4,
            )
        odd = [name for name in roles.partitions if _is_distinct(head[name])]
        if not odd:
            return roles
        kept = [name for name in roles.partitions if name not in odd]
        if not kept:
            raise ValueError(
                f"{table.path.name}: no value repeats in {listing(odd)}, so no column is a clustering; name the "
                "columns that are (columns=, --columns)."
            )
        warnings.warn(
            f"{table.path.name}: left out {listing(odd)}, where no value repeats; the clusterings are {listing(kept)}. "
            "Choose others with columns= (--columns), name the ids with id_column= (--id).",
            stacklevel=4,
        )
        return replace(roles, partitions=kept)


def is_id_name(name: str) -> bool:
    """Whether a first column of that name holds ids."""
    return name.lower() in ID_NAMES or name.lower().endswith("_id")


def is_class_name(name: str) -> bool:
    """Whether a column of that name holds known classes."""
    return name.lower() in CLASS_NAMES


def _is_distinct(column: Any) -> bool:
    """Whether no value occurs twice in the first rows of a column."""
    values, nulls = column if isinstance(column, tuple) else column_values(column)
    if isinstance(values, Dictionary):
        values, nulls = values.indices[:HEAD_ROWS], None
        if (values < 0).any():
            return False
    elif nulls is not None:
        return False
    values = np.asarray(values[:HEAD_ROWS])
    if len(values) <= _FEWEST_ROWS or values.dtype.kind == "f":
        return False
    return len(set(values.tolist())) == len(values)


def _require(name: str, table: Table, argument: str) -> None:
    if name not in table.names:
        raise ValueError(f"{argument}: {table.path.name} has no column {name!r}; it has {listing(table.names)}.")


def listing(names: Sequence[str]) -> str:
    """Some of the names, for a message."""
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
