"""Parquet: row groups read in batches, text kept as dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..encode import Dictionary, as_objects
from .limits import Limit
from .parquet_pages import unpacked_bytes
from .table import Columns, Content, Options, Piece, Table, TableFormat, naming_damage, row_ranges
from .text import check_new

_BATCH_BYTES = 1 << 24  # decoded cells of a batch
_OBJECT_BYTES = 128  # a cell that is read as a Python object


def import_parquet() -> Any:
    """pyarrow's Parquet module, or the line that installs it."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError("Parquet and Arrow files need pyarrow: pip install 'coassoc[io]'.") from None
    return pq


class ParquetTable(Table):
    """A Parquet file."""

    def __init__(self, path: Path, limit: Limit):
        super().__init__(path, limit)
        with _opened(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            self.names = list(schema.names)
            self.types = dict(zip(self.names, schema.types))
            self.n_rows = int(metadata.num_rows)
            self.groups = [int(metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]
            flat = int(metadata.num_columns) == len(self.names)
        if len(self.types) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"{path.name} has two columns named {twice!r}; rename one of them.")
        if self.n_rows != sum(self.groups) or min(self.groups, default=0) < 0:
            raise ValueError(f"{path.name} is a damaged Parquet file (its row groups do not add up); write it again.")
        self.flat = flat

    def check(self, columns: Sequence[str]) -> None:
        """Refuse columns that hold no labels, or that take too much memory."""
        import pyarrow as pa

        for name in columns:
            if pa.types.is_nested(self.types[name]):
                raise ValueError(f"{self.path.name}: column {name!r} holds lists or records; a label is one value.")
        if self.n_rows == 0:
            raise ValueError(f"{self.path.name} has columns but no rows; a label table needs one row per item.")
        assert self.n_rows is not None
        self.limit.check_table(self.n_rows, len(columns), sum(self.n_rows * self._width(name) for name in columns))
        places = [self.names.index(name) for name in columns] if self.flat else []
        try:
            unpacked = unpacked_bytes(self.path, places)
        except ValueError as error:
            raise ValueError(f"{self.path.name} is a damaged Parquet file ({error}); write it again.") from None
        self.limit.check(unpacked, "pages")

    def _width(self, name: str) -> int:
        """Bytes of a decoded cell beside its code."""
        import pyarrow as pa

        kind = self.types[name]
        if pa.types.is_dictionary(kind) or _is_text(kind):
            return 4
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            return 8
        return _OBJECT_BYTES + (kind.byte_width if pa.types.is_fixed_size_binary(kind) else 0)

    def batches(self, columns: Sequence[str]) -> Iterator[Columns]:
        self.check(columns)
        for group, rows in enumerate(self.groups):
            yield from _batches(self.path, group, 0, rows, list(columns), self._step(columns))

    def blocks(self, columns: Sequence[str]) -> list[Piece]:
        self.check(columns)
        wanted, step = tuple(columns), self._step(columns)
        return [
            Piece(_read, (self.path, group, start, length, wanted, step), length)
            for group, rows in enumerate(self.groups)
            for start, length in row_ranges(rows)
        ]

    def _step(self, columns: Sequence[str]) -> int:
        """Rows of a batch."""
        return max(1024, min(1 << 17, _BATCH_BYTES // sum(8 + self._width(name) for name in columns)))


def _read(path: Path, group: int, start: int, rows: int, columns: tuple[str, ...], step: int) -> Columns:
    """Rows `start` to ``start + rows`` of one row group."""
    import pyarrow as pa

    found = list(_batches(path, group, start, rows, list(columns), step))
    parts = {name: [batch[name] for batch in found] for name in columns}
    return {
        name: Dictionary.join(own) if isinstance(own[0], Dictionary) else pa.chunked_array(own)
        for name, own in parts.items()
    }


def _batches(path: Path, group: int, start: int, rows: int, columns: list[str], step: int) -> Iterator[Columns]:
    """Batches of some rows of a row group; earlier rows are decoded and dropped."""
    with _opened(path) as file:
        kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types))
    texts = [name for name in columns if _is_text(kinds[name])]
    with _opened(path, read_dictionary=texts) as file:
        skip, left = start, rows
        for batch in file.iter_batches(batch_size=step, row_groups=[group], columns=columns, use_threads=False):
            part = batch.slice(skip, left)
            skip, left = max(0, skip - len(batch)), left - len(part)
            if len(part):
                yield {name: _column(part.column(part.schema.get_field_index(name))) for name in columns}
            if left == 0:
                return
    raise ValueError(f"{path.name} is a damaged Parquet file: a row group is shorter than declared; write it again.")


def _column(column: Any) -> Any:
    """Dictionaries as `Dictionary`, other columns as they are."""
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        return column
    indices = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    known = column.dictionary
    if len(known) > len(indices):  # the texts of all batches so far
        used, indices = np.unique(np.append(indices, -1), return_inverse=True)
        known, indices = known.take(pa.array(used[1:])), indices[:-1] - 1
    labels = known.to_pylist()
    lookup = np.array([-1 if label is None else i for i, label in enumerate(labels)] + [-1], dtype=np.int32)
    return Dictionary(lookup[indices], as_objects(labels))


@contextmanager
def _opened(path: Path, **settings: Any) -> Iterator[Any]:
    """An open Parquet file; what the library says about a damaged one is a ValueError that names it."""
    pq = import_parquet()
    import pyarrow as pa

    errors = (pa.ArrowException, OSError, OverflowError, KeyError, UnicodeDecodeError)
    with naming_damage(path, "Parquet file", errors), pq.ParquetFile(path, **settings) as file:
        yield file


def _is_text(kind: Any) -> bool:
    """Whether cells are bytes of any length, which Parquet may store once and repeat."""
    import pyarrow as pa

    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)


class ParquetFormat(TableFormat):
    """Parquet files, and folders of them."""

    table = ParquetTable
    name = "parquet"
    suffixes = (".parquet", ".pq")
    magic = (b"PAR1",)
    in_folders = True

    def write(self, target: Any, content: Content) -> None:
        import_parquet().write_table(arrow_table(content), target)

    def append(
        self, source: Sequence[Path], target: Any, columns: dict[str, np.ndarray], options: Options, force: bool
    ) -> None:
        """Row groups copied one at a time, each with its share of the new columns."""
        pq = import_parquet()
        writer, start, n_labels = None, 0, len(next(iter(columns.values())))
        try:
            for path in source:
                with _opened(path) as file:
                    check_new(columns, file.schema_arrow.names, path)
                    for group in range(file.metadata.num_row_groups):
                        table = file.read_row_group(group).replace_schema_metadata(None)
                        mine = slice(start, start + table.num_rows)
                        start += table.num_rows
                        if start > n_labels:
                            break
                        for name, labels in columns.items():
                            table = table.append_column(name, arrow_array(np.asarray(labels[mine])))
                        writer = writer or pq.ParquetWriter(target, table.schema)
                        writer.write_table(table)
            if start != n_labels:
                rows = sum(pq.ParquetFile(path).metadata.num_rows for path in source)
                raise ValueError(f"{source[0].name} has {rows} rows, but there are {n_labels} labels.")
        finally:
            if writer is not None:
                writer.close()


def arrow_table(content: Content) -> Any:
    """What is written, as an Arrow table."""
    import pyarrow as pa

    front = {} if content.item_ids is None else {"id": content.item_ids}
    back = {} if content.classes is None else {"class": content.classes}
    return pa.table({name: arrow_array(column) for name, column in {**front, **content.columns, **back}.items()})


def arrow_array(column: Any) -> Any:
    """A column as an Arrow array; text as a dictionary."""
    import pyarrow as pa

    if isinstance(column, Dictionary):
        labels = column.labels
        if labels.dtype.kind in "iub":
            values = labels[np.maximum(column.indices, 0)]
            return pa.array(values, mask=column.indices < 0)
        return pa.DictionaryArray.from_arrays(
            pa.array(column.indices.astype(np.int32), mask=column.indices < 0), pa.array(labels.tolist())
        )
    array = pa.array(column.tolist() if column.dtype == object else column)
    return array.dictionary_encode() if pa.types.is_string(array.type) else array


PARQUET = ParquetFormat()
