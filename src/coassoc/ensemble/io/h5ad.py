"""h5ad: clusterings from the columns of ``.obs`` and the consensus back into it, with h5py alone.

anndata's own reader follows links to other files and reads every column; this one reads the columns asked for, from
this file only.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..encode import as_objects, encode_column
from ..tables import column_values
from .coding import Content, arrow_array, label_of, record_batch
from .formats import DamagedFile, Options, Table, check_added, h5py, pa

_IDS = "\x00index"  # the name under which the index is read; no column can have it
_TEXT = "coassoc-text"  # marks categories that are text although they look like numbers


class H5adTable(Table):
    """The columns of ``.obs``; its index holds the ids. Only hard links are followed: nothing else is in this file."""

    name, suffixes, magic = "h5ad", (".h5ad",), (b"\x89HDF\r\n\x1a\n",)
    packages, extra, replaces, by_rows = ("h5py", "pyarrow"), "anndata", True, True
    id_name, guess_ids, guess = _IDS, False, []

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        self.close()
        self.file = h5py.File(path, "r")
        obs = self._member(self.file, "obs")
        if not isinstance(obs, h5py.Group):
            raise ValueError("an HDF5 file without .obs, so not an h5ad file; write it with a present anndata.")
        self.obs, self.index = obs, _text(obs.attrs.get("_index", "_index"))
        self.n_rows = int(self._vector(obs, self.index).shape[0])
        names = [_text(name) for name in np.ravel(obs.attrs.get("column-order", []))] or list(obs)
        members = (name for name in dict.fromkeys(names) if self._member(obs, name) is not None)
        self.names = [name for name in members if name != self.index]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for start, rows in [piece[1] for piece in self.pieces()] if where is None else [where]:
            yield record_batch({name: self._read(name, slice(start, start + rows)) for name in columns})

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

    def _vector(self, group: Any, name: str, n_rows: int | None = None) -> Any:
        """A one-dimensional dataset stored in this file."""
        found = self._member(group, name)
        plain = isinstance(found, h5py.Dataset) and found.external is None and not found.is_virtual
        if not plain or found.ndim != 1 or found.dtype.kind not in "OSUiufb":
            raise ValueError(f"{group.name}/{name} is not a vector of numbers or text in this file, as anndata writes.")
        if n_rows is not None and found.shape[0] != n_rows:
            raise DamagedFile(f"column {name!r} has {found.shape[0]} rows, .obs has {n_rows}")
        return found

    def _read(self, name: str, rows: slice) -> Any:
        """Some rows of a column, as an Arrow array."""
        if name == _IDS:
            return pa.array([str(value) for value in _values(self._vector(self.obs, self.index), rows)])
        item = self._member(self.obs, name)
        if not isinstance(item, h5py.Group):
            return arrow_array(_values(self._vector(self.obs, name, self.n_rows), rows))
        if {"codes", "categories"} <= set(item):
            return self._categorical(item, name, rows)
        if {"values", "mask"} <= set(item):  # nullable integers, booleans and strings
            values, mask = (_values(self._vector(item, part, self.n_rows), rows) for part in ("values", "mask"))
            return pa.array(values, mask=mask.astype(bool))
        raise ValueError(f"column {name!r} of .obs holds no labels; leave it out.")

    def _categorical(self, item: Any, name: str, rows: slice) -> Any:
        codes, categories = self._vector(item, "codes", self.n_rows), self._vector(item, "categories")
        if codes.dtype.kind not in "iu":
            raise DamagedFile(f"codes of column {name!r} are not integers")
        if categories.shape[0] > (self.n_rows or 0):
            raise DamagedFile(f"column {name!r} has more categories than rows")
        labels, indices = _values(categories, slice(None)), _values(codes, rows).astype(np.int64)
        if indices.min(initial=0) < -1 or indices.max(initial=-1) >= len(labels):
            raise DamagedFile(f"column {name!r} has codes outside its categories")
        if labels.dtype == object and not item.attrs.get(_TEXT, False):
            numbers = [label_of(label) for label in labels]
            if all(isinstance(number, int) for number in numbers):
                labels = np.array(numbers, dtype=np.int64)  # "0", "1", ...: then −1 is missing
        return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32), mask=indices < 0), pa.array(labels))

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        """A small h5ad of categorical ``.obs`` columns and nothing else."""
        ids = range(content.n_rows) if content.item_ids is None else content.item_ids.tolist()
        with h5py.File(target, "w") as file:
            file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
            for part, index, columns in (("obs", ids, replace(content, item_ids=None).arrow()), ("var", [], {})):
                group = file.create_group(part)
                group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
                _store(group, "_index", as_objects([str(item) for item in index]))
                _add_columns(group, [], columns)

    @classmethod
    def append(cls, source: Sequence[Path], target: Any, columns: Any, options: Options, force: bool) -> None:
        """A copy with more columns in ``.obs``: labels as categories, −1 missing; fractions as they are."""
        (path,) = source
        table = cls(path, options)
        table.close()
        check_added(columns, [] if force else table.names, table.n_rows or 0, path)
        shutil.copyfile(path, target)
        with h5py.File(target, "r+") as file:
            _add_columns(file["obs"], table.names, dict(zip(columns.column_names, columns.columns)))


def _values(dataset: Any, rows: slice) -> np.ndarray:
    """Some values of a dataset; text as objects."""
    values = dataset[rows]
    return as_objects([_text(value) for value in values.tolist()]) if values.dtype.kind in "SO" else values


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _store(group: Any, name: str, values: np.ndarray) -> None:
    """A dataset as anndata writes it."""
    text = values.dtype == object
    dataset = group.create_dataset(name, data=values, dtype=h5py.string_dtype() if text else None)
    dataset.attrs.update({"encoding-type": "string-array" if text else "array", "encoding-version": "0.2.0"})


def _add_columns(obs: Any, names: list[str], columns: dict[str, Any]) -> None:
    """Add Arrow columns to those in a group: text and whole numbers as categories."""
    for name, column in columns.items():
        if "/" in name or "\x00" in name or name in ("", ".", "..", "_index"):
            raise ValueError(f"{name!r} cannot be the name of a column in such a file; rename it.")
        if name in obs:
            del obs[name]
        if pa.types.is_floating(column.type):  # a measurement, such as a confidence
            _store(obs, name, column.to_numpy())
            continue
        labels = encode_column(*column_values(column), name, allow_empty=True)
        texts = [str(label) for label in labels.labels.tolist()]
        if any("\x00" in text for text in texts):
            raise ValueError("such files cannot store labels with NUL characters; rename those labels.")
        group = obs.create_group(name)
        group.attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False})
        if labels.labels.dtype.kind not in "iu":
            group.attrs[_TEXT] = True
        _store(group, "categories", as_objects(texts))
        width = np.int8 if len(texts) < 127 else np.int16 if len(texts) < 32767 else np.int32
        _store(group, "codes", labels.indices.astype(width))
    obs.attrs["column-order"] = np.array(list(dict.fromkeys([*names, *columns])), dtype=h5py.string_dtype())
