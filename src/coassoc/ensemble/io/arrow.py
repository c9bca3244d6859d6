"""Parquet, Arrow and Feather files (version 2 of which are Arrow files), by pyarrow; text is kept as dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from .optional import pa, pq
from .table import Content, DamagedFile, Format, Options, Piece, Table, arrow_array, check_new, check_rows, row_ranges

_BATCH_CELLS = 1 << 21  # cells decoded at a time


class _ArrowTable(Table):
    """What both kinds of file have in common: a schema."""

    def __init__(self, path: Path, schema: Any):
        super().__init__(path)
        self.schema, self.names = schema, list(schema.names)

    def _plain(self, batch: Any, columns: Sequence[str]) -> Any:
        """The columns named of a batch, those with more labels than rows decoded."""
        arrays = []
        for name in columns:
            column = batch.column(batch.schema.get_field_index(name))
            if isinstance(column, pa.DictionaryArray) and len(column.dictionary) > len(column):
                column = column.dictionary_decode()  # pyarrow lists the labels of all earlier batches too
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, list(columns))

    def _check(self, columns: Sequence[str]) -> None:
        for name in columns:
            if pa.types.is_nested(self.schema.field(name).type):
                raise ValueError(f"{self.path.name}: column {name!r} holds lists or records; a label is one value.")


class ParquetTable(_ArrowTable):
    """A Parquet file."""

    def __init__(self, file: BinaryIO, path: Path):
        self.file = file
        metadata = pq.read_metadata(file)
        super().__init__(path, metadata.schema.to_arrow_schema())
        self.n_rows = int(metadata.num_rows)
        self.groups = [int(metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]
        if self.n_rows != sum(self.groups) or min(self.groups, default=0) < 0:
            raise DamagedFile("its row groups do not add up")

    def pieces(self) -> list[Piece]:
        return [
            Piece(str(self.path), [group, start, length], length)
            for group, rows in enumerate(self.groups)
            for start, length in row_ranges(rows)
        ]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        self._check(columns)
        texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        coded = [name for name in columns if self.schema.field(name).type in texts and name != ids]
        step = max(1024, min(1 << 17, _BATCH_CELLS // len(columns)))
        group, skip, left = where or (None, 0, sum(self.groups))
        groups = range(len(self.groups)) if group is None else [group]
        self.file.seek(0)
        reader = pq.ParquetFile(self.file, read_dictionary=coded)
        for batch in reader.iter_batches(step, row_groups=groups, columns=list(columns), use_threads=False):
            part = batch.slice(skip, left)  # earlier rows of the group are decoded and dropped
            skip, left = max(0, skip - len(batch)), left - len(part)
            if len(part):
                yield self._plain(part, columns)
            if left == 0:
                return
        if left:
            raise DamagedFile("a row group is shorter than declared")


class ArrowTable(_ArrowTable):
    """A file of record batches."""

    def __init__(self, file: BinaryIO, path: Path):
        self.file = file
        self.reader = pa.ipc.open_file(file)
        super().__init__(path, self.reader.schema)
        self.sizes = [self._batch(i).num_rows for i in range(self.reader.num_record_batches)]
        self.n_rows = sum(self.sizes)

    def _batch(self, i: int) -> Any:
        batch = self.reader.get_batch(i)
        batch.validate(full=True)  # offsets that lead elsewhere would crash
        return batch

    def pieces(self) -> list[Piece]:
        return [Piece(str(self.path), i, rows) for i, rows in enumerate(self.sizes) if rows]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        self._check(columns)
        for i in range(len(self.sizes)) if where is None else [where]:
            yield self._plain(self._batch(i), columns)


class _ArrowFormat(Format):
    """What both formats have in common; `tables` gives the content of a file in parts, `writer` writes such."""

    tables: Any
    writer: Any

    def write(self, target: Any, content: Content) -> None:
        table = pa.table({name: arrow_array(column) for name, column in content.table().items()})
        with self.writer(target, table.schema) as out:
            out.write_table(table)

    def append(self, source: Sequence[Path], target: Any, columns: Any, options: Options, force: bool) -> None:
        """The content in parts, each with its share of the new columns."""
        start = 0
        with ExitStack() as stack:
            writer = None
            for path in source:
                for table in self.tables(path):
                    check_new(columns.column_names, table.column_names, path)
                    part = columns.slice(start, table.num_rows)
                    start += table.num_rows
                    if len(part) < table.num_rows:
                        continue  # counted, and refused below
                    for name, column in zip(part.column_names, part.columns):
                        table = table.append_column(name, column)
                    writer = writer or stack.enter_context(self.writer(target, table.schema))
                    writer.write_table(table)
        check_rows(start, len(columns), source[0])


class ParquetFormat(_ArrowFormat):
    """Parquet files, and folders of them."""

    name = "parquet"
    suffixes = (".parquet", ".pq")
    magic = (b"PAR1",)
    packages = ("pyarrow", "pyarrow.parquet")
    in_folders = True

    def open(self, file: BinaryIO, path: Path, options: Options) -> ParquetTable:
        return ParquetTable(file, path)

    def tables(self, path: Path) -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            for group in range(file.metadata.num_row_groups):
                yield file.read_row_group(group).replace_schema_metadata(None)

    def writer(self, target: Any, schema: Any) -> Any:
        return pq.ParquetWriter(target, schema)


class ArrowFormat(_ArrowFormat):
    """Arrow and Feather files."""

    name = "arrow"
    suffixes = (".arrow", ".feather")
    magic = (b"ARROW1",)

    def open(self, file: BinaryIO, path: Path, options: Options) -> ArrowTable:
        return ArrowTable(file, path)

    def tables(self, path: Path) -> Iterator[Any]:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            yield reader.read_all()

    def writer(self, target: Any, schema: Any) -> Any:
        return pa.ipc.new_file(str(target), schema)


PARQUET = ParquetFormat()
ARROW = ArrowFormat()
