"""Reading features from CSV, TSV, Parquet or NPY files."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..datasets.table import MISSING_CELLS, is_number


class Features(NamedTuple):
    """Features, the names of their columns, and the names and classes of the items where they were asked for."""

    X: np.ndarray
    names: list[str]
    ids: np.ndarray | None = None
    classes: np.ndarray | None = None


def read_features(
    path: str | Path,
    *,
    exclude: Sequence[str] = (),
    id_column: str | None = None,
    class_column: str | None = None,
) -> Features:
    """Read a table of numbers; columns in `exclude` and those of ids and classes are not features.

    CSV and TSV (gzip too) need a header, Parquet has one; an NPY file is mapped, not loaded. An empty cell is NaN.
    """
    path = Path(path)
    named = [name for name in (id_column, class_column) if name is not None]
    suffixes = [s.lower() for s in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    if kind == ".npy":
        return _from_npy(path, [*exclude, *named])
    if kind in (".csv", ".tsv", ".txt"):
        columns = _from_text(path, "\t" if kind == ".tsv" else ",", suffixes[-1] == ".gz")
    elif kind in (".parquet", ".pq"):
        columns = _from_parquet(path)
    else:
        raise ValueError(f"features must be a .csv, .tsv, .parquet or .npy file, got {path.name!r}.")
    for name in [*exclude, *named]:
        if name not in columns:
            raise ValueError(f"{path.name} has no column {name!r}; it has {', '.join(list(columns)[:8])} ...")
    ids, classes = (
        np.asarray([str(v) for v in columns[name]]) if name is not None else None for name in (id_column, class_column)
    )
    kept = {n: c for n, c in columns.items() if n not in exclude and n not in named}
    if not kept:
        raise ValueError(f"{path.name} has no feature column left.")
    matrix = np.column_stack([_numbers(name, column, path) for name, column in kept.items()])
    return Features(matrix, list(kept), ids, classes)


def _from_npy(path: Path, left_out: Sequence[str]) -> Features:
    if left_out:
        raise ValueError(f"{path.name}: an .npy file has no named columns to leave out.")
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path.name} is not a readable .npy array: {error}") from None
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{path.name} must hold a table of numbers, got {X.dtype} of shape {X.shape}.")
    return Features(X, [f"x{j}" for j in range(X.shape[1])])


def _from_text(path: Path, delimiter: str, compressed: bool) -> dict[str, Any]:
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if compressed else data).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path.name} is not readable as text: {error}.") from None
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    header = next(reader, [])
    rows = [row for row in reader if row]
    if not header or not rows:
        raise ValueError(f"{path.name} must have a header line and at least one row.")
    if len(set(header)) != len(header):
        raise ValueError(f"{path.name}: two columns have the same name.")
    if all(is_number(cell) for cell in header):
        raise ValueError(f"{path.name}: the first line holds numbers only; a header with column names must come first.")
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"{path.name}, line {i + 2} has {len(row)} cells, but the header has {len(header)}.")
    return {name: [row[j] for row in rows] for j, name in enumerate(header)}


def _from_parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'coassoc[io]'.") from error
    try:
        table = parquet.read_table(path)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path.name} is not a readable Parquet file: {error}") from None
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def _numbers(name: str, column: Any, path: Path) -> np.ndarray:
    """A column as float64, or an error that names the cell that is not a number."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        return column.astype(np.float64)
    values = np.empty(len(column))
    for i, cell in enumerate(column):
        word = "" if cell is None else str(cell).strip()
        if word.lower() in MISSING_CELLS:
            values[i] = np.nan
        elif is_number(word):
            values[i] = float(word)
        else:
            raise ValueError(
                f"{path.name}: column {name!r}, row {i + 1} is {word!r}, not a number; leave the column out with "
                f"--exclude {name}, or code it as numbers."
            )
    return values
