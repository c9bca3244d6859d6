"""Reading: label files become an Ensemble, tables of features numbers."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..encode import Dictionary, check_missing_rule
from ..ensemble import Ensemble
from .coding import MISSING, FileBlock, Source, arrow_array, gather, ids_in, is_number, labels_in, record_batch
from .formats import Options, Table, naming
from .guard import open_table
from .roles import HEAD_ROWS, look, roles_of

_FEATURE_MISSING = {"?", *map(str.lower, MISSING)}


def read_ensemble(
    path: Any,
    *,
    columns: str | Sequence[str] | None = None,
    id_column: str | bool | None = None,
    class_column: str | bool | None = None,
    missing: str = "negative",
    exclude: str | Sequence[str] = (),
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    max_bytes: int | None = None,
    trusted: bool = False,
) -> Ensemble:
    """Read clusterings from a file, or from one file per clustering.

    The page on files has every rule. Time and memory are linear in the number of labels, and nothing is ever unpickled.
    ``Ensemble(path)`` reads the same files piece by piece, for tables larger than memory.

    Parameters
    ----------
    path : str, path or list of them
        A file of any format on the page on files, or a folder of files that make one table; ``"-"`` is standard input.
        The partitions of several files are joined by id, or put side by side when no file has ids.
    columns : str or list of str, default=None
        Columns that hold clusterings, by name or pattern (``"leiden*"``), in this order. None is every column but
        the ids, the classes and those whose first rows hold no labels (hardly any value repeats; measurements, dates):
        a warning names these. Annotated data need a choice, since ``.obs`` holds much else.
    id_column : str, bool or None, default=None
        Column that names the items; its values must differ. None takes a first column with a usual name for ids (id,
        index, barcode, cell_id or without a name); False takes none. The ids of annotated data are its index.
    class_column : str, bool or None, default=None
        Column of known classes, kept for scoring. None takes a column with a usual name for classes (class, truth,
        target; beside two clusterings also label, cell_type, y and the like, with a warning); False takes none.
    missing : {"negative", "nan", "cluster", "singletons"}, default="negative"
        What a missing label is and becomes, see :class:`Ensemble`. Empty cells, NA, NaN, null and None are missing
        in text files; HDBSCAN's −1 and −2, −3 are under ``"negative"``.
    exclude : str or list of str, default=()
        Columns left out, by name or pattern.
    format : str or None, default=None
        Name of the format; None finds it from the first bytes and the name of the file.
    delimiter : str or None, default=None
        Separator of text files. None is whichever of ``, tab ; |`` splits the first line, unless the name promises one.
    header : bool or None, default=None
        Whether the first row of a text file names the columns. None: yes, unless it holds numbers that repeat. Numbers
        that may be names or labels are an error.
    max_bytes : int or None, default=None
        Refuse a file that unpacks to more. None is 256 MiB, or 200 times the file's size if that is more.
    trusted : bool, default=False
        Read binary files in this process, without limits. Otherwise a child process reads them, with limits on memory
        and time, so that a damaged or hostile file can do no harm here; that takes about half a second.

    Returns
    -------
    Ensemble
        Its ``item_ids`` and ``classes`` are arrays where the file has them, else None.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "labels.csv")
    ...     _ = path.write_text("id,first,second\\na,0,x\\nb,0,x\\nc,1,y\\nd,-1,y\\n")
    ...     ens = ca.read_ensemble(path)
    >>> ens, ens.item_ids.tolist()
    (Ensemble(4 items, 2 clusterings of 2 clusters, uint8, some labels missing), ['a', 'b', 'c', 'd'])
    """
    check_missing_rule(missing)
    options = {
        "columns": columns, "id_column": id_column, "class_column": class_column, "exclude": exclude, "format": format,
        "delimiter": delimiter, "header": header, "max_bytes": max_bytes, "trusted": trusted,
    }  # fmt: skip
    several = isinstance(path, Iterable) and not isinstance(path, (str, os.PathLike))
    paths = [Path(p) for p in path] if several else [Path(path)]
    if not paths:
        raise ValueError("path must name at least one file, got an empty list.")
    for i, path in enumerate(paths):
        if any(path.resolve() == other.resolve() for other in paths[:i]):
            raise ValueError(f"path names {path.name} twice; give each file once.")
    parts, rule = [], missing if len(paths) == 1 else "nan"
    for path in paths:
        with standard_input(format) if str(path) == "-" else nullcontext(path) as file:
            parts.append(LabelFile(file, **options).ensemble(rule))
    return parts[0] if len(parts) == 1 else _join(parts, paths, missing)


class LabelFile(Source):
    """An open label file (or folder of files) and the parts that its columns play; arguments as of `read_ensemble`."""

    table: Table

    def __init__(self, path: Path, **options: Any):
        self.path = path
        with naming(path):
            self.table, self.format = open_table(path, Options(**options))
            for note in self.table.notes:
                warnings.warn(note, stacklevel=4)
            self.roles = named = roles_of(self.table)
            batches = self._read(named.all)
            first = [next(batches)]
            while sum(map(len, first)) < HEAD_ROWS and (batch := next(batches, None)) is not None:
                first.append(batch)
            self.roles = look(named, self.table, first)
            self._started: Iterator[Any] | None = chain(first, batches) if self.roles == named else None
        self.kind, self.what, self.names, self.n_rows = "file", path.name, self.roles.partitions, self.table.n_rows

    @cached_property
    def blocks(self) -> list[FileBlock]:  # type: ignore[override]
        """The table in pieces that any process can read."""
        columns, options = tuple(self.names), self.table.options
        return [FileBlock(self.format.name, columns, options, *piece) for piece in self.table.pieces()]

    def _read(self, columns: list[str]) -> Iterator[Any]:
        """Batches of some columns; columns of arrays get names where they play several parts."""
        named = self.table.array is not None and columns != self.roles.partitions
        for batch in self.table.batches(columns, self.roles.ids):
            yield record_batch(dict(zip(columns, map(arrow_array, batch.T)))) if named else batch

    def batches(self, all_roles: bool = False) -> Iterator[Any]:
        """The partitions, or all columns: the first time from where looking at the first rows has left off."""
        started, self._started = self._started, None
        with naming(self.path):
            yield from started or self._read(self.roles.all if all_roles else self.names)

    @property
    def bytes_in_memory(self) -> int:
        """Estimate of what reading the whole file takes."""
        if self.n_rows is None:
            return 4 * self.path.stat().st_size
        return self.n_rows * (8 * len(self.roles.all) + 48)

    def ensemble(self, missing: str) -> Ensemble:
        """The ensemble in memory."""
        with naming(self.path):
            if self.table.array is not None and self.roles.all == self.table.names:
                return Ensemble(self.table.array, missing=missing)
            batches = list(self.batches(all_roles=True))
            self.table.close()
            ensemble = Ensemble.from_partitions(gather(batches, self.names), missing=missing)
            ensemble.item_ids, ensemble.classes = (
                self.aside(name, batches) for name in (self.roles.ids, self.roles.classes)
            )
            return ensemble

    def aside(self, name: str | None, batches: Iterable[Any] | None = None) -> np.ndarray | None:
        """The column of ids or of classes, read alone where no `batches` hold it."""
        if name is None:
            return None
        with naming(self.path):
            batches = self._read([name]) if batches is None else batches
            if name != self.roles.ids:
                return gather(batches, [name])[name].values()
            return check_ids(np.concatenate([ids_in(batch, name) for batch in batches]), name)


def check_ids(ids: np.ndarray, column: str) -> np.ndarray:
    """Ids; each names one item."""
    values = ids.tolist()
    known = set(values)
    if len(known) < len(values) or known & {None, ""}:
        counts = Counter(values)
        row = next(row for row, value in enumerate(values) if value in (None, "") or counts[value] > 1)
        fault = "is empty" if values[row] in (None, "") else f"repeats {str(values[row])[:80]!r}"
        what = "the ids" if column.startswith("\x00") else f"id_column {column!r}"
        raise ValueError(f"{what}: row {row + 1} {fault}; ids must differ, or pass id_column=False (--no-id).")
    return ids


def _join(parts: list[Ensemble], paths: list[Path], missing: str) -> Ensemble:
    """Partitions of several files over the union of their items, in order of first appearance."""
    without_ids = [path.name for part, path in zip(parts, paths) if part.item_ids is None]
    ids = [range(len(part)) if part.item_ids is None else part.item_ids.tolist() for part in parts]
    if 0 < len(without_ids) < len(parts):
        raise ValueError(f"{without_ids[0]} has no ids while others do; name its id_column (--id).")
    if without_ids and len(set(map(len, ids))) > 1:
        sizes = ", ".join(f"{path.name} {len(mine)}" for path, mine in zip(paths, ids))
        raise ValueError(f"files without ids must have the same number of rows, got {sizes}; name an id_column.")
    place: dict[str, int] = {}
    rows = [np.array([place.setdefault(str(item), len(place)) for item in mine]) for mine in ids]
    columns, classes = {}, None
    stems, taken = [path.name.split(".")[0] for path in paths], Counter[str]()
    for stem, part, where in zip(stems, parts, rows):
        for j, column in enumerate(part.names):
            # the name of the file, with that of the column when it has several or files share a name
            name = stem if part.n_partitions == 1 and stems.count(stem) == 1 else f"{stem}:{column}"
            taken[name] += 1
            indices = np.full(len(place), -1, dtype=np.int64)
            indices[where] = part.partition(j)
            columns[name if taken[name] == 1 else f"{name}:{taken[name]}"] = Dictionary(indices, part.categories[j])
        if part.classes is not None:
            classes = np.full(len(place), None, dtype=object) if classes is None else classes
            classes[where] = part.classes
    with naming(paths[0]):
        ensemble = Ensemble.from_partitions(columns, missing=missing)
    ensemble.item_ids, ensemble.classes = None if without_ids else np.array(list(place), dtype=object), classes
    return ensemble


@contextmanager
def standard_input(format: str | None) -> Iterator[Path]:
    """Standard input as a file on disk: readers need its size, and read it twice."""
    with tempfile.TemporaryDirectory(prefix="coassoc-") as folder:
        path = Path(folder, f"standard-input.{format}" if format else "standard-input")
        with open(path, "wb") as spooled:
            shutil.copyfileobj(sys.stdin.buffer, spooled, 1 << 20)
        yield path


# -- features -------------------------------------------------------------------------------------------------------


class Features(NamedTuple):
    """Features, the names of their columns, and the names and classes of the items where they were asked for."""

    X: np.ndarray
    names: list[str]
    ids: np.ndarray | None = None
    classes: np.ndarray | None = None


def read_features(
    path: str | Path, *, exclude: Sequence[str] = (), id_column: str | None = None, class_column: str | None = None
) -> Features:
    """Read a table of numbers; columns in `exclude` (names or patterns) and those of ids and classes are not features.

    A first column named like ids is one. Text needs a header. An empty cell is NaN. An array that a file holds as it is
    is mapped, not loaded.
    """
    path = Path(path)
    with naming(path):
        file = LabelFile(path, columns="*", exclude=exclude, id_column=id_column, class_column=class_column or False,
                         header=True, trusted=True)  # fmt: skip
        names, array = file.names, file.table.array
        if file.format.is_text and all(map(is_number, file.table.names)):
            raise ValueError("the first line holds numbers only; a header must come first.")
        if array is not None and names == file.roles.all:
            if array.dtype.kind not in "fiub":
                raise ValueError(f"must hold a table of numbers, got {array.dtype}.")
            return Features(array if names == file.table.names else array[:, list(map(int, names))], names)
        batches = list(file.batches(all_roles=True))
        X = np.column_stack([_numbers(batches, name) for name in names])
        aside = (
            None if name is None else np.concatenate([ids_in(batch, name).astype(str) for batch in batches])
            for name in (file.roles.ids, file.roles.classes)
        )
        return Features(X, names, *aside)


def _numbers(batches: Sequence[Any], name: str) -> np.ndarray:
    """A column as numbers, NaN where missing."""
    found: list[np.ndarray] = []
    for batch in batches:
        values, nulls = labels_in(batch, name)
        if not isinstance(values, Dictionary) and values.dtype.kind in "fiub":
            found.append(values if nulls is None else np.where(nulls, np.nan, values))
            continue
        column = values if isinstance(values, Dictionary) else Dictionary(np.arange(len(batch)), values)
        numbers = np.full(len(column.labels) + 1, np.nan)  # the last entry serves index −1
        for i, label in enumerate(column.labels.tolist()):
            text = "" if label is None else str(label).strip()
            if is_number(text):
                numbers[i] = float(text)
            elif text.lower() not in _FEATURE_MISSING:
                row = sum(map(len, found)) + int(np.flatnonzero(column.indices == i)[0]) + 1
                way_out = "leave it out (--exclude), or code it as numbers, as pandas.get_dummies does"
                raise ValueError(f"column {name!r}, row {row} is {text!r}, not a number; {way_out}.")
        found.append(numbers[column.indices])
    return np.concatenate(found).astype(np.float64)
