"""h5ad: clusterings from the columns of ``.obs`` and the consensus back into it, with h5py alone.

anndata's own reader follows links to other files and reads every column; this one reads the columns asked for, from
this file only.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..encode import Dictionary, as_objects, encode_column
from .cells import label_of
from .optional import h5py, pa
from .table import Content, DamagedFile, Format, Options, Piece, Table, arrow_array, row_ranges

_IDS = "\x00index"  # the name under which the index is read; no column can have it
_TEXT = "coassoc-text"  # marks categories that are text although they look like numbers


class H5adTable(Table):
    """The columns of ``.obs``; its index holds the ids."""

    id_name = _IDS
    guess_ids = False
    must_choose = True

    def __init__(self, path: Path):
        super().__init__(path)
        self.file = h5py.File(path, "r")
        self.obs = _Obs(self.file)
        self.names, self.n_rows = self.obs.columns(), self.obs.n_rows

    def pieces(self) -> list[Piece]:
        return [Piece(str(self.path), [start, rows], rows) for start, rows in row_ranges(self.n_rows or 0)]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for start, rows in row_ranges(self.n_rows or 0) if where is None else [where]:
            found = [self.obs.read(name, slice(start, start + rows)) for name in columns]
            yield pa.RecordBatch.from_arrays(found, list(columns))


class _Obs:
    """``.obs`` of an open file. Objects are reached by hard links only, so nothing outside the file is read."""

    def __init__(self, file: Any):
        obs = self._member(file, "obs")
        if obs is None:
            raise ValueError("an HDF5 file without .obs, so not an h5ad file; write it with anndata.")
        if not isinstance(obs, h5py.Group):
            raise ValueError("written by a very old anndata; open and save it with a present one.")
        self.group = obs
        self.index = _text(obs.attrs.get("_index", "_index"))
        self.n_rows = int(self._vector(obs, self.index).shape[0])

    def _member(self, group: Any, name: str) -> Any:
        """A member of a group; None when there is none, an error when it is a link to somewhere else."""
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} cannot be the name of a column; write the file with anndata.")
        link = group.get(name, getlink=True)
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{group.name}/{name} is a link, maybe to another file; copy the data into this file.")
        return group[name]

    def columns(self) -> list[str]:
        """Names of the columns, in the order the file gives."""
        listed = [_text(name) for name in np.ravel(self.group.attrs.get("column-order", []))]
        aside = (self.index, "__categories")
        names = [name for name in (listed or list(self.group)) if name not in aside]
        return [name for name in dict.fromkeys(names) if self._member(self.group, name) is not None]

    def _vector(self, group: Any, name: str, n_rows: int | None = None) -> Any:
        """A one-dimensional dataset stored in this file."""
        found = self._member(group, name)
        where = f"{group.name}/{name}"
        if not isinstance(found, h5py.Dataset) or found.external is not None or found.is_virtual:
            raise ValueError(f"{where} is not a plain array of this file; write it with anndata.")
        if found.ndim != 1:
            raise ValueError(f"{where} has shape {found.shape}; a column of .obs is a vector.")
        if n_rows is not None and found.shape[0] != n_rows:
            raise DamagedFile(f"column {name!r} has {found.shape[0]} rows, .obs has {n_rows}")
        if found.dtype.kind not in "OSUiufb":
            raise ValueError(f"{where} has type {found.dtype}; labels are numbers or text.")
        return found

    def _values(self, dataset: Any, rows: slice) -> np.ndarray:
        """Some values of a dataset; text as objects."""
        values = dataset[rows]
        return as_objects([_text(value) for value in values.tolist()]) if values.dtype.kind in "SO" else values

    def read(self, name: str, rows: slice) -> Any:
        """Some rows of a column, as an Arrow array."""
        if name == _IDS:
            return pa.array([str(value) for value in self._values(self._vector(self.group, self.index), rows)])
        item = self._member(self.group, name)
        if not isinstance(item, h5py.Group):
            dataset = self._vector(self.group, name, self.n_rows)
            if "categories" in dataset.attrs:
                raise ValueError("written by an old anndata; save it with a present one.")
            return arrow_array(self._values(dataset, rows))
        kind = _text(item.attrs.get("encoding-type", ""))
        if kind == "categorical" or {"codes", "categories"} <= set(item):
            return self._categorical(item, name, rows)
        if {"values", "mask"} <= set(item):  # nullable integers, booleans and strings
            values = self._values(self._vector(item, "values", self.n_rows), rows)
            mask = self._values(self._vector(item, "mask", self.n_rows), rows).astype(bool)
            return pa.array(values, mask=mask)
        raise ValueError(f"column {name!r} of .obs is of kind {kind or 'unknown'!r}, which holds no labels.")

    def _categorical(self, item: Any, name: str, rows: slice) -> Any:
        codes, categories = self._vector(item, "codes", self.n_rows), self._vector(item, "categories")
        if codes.dtype.kind not in "iu":
            raise DamagedFile(f"codes of column {name!r} are not integers")
        if categories.shape[0] > self.n_rows:
            raise DamagedFile(f"column {name!r} has more categories than rows")
        labels = self._values(categories, slice(0, categories.shape[0]))
        indices = self._values(codes, rows).astype(np.int64)
        if indices.min(initial=0) < -1 or indices.max(initial=-1) >= len(labels):
            raise DamagedFile(f"column {name!r} has codes outside its categories")
        if labels.dtype == object and not item.attrs.get(_TEXT, False):
            numbers = [label_of(label) for label in labels]
            if all(isinstance(number, int) for number in numbers):
                # clusters are often called "0", "1", ...: then they are numbers, and −1 is missing
                labels = np.array(numbers, dtype=np.int64)
        found = pa.array(indices.astype(np.int32), mask=indices < 0)
        return pa.DictionaryArray.from_arrays(found, pa.array(labels.tolist() if labels.dtype == object else labels))


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


# -- writing -------------------------------------------------------------------------------------------------------


class H5adFormat(Format):
    """Annotated data; only ``.obs`` concerns us."""

    name = "h5ad"
    suffixes = (".h5ad",)
    magic = (b"\x89HDF\r\n\x1a\n",)
    packages = ("h5py", "pyarrow")
    extra = "anndata"
    replaces = True

    def open(self, file: BinaryIO, path: Path, options: Options) -> H5adTable:
        file.close()
        return H5adTable(path)

    def write(self, target: Any, content: Content) -> None:
        """A small h5ad of categorical ``.obs`` columns and nothing else."""
        text = h5py.string_dtype()
        ids = range(content.n_rows) if content.item_ids is None else content.item_ids.tolist()
        columns = replace(content, item_ids=None).table()
        for name in columns:
            _check_name(name)
        with h5py.File(target, "w") as file:
            file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
            for part in ("obs", "var"):
                group = file.create_group(part)
                group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
                chosen = list(columns) if part == "obs" else []
                group.attrs["column-order"] = np.array(chosen, dtype=text)
                names = as_objects([str(one) for one in ids] if part == "obs" else [])
                index = group.create_dataset("_index", data=names, dtype=text)
                index.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
                for column in chosen:
                    _write_column(group, column, columns[column])

    def append(self, source: Sequence[Path], target: Any, columns: Any, options: Options, force: bool) -> None:
        """A copy with more columns in ``.obs``: labels as categories, −1 missing; fractions as they are."""
        (path,) = source
        with h5py.File(path, "r") as file:
            obs = _Obs(file)
            order, n_rows = obs.columns(), obs.n_rows
        if len(columns) != n_rows:
            raise ValueError(f"labels must have one entry per row of .obs ({n_rows}), got {len(columns)}.")
        for name in columns.column_names:
            _check_name(name)
            if name in order and not force:
                raise FileExistsError(
                    f".obs of {path.name} already has a column {name!r}; choose another name, or overwrite it "
                    "with force=True (--force)."
                )
        shutil.copyfile(path, target)
        with h5py.File(target, "r+") as file:
            group = file["obs"]
            for name, column in zip(columns.column_names, columns.columns):
                if name in group:
                    del group[name]
                _write_column(group, name, column.to_numpy())
            names = [*dict.fromkeys([*order, *columns.column_names])]
            group.attrs["column-order"] = np.array(names, dtype=h5py.string_dtype())


def _check_name(name: str) -> None:
    if "/" in name or "\x00" in name or name in ("", ".", "..", "_index"):
        raise ValueError(f"{name!r} cannot be the name of a column in such a file; rename it.")


def _write_column(obs: Any, name: str, column: Any) -> None:
    if getattr(column, "dtype", None) is not None and column.dtype.kind == "f":  # a measurement, such as a confidence
        stored = obs.create_dataset(name, data=column)
        stored.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        return
    group = obs.create_group(name)
    if not isinstance(column, Dictionary):
        column = encode_column(column, None, name, allow_empty=True).dictionary()
    codes, labels = column.indices, column.labels
    names = [str(label) for label in labels.tolist()]
    if any("\x00" in name for name in names):
        raise ValueError("such files cannot store labels with NUL characters; rename those labels.")
    width = np.int8 if len(names) < 127 else np.int16 if len(names) < 32767 else np.int32
    group.attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False})
    if any(isinstance(label, str) for label in labels.tolist()):
        group.attrs[_TEXT] = True
    categories = group.create_dataset("categories", data=as_objects(names), dtype=h5py.string_dtype())
    categories.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    stored = group.create_dataset("codes", data=codes.astype(width))
    stored.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


H5AD = H5adFormat()
