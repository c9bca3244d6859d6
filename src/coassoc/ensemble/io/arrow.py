"""Parquet, Arrow and Feather files (version 2 of which are Arrow files), by pyarrow; text is kept as dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .coding import Content, record_batch
from .formats import DamagedFile, Options, Package, Table, check_added, pa

pq: Any = Package("pyarrow.parquet")
_BATCH_CELLS = 1 << 21  # cells decoded at a time


class _ArrowTable(Table):
    """A file with a schema, in parts: row groups or record batches."""

    schema: Any
    sizes: list[int]  # rows of each part
    tables: Any  # the content of a file in parts
    writer: Any  # writes such parts

    def _read(self, parts: Sequence[int], columns: list[str], ids: str | None) -> Iterator[Any]:
        """The record batches of some parts."""
        raise NotImplementedError

    def pieces(self) -> list[tuple[str, Any, int]]:
        return [(str(self.path), part, rows) for part, rows in enumerate(self.sizes) if rows]

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for name in columns:
            if pa.types.is_nested(self.schema.field(name).type):
                raise ValueError(f"{self.path.name}: column {name!r} holds lists or records; a label is one value.")
        parts = range(len(self.sizes)) if where is None else [where]
        left = sum(self.sizes[part] for part in parts)
        for batch in self._read(parts, list(columns), ids):
            left -= len(batch)
            found = {name: batch.column(name) for name in columns}
            for name, column in found.items():
                if isinstance(column, pa.DictionaryArray) and len(column.dictionary) > len(column):
                    found[name] = column.dictionary_decode()  # pyarrow lists the labels of all earlier batches too
            yield record_batch(found)
        if left:
            raise DamagedFile("it has not the rows that it declares")

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        table = pa.table(content.arrow())
        with cls.writer(target, table.schema) as out:
            out.write_table(table)

    @classmethod
    def append(cls, source: Sequence[Path], target: Any, columns: Any, options: Options, force: bool) -> None:
        """The content in parts, each with its share of the new columns."""
        first = cls(source[0], options)
        first.close()
        schema, start = pa.schema([*first.schema, *columns.schema]), 0
        with cls.writer(target, schema) as out:
            for table in (table for path in source for table in cls.tables(path)):
                part = columns.slice(start, table.num_rows)
                start += table.num_rows
                if len(part) == table.num_rows:  # else refused below
                    parts = [*table.select(first.names).columns, *part.columns]
                    out.write_table(pa.table(parts, schema=schema))
        check_added(columns, first.names, start, source[0])


class ParquetTable(_ArrowTable):
    """A Parquet file, by row groups; a folder of them is one table."""

    name, suffixes, magic, in_folders = "parquet", (".parquet", ".pq"), (b"PAR1",), True
    packages = ("pyarrow", "pyarrow.parquet")

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        metadata = pq.read_metadata(self.opened())
        self.sizes = [int(metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]
        if metadata.num_rows != sum(self.sizes) or min(self.sizes, default=0) < 0:
            raise DamagedFile("its row groups do not add up")
        self.schema = metadata.schema.to_arrow_schema()
        self.names, self.n_rows = list(self.schema.names), sum(self.sizes)

    def _read(self, parts: Sequence[int], columns: list[str], ids: str | None) -> Iterator[Any]:
        texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        coded = [name for name in columns if self.schema.field(name).type in texts and name != ids]
        step = max(1024, min(1 << 17, _BATCH_CELLS // len(columns)))
        reader = pq.ParquetFile(self.opened(), read_dictionary=coded)
        yield from reader.iter_batches(step, row_groups=parts, columns=columns, use_threads=False)

    @staticmethod
    def tables(path: Path) -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            for group in range(file.metadata.num_row_groups):
                yield file.read_row_group(group)

    @staticmethod
    def writer(target: Any, schema: Any) -> Any:
        return pq.ParquetWriter(target, schema)


class ArrowTable(_ArrowTable):
    """A file of record batches: Arrow and Feather."""

    name, suffixes, magic = "arrow", (".arrow", ".feather"), (b"ARROW1",)

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        self.reader = pa.ipc.open_file(self.opened())
        self.schema = self.reader.schema
        self.sizes = [batch.num_rows for batch in self._read(range(self.reader.num_record_batches), [], None)]
        self.names, self.n_rows = list(self.schema.names), sum(self.sizes)

    def _read(self, parts: Sequence[int], columns: list[str], ids: str | None) -> Iterator[Any]:
        for part in parts:
            batch = self.reader.get_batch(part)
            batch.validate(full=True)  # offsets that lead elsewhere would crash
            yield batch

    @staticmethod
    def tables(path: Path) -> Iterator[Any]:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            yield reader.read_all()

    @staticmethod
    def writer(target: Any, schema: Any) -> Any:
        return pa.ipc.new_file(str(target), schema)
