"""What a cell of text means, labels as Arrow columns and back, and how the batches of a label table become codes.

A cell is missing when it is empty or one of `MISSING`, a number when it is written as a whole number is usually
written, and text otherwise. `cell_of` marks text that would be read as something else with an apostrophe in front, as
spreadsheets do; `label_of` removes the mark where it was needed and nowhere else.

Coding takes two passes over the blocks, in any order: the labels of each column are counted and the counts merged;
then each block is coded with the labels of the whole table. The codes are those of ``Ensemble(table)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.counts import smallest_unsigned
from ..encode import Dictionary, Tally, as_objects, encode_column, label_array, no_label, sorted_labels
from ..tables import Vocabulary, check_table_shape, column_values, columns_of
from .formats import Options, Package, Table, format_called, naming, pa
from .guard import open_files

pc: Any = Package("pyarrow.compute")
CELLS = {b"coassoc": b"cells"}  # metadata of a column of text in which 1 is a number and NA is missing
MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"))
MARK = "'"
# 01, +1, 1_0, 1e3 and digits of other scripts are text; 1.0 is how many programs write 1 when a label is missing
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(\.0+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity)", re.IGNORECASE)
_FORMULA = re.compile(r"[=@]|[+-](?![0-9.]*$)")
_SPACE = " \t"


def is_number(text: str) -> bool:
    """Whether a text is a number in any usual notation."""
    return _NUMBER.fullmatch(text) is not None


def label_of(cell: str) -> int | float | str | None:
    """The label in a cell: None when missing, an integer, or text; a number that is not whole, which is no label."""
    if cell[:1] == MARK and _needs_mark(cell[1:]):
        return cell[1:]
    cell = cell.strip(_SPACE)
    if cell in MISSING:
        return None
    whole = _WHOLE.fullmatch(cell)
    if whole is not None and len(cell) < 40 and -(1 << 63) <= (number := int(whole[1])) < 1 << 63:
        return number
    return float(cell) if is_number(cell) and not float(cell).is_integer() else cell


def name_of(cell: str) -> str:
    """The text in a cell of the header."""
    return cell[1:] if cell[:1] == MARK and _needs_mark(cell[1:]) else cell.strip(_SPACE)


def cell_of(label: Any) -> str:
    """What `label_of` reads as `label`."""
    return MARK + label if isinstance(label, str) and _needs_mark(label) else str(label)


def _needs_mark(text: str) -> bool:
    """Whether text would not be read back as itself, or would be run by a spreadsheet."""
    text = text[len(text) - len(text.lstrip(MARK)) :] if text[:1] == MARK else text
    return text in MISSING or text != text.strip(_SPACE) or is_number(text) or _FORMULA.match(text) is not None


def _is_formula(text: str) -> bool:
    return _FORMULA.match(text.lstrip(MARK)) is not None


# -- labels to Arrow -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Content:
    """What is written: columns of labels (−1 or null where missing), and ids and classes where known."""

    columns: dict[str, Any]  # arrays of numbers, or `Dictionary` columns
    n_rows: int
    item_ids: np.ndarray | None = None
    classes: Any = None
    delimiter: str | None = None

    def arrow(self, cells: bool = False) -> dict[str, Any]:
        """All of it as Arrow columns, ids in front and classes at the end; texts as `cells` or as they are."""
        ids = {} if self.item_ids is None else {"id": arrow_ids(self.item_ids, cells)}
        classes = {} if self.classes is None else {"class": self.classes}
        return ids | {name: arrow_array(column, cells) for name, column in (self.columns | classes).items()}


def arrow_array(values: Any, cells: bool = False) -> Any:
    """A NumPy array or a `Dictionary` column as an Arrow array; text as a dictionary, of `cells` where asked for."""
    if not isinstance(values, Dictionary):
        if values.dtype.kind in "OSUc":
            array = pa.array(values.tolist())
            return array.dictionary_encode() if pa.types.is_string(array.type) else array
        kind = np.dtype(np.float64) if values.dtype.kind == "f" else values.dtype.newbyteorder("=")
        return pa.array(np.ascontiguousarray(values, dtype=kind))
    labels, missing = label_array(values.labels.tolist()), values.indices < 0
    if labels.dtype.kind == "i" and len(labels):
        return pa.array(labels[np.maximum(values.indices, 0)], mask=missing)
    texts = [cell_of(label) if cells else str(label) for label in labels.tolist()]
    if len(set(texts)) < len(texts):
        raise ValueError("a number and a text look the same in a column; rename one, or write a file of text.")
    return pa.DictionaryArray.from_arrays(pa.array(values.indices.astype(np.int32), mask=missing),
                                          pa.array(texts, pa.string()))  # fmt: skip


def arrow_ids(ids: np.ndarray, cells: bool = False) -> Any:
    """Ids as an Arrow array: integers, or text as it is; in `cells` only formulas are marked."""
    if ids.dtype.kind in "iu":
        return arrow_array(ids)
    array = pa.array(list(map(str, ids.tolist())), pa.string())
    if cells and pc.any(pc.match_substring_regex(array, "^'*[=@+-]")).as_py():
        return pa.array([MARK + text if _is_formula(text) else text for text in array.to_pylist()], pa.string())
    return array


def record_batch(columns: dict[str, Any], cells: Sequence[str] = ()) -> Any:
    """Arrow columns as a record batch; those named in `cells` hold the cells of a text."""
    fields = [pa.field(name, column.type, metadata=CELLS if name in cells else None)
              for name, column in columns.items()]  # fmt: skip
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


# -- Arrow to labels -----------------------------------------------------------------------------------------------


def labels_in(batch: Any, name: str) -> tuple[Any, np.ndarray | None]:
    """(values, nulls) of a column of a record batch; texts that are cells become the labels they stand for."""
    values, nulls = column_values(batch.column(name))
    if isinstance(values, Dictionary) and _are_cells(batch, name):
        labels = [label_of(text) for text in values.labels.tolist()]
        lookup = np.array([-1 if label is None else i for i, label in enumerate(labels)] + [-1], dtype=np.int32)
        return Dictionary(lookup[values.indices], as_objects(labels)), None
    return values, nulls


def ids_in(batch: Any, name: str) -> np.ndarray:
    """A column of a record batch as ids: its texts as they are."""
    column = batch.column(name)
    column = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    values = as_objects(column.to_pylist()) if column.null_count else column.to_numpy(zero_copy_only=False)
    if _are_cells(batch, name) and pc.any(pc.starts_with(column, MARK)).as_py():
        marked = (text[:1] == MARK and _is_formula(text[1:]) for text in values.tolist())
        return as_objects([text[1:] if mark else text for mark, text in zip(marked, values.tolist())])
    return values


def _are_cells(batch: Any, name: str) -> bool:
    return (batch.schema.field(name).metadata or {}).items() >= CELLS.items()


# -- tables in pieces ------------------------------------------------------------------------------------------------


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
    file: str
    where: Any
    rows: int

    def read(self) -> list[Any]:
        path = Path(self.file)
        with naming(path), closing(open_files(format_called(self.format), [path], path, self.options)) as table:
            return list(table.batches(self.columns, where=self.where))


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
