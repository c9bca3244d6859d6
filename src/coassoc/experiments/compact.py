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

_WHOLE = ("seed", "n_partitions", "n_init", "n_clusters", "repeat", "n_samples", "clusters", "method_seed")
_REAL = ("nmi", "density", "seconds", "peak_mib", "extra_mib")
_WORDS = ("dataset", "data", "scaling", "method", "spec", "ensemble", "variant", "versions", "error")
COLUMNS = (
    "dataset", "scaling", "repeat", "method", "nmi", "density", "clusters", "seconds", "peak_mib", "extra_mib",
    "n_samples", "variant", "method_seed", "ensemble", "data", "spec", "seed", "n_partitions", "n_init", "n_clusters",
    "versions", "error",
)  # fmt: skip


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
    row: Row = {name: line[name] for name in _WORDS if name != "error"}
    row |= {name: int(line[name]) for name in _WHOLE}
    row |= {name: float(line[name]) if line[name] else None for name in _REAL}
    if line["error"]:
        row["error"] = line["error"]
    return row
