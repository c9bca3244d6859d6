"""Arrow files, which Feather files (version 2) are too, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .guarded import try_reading
from .limits import Limit
from .parquet import arrow_array, arrow_table, import_parquet
from .table import Columns, Content, Options, Piece, Table, TableFormat, naming_damage
from .text import check_new

_TRIAL = "coassoc.ensemble.io.arrow:read_all"  # how far a compressed buffer unpacks is only known by trying


class ArrowTable(Table):
    """A file of record batches."""

    def __init__(self, path: Path, limit: Limit):
        super().__init__(path, limit)
        try_reading(_TRIAL, path, limit)
        with _opened(path) as reader:
            self.names = list(reader.schema.names)
            nested = [field.name for field in reader.schema if field.type.num_fields]
        if nested or len(set(self.names)) < len(self.names):
            what = f"column {nested[0]!r} holds lists or records" if nested else "two columns have one name"
            raise ValueError(f"{path.name}: {what}; a label table has named columns of single values.")
        self.sizes = read_all(path, limit)
        self.n_rows = sum(self.sizes)
        if self.n_rows == 0:
            raise ValueError(f"{path.name} has columns but no rows; a label table needs one row per item.")
        limit.check_table(self.n_rows, len(self.names))

    def blocks(self, columns: Sequence[str]) -> list[Piece]:
        return [Piece(self.read, (tuple(columns), i), rows) for i, rows in enumerate(self.sizes) if rows]

    def read(self, columns: Sequence[str], *piece: Any) -> Columns:
        with _opened(self.path) as reader:
            batch = reader.get_batch(piece[0])
            return {name: batch.column(reader.schema.get_field_index(name)) for name in columns}


def read_all(path: Path, limit: Limit) -> list[int]:
    """Rows of each batch, all of which are read, checked, and dropped: offsets that lead elsewhere would crash."""
    sizes = []
    with _opened(path) as reader:
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            batch.validate(full=True)
            sizes.append(batch.num_rows)
    return sizes


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import_parquet()
    import pyarrow as pa

    damage = naming_damage(path, "Arrow file", (pa.ArrowException, OSError, KeyError))
    with damage, pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        yield reader


class ArrowFormat(TableFormat):
    """Arrow and Feather files."""

    table = ArrowTable
    name = "arrow"
    suffixes = (".arrow", ".feather")
    magic = (b"ARROW1",)

    def write(self, target: Any, content: Content) -> None:
        _write(target, arrow_table(content))

    def append(
        self, source: Sequence[Path], target: Any, columns: dict[str, np.ndarray], options: Options, force: bool
    ) -> None:
        (path,) = source
        self.open(path, options)  # checks the file
        with _opened(path) as reader:
            table = reader.read_all()
            check_new(columns, table.column_names, path)
            for name, column in columns.items():
                if len(column) != table.num_rows:
                    raise ValueError(f"{path.name} has {table.num_rows} rows, but there are {len(column)} labels.")
                table = table.append_column(name, arrow_array(np.asarray(column)))
            _write(target, table)


def _write(target: Any, table: Any) -> None:
    import pyarrow as pa

    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


ARROW = ArrowFormat()
