"""Parquet, Arrow and Feather files (version 2 of which are Arrow files), by pyarrow; text is kept as dictionaries."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..encode import Dictionary
from .limits import EXPANSION, Limit, try_reading
from .table import Columns, Content, DamagedFile, Options, Piece, Table, TableFormat, row_ranges
from .text import check_new

_BATCH_BYTES = 1 << 24  # decoded cells of a batch
_PAGE_BYTES = 1 << 31  # a page unpacks to less
_HEADER_BYTES = 1 << 16  # a page header is rarely longer than 100 bytes
_OBJECT_BYTES = 128  # a cell that is read as a Python object
_TRIAL = "coassoc.ensemble.io.parquet:read_all"  # how far a compressed Arrow buffer unpacks is only known by trying


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
        with import_parquet().ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            self.names = list(schema.names)
            self.types = dict(zip(self.names, schema.types))
            self.n_rows = int(metadata.num_rows)
            self.groups = [int(metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]
            flat = int(metadata.num_columns) == len(self.names)
        if self.n_rows != sum(self.groups) or min(self.groups, default=0) < 0:
            raise DamagedFile("its row groups do not add up")
        self.flat = flat

    def check(self, columns: Sequence[str]) -> None:
        """Refuse columns that hold no labels, or that take too much memory."""
        import pyarrow as pa

        for name in columns:
            if pa.types.is_nested(self.types[name]):
                raise ValueError(f"{self.path.name}: column {name!r} holds lists or records; a label is one value.")
        assert self.n_rows is not None
        self.limit.check_table(self.n_rows, len(columns), sum(self.n_rows * self._width(name) for name in columns))
        places = [self.names.index(name) for name in columns] if self.flat else []
        self.limit.check(unpacked_bytes(self.path, places), "pages")

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
            yield from self._batches(columns, group, 0, rows)

    def blocks(self, columns: Sequence[str]) -> list[Piece]:
        self.check(columns)
        return [
            Piece(self.path, self.read, (tuple(columns), group, start, length), length)
            for group, rows in enumerate(self.groups)
            for start, length in row_ranges(rows)
        ]

    def read(self, columns: Sequence[str], *piece: Any) -> Columns:
        import pyarrow as pa

        found = list(self._batches(columns, *piece))
        return {name: pa.chunked_array([batch[name] for batch in found]) for name in columns}

    def _batches(self, columns: Sequence[str], group: int, start: int, rows: int) -> Iterator[Columns]:
        """Batches of some rows of a row group; earlier rows are decoded and dropped."""
        texts = [name for name in columns if _is_text(self.types[name])]
        step = max(1024, min(1 << 17, _BATCH_BYTES // sum(8 + self._width(name) for name in columns)))
        with import_parquet().ParquetFile(self.path, read_dictionary=texts) as file:
            skip, left = start, rows
            for batch in file.iter_batches(step, row_groups=[group], columns=list(columns), use_threads=False):
                part = batch.slice(skip, left)
                skip, left = max(0, skip - len(batch)), left - len(part)
                if len(part):
                    yield {name: part.column(part.schema.get_field_index(name)) for name in columns}
                if left == 0:
                    return
        raise DamagedFile("a row group is shorter than declared")


def _is_text(kind: Any) -> bool:
    """Whether cells are bytes of any length, which Parquet may store once and repeat."""
    return str(kind) in ("string", "large_string", "binary", "large_binary")


class ArrowTable(Table):
    """A file of record batches."""

    def __init__(self, path: Path, limit: Limit):
        super().__init__(path, limit)
        try_reading(_TRIAL, path, limit)
        with _opened_arrow(path) as reader:
            self.names = list(reader.schema.names)
            nested = [field.name for field in reader.schema if field.type.num_fields]
        if nested:
            raise ValueError(f"{path.name}: column {nested[0]!r} holds lists or records; a label is one value.")
        self.sizes = read_all(path, limit)
        self.n_rows = sum(self.sizes)
        limit.check_table(self.n_rows, len(self.names))

    def blocks(self, columns: Sequence[str]) -> list[Piece]:
        return [Piece(self.path, self.read, (tuple(columns), i), rows) for i, rows in enumerate(self.sizes) if rows]

    def read(self, columns: Sequence[str], *piece: Any) -> Columns:
        with _opened_arrow(self.path) as reader:
            batch = reader.get_batch(piece[0])
            return {name: batch.column(reader.schema.get_field_index(name)) for name in columns}


def read_all(path: Path, limit: Limit) -> list[int]:
    """Rows of each batch, all of which are read, checked, and dropped: offsets that lead elsewhere would crash."""
    sizes = []
    with _opened_arrow(path) as reader:
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            batch.validate(full=True)
            sizes.append(batch.num_rows)
    return sizes


@contextmanager
def _opened_arrow(path: Path) -> Iterator[Any]:
    import_parquet()
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        yield reader


class _PyarrowFormat(TableFormat):
    """What Parquet and Arrow have in common; `tables` gives the content of a file in parts, `writer` writes such."""

    tables: Any
    writer: Any

    def write(self, target: Any, content: Content) -> None:
        import_parquet()
        table = arrow_table(content)
        with self.writer(target, table.schema) as out:
            out.write_table(table)

    def append(
        self, source: Sequence[Path], target: Any, columns: dict[str, np.ndarray], options: Options, force: bool
    ) -> None:
        """The content in parts, each with its share of the new columns."""
        opened = [self.open(path, options) for path in source]
        check_new(columns, opened[0].names, source[0])
        n_rows, n_labels = sum(table.n_rows or 0 for table in opened), len(next(iter(columns.values())))
        if n_rows != n_labels:
            raise ValueError(f"{source[0].name} has {n_rows} rows, but there are {n_labels} labels.")
        start = 0
        with ExitStack() as stack:
            writer = None
            for table in chain.from_iterable(map(self.tables, source)):
                for name, labels in columns.items():
                    mine = np.asarray(labels[start : start + table.num_rows])
                    table = table.append_column(name, arrow_array(mine))
                start += table.num_rows
                writer = writer or stack.enter_context(self.writer(target, table.schema))
                writer.write_table(table)


class ParquetFormat(_PyarrowFormat):
    """Parquet files, and folders of them."""

    table = ParquetTable
    name = "parquet"
    suffixes = (".parquet", ".pq")
    magic = (b"PAR1",)
    in_folders = True

    def tables(self, path: Path) -> Iterator[Any]:
        with import_parquet().ParquetFile(path) as file:
            for group in range(file.metadata.num_row_groups):
                yield file.read_row_group(group).replace_schema_metadata(None)

    def writer(self, target: Any, schema: Any) -> Any:
        return import_parquet().ParquetWriter(target, schema)


class ArrowFormat(_PyarrowFormat):
    """Arrow and Feather files."""

    table = ArrowTable
    name = "arrow"
    suffixes = (".arrow", ".feather")
    magic = (b"ARROW1",)

    def tables(self, path: Path) -> Iterator[Any]:
        with _opened_arrow(path) as reader:
            yield reader.read_all()

    def writer(self, target: Any, schema: Any) -> Any:
        import pyarrow as pa

        return pa.ipc.new_file(str(target), schema)


def arrow_table(content: Content) -> Any:
    """What is written, as an Arrow table."""
    import pyarrow as pa

    return pa.table({name: arrow_array(column) for name, column in content.table().items()})


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


# -- what the pages of a Parquet file unpack to, from its own metadata ------------------------------------------------
# pyarrow checks no page before it unpacks it, and ends the whole process when the metadata of a column is damaged, so
# the metadata of a small file is read without it. A larger file may take what a page can hold anyway.


def unpacked_bytes(path: Path, places: Sequence[int]) -> int:
    """Bytes of the unpacked pages of the leaf columns at `places`; 0 for a file too large to be harmful."""
    size = path.stat().st_size
    if size >= _PAGE_BYTES // EXPANSION:
        return 0
    with open(path, "rb") as file:
        if size < 12:
            raise DamagedFile("the file is too short")
        file.seek(-8, 2)
        length = struct.unpack("<I", file.read(4))[0]
        if length > size - 12:
            raise DamagedFile("its footer is longer than the file")
        file.seek(-8 - length, 2)
        footer = file.read(length)
        try:
            groups = _Compact(footer).struct().get(4, [])
            return sum(_pages(file, group[1][place][3], size) for group in groups for place in places)
        except (TypeError, AttributeError) as error:
            raise DamagedFile(f"its metadata has no {error}") from None


def _pages(file: BinaryIO, chunk: dict[int, Any], size: int) -> int:
    """Unpacked bytes of the pages of one column chunk."""
    at = min(start for start in (chunk.get(11, 0), chunk[9]) if start > 0 or start == chunk[9])
    left, values, total = chunk[7], chunk[5], 0
    while left > 0 and values > 0:
        if not 0 < at < size:
            raise DamagedFile("a page is outside the file")
        file.seek(at)
        reader = _Compact(file.read(_HEADER_BYTES))
        header = reader.struct()
        unpacked, packed = header[2], header[3]
        if unpacked < 0 or packed < 0:
            raise DamagedFile("a page has a negative size")
        total += unpacked
        if header[1] != 2:  # not a dictionary
            values -= max(1, header[5 if 5 in header else 8][1])
        at, left = at + reader.at + packed, left - reader.at - packed
    return total


class _Compact:
    """Reads Thrift's compact protocol: structs are dicts from field numbers to values; text and fractions are skipped.

    Every value takes a byte at least, so that lists end with the data, whatever length they declare.
    """

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise DamagedFile("its metadata ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while shift <= 63:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise DamagedFile("a number is too long")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self.value(kind)
        return fields

    def value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind in (7, 8):
            length = 8 if kind == 7 else self.varint()
            self.at += length
            if self.at > len(self.data):
                raise DamagedFile("its metadata ends too early")
            return None
        if kind in (9, 10):
            head = self.byte()
            length = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(length)]
        if kind == 11:
            length = self.varint()
            kinds = self.byte() if length else 0
            return [(self.value(kinds >> 4), self.value(kinds & 15)) for _ in range(length)]
        if kind == 12:
            return self.struct()
        raise DamagedFile(f"its metadata has an unknown type {kind}")


PARQUET = ParquetFormat()
ARROW = ArrowFormat()
