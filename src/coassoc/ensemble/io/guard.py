"""What every reader and writer shares: what kind of file this is, size limits, output that is whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .output import check_writable, replacing  # noqa: F401  re-exported until every writer imports them there

FREE_BYTES = 1 << 28  # what any file, however small, may unpack to
EXPANSION = 200  # beyond that, how much larger than the file its content may be

FORMATS = ("csv", "tsv", "parquet", "npy", "npz", "h5ad")
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
    ".h5ad": "h5ad",
}
_MAGIC = {
    b"PAR1": "parquet",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",  # a zip archive without members
    b"\x89HDF\r\n\x1a\n": "h5ad",
    b"\x1f\x8b": "gzip",
}
_FOREIGN = {
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"ARROW1": "an Arrow/Feather file",
    b"%PDF": "a PDF document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


@dataclass
class RawTable:
    """Columns of a file before they are doubted: vectors or `Dictionary` columns, by name."""

    names: list[str]  # every column of the file, also those not read
    columns: dict[str, Any]
    n_rows: int
    notes: dict[str, Any] = field(default_factory=dict)


# which of the columns of a file to read, given all their names
Selector = Callable[[list[str]], list[str]]


def suffix_format(path: Path) -> str | None:
    """The format the name of a file promises, None when it promises nothing."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def file_format(path: Path, wanted: str | None = None) -> tuple[str, bool]:
    """Format of a file, from its first bytes and its name, and whether it is gzip-compressed text."""
    if wanted is not None and wanted not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}, got {wanted!r}.")
    if path.is_dir():
        raise IsADirectoryError(21, "is a folder", str(path))
    with open(path, "rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{path.name} is empty; a label table needs a header and at least one row.")
    promised = wanted or suffix_format(path)
    found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    if found == "npz" and promised != "npz":
        raise ValueError(
            f"{path.name} is a zip archive or an Excel workbook; save the sheet as CSV, or unpack it first."
        )
    if found == "gzip":
        if promised not in (None, "csv", "tsv"):
            raise ValueError(f"{path.name} is gzip-compressed; only CSV and TSV may be: unpack it first.")
        return promised or "csv", True
    if found is not None:
        return found, False
    foreign = next((what for magic, what in _FOREIGN.items() if head.startswith(magic)), None)
    if foreign == "UTF-16 text":
        raise ValueError(f"{path.name} is UTF-16 text; save it as UTF-8.")
    if foreign is not None:
        raise ValueError(f"{path.name} is {foreign}, not a label table; supported are {', '.join(FORMATS)}.")
    if promised in ("parquet", "npy", "npz", "h5ad"):
        raise ValueError(f"{path.name} is not a {promised} file: its first bytes say otherwise; write it again.")
    return promised or "csv", False


def allowed_bytes(path: Path, max_bytes: int | None) -> int:
    """How many bytes the content of a file may take, whatever the file declares."""
    if max_bytes is not None:
        return max_bytes
    return max(FREE_BYTES, EXPANSION * path.stat().st_size)


def check_unpacked(path: Path, declared: int, max_bytes: int | None, what: str = "its content") -> None:
    """Refuse, before any memory is taken, a file that unpacks to far more than its own size."""
    allowed = allowed_bytes(path, max_bytes)
    if declared > allowed:
        raise ValueError(
            f"{path.name} declares {declared:,} bytes for {what}, more than the {allowed:,} allowed for a file of "
            f"{path.stat().st_size:,} bytes; if you trust it, pass max_bytes={declared} (--max-bytes)."
        )
