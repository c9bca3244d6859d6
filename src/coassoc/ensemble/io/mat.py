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
        self.shapes = {name: shape for name, shape in _shapes(path).items() if len(shape) == 2 and 0 not in shape}
        matrices = [name for name, shape in self.shapes.items() if min(shape) > 1]
        if not matrices:
            raise ValueError(
                f"{path.name} has no matrix of numbers, only {', '.join(self.shapes) or 'nothing that is a number'}; "
                "save the clusterings as one matrix with a row per item."
            )
        pool = self._pool(matrices)
        vectors = {name: max(shape) for name, shape in self.shapes.items() if min(shape) == 1 < max(shape)}
        known = {name.lower(): name for name in vectors if vectors[name] in self.shapes[pool]}
        self.class_name = next((known[name] for name in CLASS_NAMES if name in known), None)
        # known classes tell which side of the matrix the items are on; else it is the longer one
        self.n_rows = max(self.shapes[pool]) if self.class_name is None else vectors[self.class_name]
        self.guess = self._columns(pool)
        others = [name for name in matrices if name != pool and self.n_rows in self.shapes[name]]
        self.names = [*self.guess, *(column for name in others for column in self._columns(name))]
        self.names += [name for name, length in vectors.items() if length == self.n_rows]

    def _columns(self, name: str) -> list[str]:
        rows, columns = self.shapes[name]
        return [f"{name}_{j}" for j in range(columns if rows == self.n_rows else rows)]

    def _pool(self, matrices: list[str]) -> str:
        """The matrix that holds the clusterings: by its name, else the largest of whole numbers."""
        known = [name for wanted in POOL_NAMES for name in matrices if name.lower() == wanted]
        if known:
            return known[0]
        left = sorted(matrices, key=lambda n: (n.lower() in FEATURE_NAMES, -self.shapes[n][0] * self.shapes[n][1]))
        found = next((name for name in left if _is_whole(_matrices(self.path, [name])[name])), None)
        if found is None:
            raise ValueError(f"{self.path.name}: no matrix holds whole numbers ({', '.join(left)}), so none is a pool.")
        if len(matrices) > 1:
            self.notes = [
                f"{self.path.name}: took the matrix {found!r} for the clusterings, of {', '.join(matrices)}; choose "
                f"another with columns='{matrices[0]}_*' (--columns)."
            ]
        return found

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        split = {name: (name, "", "0") if name in self.shapes else name.rpartition("_") for name in columns}
        matrices = _matrices(self.path, sorted({matrix for matrix, *_ in split.values()}))
        tables = {name: table if len(table) == self.n_rows else table.T for name, table in matrices.items()}
        yield record_batch({name: arrow_array(tables[at][:, int(j)]) for name, (at, _, j) in split.items()})


def _is_whole(array: np.ndarray) -> bool:
    return array.dtype.kind in "iub" or bool((array == np.floor(array)).all())


def _is_hdf5(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(10) == b"MATLAB 7.3"


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of numbers in a file."""
    if _is_hdf5(path):
        with h5py.File(path, "r") as file:
            return {name: dataset.shape[::-1] for name, dataset in _datasets(file)}
    from scipy.io import whosmat

    return {name: shape for name, shape, kind in whosmat(path) if kind in _NUMBERS}


def _matrices(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some matrices of numbers."""
    if _is_hdf5(path):
        with h5py.File(path, "r") as file:
            return {name: dataset[()].T for name, dataset in _datasets(file) if name in names}
    from scipy.io import loadmat

    content = loadmat(path, variable_names=list(names))
    return {name: np.asarray(content[name]) for name in names}


def _datasets(file: Any) -> Iterator[tuple[str, Any]]:
    """Matrices of numbers stored in this file; MATLAB's rows are HDF5's columns."""
    for name in file:
        if isinstance(file.get(name, getlink=True), h5py.HardLink) and isinstance(file[name], h5py.Dataset):
            found = file[name]
            kind = found.attrs.get("MATLAB_class", b"double")
            plain = found.external is None and not found.is_virtual and found.ndim == 2 and found.dtype.kind in "iufb"
            if plain and (kind.decode() if isinstance(kind, bytes) else str(kind)) in _NUMBERS:
                yield name, found
