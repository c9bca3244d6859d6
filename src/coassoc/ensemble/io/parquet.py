"""Parquet -> columns, row groups streamed, dictionary columns kept as dictionaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..encode import Dictionary
from .guard import RawTable, Selector, check_unpacked

_BATCH_ROWS = 1 << 17


def import_parquet() -> Any:
    """pyarrow's Parquet module, or the line that installs it."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'coassoc[io]'.") from None
    return pq


def read_parquet(path: Path, select: Selector, *, max_bytes: int | None = None) -> RawTable:
    """Wanted columns of a Parquet file; strings and categories become `Dictionary` columns."""
    pq = import_parquet()
    import pyarrow as pa

    try:
        with pq.ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"{path.name} has two columns named {twice!r}; rename one of them.")
            wanted = select(names)
            for name in wanted:
                if pa.types.is_nested(file.schema_arrow.field(name).type):
                    raise ValueError(f"{path.name}: column {name!r} holds lists or records; a label is one value.")
            _check_declared(file, wanted, names, path, max_bytes)
            if file.metadata.num_rows == 0:
                raise ValueError(f"{path.name} has columns but no rows; a label table needs one row per item.")
            texts = [name for name in wanted if _is_text(file.schema_arrow.field(name).type)]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            columns = _stream(file, wanted)
            n_rows = file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path.name} is a damaged Parquet file ({_first_line(error)}); write it again.") from None
    if any(len(column) != n_rows for column in columns.values()):
        raise ValueError(f"{path.name} is a damaged Parquet file: columns of different lengths; write it again.")
    return RawTable(names, columns, n_rows)


def _check_declared(file: Any, wanted: list[str], names: list[str], path: Path, max_bytes: int | None) -> None:
    """Row groups say how large they become; run lengths can hide far more rows than bytes."""
    places = [names.index(name) for name in wanted]
    unpacked = 0
    for g in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(g)
        if group.num_columns == len(names):
            unpacked += sum(max(0, group.column(j).total_uncompressed_size) for j in places)
        else:
            unpacked += max(0, group.total_byte_size)
    codes = 4 * file.metadata.num_rows * len(wanted)
    check_unpacked(path, max(unpacked, codes), max_bytes, f"{file.metadata.num_rows:,} rows")


def _stream(file: Any, wanted: list[str]) -> dict[str, Any]:
    """Columns put together batch by batch, so that only one batch is unpacked at a time."""
    import pyarrow as pa

    known: dict[str, dict[Any, int]] = {name: {} for name in wanted}
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    plain: dict[str, list[Any]] = {name: [] for name in wanted}
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
        for name in wanted:
            column = batch.column(batch.schema.get_field_index(name))
            if isinstance(column, pa.DictionaryArray):
                seen = known[name]
                places = [
                    -1 if label is None else seen.setdefault(label, len(seen))
                    for label in column.dictionary.to_pylist()
                ]
                lookup = np.array([*places, -1], dtype=np.int32)
                pieces[name].append(lookup[column.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
            else:
                plain[name].append(column)
    columns: dict[str, Any] = {}
    for name in wanted:
        if pieces[name]:
            labels = np.empty(len(known[name]), dtype=object)
            labels[:] = list(known[name])
            columns[name] = Dictionary(np.concatenate(pieces[name]), labels)
        else:
            columns[name] = pa.chunked_array(plain[name])
    return columns


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:120].rstrip(".") if lines else type(error).__name__
