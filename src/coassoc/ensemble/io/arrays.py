"""NPY and NPZ, by NumPy; nothing is unpickled. An NPY file is mapped into memory, not read."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...core.counts import smallest_unsigned
from ..encode import Dictionary
from .table import Content, DamagedFile, Options, Piece, Table, arrow_array, pa, record_batch, row_ranges
from .text import cell_of


class NpyTable(Table):
    """An array of labels, mapped into memory."""

    name, suffixes, magic, packages = "npy", (".npy",), (b"\x93NUMPY",), ()
    guarded, keeps_types, keeps_names, one_array = False, False, False, True
    guess_ids = False  # columns have no names

    def __init__(self, file: BinaryIO, path: Path, options: Options):
        super().__init__(file, path, options)
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "allow_pickle" in str(error) or "Python objects" in str(error):
                raise ValueError(
                    f"{path.name} holds Python objects, which only pickle could read; save labels as integers or "
                    "strings (table.astype(str))."
                ) from None
            raise DamagedFile(str(error)) from None
        if array.offset + array.nbytes != path.stat().st_size:
            raise DamagedFile(f"an array of shape {array.shape} has not the size of the file: it is truncated")
        self.array: np.ndarray = _checked(array, path.name)
        self.n_rows, self.names = len(self.array), [str(j) for j in range(self.array.shape[1])]

    def pieces(self) -> list[Piece]:
        return [Piece(str(self.path), [start, rows], rows) for start, rows in row_ranges(self.n_rows or 0)]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for start, rows in row_ranges(self.n_rows or 0) if where is None else [where]:
            part = self.array[start : start + rows]
            yield part if list(columns) == self.names else part[:, [int(name) for name in columns]]

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        columns = list(content.columns.values())
        with open(target, "wb") as out:
            is_array = isinstance(columns[0], np.ndarray)
            np.save(out, columns[0] if is_array else _integers(columns), allow_pickle=False)


def _checked(array: np.ndarray, name: str) -> np.ndarray:
    """An array that can be a table of labels, as one of two dimensions."""
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} holds an array of shape {array.shape}; a label table is (n_samples, n_partitions).")
    if 0 in array.shape or array.dtype.itemsize == 0:
        raise ValueError(f"{name} holds an empty table of shape {array.shape} and type {array.dtype}.")
    if array.dtype.kind == "V":
        raise ValueError(f"{name} holds records; save a plain table of shape (n_samples, n_partitions).")
    if array.dtype.kind == "U":
        characters = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if int(characters.max()) > sys.maxunicode:
            raise ValueError(f"{name} holds characters beyond Unicode; write it again.")
    return array.reshape(-1, 1) if array.ndim == 1 else array


class NpzTable(Table):
    """An archive of one table, of one vector per partition, or of what `write_ensemble` stores.

    The latter holds ``codes``, ``n_clusters``, ``names``, where labels are not their codes ``labels`` (the cells of all
    clusters, one partition after the other), and ``item_ids`` and ``classes``.
    """

    name, suffixes, magic = "npz", (".npz",), (b"PK\x03\x04", b"PK\x05\x06")
    keeps_types, keeps_names, guess_ids = False, False, False

    def __init__(self, file: BinaryIO, path: Path, options: Options):
        super().__init__(file, path, options)
        arrays = self.arrays = self._load(file)
        self.inspect = not {"codes", "n_clusters"} <= set(arrays)
        tables = [name for name, array in arrays.items() if array.ndim == 2]
        if not self.inspect:
            self.columns = self._stored()
        elif len(tables) == 1:
            table = _checked(arrays[tables[0]], path.name)
            self.columns = {str(j): table[:, j] for j in range(table.shape[1])}
        elif tables:
            raise ValueError(f"several tables ({', '.join(tables)}); keep one, or store one vector per partition.")
        else:
            self.columns = {name: _checked(array, path.name)[:, 0] for name, array in arrays.items() if array.ndim == 1}
            if not self.columns:
                raise ValueError(f"neither a table nor vectors of labels, only {list(arrays)}.")
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"the arrays have different lengths {sorted(lengths)}; every item needs a label in each.")
        self.n_rows = lengths.pop()
        if "item_ids" in arrays and (not self.inspect or ("item_ids" in self.columns and len(self.columns) > 1)):
            self.id_name = self._aside("item_ids")
        if "classes" in arrays and not self.inspect:
            self.class_name = self._aside("classes")
        self.names = [name for name in self.columns if name not in (self.id_name, self.class_name)]

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return path.suffix.lower() in ("", *cls.suffixes)

    def _aside(self, name: str) -> str:
        """Ids or classes, under a name that no partition has."""
        if self.arrays[name].shape != (self.n_rows,):
            raise DamagedFile(f"{name} has shape {self.arrays[name].shape} for {self.n_rows} items")
        if self.inspect:
            del self.columns[name]
        self.columns["\x00" + name] = self.arrays[name]
        return "\x00" + name

    def _load(self, file: BinaryIO) -> dict[str, np.ndarray]:
        arrays = {}
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            if not names:
                raise ValueError(f"{self.path.name} holds no array; write it with numpy.savez(path, labels=table).")
            if len(set(names)) < len(names):
                raise DamagedFile("it holds two arrays of one name")
            for name in names:
                with archive.open(name) as member:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
                    if member.read(1):
                        raise DamagedFile(f"{name} has not the size that it declares")
        return arrays

    def _stored(self) -> dict[str, np.ndarray]:
        codes, counts = self.arrays["codes"], self.arrays["n_clusters"]
        if codes.ndim != 2 or 0 in codes.shape or counts.shape != (codes.shape[1],):
            raise DamagedFile("codes and n_clusters do not fit together")
        if codes.dtype.kind != "u" or counts.dtype.kind not in "iu" or (codes.max(axis=0) > counts).any():
            raise DamagedFile("codes must be unsigned integers up to the number of clusters")
        names = [str(name) for name in self.arrays.get("names", np.arange(codes.shape[1])).ravel().tolist()]
        if len(names) != codes.shape[1] or len(set(names)) < len(names):
            raise DamagedFile(f"names must hold {codes.shape[1]} different names, one per partition")
        if "labels" in self.arrays and self.arrays["labels"].shape != (sum(counts.tolist()),):
            raise DamagedFile("there are clusters without a label")
        return {name: codes[:, j] for j, name in enumerate(names)}

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        labelled = "labels" in self.arrays and not self.inspect
        cells = [name for name in columns if labelled and name in self.names]
        yield record_batch({name: self._column(name) for name in columns}, cells)

    def _column(self, name: str) -> Any:
        if self.inspect or name not in self.names:
            return arrow_array(self.columns[name])
        codes, counts, j = self.columns[name], self.arrays["n_clusters"].tolist(), self.names.index(name)
        if "labels" not in self.arrays:
            return pa.array(codes, mask=codes == counts[j])
        labels = self.arrays["labels"][sum(counts[:j]) :][: counts[j]].astype(str)
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=codes == counts[j]),
                                              pa.array(labels.tolist(), pa.string()))  # fmt: skip

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        arrays, columns = dict(content.columns), list(content.columns.values())
        if isinstance(columns[0], Dictionary):
            counts = [len(column.labels) for column in columns]
            codes = [np.where(column.indices < 0, k, column.indices) for column, k in zip(columns, counts)]
            arrays = {"codes": np.column_stack(codes).astype(smallest_unsigned(max(counts) + 1))}
            arrays |= {"n_clusters": np.array(counts), "names": _texts(content.columns)}
            labels = [label for column in columns for label in column.labels.tolist()]
            if labels != [code for k in counts for code in range(k)]:
                arrays["labels"] = _texts(map(cell_of, labels))
        if content.item_ids is not None:
            arrays["item_ids"] = _texts(content.item_ids)
        if content.classes is not None:
            arrays["classes"] = content.classes if content.classes.dtype.kind in "iub" else _texts(content.classes)
        with open(target, "wb") as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)


def _integers(columns: list[Dictionary]) -> np.ndarray:
    """Labels as the smallest integers that hold them, −1 where missing; codes where labels are no such integers."""
    plain = all(column.labels.dtype.kind in "iu" and (column.labels >= 0).all() for column in columns)
    table = np.column_stack([
        np.append(column.labels.astype(object), -1)[column.indices] if plain else column.indices for column in columns
    ])  # fmt: skip
    low, high = int(table.min()), int(table.max())
    return table.astype(np.min_scalar_type(high) if low >= 0 else np.min_scalar_type(-1 - high))


def _texts(values: Any) -> np.ndarray:
    """Text as NumPy stores it, which drops NUL characters at the end."""
    texts = list(map(str, values))
    if any(text.endswith("\x00") for text in texts):
        raise ValueError("archives cannot store text that ends in a NUL character; rename that label, name or id.")
    return np.array(texts, dtype=str)
