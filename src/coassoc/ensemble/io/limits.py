"""How much memory a file may take when it is read: one limit and one estimate for every format.

A small file can declare far more than it holds: compression, run lengths, empty strings, repeated references. Every
reader therefore estimates what decoding takes, before it decodes, and asks a `Limit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FREE_BYTES = 1 << 28  # any file may take this much, however small it is
EXPANSION = 200  # a larger file may take this many times its own size
CELL_BYTES = 8  # a label while a table is read: its index in a block, then its code
ROW_BYTES = 48  # temporary arrays over the rows of one column
COLUMN_BYTES = 2000  # names, arrays and Python objects of one column


@dataclass(frozen=True)
class Limit:
    """The bytes that decoding one file, or the files of one folder, may take."""

    name: str
    size: int
    allowed: int

    @classmethod
    def of(cls, paths: Sequence[Path], max_bytes: int | None, name: str | None = None) -> Limit:
        size = sum(path.stat().st_size for path in paths)
        return cls(name or paths[0].name, size, max(FREE_BYTES, EXPANSION * size) if max_bytes is None else max_bytes)

    def check(self, needed: int, what: str) -> None:
        """Refuse, before memory is taken, content that is far larger than the file."""
        if needed > self.allowed:
            raise ValueError(
                f"{self.name} declares {what}, which take {needed:,} bytes in memory, more than the {self.allowed:,} "
                f"allowed for a file of {self.size:,} bytes; if you trust it, pass max_bytes={needed} (--max-bytes)."
            )

    def check_table(self, n_rows: int, n_columns: int, extra: int = 0) -> None:
        """Refuse a table that is too large; `extra` is what its cells take beside their codes."""
        needed = table_bytes(n_rows, n_columns) + extra
        self.check(needed, f"{n_rows:,} rows of {n_columns:,} columns")


def table_bytes(n_rows: int, n_columns: int) -> int:
    """Estimated peak memory of reading a table of labels into codes."""
    return n_rows * (CELL_BYTES * n_columns + ROW_BYTES) + COLUMN_BYTES * n_columns
