"""MATLAB files: a pool of clusterings (a matrix of labels) and known classes (a vector), versions 5 and 7.3.

Pools are published as ``members``, ``E`` or ``baseCls`` beside features and a vector ``gt``. Only numbers are read:
cells, structures and objects are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .cells import arrow_array, record_batch
from .table import Options, Table, h5py

POOL_NAMES = ("members", "e", "basecls", "bps", "ensemble", "partitions", "clusterings", "pool", "labels", "idx")
CLASS_NAMES = ("gt", "gnd", "truth", "y", "class", "classes", "label", "labels", "target", "ground_truth")
FEATURE_NAMES = ("x", "fea", "data", "features")
_NUMBERS = ("double", "single", "logical", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))


class MatTable(Table):
    """Columns of the matrices with one row per item (``members_0``, ``members_1``, ...), and vectors of classes."""

    name, suffixes, magic = "mat", (".mat",), (b"MATLAB 5.0", b"MATLAB 7.3")  # 5 is also called 6 and 7
    packages, guess_ids, inspect = ("scipy.io", "pyarrow"), False, False

    def __init__(self, path: Path, options: Options):
        super().__init__(path, options)
        found = {name: matrix for name, matrix in _matrices(path) if matrix.ndim == 2 and matrix.size}
        vectors = {name: matrix.ravel() for name, matrix in found.items() if min(matrix.shape) == 1 < matrix.size}
        tables = {name: matrix for name, matrix in found.items() if min(matrix.shape) > 1}
        if not tables:
            raise ValueError(
                f"{path.name} has no matrix of numbers, only {', '.join(found) or 'nothing that is a number'}; "
                "save the clusterings as one matrix with a row per item."
            )
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
