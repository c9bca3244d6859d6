"""NPY and NPZ, by NumPy; nothing is unpickled. An NPY file is mapped into memory, not read."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..encode import as_objects
from .cells import cell_of
from .optional import pa
from .table import CELLS, Content, DamagedFile, Format, Options, Piece, Table, arrow_array, row_ranges


class NpyTable(Table):
    """An array of labels, mapped into memory."""

    guess_ids = False  # columns have no names

    def __init__(self, path: Path):
        super().__init__(path)
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
        self.mapped = _checked(array, path.name)
        self.n_rows, self.names = len(self.mapped), [str(j) for j in range(self.mapped.shape[1])]

    def array(self) -> np.ndarray:
        return self.mapped

    def pieces(self) -> list[Piece]:
        return [Piece(str(self.path), [start, start + rows], rows) for start, rows in row_ranges(len(self.mapped))]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        rows = self.mapped[slice(*(where or (None,)))]
        yield pa.RecordBatch.from_arrays([arrow_array(rows[:, int(name)]) for name in columns], list(columns))


def _checked(array: np.ndarray, name: str) -> np.ndarray:
    """An array that can be a table of labels, as one of two dimensions."""
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} holds an array of shape {array.shape}; a label table is (n_samples, n_partitions).")
    if 0 in array.shape or array.dtype.itemsize == 0:
        raise ValueError(f"{name} holds an empty table of shape {array.shape} and type {array.dtype}.")
    if array.dtype.names is not None or array.dtype.kind == "V":
        raise ValueError(f"{name} holds records; save a plain table of shape (n_samples, n_partitions).")
    if array.dtype.kind == "U":
        characters = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if int(characters.max()) > sys.maxunicode:
            raise ValueError(f"{name} holds characters beyond Unicode; write it again.")
    return array.reshape(-1, 1) if array.ndim == 1 else array


class NpzTable(Table):
    """An archive of one table, of one vector per partition, or of what `write_ensemble` stores.

    The latter holds ``codes``, ``n_clusters``, ``names`` and, where labels are not their codes, ``labels_0`` and so on
    (``cells_0`` for labels that are numbers and text), ``item_ids`` and ``classes``.
    """

    guess_ids = False

    def __init__(self, file: BinaryIO, path: Path):
        super().__init__(path)
        arrays = self.arrays = self._load(file)
        shapes = {name: array.shape for name, array in arrays.items()}
        stored = {"codes", "n_clusters"} <= set(arrays)
        tables = [name for name, shape in shapes.items() if len(shape) == 2]
        self.inspect = not stored
        if stored:
            self._open_stored()
        elif len(tables) == 1:
            table = _checked(arrays[tables[0]], path.name)
            self.columns = {str(j): table[:, j] for j in range(table.shape[1])}
        elif tables:
            raise ValueError(f"several tables ({', '.join(tables)}); keep one, or store one vector per partition.")
        else:
            self.columns = {name: _checked(array, path.name)[:, 0] for name, array in arrays.items() if array.ndim == 1}
            if not self.columns:
                raise ValueError(f"neither a table nor vectors of labels, only {shapes}.")
        self.names = list(self.columns)
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1 and not stored:
            raise ValueError(f"the arrays have different lengths {sorted(lengths)}; every item needs a label in each.")
        self.n_rows = max(lengths)
        for role, name in (("id_name", "item_ids"), ("class_name", "classes")):
            if name in arrays and (stored or (name in self.names and len(self.names) > 1 and role == "id_name")):
                if shapes[name] != (self.n_rows,):
                    raise DamagedFile(f"{name} has shape {shapes[name]} for {self.n_rows} items")
                setattr(self, role, name)
                self.names = [one for one in self.names if one != name or stored]

    def _load(self, file: BinaryIO) -> dict[str, np.ndarray]:
        with zipfile.ZipFile(file) as archive:
            infos = {info.filename: info for info in archive.infolist() if info.filename.endswith(".npy")}
            if not infos:
                raise ValueError(f"{self.path.name} holds no array; write it with numpy.savez(path, labels=table).")
            if len(set(archive.namelist())) < len(archive.namelist()):
                raise DamagedFile("it holds two arrays of one name")
            arrays = {}
            for name in infos:
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    if member.read(1):
                        raise DamagedFile(f"{name} has not the size that it declares")
                arrays[name.removesuffix(".npy")] = array
        return arrays

    def _open_stored(self) -> None:
        codes, counts = self.arrays["codes"], self.arrays["n_clusters"]
        if codes.ndim != 2 or 0 in codes.shape or counts.shape != (codes.shape[1],):
            raise DamagedFile("codes and n_clusters do not fit together")
        if codes.dtype.kind != "u" or counts.dtype.kind not in "iu":
            raise DamagedFile("codes must be unsigned integers")
        names = [str(name) for name in self.arrays.get("names", np.arange(codes.shape[1])).ravel().tolist()]
        if len(names) != codes.shape[1] or len(set(names)) < len(names):
            raise DamagedFile(f"names must hold {codes.shape[1]} different names, one per partition")
        self.columns = {name: codes[:, j] for j, name in enumerate(names)}

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        stored, found, fields = not self.inspect, [], []
        for name in columns:
            cells = False
            if stored and name in self.columns:
                column, cells = self._labels(self.names.index(name))
            else:
                column = arrow_array(self.arrays[name] if name == self.id_name or stored else self.columns[name])
            found.append(column)
            fields.append(pa.field(name, column.type, metadata=CELLS if cells else None))
        yield pa.RecordBatch.from_arrays(found, schema=pa.schema(fields))

    def _labels(self, j: int) -> tuple[Any, bool]:
        """Labels of partition j, and whether they are cells of text."""
        codes, k = self.columns[self.names[j]], int(self.arrays["n_clusters"][j])
        missing = codes == k
        if int(codes.max()) > k:
            raise DamagedFile(f"partition {self.names[j]!r} has codes above its number of clusters")
        for name in (f"labels_{j}", f"cells_{j}"):
            if name in self.arrays:
                labels = self.arrays[name]
                if labels.ndim != 1 or len(labels) <= int(codes[~missing].max(initial=0)):
                    raise DamagedFile(f"partition {self.names[j]!r} has codes without a label")
                labels = as_objects(labels.tolist()) if labels.dtype.kind in "US" else labels
                found = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=missing), pa.array(labels))
                return found, name.startswith("cells")
        return pa.array(codes, mask=missing), False


# -- the formats ---------------------------------------------------------------------------------------------------


class NpyFormat(Format):
    """One array."""

    name = "npy"
    suffixes = (".npy",)
    magic = (b"\x93NUMPY",)
    packages = ()
    guarded, keeps_types, keeps_names, one_array = False, False, False, True

    def open(self, file: BinaryIO, path: Path, options: Options) -> NpyTable:
        file.close()
        return NpyTable(path)

    def write(self, target: Any, content: Content) -> None:
        columns = list(content.columns.values())
        table = columns[0] if content.ensemble is None else _integers(content.ensemble)
        with open(target, "wb") as out:
            np.save(out, table, allow_pickle=False)


class NpzFormat(Format):
    """An archive of arrays."""

    name = "npz"
    suffixes = (".npz",)
    magic = (b"PK\x03\x04", b"PK\x05\x06")
    keeps_types, keeps_names = False, False

    def recognises(self, path: Path) -> bool:
        return path.suffix.lower() in ("", *self.suffixes)

    def open(self, file: BinaryIO, path: Path, options: Options) -> NpzTable:
        with file:
            return NpzTable(file, path)

    def write(self, target: Any, content: Content) -> None:
        arrays = dict(content.columns) if content.ensemble is None else _stored(content.ensemble)
        if content.item_ids is not None:
            arrays["item_ids"] = _texts(content.item_ids)
        if content.classes is not None:
            arrays["classes"] = content.classes if content.classes.dtype.kind in "iub" else _texts(content.classes)
        with open(target, "wb") as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)


def _integers(ensemble: Any) -> np.ndarray:
    """Labels as the smallest integers that hold them, −1 where missing; codes where labels are no such integers."""
    plain = all(labels.dtype.kind in "iu" and (labels >= 0).all() for labels in ensemble.categories)
    plain = plain and all(len(labels) == k for labels, k in zip(ensemble.categories, ensemble.n_clusters))
    columns = []
    for j in range(ensemble.n_partitions):
        codes = ensemble.partition(j)
        columns.append(np.append(ensemble.categories[j].astype(object), -1)[codes] if plain else codes)
    table = np.column_stack(columns)
    low, high = int(table.min()), int(table.max())
    return table.astype(np.min_scalar_type(high) if low >= 0 else np.min_scalar_type(-1 - high))


def _stored(ensemble: Any) -> dict[str, np.ndarray]:
    arrays = {"codes": ensemble.codes, "n_clusters": ensemble.n_clusters, "names": _texts(np.array(ensemble.names))}
    for j, labels in enumerate(ensemble.categories):
        k = int(ensemble.n_clusters[j])
        if len(labels) != k or np.array_equal(labels, np.arange(k)):
            continue  # a cluster of missing labels has no label to store
        if labels.dtype.kind in "iub":
            arrays[f"labels_{j}"] = labels
        elif all(isinstance(label, str) for label in labels.tolist()):
            arrays[f"labels_{j}"] = _texts(labels)
        else:
            arrays[f"cells_{j}"] = _texts(as_objects([cell_of(label) for label in labels.tolist()]))
    return arrays


def _texts(values: np.ndarray) -> np.ndarray:
    """Text as NumPy stores it, which drops NUL characters at the end."""
    texts = np.array([str(value) for value in values.tolist()], dtype=str)
    if any(str(value).endswith("\x00") for value in values.tolist()):
        raise ValueError("archives cannot store text that ends in a NUL character; rename that label, name or id.")
    return texts


NPY = NpyFormat()
NPZ = NpzFormat()
