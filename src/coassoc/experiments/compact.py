"""Rows of an evaluation as one small compressed table."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..ensemble.io.output import replacing
from .store import Row, RowStore, row_key

COLUMNS: dict[str, type] = {
    "dataset": str, "scaling": str, "repeat": int, "method": str, "nmi": float, "density": float, "clusters": int,
    "seconds": float, "peak_mib": float, "extra_mib": float, "n_samples": int, "variant": str, "method_seed": int,
    "ensemble": str, "data": str, "spec": str, "seed": int, "n_partitions": int, "n_init": int, "n_clusters": int,
    "versions": str, "error": str,
}  # fmt: skip


def write_compact(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as gzipped CSV in the order of their keys: the same rows always give the same bytes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in sorted(rows, key=lambda r: (*map(str, row_key(r)[:7]), r["repeat"], r["method"])):
        writer.writerow(["" if row.get(name) is None else _cell(row[name]) for name in COLUMNS])
    with replacing(path, force=True) as partial:
        partial.write_bytes(gzip.compress(out.getvalue().encode(), 9, mtime=0))


def _cell(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def read_rows(path: Path) -> list[Row]:
    """Rows from a store (.jsonl) or from the table of `write_compact` (.csv.gz)."""
    if not path.name.endswith(".csv.gz"):
        if not path.is_file():
            raise ValueError(f"there is no file of rows {str(path)!r}.")
        return RowStore(path).read()
    try:
        text = gzip.decompress(path.read_bytes()).decode()
        lines = list(csv.DictReader(io.StringIO(text)))
        return [_row(line) for line in lines]
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, KeyError, ValueError) as error:
        raise ValueError(f"{path.name} is not a table of rows: {error}.") from None


def _row(line: dict[str, str]) -> Row:
    kinds = {name: kind for name, kind in COLUMNS.items() if name != "error" or line["error"]}
    return {name: None if kind is float and not line[name] else kind(line[name]) for name, kind in kinds.items()}
