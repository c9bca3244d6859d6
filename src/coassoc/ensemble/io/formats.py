"""The list of file formats, and how a file is recognised and opened. Readers, writers and commands use this list."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.plugins import loaded
from .arrays import NPY, NPZ
from .excel import EXCEL
from .h5ad import H5AD
from .limits import Limit
from .mat import MAT
from .parquet import ARROW, PARQUET
from .table import Columns, Options, Table, TableFormat, naming
from .text import CSV, TSV

FORMATS: list[TableFormat] = [CSV, TSV, PARQUET, ARROW, NPY, NPZ, H5AD, MAT, EXCEL]

_GZIP = b"\x1f\x8b"
_FOREIGN = {
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"FEA1": "a Feather file of version 1 (write it with a present pandas)",
    b"%PDF": "a PDF document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program",
}
_FOREIGN_NAMES = (".xls", ".ods", ".pkl", ".pickle", ".rds", ".json")


def formats() -> list[TableFormat]:
    """Every format, those of other packages included."""
    return [*FORMATS, *loaded("formats").values()]


def format_names() -> list[str]:
    """Names of the formats, as ``format=`` takes them."""
    return [known.name for known in formats()]


def format_called(name: str) -> TableFormat:
    """The format of that name."""
    for known in formats():
        if known.name == name:
            return known
    raise ValueError(f"format must be one of {tuple(format_names())}, got {name!r}.")


def suffix_format(path: Path) -> TableFormat | None:
    """The format that the name of a file promises; None when it promises nothing."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return next((known for known in formats() if suffixes and suffixes[-1] in known.suffixes), None)


def find_format(path: Path, wanted: str | None = None) -> TableFormat:
    """Format of a file, from its first bytes and its name."""
    promised = suffix_format(path) if wanted is None else format_called(wanted)
    _check_regular(path)
    with open(path, "rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{path.name} is empty; a label table needs a header and at least one row.")
    found = next((known for known in formats() if any(map(head.startswith, known.magic))), None)
    if found is NPZ and promised is not NPZ:
        if _is_workbook(path):
            return EXCEL
        if path.suffix:
            raise ValueError(f"{path.name} is a zip archive, not a label table; unpack it first.")
    if found is not None:
        return found
    if head.startswith(_GZIP) and promised is not None and not promised.is_text:
        raise ValueError(f"{path.name} is gzip-compressed; only CSV and TSV may be: unpack it first.")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path.name} is UTF-16 text; save it as UTF-8.")
    foreign = next((what for magic, what in _FOREIGN.items() if head.startswith(magic)), None)
    if foreign is not None:
        raise ValueError(f"{path.name} is {foreign}, not a label table; supported are {', '.join(format_names())}.")
    if promised is not None and promised.magic and promised not in (EXCEL, MAT, ARROW):
        raise ValueError(f"{path.name} is not a {promised.name} file: its first bytes say otherwise; write it again.")
    if (promised is not None and promised.magic) or path.suffix.lower() in _FOREIGN_NAMES:
        raise ValueError(
            f"{path.name} is named {path.suffix} but holds something else; if it is a text table, rename it to .csv or "
            "pass format='csv' (--format csv)."
        )
    return promised or CSV


def _is_workbook(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return False


def _check_regular(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(21, "is a folder", str(path))
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(
            f"{path.name} is a pipe or a device, which cannot be read twice; write it to a file, or send it to "
            "standard input (-)."
        )


def open_table(path: Path, format: str | None = None, options: Options | None = None) -> tuple[Table, TableFormat]:
    """The table in a file, or in the files of a folder, and its format."""
    options = options or Options()
    files, known = folder_files(path, format) if path.is_dir() else ([path], find_format(path, format))
    tables = []
    for file in files:
        with naming(file):
            tables.append(known.open(file, options))
    table = FolderTable(path, tables, options) if path.is_dir() else tables[0]
    if len(set(table.names)) < len(table.names):
        twice = next(name for name in table.names if table.names.count(name) > 1)
        raise ValueError(
            f"{path.name} has two columns named {twice!r}; rename one of them, or pass header=False (--no-header) if "
            "its first row is data."
        )
    if table.n_rows == 0:
        raise ValueError(f"{path.name} has columns but no rows; a label table needs one row per item.")
    return table, known


def folder_files(path: Path, format: str | None = None) -> tuple[list[Path], TableFormat]:
    """The files of a folder that make one table, in the order of their names.

    Names that begin with a dot or an underscore are leftovers and notes of other programs, never data.
    """
    for known in formats() if format is None else [format_called(format)]:
        if not known.in_folders:
            continue
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix.lower() in known.suffixes
            and file.is_file()
            and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        ]
        if files:
            return files, known
    if path.suffix.lower() == ".zarr":
        way_out = f"anndata.read_zarr({path.name!r}).write_h5ad(...)"
        raise ValueError(f"{path.name} is a Zarr store, which is not read; write it as h5ad: {way_out}.")
    able = ", ".join(known.name for known in formats() if known.in_folders)
    raise ValueError(f"{path.name} is a folder without label files; a folder may hold {able} files, in parts.")


class FolderTable(Table):
    """Files with the same columns, one below the other."""

    def __init__(self, path: Path, tables: Sequence[Table], options: Options):
        super().__init__(path, Limit.of([table.path for table in tables], options.max_bytes, path.name))
        first = tables[0]
        for table in tables:
            if set(table.names) != set(first.names):
                raise ValueError(
                    f"{table.path.name} has columns {table.names}, but {first.path.name} has {first.names}; the files "
                    f"of the folder {path.name} must have the same columns."
                )
        self.tables, self.names = tables, first.names
        self.n_rows = sum(table.n_rows or 0 for table in tables)
        self.guess_ids, self.must_choose = first.guess_ids, first.must_choose

    def batches(self, columns: Sequence[str]) -> Iterator[Columns]:
        for table in self._filled():
            with naming(table.path):
                yield from table.batches(columns)

    def blocks(self, columns: Sequence[str]) -> list[Any]:
        return [block for table in self._filled() for block in table.blocks(columns)]

    def _filled(self) -> list[Table]:
        return [table for table in self.tables if table.n_rows] or [self.tables[0]]
