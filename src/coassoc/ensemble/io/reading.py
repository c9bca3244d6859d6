"""read_ensemble: one label file, or one file per clustering, becomes an Ensemble."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from ..encode import Dictionary, check_missing_rule
from ..ensemble import Ensemble
from ..tables import column_values
from .guard import RawTable, file_format

ID_NAMES = ("id", "item", "item_id", "index", "barcode", "")  # a first column so named holds ids, not labels


def read_ensemble(
    path: Any,
    *,
    columns: str | Sequence[str] | None = None,
    id_column: str | bool | None = None,
    class_column: str | None = None,
    missing: str = "negative",
    exclude: str | Sequence[str] = (),
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    max_bytes: int | None = None,
) -> Ensemble:
    """Read base partitions from a file, or from one file per clustering.

    Parameters
    ----------
    path : str, path or list of them
        CSV, TSV (also ``.gz``), Parquet, NPY, NPZ or h5ad; ``"-"`` is standard input. With several files, their
        partitions are joined by id (an item that a file does not mention is missing there), or put side by side
        when no file has ids. The kind of a file is found from its first bytes and its name.
    columns : str or list of str, default=None
        Columns that hold clusterings, by name or pattern (``"leiden*"``), in this order. None is every column but
        the id and the class; h5ad files need a choice, since ``.obs`` holds much else.
    id_column : str, bool or None, default=None
        Column that names the items; it must not repeat. None takes a first column called id, item, item_id, index
        or barcode, or without a name; False takes none. The ids of an h5ad file are its index.
    class_column : str or None, default=None
        Column of known classes: kept for scoring, never part of the ensemble.
    missing : {"negative", "nan", "cluster", "singletons"}, default="negative"
        What a missing label is and becomes, see :class:`Ensemble`. Empty cells, NA, NaN, null and None are missing
        in text files; HDBSCAN's −1 and −2, −3 are under ``"negative"``.
    exclude : str or list of str, default=()
        Columns left out, by name or pattern.
    format : {"csv", "tsv", "parquet", "npy", "npz", "h5ad"} or None, default=None
        Kind of the file when its name does not say.
    delimiter : str or None, default=None
        Separator of text files. None is a tab for TSV, else whichever of ``, tab ; |`` splits the first line.
    header : bool or None, default=None
        Whether the first row names the columns. None: yes unless it holds numbers only.
    max_bytes : int or None, default=None
        Refuse a compressed file that unpacks to more. None is 256 MiB, or 200 times the file's size if that is more.

    Returns
    -------
    Ensemble
        Its ``item_ids`` and ``classes`` are arrays where the file has them, else None.

    Notes
    -----
    Time and memory are linear in the number of labels. Declared sizes are checked before memory is taken, nothing
    is ever unpickled, and text, Parquet and row groups are streamed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "labels.csv")
    ...     _ = path.write_text("id,first,second\\na,0,x\\nb,0,x\\nc,1,y\\nd,-1,y\\n")
    ...     ens = ca.read_ensemble(path)
    >>> ens, ens.item_ids.tolist()
    (Ensemble(4 items, 2 partitions of 2 clusters, uint8, some labels missing), ['a', 'b', 'c', 'd'])
    """
    check_missing_rule(missing)
    plan = _Plan(columns, id_column, class_column, exclude)
    options = {"delimiter": delimiter, "header": header, "max_bytes": max_bytes}
    several = isinstance(path, (list, tuple)) or (
        isinstance(path, Iterable) and not isinstance(path, (str, os.PathLike))
    )
    paths = [Path(p) for p in path] if several else [Path(path)]
    if not paths:
        raise ValueError("path must name at least one file, got an empty list.")
    parts = [_read_one(one, plan, format, options) for one in paths]
    if len(parts) == 1:
        return parts[0].ensemble(missing)
    return _join(parts, paths).ensemble(missing)


class _Part:
    """What one file says: named columns of labels, ids, classes."""

    def __init__(self, columns: dict[str, Any], n_rows: int, ids, classes, array=None):
        self.columns, self.n_rows, self.ids, self.classes, self.array = columns, n_rows, ids, classes, array

    def ensemble(self, missing: str) -> Ensemble:
        if self.array is not None:
            ensemble = Ensemble(self.array, missing=missing)
        else:
            ensemble = Ensemble.from_partitions(list(self.columns.values()), names=list(self.columns), missing=missing)
        ensemble.item_ids, ensemble.classes = self.ids, self.classes
        return ensemble


class _Plan:
    """Which columns play which part."""

    def __init__(self, columns, id_column, class_column, exclude):
        self.patterns = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
        self.exclude = [exclude] if isinstance(exclude, str) else list(exclude)
        self.id_column, self.class_column = id_column, class_column

    def id_of(self, names: list[str], path: Path) -> str | None:
        if self.id_column is False:
            return None
        if self.id_column is None or self.id_column is True:
            return names[0] if names and names[0].lower() in ID_NAMES else None
        _require(self.id_column, names, path, "id_column")
        return self.id_column

    def partitions(self, names: list[str], path: Path, *, needed: bool = False) -> list[str]:
        """Names of the label columns, in the order asked for."""
        aside = {self.id_of(names, path), self.class_column}
        if self.class_column is not None:
            _require(self.class_column, names, path, "class_column")
        if self.patterns is None:
            if needed:
                raise ValueError(
                    f"columns must say which columns of .obs in {path.name} are clusterings, for example "
                    f"columns='leiden*' (--columns); it has {_listing(names)}."
                )
            found = [name for name in names if name not in aside]
        else:
            found = []
            for pattern in self.patterns:
                matches = [pattern] if pattern in names else [n for n in names if fnmatchcase(n, pattern)]
                if not matches:
                    raise ValueError(f"columns: {path.name} has no column {pattern!r}; it has {_listing(names)}.")
                found += [name for name in matches if name not in found and name not in aside]
        found = [name for name in found if not any(name == p or fnmatchcase(name, p) for p in self.exclude)]
        if not found:
            raise ValueError(f"{path.name} has no column of labels left; it has {_listing(names)}.")
        return found


def _read_one(path: Path, plan: _Plan, format: str | None, options: dict[str, Any]) -> _Part:
    if str(path) == "-":
        with standard_input(format) as spooled:
            return _read_one(spooled, plan, format, options)
    kind, compressed = file_format(path, format)

    def select(names: list[str]) -> list[str]:
        wanted = plan.partitions(names, path, needed=kind == "h5ad")
        aside = [plan.id_of(names, path) if kind not in ("npy", "h5ad") else None, plan.class_column]
        return [*dict.fromkeys([*(name for name in aside if name is not None), *wanted])]

    raw = _open(path, kind, compressed, select, plan, options)
    identity = plan.id_of(raw.names, path) if kind not in ("npy", "h5ad") else None
    ids = _check_ids(raw.columns[identity], path, identity) if identity is not None else None
    stored = raw.notes.get("item_ids")
    if ids is None and stored is not None:
        ids = _check_ids(np.asarray(stored, dtype=object), path, "index")
    classes = raw.notes.get("classes")
    if plan.class_column is not None:
        classes = decode(raw.columns[plan.class_column])
    chosen = plan.partitions(raw.names, path, needed=kind == "h5ad")
    return _Part({name: raw.columns[name] for name in chosen}, raw.n_rows, ids, classes, raw.notes.get("array"))


def _open(path: Path, kind: str, compressed: bool, select, plan: _Plan, options: dict[str, Any]) -> RawTable:
    max_bytes = options["max_bytes"]
    if kind in ("csv", "tsv"):
        from .text import read_text

        text = (plan.id_column,) if isinstance(plan.id_column, str) else ID_NAMES if plan.id_column is not False else ()
        return read_text(
            path,
            select,
            delimiter=options["delimiter"] or ("\t" if kind == "tsv" else None),
            header=options["header"],
            compressed=compressed,
            max_bytes=max_bytes,
            verbatim=_Caseless(text),
        )
    if kind == "parquet":
        from .parquet import read_parquet

        return read_parquet(path, select, max_bytes=max_bytes)
    if kind == "h5ad":
        from .h5ad import read_h5ad

        return read_h5ad(path, select, max_bytes=max_bytes)
    from .arrays import read_npy, read_npz

    return read_npy(path, select) if kind == "npy" else read_npz(path, select, max_bytes=max_bytes)


class _Caseless(tuple):
    """Names that match whatever their capitals."""

    def __contains__(self, name: object) -> bool:
        return any(str(name).lower() == one.lower() for one in self)


def decode(column: Any) -> np.ndarray:
    """A column as an array of its labels, None where null."""
    values, nulls = column_values(column)
    if isinstance(values, Dictionary):
        values, nulls = values.decode()
    if nulls is not None:
        values = np.asarray(values, dtype=object)
        values[nulls] = None
    return np.asarray(values)


def _check_ids(column: Any, path: Path, name: str | None) -> np.ndarray:
    """Ids as an array; each names one item."""
    ids = decode(column)
    if ids.dtype.kind == "f":
        raise ValueError(
            f"id_column {name!r} of {path.name} holds fractions or gaps; an id is a name or a whole number."
        )
    if ids.dtype.kind == "O":
        absent = [i for i, value in enumerate(ids) if value is None or value == ""]
        if absent:
            raise ValueError(
                f"id_column {name!r} of {path.name} is empty in row {absent[0] + 1}; give every item an id."
            )
    seen: set[Any] = set()
    if len(set(ids.tolist())) == len(ids):
        return ids
    for i, value in enumerate(ids.tolist()):
        if value in seen:
            raise ValueError(
                f"id_column {name!r} of {path.name} repeats {value!r} (row {i + 1}); ids must differ, or pass "
                "id_column=False (--no-id)."
            )
        seen.add(value)
    return ids


def _join(parts: list[_Part], paths: list[Path]) -> _Part:
    """Partitions of several files over the union of their items, in order of first appearance."""
    labels = _names(parts, paths)
    with_ids = [part.ids is not None for part in parts]
    if not any(with_ids):
        if len({part.n_rows for part in parts}) > 1:
            sizes = ", ".join(f"{path.name} {part.n_rows}" for part, path in zip(parts, paths))
            raise ValueError(f"files without ids must have the same number of rows, got {sizes}; name an id_column.")
        columns = {new: c for names, part in zip(labels, parts) for new, c in zip(names, part.columns.values())}
        classes = next((part.classes for part in parts if part.classes is not None), None)
        return _Part(columns, parts[0].n_rows, None, classes)
    if not all(with_ids):
        name = paths[with_ids.index(False)].name
        raise ValueError(f"{name} has no ids while others do; name its id_column (--id).")
    place: dict[str, int] = {}
    rows = [np.array([place.setdefault(str(one), len(place)) for one in part.ids.tolist()]) for part in parts]
    columns, classes = {}, None
    for names, part, where in zip(labels, parts, rows):
        for new, column in zip(names, part.columns.values()):
            columns[new] = _spread(column, where, len(place))
        if part.classes is not None:
            classes = np.full(len(place), None, dtype=object) if classes is None else classes
            classes[where] = part.classes
    return _Part(columns, len(place), np.array(list(place), dtype=object), classes)


def _spread(column: Any, where: np.ndarray, n_rows: int) -> Any:
    """A column over all items, null where its file does not mention them."""
    values, nulls = column_values(column)
    if not isinstance(values, Dictionary):
        values = np.asarray(values)
        if nulls is not None or values.dtype.kind == "O":
            filled = np.full(n_rows, None, dtype=object)
            filled[where] = values
            if nulls is not None:
                filled[where[nulls]] = None
            return filled
        labels, indices = np.unique(values, return_inverse=True)
        values = Dictionary(indices, labels if labels.dtype.kind in "iufb" else labels.astype(object))
    indices = np.full(n_rows, -1, dtype=np.int64)
    indices[where] = values.indices
    return Dictionary(indices, values.labels)


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
def standard_input(format: str | None):
    """Standard input as a file on disk: readers look at sizes and seek, and memory stays bounded."""
    with tempfile.TemporaryDirectory(prefix="coassoc-") as folder:
        path = Path(folder, f"standard-input.{format}" if format else "standard-input")
        with open(path, "wb") as spooled:
            shutil.copyfileobj(sys.stdin.buffer, spooled, 1 << 20)
        with open(path, "rb") as spooled:
            if format is None and spooled.read(4) in (b"PK\x03\x04", b"PK\x05\x06"):
                path = path.rename(path.with_suffix(".npz"))
        yield path


def _require(name: str, names: list[str], path: Path, argument: str) -> None:
    if name not in names:
        raise ValueError(f"{argument}: {path.name} has no column {name!r}; it has {_listing(names)}.")


def _listing(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
