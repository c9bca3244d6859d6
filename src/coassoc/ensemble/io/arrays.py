"""NPY and NPZ, by NumPy, and MATLAB files, by SciPy and h5py. Nothing is unpickled; an NPY file is mapped, not read."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.counts import smallest_unsigned
from ..encode import Dictionary
from .cells import Content, arrow_array, cell_of, record_batch
from .table import DamagedFile, Options, Table, h5py, pa


class NpyTable(Table):
    """An array of labels, mapped into memory."""

    name, suffixes, magic, packages = "npy", (".npy",), (b"\x93NUMPY",), ()
    guarded, keeps_names, one_array, by_rows = False, False, True, True
    guess_ids = False  # columns have no names

    def __init__(self, path: Path, options: Options):
        super().__init__(path, options)
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "pickle" in str(error):
                raise ValueError("it holds Python objects; save integers or strings (table.astype(str)).") from None
            raise DamagedFile(str(error)) from None
        if array.offset + array.nbytes != path.stat().st_size:
            raise DamagedFile(f"an array of shape {array.shape} has not the size of the file: it is truncated")
        self.array: np.ndarray = _checked(array, path.name)
        self.n_rows, self.names = len(self.array), [str(j) for j in range(self.array.shape[1])]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for start, rows in [piece.where for piece in self.pieces()] if where is None else [where]:
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
    if array.ndim not in (1, 2) or 0 in array.shape or array.dtype.itemsize == 0 or array.dtype.kind == "V":
        what = f"an array of shape {array.shape} and type {array.dtype}"
        raise ValueError(f"{name} holds {what}; a label table holds numbers or text, (n_samples, n_partitions).")
    if array.dtype.kind == "U":
        characters = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if int(characters.max()) > sys.maxunicode:
            raise ValueError(f"{name} holds characters beyond Unicode; write it again.")
    return array.reshape(-1, 1) if array.ndim == 1 else array


class NpzTable(Table):
    """An archive of one table, of one vector per partition, or of what `write_ensemble` stores.

    The latter holds ``codes``, ``n_clusters``, ``names``, and where labels are not their codes ``labels`` (the cells of
    all clusters, one partition after the other). Vectors ``item_ids`` and ``classes`` are what they are called.
    """

    name, suffixes, magic = "npz", (".npz",), (b"PK\x03\x04", b"PK\x05\x06")
    keeps_names, guess_ids = False, False

    def __init__(self, path: Path, options: Options):
        super().__init__(path, options)
        arrays = self._load()
        aside = {name: arrays.pop(name) for name in ("item_ids", "classes") if name in arrays and len(arrays) > 1}
        self.inspect = not {"codes", "n_clusters"} <= set(arrays)
        self.counts: list[int] = []
        self.cells: np.ndarray | None = None
        tables = [name for name, array in arrays.items() if array.ndim == 2]
        if not self.inspect:
            columns = self._stored(arrays)
        elif len(tables) == 1:
            table = _checked(arrays[tables[0]], path.name)
            columns = {str(j): table[:, j] for j in range(table.shape[1])}
        elif tables:
            raise ValueError(f"several tables ({', '.join(tables)}); keep one, or store one vector per partition.")
        else:
            columns = {name: _checked(array, path.name)[:, 0] for name, array in arrays.items() if array.ndim == 1}
            if not columns:
                raise ValueError(f"neither a table nor vectors of labels, only {list(arrays)}.")
        self.names = list(columns)
        # ids and classes under names that no partition has
        self.columns = columns | {"\x00" + name: array for name, array in aside.items()}
        self.id_name, self.class_name = ("\x00" + name if name in aside else None for name in ("item_ids", "classes"))
        shapes = {column.shape for column in self.columns.values()}
        if len(shapes) > 1:
            raise ValueError(f"the arrays have different lengths {sorted(shapes)}; every item needs one entry in each.")
        (self.n_rows,) = shapes.pop()

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return path.suffix.lower() in ("", *cls.suffixes)

    def _load(self) -> dict[str, np.ndarray]:
        arrays = {}
        with zipfile.ZipFile(self.path) as archive:
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

    def _stored(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The codes of each partition."""
        codes, counts = arrays["codes"], arrays["n_clusters"]
        if codes.ndim != 2 or 0 in codes.shape or counts.shape != (codes.shape[1],):
            raise DamagedFile("codes and n_clusters do not fit together")
        if codes.dtype.kind != "u" or counts.dtype.kind not in "iu" or (codes.max(axis=0) > counts).any():
            raise DamagedFile("codes must be unsigned integers up to the number of clusters")
        names = [str(name) for name in arrays.get("names", np.arange(codes.shape[1])).ravel().tolist()]
        if len(names) != codes.shape[1] or len(set(names)) < len(names):
            raise DamagedFile(f"names must hold {codes.shape[1]} different names, one per partition")
        self.counts, self.cells = counts.tolist(), arrays.get("labels")
        if self.cells is not None and self.cells.shape != (sum(self.counts),):
            raise DamagedFile("there are clusters without a label")
        return {name: codes[:, j] for j, name in enumerate(names)}

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        cells = [name for name in columns if self.cells is not None and name in self.names]
        yield record_batch({name: self._column(name) for name in columns}, cells)

    def _column(self, name: str) -> Any:
        if self.inspect or name not in self.names:
            return arrow_array(self.columns[name])
        codes, j = self.columns[name], self.names.index(name)
        missing = codes == self.counts[j]
        if self.cells is None:
            return pa.array(codes, mask=missing)
        cells = self.cells[sum(self.counts[:j]) :][: self.counts[j]].astype(str)
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=missing),
                                              pa.array(cells.tolist(), pa.string()))  # fmt: skip

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
            text = isinstance(content.classes, Dictionary)
            arrays["classes"] = _texts(content.classes.values()) if text else content.classes
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


# -- MATLAB ---------------------------------------------------------------------------------------------------------

POOL_NAMES = ("members", "e", "basecls", "bps", "ensemble", "partitions", "clusterings", "pool", "labels", "idx")
CLASS_NAMES = ("gt", "gnd", "truth", "y", "class", "classes", "label", "labels", "target", "ground_truth")
FEATURE_NAMES = ("x", "fea", "data", "features")
_NUMBERS = ("double", "single", "logical", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))


class MatTable(Table):
    """A pool of clusterings (a matrix of labels) and known classes (a vector), versions 5 and 7.3.

    Pools are published as ``members``, ``E`` or ``baseCls`` beside features and a vector ``gt``. Columns are those of
    the matrices with one row per item (``members_0``, ``members_1``, ...). Only numbers are read.
    """

    name, suffixes, magic = "mat", (".mat",), (b"MATLAB 5.0", b"MATLAB 7.3")  # 5 is also called 6 and 7
    packages, guess_ids, inspect = ("scipy.io", "pyarrow"), False, False

    def __init__(self, path: Path, options: Options):
        super().__init__(path, options)
        found = {name: matrix for name, matrix in _matrices(path) if matrix.ndim == 2 and matrix.size}
        vectors = {name: matrix.ravel() for name, matrix in found.items() if min(matrix.shape) == 1 < matrix.size}
        tables = {name: matrix for name, matrix in found.items() if min(matrix.shape) > 1}
        if not tables:
            others = ", ".join(found) or "other things"
            raise ValueError(f"no matrix of numbers, only {others}; save the clusterings as one, with a row per item.")
        pool = self._pool(tables)
        known = {name.lower(): name for name in vectors if vectors[name].size in tables[pool].shape}
        self.class_name = next((known[name] for name in CLASS_NAMES if name in known), None)
        # known classes tell which side of the matrix the items are on; else it is the longer one
        self.n_rows = n_rows = max(tables[pool].shape) if self.class_name is None else vectors[self.class_name].size
        self.columns: dict[str, np.ndarray] = {}
        for name in sorted(tables, key=lambda name: name != pool):
            if n_rows in tables[name].shape:
                table = tables[name] if len(tables[name]) == n_rows else tables[name].T
                self.columns |= {f"{name}_{j}": column for j, column in enumerate(table.T)}
            self.guess = self.guess or list(self.columns)  # the pool comes first
        self.columns |= {name: vector for name, vector in vectors.items() if vector.size == n_rows}
        self.names = list(self.columns)

    def _pool(self, tables: dict[str, np.ndarray]) -> str:
        """The matrix that holds the clusterings: by its name, else the largest of whole numbers."""
        known = [name for wanted in POOL_NAMES for name in tables if name.lower() == wanted]
        if known:
            return known[0]
        whole = [name for name, table in tables.items() if table.dtype.kind != "f" or (table == np.floor(table)).all()]
        if not whole:
            names = ", ".join(tables)
            raise ValueError(f"{self.path.name}: no matrix holds whole numbers ({names}), so none is a pool.")
        pool = min(whole, key=lambda name: (name.lower() in FEATURE_NAMES, -tables[name].size))
        if len(tables) > 1:
            self.notes = [
                f"{self.path.name}: took the matrix {pool!r} for the clusterings, of {', '.join(tables)}; choose "
                f"another with columns='{next(iter(tables))}_*' (--columns)."
            ]
        return pool

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        yield record_batch({name: arrow_array(self.columns[name]) for name in columns})


def _matrices(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """The matrices of numbers stored in a file; MATLAB's rows are the columns of HDF5."""
    with open(path, "rb") as file:
        is_hdf5 = file.read(10) == b"MATLAB 7.3"
    if not is_hdf5:
        from scipy.io import loadmat, whosmat

        content = loadmat(path, variable_names=[name for name, _, kind in whosmat(path) if kind in _NUMBERS])
        yield from ((name, array) for name, array in content.items() if not name.startswith("__"))
        return
    with h5py.File(path, "r") as file:
        for name in file:
            if isinstance(file.get(name, getlink=True), h5py.HardLink) and isinstance(file[name], h5py.Dataset):
                found = file[name]
                kind = found.attrs.get("MATLAB_class", b"double")
                kind = kind.decode() if isinstance(kind, bytes) else str(kind)
                if kind in _NUMBERS and found.external is None and not found.is_virtual and found.dtype.kind in "iufb":
                    yield name, found[()].T
