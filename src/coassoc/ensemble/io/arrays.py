"""NPY and NPZ, by NumPy, and MATLAB files, by SciPy and h5py. Nothing is unpickled; an NPY file is mapped, not read."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..encode import as_objects
from .coding import Content, arrow_array, cell_of, record_batch
from .formats import DamagedFile, Options, Table, h5py


class NpyTable(Table):
    """An array of labels, mapped into memory."""

    name, suffixes, magic, packages = "npy", (".npy",), (b"\x93NUMPY",), ()
    guarded, one_array, by_rows = False, True, True
    guess_ids = False  # columns have no names

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "pickle" in str(error):
                raise ValueError("it holds Python objects; save integers or strings (table.astype(str)).") from None
            raise DamagedFile(str(error)) from None
        if array.offset + array.nbytes != path.stat().st_size:
            raise DamagedFile(f"an array of shape {array.shape} has not the size of the file: it is truncated")
        self.close()  # the map stays
        self.array: np.ndarray = _checked(array, path.name)
        self.n_rows, self.names = len(self.array), [str(j) for j in range(self.array.shape[1])]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for start, rows in [piece[1] for piece in self.pieces()] if where is None else [where]:
            part = self.array[start : start + rows]
            yield part if list(columns) == self.names else part[:, [int(name) for name in columns]]

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        """Labels that are integers of at least 0, else their codes; −1 where missing."""
        columns = list(content.columns.values())
        if isinstance(columns[0], np.ndarray):
            table = columns[0]
        elif all(_are_counts(column.labels) for column in columns):
            table = _smallest(np.column_stack([np.append(column.labels, -1)[column.indices] for column in columns]))
        else:
            table = _smallest(np.column_stack([column.indices for column in columns]))
        with open(target, "wb") as out:
            np.save(out, table, allow_pickle=False)


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


def _are_counts(labels: np.ndarray) -> bool:
    return bool(labels.dtype.kind in "iu" and (labels >= 0).all())


def _smallest(table: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type that holds them."""
    low, high = int(table.min()), int(table.max())
    return table.astype(np.min_scalar_type(high) if low >= 0 else np.min_scalar_type(min(low, -1 - high)))


class _Columns(Table):
    """A file that is read as a whole; its texts mean what they mean in CSV files."""

    columns: dict[str, np.ndarray]  # those with ids and classes included

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        texts = [name for name in columns if self.columns[name].dtype.kind in "OU" and name != self.id_name]
        yield record_batch({name: arrow_array(self.columns[name]) for name in columns}, texts)


_WRITTEN = b"clusterings, written by coassoc"  # comment of an archive in which every vector is what its name says


class NpzTable(_Columns):
    """An archive of one table, or of one vector per clustering; the vectors ``item_ids`` and ``classes`` are no labels.

    Integers have −1 where a label is missing, texts are cells as in CSV files.
    """

    name, suffixes, magic, guess_ids = "npz", (".npz",), (b"PK\x03\x04", b"PK\x05\x06"), False

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        arrays = self._load()
        aside = {name: arrays.pop(name) for name in ("item_ids", "classes") if name in arrays and len(arrays) > 1}
        for array in aside.values():
            _checked(array, path.name)
        tables = [name for name, array in arrays.items() if array.ndim == 2]
        if len(tables) > 1:
            raise ValueError(f"several tables ({', '.join(tables)}); keep one, or store one vector per partition.")
        if tables:
            table = _checked(arrays[tables[0]], path.name)
            columns = {str(j): table[:, j] for j in range(table.shape[1])}
        else:
            columns = {name: _checked(array, path.name)[:, 0] for name, array in arrays.items() if array.ndim == 1}
        if not columns:
            raise ValueError(f"neither a table nor vectors of labels, only {list(arrays)}.")
        self.names, self.columns, self.guess = list(columns), columns | aside, list(columns) if self.is_ours else None
        self.id_name, self.class_name = (name if name in aside else None for name in ("item_ids", "classes"))
        shapes = {column.shape for column in self.columns.values()}
        if len(shapes) > 1:
            raise ValueError(f"the arrays have different lengths {sorted(shapes)}; every item needs one entry in each.")
        (self.n_rows,) = shapes.pop()

    @classmethod
    def recognises(cls, file: Any) -> bool:
        return Path(file.name).suffix.lower() in ("", *cls.suffixes)

    def _load(self) -> dict[str, np.ndarray]:
        arrays = {}
        with zipfile.ZipFile(self.opened()) as archive:
            self.is_ours = archive.comment == _WRITTEN
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            if not names:
                raise ValueError(f"{self.path.name} holds no array; write it with numpy.savez(path, labels=table).")
            if len(set(names)) < len(names):
                raise DamagedFile("it holds two arrays of one name")
            for name in names:
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    if member.read(1):
                        raise DamagedFile(f"{name} has not the size that it declares")
                if array.ndim == 1 and array.dtype.kind == "U" and array.nbytes:
                    array = _shared(_checked(array, self.path.name)[:, 0])
                arrays[name.removesuffix(".npy")] = array
        return arrays

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        columns = dict(content.columns)
        if content.item_ids is not None:
            columns["item_ids"] = _texts(content.item_ids.tolist())
        if content.classes is not None:
            columns["classes"] = content.classes
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:  # text takes long at 6
            archive.comment = _WRITTEN
            for name, column in columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, _vector(column), allow_pickle=False)


def _shared(texts: np.ndarray) -> np.ndarray:
    """Texts as objects, equal ones as one: NumPy's own text takes 4 bytes for each character."""
    values = texts.tolist()
    known = {text: text for text in values}
    return as_objects([known[text] for text in values])


def _vector(column: Any) -> np.ndarray:
    """Labels as integers, −1 where missing, or as cells of text."""
    if isinstance(column, np.ndarray):
        return column
    if _are_counts(column.labels):
        return _smallest(np.append(column.labels, -1)[column.indices])
    return _texts([*map(cell_of, column.labels.tolist()), ""])[column.indices]


def _texts(values: Iterable[Any]) -> np.ndarray:
    """Text as NumPy stores it, which drops NUL characters at the end."""
    texts = list(map(str, values))
    if any(text.endswith("\x00") for text in texts):
        raise ValueError("archives cannot store text that ends in a NUL character; rename that label or id.")
    return np.array(texts, dtype=str)


# -- MATLAB ---------------------------------------------------------------------------------------------------------

POOL_NAMES = ("members", "e", "basecls", "bps", "ensemble", "partitions", "clusterings", "pool", "labels", "idx")
CLASS_NAMES = ("gt", "gnd", "truth", "y", "class", "classes", "label", "labels", "target", "ground_truth")
FEATURE_NAMES = ("x", "fea", "data", "features")  # a matrix of that name is no pool where another one may be
_NUMBERS = ("double", "single", "logical", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))


class MatTable(_Columns):
    """A pool of clusterings (a matrix of labels) and known classes (a vector), versions 5 and 7.3.

    Pools are published as ``members``, ``E`` or ``baseCls`` beside features and a vector ``gt``. Columns are those of
    the matrices with one row per item (``members_0``, ``members_1``, ...). Only numbers are read.
    """

    name, suffixes, magic = "mat", (".mat",), (b"MATLAB 5.0", b"MATLAB 7.3")  # 5 is also called 6 and 7
    packages, guess_ids = ("scipy.io", "pyarrow"), False

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        found = {name: matrix for name, matrix in _matrices(path) if matrix.ndim == 2 and matrix.size}
        vectors = {name: matrix.ravel() for name, matrix in found.items() if min(matrix.shape) == 1 < matrix.size}
        tables = {name: matrix for name, matrix in found.items() if min(matrix.shape) > 1}
        pools = [name for wanted in POOL_NAMES for name in tables if name.lower() == wanted]
        if not pools:
            whole = [name for name, table in tables.items() if (table == np.floor(table)).all()]
            pools = sorted(whole, key=lambda name: (name.lower() in FEATURE_NAMES, -tables[name].size))
            if not pools:
                there, way_out = ", ".join(found) or "other things", "save the clusterings as one, with a row per item"
                raise ValueError(f"{path.name}: no matrix of whole numbers, only {there}; {way_out}.")
            if len(tables) > 1:
                way_out = f"choose another with columns='{next(iter(tables))}_*' (--columns)"
                told = f"took the matrix {pools[0]!r} for the clusterings, of {', '.join(tables)}; {way_out}"
                self.notes = [f"{path.name}: {told}."]
        pool = pools[0]
        known = {name.lower(): name for name in vectors if vectors[name].size in tables[pool].shape}
        self.class_name = next((known[name] for name in CLASS_NAMES if name in known), None)
        # known classes tell which side of the matrix the items are on; else it is the longer one
        self.n_rows = n_rows = max(tables[pool].shape) if self.class_name is None else vectors[self.class_name].size
        self.columns = {}
        for name in sorted(tables, key=lambda name: name != pool):
            if n_rows in tables[name].shape:
                table = tables[name] if len(tables[name]) == n_rows else tables[name].T
                self.columns |= {f"{name}_{j}": column for j, column in enumerate(table.T)}
            self.guess = self.guess or list(self.columns)  # the pool comes first
        self.columns |= {name: vector for name, vector in vectors.items() if vector.size == n_rows}
        self.names = list(self.columns)


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
