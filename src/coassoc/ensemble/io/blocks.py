"""Label tables too large to hold: blocks of rows in files or on a cluster, and how their labels become codes.

Coding takes two passes, both by block and both free of order: the labels of each column are tallied and the tallies
merged; then each block is coded by what the whole table holds. The codes are those of ``Ensemble(table)``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..encode import encode_column, smallest_unsigned
from ..integers import code_integers, tally_integers
from ..tables import check_table_shape, columns_of

BLOCK_ROWS = 1 << 20  # rows of a block, where a file leaves the choice


# -- where rows are ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NpyBlock:
    """Rows of an NPY file."""

    path: str
    start: int
    rows: int

    def read(self) -> np.ndarray:
        return np.load(self.path, mmap_mode="r", allow_pickle=False)[self.start : self.start + self.rows]


@dataclass(frozen=True)
class ParquetBlock:
    """Rows `start` to ``start + rows`` of one row group of a Parquet file."""

    path: str
    group: int
    start: int
    rows: int
    columns: tuple[str, ...]

    def read(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            if self.start == 0 and self.rows == file.metadata.row_group(self.group).num_rows:
                return file.read_row_group(self.group, columns=list(self.columns))
            # a row group larger than memory: unpack batches up to the rows wanted, keep those
            left, skip, kept = self.rows, self.start, []
            batches = file.iter_batches(batch_size=1 << 17, row_groups=[self.group], columns=list(self.columns))
            for batch in batches:
                if skip >= len(batch):
                    skip -= len(batch)
                    continue
                part = batch.slice(skip, left)
                kept.append(part)
                left, skip = left - len(part), 0
                if left == 0:
                    break
            return pa.Table.from_batches(kept)


@dataclass(frozen=True)
class DelayedBlock:
    """Rows that a Dask collection computes."""

    delayed: Any
    rows: int | None  # None: not known before it is computed

    def read(self) -> Any:
        return self.delayed.compute()


@dataclass(frozen=True)
class Source:
    """A table as blocks in row order."""

    blocks: list[Any]
    names: list[str]
    n_rows: int | None
    kind: str  # "npy", "parquet" or "dask"
    what: str  # for messages


def is_dask(table: Any) -> bool:
    """Whether `table` is a Dask array or data frame; Dask itself is not imported to find out."""
    module = type(table).__module__.split(".")[0]
    return module in ("dask", "dask_expr") and hasattr(table, "to_delayed") and hasattr(table, "ndim")


def source_of(table: Any, columns: Sequence[str] | None = None) -> Source:
    """Blocks of an NPY file, a Parquet file or folder of files, or a Dask array or data frame."""
    if is_dask(table):
        if columns is not None:
            raise ValueError("columns cannot be given with a Dask collection; select them there: frame[columns].")
        return _dask_source(table)
    path = Path(os.fspath(table))
    if not path.exists():
        raise FileNotFoundError(f"partitions: no file or folder {str(path)!r}.")
    if path.suffix == ".npy":
        if columns is not None:
            raise ValueError("columns cannot be given with an NPY file, whose columns have no names.")
        return _npy_source(path)
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path] if path.suffix in (".parquet", ".pq") else []
    if not files:
        raise ValueError(
            f"partitions: {str(path)!r} is neither an NPY file nor a Parquet file or folder of them; "
            "read_ensemble(path) reads other formats into memory."
        )
    return _parquet_source(path, files, columns)


def _npy_source(path: Path) -> Source:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    check_table_shape(array.shape)
    n, p = array.shape
    blocks = [NpyBlock(str(path), start, min(BLOCK_ROWS, n - start)) for start in range(0, n, BLOCK_ROWS)]
    return Source(blocks, [str(j) for j in range(p)], n, "npy", path.name)


def _parquet_source(path: Path, files: list[Path], columns: Sequence[str] | None) -> Source:
    from .parquet import import_parquet

    pq = import_parquet()
    blocks: list[ParquetBlock] = []
    names: list[str] | None = None
    for file in files:
        with pq.ParquetFile(file) as opened:
            found = list(opened.schema_arrow.names)
            wanted = found if columns is None else list(columns)
            absent = [name for name in wanted if name not in found]
            if absent:
                raise ValueError(f"{file.name} has no column {absent[0]!r}; it has {found}.")
            if names is not None and wanted != names:
                raise ValueError(f"{file.name} has columns {wanted}, but {files[0].name} has {names}.")
            names = wanted
            for group in range(opened.metadata.num_row_groups):
                rows = opened.metadata.row_group(group).num_rows
                for start in range(0, rows, 4 * BLOCK_ROWS):
                    part = min(4 * BLOCK_ROWS, rows - start)
                    blocks.append(ParquetBlock(str(file), group, start, part, tuple(names)))
    n = sum(block.rows for block in blocks)
    check_table_shape((n, len(names or [])))
    assert names is not None
    return Source(blocks, names, n, "parquet", path.name)


def _dask_source(table: Any) -> Source:
    if table.ndim != 2:
        check_table_shape(tuple(table.shape))
    if hasattr(table, "rechunk"):  # an array
        if table.numblocks[1] > 1:
            table = table.rechunk({1: -1})
        check_table_shape((1, int(table.shape[1])))
        delayed = table.to_delayed()[:, 0]
        sizes = [None if np.isnan(rows) else int(rows) for rows in table.chunks[0]]
        names = [str(j) for j in range(table.shape[1])]
    else:
        delayed = table.to_delayed()
        sizes = [None] * len(delayed)
        names = [str(name) for name in table.columns]
        check_table_shape((1, len(names)))
    n = None if any(rows is None for rows in sizes) else sum(rows for rows in sizes if rows is not None)
    if n == 0:
        check_table_shape((0, len(names)))
    return Source([DelayedBlock(d, rows) for d, rows in zip(delayed, sizes)], names, n, "dask", "the Dask collection")


# -- what labels there are -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """The labels of one column, sorted, how often each occurs, and how many are missing."""

    labels: np.ndarray
    counts: np.ndarray
    missing: int


def tally_block(table: Any, names: Sequence[str], missing: str) -> tuple[list[int], list[Tally]]:
    """Rows of a block (a list of one) and the tally of each column."""
    whole = tally_integers(table, missing != "nan")
    if whole is not None and len(names) == len(whole.counts):
        tallies = [Tally(whole.labels(j), whole.sizes(j), int(whole.missing[j])) for j in range(len(names))]
        return [len(table)], tallies
    n_rows, columns = _columns(table, names)
    found = []
    for name, (values, nulls) in zip(names, columns):
        if n_rows == 0:
            found.append(Tally(np.empty(0, np.int64), np.empty(0, np.int64), 0))
            continue
        column = encode_column(values, nulls, name, _rule(missing), allow_empty=True)
        counts = np.bincount(column.codes, minlength=column.n_clusters + 1)
        found.append(Tally(_comparable(column.categories), counts[: column.n_clusters], int(counts[-1])))
    return [n_rows], found


def merge_tallies(parts: Sequence[tuple[list[int], list[Tally]]]) -> tuple[list[int], list[Tally]]:
    """Rows of all blocks and the tallies of all of them together."""
    sizes = [size for part in parts for size in part[0]]
    return sizes, [_merged([part[1][j] for part in parts], j) for j in range(len(parts[0][1]))]


def _merged(tallies: Sequence[Tally], j: int) -> Tally:
    seen = [t for t in tallies if len(t.labels)]
    missing = sum(t.missing for t in tallies)
    if not seen:
        return Tally(np.empty(0, np.int64), np.empty(0, np.int64), missing)
    if len({t.labels.dtype.kind in "US" for t in seen}) > 1 or any(t.labels.dtype.kind == "O" for t in seen):
        raise TypeError(
            f"partitions: column {j} holds both numbers and strings; outside memory a column needs one kind."
        )
    labels, place = np.unique(np.concatenate([t.labels for t in seen]), return_inverse=True)
    counts = np.zeros(len(labels), dtype=np.int64)
    np.add.at(counts, place.ravel(), np.concatenate([t.counts for t in seen]))
    return Tally(labels, counts, missing)


def _comparable(labels: np.ndarray) -> np.ndarray:
    """Integers as int64 where they fit, so that blocks of other widths compare exactly."""
    if labels.dtype.kind in "iu" and (labels.dtype != np.uint64 or not len(labels) or int(labels[-1]) < 1 << 63):
        return labels.astype(np.int64)
    return labels


def _rule(missing: str) -> str:
    return "nan" if missing == "nan" else "negative"


def _columns(table: Any, names: Sequence[str]) -> tuple[int, Any]:
    if len(table) == 0:  # an empty partition of a collection
        return 0, [(None, None)] * len(names)
    found, columns, n_rows = columns_of(table)
    if len(found) != len(names):
        raise ValueError(f"partitions: a block has {len(found)} columns, the table has {len(names)}.")
    return n_rows, columns


# -- coding --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coding:
    """How a block of labels becomes codes; small, and the same wherever it goes."""

    names: list[str]
    labels: list[np.ndarray]  # sorted, as they are compared
    categories: list[np.ndarray]  # the same, with None for a cluster of missing labels
    n_clusters: np.ndarray
    missing: str
    dtype: np.dtype
    sizes: np.ndarray  # (d,) items of each base cluster

    @classmethod
    def of(cls, tallies: Sequence[Tally], names: list[str], missing: str) -> Coding:
        n_clusters, sizes, widths, categories = [], [], [], []
        for name, tally in zip(names, tallies):
            own_cluster = missing == "cluster" and tally.missing > 0
            k = len(tally.labels) + own_cluster
            if k == 0:
                raise ValueError(
                    f"partitions: column {name} has no label at all (every entry is missing); drop that column."
                )
            n_clusters.append(k)
            categories.append(np.append(tally.labels.astype(object), [None]) if own_cluster else tally.labels)
            sizes.append(np.append(tally.counts, tally.missing) if own_cluster else tally.counts)
            widths.append(smallest_unsigned(k + (tally.missing > 0 and not own_cluster)))
        dtype = max(widths, key=lambda width: width.itemsize)
        labels, found = [tally.labels for tally in tallies], np.array(n_clusters, dtype=np.int64)
        return cls(names, labels, categories, found, missing, dtype, np.concatenate(sizes))

    @property
    def offsets(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.n_clusters)]).astype(np.int64)

    def codes_of(self, table: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Codes (rows, n_partitions) of a block, in `out` when given."""
        fits = getattr(table, "ndim", 0) == 2 and table.shape[1] == len(self.names)
        if fits and all(known.dtype == np.int64 for known in self.labels):
            quickly = code_integers(table, self.labels, self.missing != "nan", self.dtype, out)
            if quickly is not None:
                return quickly
        n_rows, columns = _columns(table, self.names)
        codes = np.empty((n_rows, len(self.names)), dtype=self.dtype) if out is None else out
        for j, (values, nulls) in enumerate(columns):
            if n_rows == 0:
                break
            column = encode_column(values, nulls, self.names[j], _rule(self.missing), allow_empty=True)
            known = self.labels[j]
            place = np.searchsorted(known, _comparable(column.categories))
            # the code of a missing label is the number of labels, with or without a cluster of its own
            codes[:, j] = np.append(place, len(known)).astype(self.dtype)[column.codes]
        return codes
