"""How the batches of a label table become codes: in memory, block by block, or on a cluster.

Coding takes two passes over the blocks, in any order: the labels of each column are counted and the counts merged;
then each block is coded with the labels of the whole table. The codes are those of ``Ensemble(table)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.counts import smallest_unsigned
from ..encode import Dictionary, Tally, encode_column, no_label, sorted_labels
from ..tables import Vocabulary, check_table_shape, columns_of
from .cells import labels_in
from .formats import format_called
from .guard import open_files
from .table import Options, Piece, Table, naming


class Source:
    """A table that is read piece by piece, and the functions that engines apply to its blocks."""

    names: list[str]
    n_rows: int | None
    kind: str  # "file" or "dask"
    what: str  # for messages
    blocks: Sequence[Any]  # in row order
    table: Table | None = None  # of a file

    def batches(self) -> Iterator[Any]:
        """All rows in order, read by one process."""
        raise NotImplementedError

    @staticmethod
    def tally(blocks: Iterable[Any], names: Sequence[str], missing: str) -> tuple[list[int], list[Tally]]:
        """Rows of each of some blocks, and the labels of each column in all of them."""
        sizes: list[int] = []
        total: list[Tally] = []
        for block in blocks:
            sizes.append(0)
            with naming(Path(block.piece.file)) if isinstance(block, FileBlock) else nullcontext():
                for batch in batches_in(block):
                    sizes[-1] += len(batch)
                    tallies = tally_batch(batch, names, missing)
                    total = [_merged(pair) for pair in zip(total, tallies)] if total else tallies
        return sizes, total

    @staticmethod
    def merge(parts: Sequence[tuple[list[int], list[Tally]]]) -> tuple[list[int], list[Tally]]:
        """Rows of all blocks and the tallies of all of them together."""
        tallies = [part[1] for part in parts if part[1]]  # empty blocks have none
        return [size for part in parts for size in part[0]], [_merged(one) for one in zip(*tallies)]


@dataclass(frozen=True)
class FileBlock:
    """Some rows of a file, which any process can read."""

    format: str
    columns: tuple[str, ...]
    options: Options
    piece: Piece

    @property
    def rows(self) -> int:
        return self.piece.rows

    def read(self) -> list[Any]:
        path = Path(self.piece.file)
        with naming(path):
            table = open_files(format_called(self.format), [path], path, self.options)
            try:
                return list(table.batches(self.columns, where=self.piece.where))
            finally:
                table.close()


class DaskSource(Source):
    """A Dask array or data frame; its blocks are delayed tables."""

    kind, what = "dask", "the Dask collection"

    def __init__(self, table: Any, columns: Any = None):
        if columns is not None:
            raise ValueError("columns cannot be given with a Dask collection; select them there: frame[columns].")
        if table.ndim != 2:
            check_table_shape(tuple(table.shape))
        if hasattr(table, "rechunk"):  # an array
            table = table.rechunk({1: -1})
            self.names = [str(j) for j in range(table.shape[1])]
            self.blocks = list(table.to_delayed()[:, 0]) if self.names else []
            self.n_rows = None if np.isnan(table.shape[0]) else int(table.shape[0])
        else:
            self.names, self.blocks, self.n_rows = list(map(str, table.columns)), table.to_delayed(), None
        check_table_shape((1 if self.n_rows is None else self.n_rows, len(self.names)))

    def batches(self) -> Iterator[Any]:
        return (batch for block in self.blocks if len(batch := block.compute()))


def is_dask(table: Any) -> bool:
    """Whether `table` is a Dask array or data frame; Dask itself is not imported to find out."""
    module = type(table).__module__.split(".")[0]
    return module in ("dask", "dask_expr") and hasattr(table, "to_delayed") and hasattr(table, "ndim")


# -- what a batch holds --------------------------------------------------------------------------------------------


def batches_in(block: Any) -> list[Any]:
    """The tables with rows in a block, which a cluster may have computed already."""
    return [batch for batch in (block.read() if isinstance(block, FileBlock) else [block]) if len(batch)]


def batch_columns(batch: Any, names: Sequence[str]) -> Iterable[tuple[Any, np.ndarray | None]]:
    """(values, nulls) of each column of a record batch, an array or a data frame."""
    if hasattr(batch, "schema") and hasattr(batch, "num_rows"):
        return (labels_in(batch, name) for name in names)
    found, columns, _ = columns_of(batch)
    if len(found) != len(names):
        raise ValueError(f"partitions: a block has {len(found)} columns, the table has {len(names)}.")
    return columns


def gather(batches: Iterable[Any], columns: Sequence[str]) -> dict[str, Dictionary]:
    """Columns of a table in memory, from its batches."""
    pieces: dict[str, list[Dictionary]] = {name: [] for name in columns}
    first_row = 0
    for batch in batches:
        for name, (values, nulls) in zip(columns, batch_columns(batch, columns)):
            if not isinstance(values, Dictionary):
                values = encode_column(values, nulls, name, "nan", allow_empty=True, first_row=first_row)
            pieces[name].append(values)
        first_row += len(batch)
    return {name: Dictionary.join(pieces.pop(name)) for name in columns}


# -- what labels there are -----------------------------------------------------------------------------------------


def tally_batch(batch: Any, names: Sequence[str], missing: str) -> list[Tally]:
    """The tally of each column."""
    found = []
    for name, (values, nulls) in zip(names, batch_columns(batch, names)):
        column = encode_column(values, nulls, name, "nan" if missing == "nan" else "negative", allow_empty=True)
        (counts, n_missing), labels = column.counts(), column.labels
        if labels.dtype.kind in "iu" and (not len(labels) or int(labels[-1]) < 1 << 63):
            labels = labels.astype(np.int64)  # so that blocks of other widths compare exactly
        found.append(Tally(labels, counts, n_missing))
    return found


def _merged(tallies: Sequence[Tally]) -> Tally:
    seen = [t for t in tallies if len(t.labels)]
    missing = sum(t.missing for t in tallies)
    if not seen:
        return Tally(np.empty(0, np.int64), np.empty(0, np.int64), missing)
    if len({t.labels.dtype.kind in "US" for t in seen}) > 1 or any(t.labels.dtype.kind == "O" for t in seen):
        labels, place = sorted_labels([label for t in seen for label in t.labels.tolist()])
    else:
        labels, place = np.unique(np.concatenate([t.labels for t in seen]), return_inverse=True)
    counts = np.zeros(len(labels), dtype=np.int64)
    np.add.at(counts, place.ravel(), np.concatenate([t.counts for t in seen]))
    return Tally(labels, counts, missing)


# -- coding --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coding(Vocabulary):
    """How a block of labels becomes codes; small, and the same in every process."""

    missing: str
    sizes: np.ndarray  # (d,) items of each base cluster

    @classmethod
    def of(cls, tallies: Sequence[Tally], names: list[str], missing: str) -> Coding:
        n_clusters, sizes, widths, categories = [], [], [], []
        for name, tally in zip(names, tallies):
            own_cluster = missing == "cluster" and tally.missing > 0
            k = len(tally.labels) + own_cluster
            if k == 0:
                raise no_label(name)
            n_clusters.append(k)
            categories.append(np.append(tally.labels.astype(object), [None]) if own_cluster else tally.labels)
            sizes.append(np.append(tally.counts, tally.missing) if own_cluster else tally.counts)
            widths.append(smallest_unsigned(k + (tally.missing > 0 and not own_cluster)))
        dtype = max(widths, key=lambda width: width.itemsize)
        return cls(np.array(n_clusters, dtype=np.int64), categories, names, dtype, missing, np.concatenate(sizes))

    @property
    def offsets(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.n_clusters)]).astype(np.int64)

    def codes_of(self, table: Any) -> np.ndarray:
        """Codes (rows, n_partitions) of a block."""
        codes = np.empty((len(table), len(self.names)), dtype=self.dtype)
        for j, (values, nulls) in enumerate(batch_columns(table, self.names)):
            codes[:, j] = self.codes_of_column(j, values, nulls)
        return codes

    def codes_of_blocks(self, blocks: Sequence[Any]) -> np.ndarray:
        """Codes of neighbouring blocks."""
        parts = [self.codes_of(batch) for block in blocks for batch in batches_in(block)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, len(self.names)), self.dtype), *parts])
