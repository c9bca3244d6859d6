"""NPY and NPZ: arrays whose declared sizes are checked before memory is taken; nothing is unpickled."""

from __future__ import annotations

import math
import sys
import tokenize
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..encode import Dictionary, as_objects, encode_column
from .cells import cell_of, label_of
from .limits import Limit
from .table import Columns, Content, DamagedFile, Table, TableFormat, one_line, row_ranges

_LONGEST_HEADER = 10_000


class NpyTable(Table):
    """An array of labels, mapped into memory."""

    guess_ids = False  # columns have no names

    def __init__(self, path: Path, limit: Limit):
        super().__init__(path, limit)
        with open(path, "rb") as file:
            shape, _, dtype = _header(file, path.name)
            _check_size(path.stat().st_size - file.tell(), shape, dtype, path.name)
        n_rows, n_columns = table_shape(shape, path.name)
        limit.check_table(n_rows, n_columns)
        self.n_rows, self.names = n_rows, [str(j) for j in range(n_columns)]

    def array(self) -> np.ndarray:
        return _check_text(_mapped(self.path), self.path.name)

    def blocks(self, columns: Sequence[str]) -> list[NpyBlock]:
        assert self.n_rows is not None
        places = None if list(columns) == self.names else tuple(int(name) for name in columns)
        return [NpyBlock(self.path, start, rows, places) for start, rows in row_ranges(self.n_rows)]


@dataclass(frozen=True)
class NpyBlock:
    """Rows of an NPY file."""

    path: Path
    start: int
    rows: int
    places: tuple[int, ...] | None  # None: every column

    def read(self) -> np.ndarray:
        rows = _check_text(_mapped(self.path)[self.start : self.start + self.rows], self.path.name)
        return rows if self.places is None else rows[:, list(self.places)]


def _mapped(path: Path) -> np.ndarray:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array.reshape(-1, 1) if array.ndim == 1 else array


def _check_text(array: np.ndarray, name: str) -> np.ndarray:
    """Refuse characters beyond Unicode, which Python cannot hold."""
    if array.dtype.kind == "U" and array.dtype.itemsize:
        characters = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if characters.size and int(characters.max()) > sys.maxunicode:
            raise ValueError(f"{name} holds characters beyond Unicode; write it again.")
    return array


def table_shape(shape: tuple[int, ...], name: str) -> tuple[int, int]:
    """(rows, columns) of an array of labels."""
    if len(shape) not in (1, 2):
        raise ValueError(f"{name} holds an array of shape {shape}; a label table is (n_samples, n_partitions).")
    if 0 in shape:
        raise ValueError(f"{name} holds an empty table of shape {shape}.")
    return shape[0], shape[1] if len(shape) == 2 else 1


class NpzTable(Table):
    """An archive of one table, of one vector per partition, or of what `write_ensemble` stores.

    The latter holds ``codes``, ``n_clusters``, ``names`` and, where labels are not their codes, ``labels_0`` and so on
    (``cells_0`` for labels that are numbers and text), ``item_ids`` and ``classes``.
    """

    guess_ids = False

    def __init__(self, path: Path, limit: Limit):
        super().__init__(path, limit)
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            self.members = {info.filename[: -len(".npy")]: info for info in infos}
            if not infos:
                raise ValueError(f"{path.name} holds no array; write it with numpy.savez(path, labels=table).")
            if len(self.members) < len(infos):
                raise DamagedFile("it holds two arrays of one name")
            limit.check(sum(info.file_size for info in infos), "arrays")
            self.shapes = {name: read_shape(archive, info, path)[0] for name, info in self.members.items()}
            # elements may have no bytes at all
            limit.check(8 * sum(map(math.prod, self.shapes.values())), f"arrays of {self.shapes} elements")
            self.stored = {"codes", "n_clusters"} <= set(self.members)
            tables = [name for name, shape in self.shapes.items() if len(shape) == 2]
            self.whole = None if self.stored or len(tables) != 1 else tables[0]
            self.inspect = not self.stored
            if self.stored:
                self._open_stored(archive)
            elif self.whole is not None:
                n_rows, n_columns = table_shape(self.shapes[self.whole], path.name)
                limit.check_table(n_rows, n_columns)
                self.n_rows, self.names = n_rows, [str(j) for j in range(n_columns)]
            elif tables:
                raise ValueError(f"several tables ({', '.join(tables)}); keep one, or store one vector per partition.")
            else:
                self._open_vectors()

    def _open_vectors(self) -> None:
        self.names = [name for name, shape in self.shapes.items() if len(shape) == 1]
        if not self.names:
            raise ValueError(f"neither a table nor vectors of labels, only {self.shapes}.")
        if "item_ids" in self.names and len(self.names) > 1:
            self.names.remove("item_ids")
            self.id_name = "item_ids"
        lengths = {self.shapes[name][0] for name in self.names}
        if len(lengths) > 1:
            raise ValueError(f"the arrays have different lengths {sorted(lengths)}; every item needs a label in each.")
        self.n_rows = lengths.pop()
        self._check_length("item_ids")
        self.limit.check_table(self.n_rows, len(self.names))

    def _open_stored(self, archive: zipfile.ZipFile) -> None:
        shape, counts = self.shapes["codes"], self.shapes["n_clusters"]
        if len(shape) != 2 or 0 in shape or counts != (shape[1],):
            raise DamagedFile("codes and n_clusters do not fit together")
        self.n_rows, n_columns = shape
        self.limit.check_table(self.n_rows, n_columns)
        self.names = [str(j) for j in range(n_columns)]
        if "names" in self.members:
            self.names = [str(name) for name in read_member(archive, self.members["names"], self.path).ravel().tolist()]
        if len(self.names) != n_columns or len(set(self.names)) < n_columns:
            raise DamagedFile(f"names must hold {n_columns} different names, one per partition")
        for name in ("item_ids", "classes"):
            self._check_length(name)
        self.id_name = "item_ids" if "item_ids" in self.members else None
        self.class_name = "classes" if "classes" in self.members else None

    def _check_length(self, name: str) -> None:
        if name in self.members and self.shapes[name] != (self.n_rows,):
            raise DamagedFile(f"{name} has shape {self.shapes[name]} for {self.n_rows} items")

    def array(self) -> np.ndarray | None:
        if self.whole is None:
            return None
        with zipfile.ZipFile(self.path) as archive:
            return read_member(archive, self.members[self.whole], self.path)

    def read(self, columns: Sequence[str], *piece: Any) -> Columns:
        if (array := self.array()) is not None:
            return {name: array[:, int(name)] for name in columns}
        with zipfile.ZipFile(self.path) as archive:

            def member(name: str) -> np.ndarray:
                return read_member(archive, self.members[name], self.path)

            if not self.stored:
                return {name: member(name) for name in columns}
            codes, counts = member("codes"), member("n_clusters")
            if codes.dtype.kind != "u" or counts.dtype.kind not in "iu":
                raise DamagedFile("codes must be unsigned integers")
            aside = {self.id_name, self.class_name} - {None}
            return {
                name: member(name) if name in aside and name not in self.names
                else self._labels(member, codes[:, (j := self.names.index(name))], int(counts[j]), j)
                for name in columns
            }  # fmt: skip

    def _labels(self, member: Any, codes: np.ndarray, k: int, j: int) -> Any:
        """Labels of partition j; only labels that occur are looked at, so that k may be any number."""
        column = encode_column(codes, None, self.names[j], "nan")
        used, indices = column.categories.astype(np.int64), column.codes
        missing = used == k
        if used[-1] > k:
            raise DamagedFile(f"partition {self.names[j]!r} has codes above its number of clusters")
        indices = np.where(missing[indices], -1, indices)
        for name in filter(self.members.__contains__, (f"labels_{j}", f"cells_{j}")):
            labels = member(name)
            if labels.ndim != 1 or len(labels) < min(k, int(used[~missing].max(initial=-1)) + 1):
                raise DamagedFile(f"partition {self.names[j]!r} has codes without a label")
            found = np.append(labels, labels[:1])[np.where(missing, 0, used)] if len(labels) else used[:0]
            if name.startswith("cells"):
                return Dictionary(indices, as_objects([label_of(str(cell)) for cell in found.tolist()]))
            return Dictionary(indices, found if found.dtype.kind in "iub" else as_objects(found.tolist()))
        return Dictionary(indices, used)


# -- headers -------------------------------------------------------------------------------------------------------


def _header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape and type that an NPY header declares; objects are refused, since they need pickle."""
    try:
        version = np.lib.format.read_magic(file)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in reader:
            raise ValueError(f"version {version} of the format is not supported")
        shape, fortran, dtype = reader[version](file, max_header_size=_LONGEST_HEADER)
    except (ValueError, SyntaxError, TypeError, EOFError, tokenize.TokenError, MemoryError, RecursionError) as error:
        raise ValueError(f"{what} is not a readable NPY array ({one_line(error)}); write it again.") from None
    if dtype.hasobject:
        raise ValueError(
            f"{what} holds Python objects, which only pickle could read; save labels as integers or strings "
            "(table.astype(str))."
        )
    if dtype.names is not None or dtype.subdtype is not None:
        raise ValueError(f"{what} holds records; save a plain table of shape (n_samples, n_partitions).")
    return shape, fortran, dtype


def _check_size(available: int, shape: tuple[int, ...], dtype: np.dtype, what: str) -> None:
    declared = math.prod(shape) * dtype.itemsize
    if any(isinstance(length, bool) or length < 0 for length in shape) or declared != available:
        raise ValueError(
            f"{what} declares an array of shape {shape} ({declared:,} bytes) but holds {available:,} bytes: "
            "it is truncated or damaged; write it again."
        )


def read_shape(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array in an archive, checked against its size."""
    with archive.open(info) as file:
        shape, _, dtype = _header(file, f"{info.filename} in {path.name}")
        _check_size(info.file_size - file.tell(), shape, dtype, f"{info.filename} in {path.name}")
    return shape, dtype


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> np.ndarray:
    """An array in an archive."""
    with archive.open(info) as file:
        return _check_text(np.lib.format.read_array(file, allow_pickle=False), f"{info.filename} in {path.name}")


# -- the formats ---------------------------------------------------------------------------------------------------


class NpyFormat(TableFormat):
    """One array."""

    table = NpyTable
    name = "npy"
    suffixes = (".npy",)
    magic = (b"\x93NUMPY",)

    def write(self, target: Any, content: Content) -> None:
        columns = list(content.columns.values())
        table = columns[0] if content.ensemble is None else _integers(content.ensemble)
        with open(target, "wb") as out:
            np.save(out, table, allow_pickle=False)


class NpzFormat(TableFormat):
    """An archive of arrays."""

    table = NpzTable
    name = "npz"
    suffixes = (".npz",)
    magic = (b"PK\x03\x04", b"PK\x05\x06")

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
        raise ValueError("NPZ files cannot store text that ends in a NUL character; rename that label, name or id.")
    return texts


NPY = NpyFormat()
NPZ = NpzFormat()
