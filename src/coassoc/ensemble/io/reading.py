"""read_ensemble: one label file, or one file per clustering, becomes an Ensemble."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..encode import Dictionary, check_missing_rule
from ..ensemble import Ensemble
from .blocks import gather
from .formats import open_table
from .roles import Choice, Roles
from .table import Options, Table, TableFormat, naming


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
) -> Ensemble:
    """Read base partitions from a file, or from one file per clustering.

    The page on files has every rule: which cells are missing, which columns are ids, what a header is.

    Parameters
    ----------
    path : str, path or list of them
        CSV, TSV (also ``.gz``), Parquet (also a folder of files), Arrow or Feather, NPY, NPZ, h5ad, MATLAB (``.mat``)
        or Excel; ``"-"`` is standard input. With
        several files, their partitions are joined by id (an item that a file does not mention is missing there), or
        put side by side when no file has ids. The format of a file is found from its first bytes and its name.
    columns : str or list of str, default=None
        Columns that hold clusterings, by name or pattern (``"leiden*"``), in this order. None is every column but
        the ids, the classes and those whose first rows hold no labels (hardly any value repeats; measurements, dates):
        a warning names these. h5ad files need a choice, since ``.obs`` holds much else.
    id_column : str, bool or None, default=None
        Column that names the items; its values must differ. None takes a first column with a usual name for ids (id,
        index, barcode, cell_id or without a name); False takes none. The ids of an h5ad file are its index.
    class_column : str, bool or None, default=None
        Column of known classes: kept for scoring, never part of the ensemble. None takes a column called class,
        classes, truth, ground_truth or target, and with a warning one called label, cell_type, y_true or the like
        beside two clusterings, unless `columns` is given; False takes none.
    missing : {"negative", "nan", "cluster", "singletons"}, default="negative"
        What a missing label is and becomes, see :class:`Ensemble`. Empty cells, NA, NaN, null and None are missing
        in text files; HDBSCAN's −1 and −2, −3 are under ``"negative"``.
    exclude : str or list of str, default=()
        Columns left out, by name or pattern.
    format : {"csv", "tsv", "parquet", "arrow", "npy", "npz", "h5ad", "mat", "xlsx"} or None, default=None
        Format of the file when its name does not say.
    delimiter : str or None, default=None
        Separator of text files. None is a tab for TSV, else whichever of ``, tab ; |`` splits the first line.
    header : bool or None, default=None
        Whether the first row of a text file names the columns. None: yes, unless it holds numbers that repeat. Numbers
        that may be names or labels are an error.
    max_bytes : int or None, default=None
        Refuse a file that takes more memory. None is 256 MiB, or 200 times the file's size if that is more.

    Returns
    -------
    Ensemble
        Its ``item_ids`` and ``classes`` are arrays where the file has them, else None.

    Notes
    -----
    Time and memory are linear in the number of labels. The memory that decoding takes is estimated before it is taken,
    nothing is ever unpickled, and text and row groups are read in pieces. ``Ensemble(path)`` reads the same files
    piece by piece, for tables larger than memory.

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
    choice, options = Choice(columns, exclude, id_column, class_column), Options(delimiter, header, max_bytes)
    several = isinstance(path, Iterable) and not isinstance(path, (str, os.PathLike))
    paths = [Path(p) for p in path] if several else [Path(path)]
    if not paths:
        raise ValueError("path must name at least one file, got an empty list.")
    for i, one in enumerate(paths):
        if any(one.resolve() == other.resolve() for other in paths[:i]):
            raise ValueError(f"path names {one.name} twice; give each file once.")
    parts = []
    for one in paths:
        with naming(one):
            part = _read_one(one, choice, format, options, alone=len(paths) == 1)
            if isinstance(part, np.ndarray):
                return Ensemble(part, missing=missing)
            parts.append(part)
    with naming(paths[0]):
        labels, ids, classes = parts[0] if len(parts) == 1 else _join(parts, paths)
        ensemble = Ensemble.from_partitions(labels, missing=missing)
        ensemble.item_ids, ensemble.classes = ids, classes
        return ensemble


class _Part(NamedTuple):
    """What one file says: named columns of labels, ids, classes."""

    columns: dict[str, Dictionary]
    ids: np.ndarray | None
    classes: np.ndarray | None

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))


def open_roles(path: Path, choice: Choice, format: str | None, options: Options) -> tuple[Table, TableFormat, Roles]:
    """An open file and the parts that its columns play."""
    table, found = open_table(path, format, options)
    roles = choice.look(choice.roles(table), table)
    if roles.ids is not None:
        table.read_ids(roles.ids)
    return table, found, roles


def _read_one(path: Path, choice: Choice, format: str | None, options: Options, alone: bool) -> Any:
    """The `_Part` in a file; an array that needs no reading as it is, when it is `alone`."""
    if str(path) == "-":
        with standard_input(format) as spooled:
            return _read_one(spooled, choice, format, options, alone)
    table, _, roles = open_roles(path, choice, format, options)
    array = table.array() if alone and roles.all == table.names else None
    if array is not None:
        return array
    columns = gather(table, roles.all)
    ids = None if roles.ids is None else check_ids(columns[roles.ids], path, roles.ids)
    classes = None if roles.classes is None else decode(columns[roles.classes])
    return _Part({name: columns[name] for name in roles.partitions}, ids, classes)


def decode(column: Dictionary) -> np.ndarray:
    """A column as an array of its labels, None where missing."""
    values, nulls = column.decode()
    if nulls is not None:
        values = np.asarray(values, dtype=object)
        values[nulls] = None
    return np.asarray(values)


def check_ids(column: Dictionary, path: Path, name: str) -> np.ndarray:
    """Ids as an array; each names one item."""
    ids = decode(column)
    what = f"the ids of {path.name}" if name.startswith("\x00") else f"id_column {name!r} of {path.name}"
    for i, value in enumerate(ids.tolist() if ids.dtype == object else ()):
        if value is None or value == "":
            raise ValueError(f"{what}: empty in row {i + 1}; give every item an id.")
    if len(np.unique(column.indices)) == len(ids):  # a dictionary may list labels that no row has
        return ids
    seen: set[Any] = set()
    for i, value in enumerate(ids.tolist()):
        if value in seen:
            raise ValueError(
                f"{what} repeats {str(value)[:80]!r} (row {i + 1}); ids must differ, or pass id_column=False (--no-id)."
            )
        seen.add(value)
    return ids


# -- several files -------------------------------------------------------------------------------------------------


def _join(parts: list[_Part], paths: list[Path]) -> _Part:
    """Partitions of several files over the union of their items, in order of first appearance."""
    labels = _names(parts, paths)
    with_ids = [part.ids is not None for part in parts]
    if not any(with_ids):
        if len({part.n_rows for part in parts}) > 1:
            sizes = ", ".join(f"{path.name} {part.n_rows}" for part, path in zip(parts, paths))
            raise ValueError(f"files without ids must have the same number of rows, got {sizes}; name an id_column.")
        place: dict[str, int] = dict.fromkeys(map(str, range(parts[0].n_rows)), 0)
        rows: list[Any] = [slice(None)] * len(parts)
    elif not all(with_ids):
        name = paths[with_ids.index(False)].name
        raise ValueError(f"{name} has no ids while others do; name its id_column (--id).")
    else:
        place = {}
        ids = [part.ids.tolist() for part in parts if part.ids is not None]
        rows = [np.array([place.setdefault(str(one), len(place)) for one in mine]) for mine in ids]
    columns, classes = {}, None
    for names, part, where in zip(labels, parts, rows):
        for new, column in zip(names, part.columns.values()):
            indices = np.full(len(place), -1, dtype=np.int64)
            indices[where] = column.indices
            columns[new] = Dictionary(indices, column.labels)
        if part.classes is not None:
            classes = np.full(len(place), None, dtype=object) if classes is None else classes
            classes[where] = part.classes
    return _Part(columns, np.array(list(place), dtype=object) if any(with_ids) else None, classes)


def _names(parts: list[_Part], paths: list[Path]) -> list[list[str]]:
    """Names of the joined partitions: the file's, its column added when it has several or files share a name."""
    stems = [path.name.split(".")[0] for path in paths]
    taken: dict[str, int] = {}
    names = []
    for part, stem in zip(parts, stems):
        alone = len(part.columns) == 1 and stems.count(stem) == 1
        mine = []
        for column in part.columns:
            name = stem if alone else f"{stem}:{column}"
            taken[name] = taken.get(name, 0) + 1
            mine.append(name if taken[name] == 1 else f"{name}:{taken[name]}")
        names.append(mine)
    return names


@contextmanager
def standard_input(format: str | None) -> Iterator[Path]:
    """Standard input as a file on disk: readers need its size, and read it twice."""
    with tempfile.TemporaryDirectory(prefix="coassoc-") as folder:
        path = Path(folder, f"standard-input.{format}" if format else "standard-input")
        with open(path, "wb") as spooled:
            shutil.copyfileobj(sys.stdin.buffer, spooled, 1 << 20)
        yield path
