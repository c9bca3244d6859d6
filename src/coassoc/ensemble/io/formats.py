"""The list of file formats, and how a file is recognised. Readers, writers and commands use this list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.plugins import loaded
from .arrays import MatTable, NpyTable, NpzTable
from .arrow import ArrowTable, ParquetTable
from .excel import ExcelTable
from .h5ad import H5adTable
from .table import Format, Options, Piece, Table, naming, open_file
from .text import TextTable, TsvTable

# a zip archive is a workbook where it holds one, so Excel comes before NPZ
FORMATS: list[Format] = [
    TextTable, TsvTable, ParquetTable, ArrowTable, NpyTable, ExcelTable, NpzTable, H5adTable, MatTable
]  # fmt: skip


def formats() -> list[Format]:
    """Every format, those of other packages included."""
    return [*FORMATS, *loaded("formats").values()]


def format_names() -> list[str]:
    """Names of the formats, as ``format=`` takes them."""
    return [known.name for known in formats()]


def several() -> list[Format]:
    """Formats that are written with several columns."""
    return [known for known in formats() if known.write and not known.one_array]


def endings(able: Sequence[Format] | None = None) -> str:
    """First endings of file names of some formats, of all that are written when None, for help and messages."""
    chosen = [known for known in formats() if known.write] if able is None else able
    return ", ".join(known.suffixes[0] for known in chosen)


def format_called(name: str) -> Format:
    """The format of that name."""
    for known in formats():
        if known.name == name:
            return known
    raise ValueError(f"format must be one of {tuple(format_names())}, got {name!r}.")


def suffix_format(path: Path) -> Format | None:
    """The format that the name of a file promises; None when it promises nothing."""
    suffix = Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()
    return next((known for known in formats() if suffix in known.suffixes), None)


def find_format(path: Path, wanted: str | None = None) -> tuple[list[Path], Format]:
    """The files that make one table (one, or those of a folder), and their format, by first bytes and by name."""
    promised = suffix_format(path) if wanted is None else format_called(wanted)
    if path.is_dir():
        return _folder_files(path, wanted)
    with open_file(path) as file:
        head = file.read(64)
    if not head:
        raise ValueError(f"{path.name} is empty; a label table needs a header and at least one row.")
    for known in formats() if promised is None else [promised, *formats()]:
        if head.startswith(known.magic) and (known.name == wanted or known.recognises(path)):
            return [path], known
    if promised is not None and promised.magic:
        way_out = "if it is text, rename it to .csv or pass format='csv' (--format csv)"
        raise ValueError(f"{path.name} is named {path.suffix} but holds something else, by its first bytes; {way_out}.")
    return [path], promised or TextTable


def _folder_files(path: Path, wanted: str | None) -> tuple[list[Path], Format]:
    """The files of a folder that make one table, in the order of their names.

    Names that begin with a dot or an underscore are leftovers and notes of other programs, never data.
    """
    able = [known for known in formats() if known.in_folders]
    inside = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    ]
    for known in able:
        files = [file for file in inside if file.suffix.lower() in known.suffixes]
        if files and wanted in (None, known.name):
            return files, known
    if path.suffix.lower() == ".zarr":
        way_out = f"anndata.read_zarr({path.name!r}).write_h5ad(...)"
        raise ValueError(f"{path.name} is a Zarr store, which is not read; write it as a file: {way_out}.")
    names = ", ".join(known.name for known in able)
    raise ValueError(f"{path.name} is a folder without label files; a folder may hold {names} files, in parts.")


def open_here(known: Format, files: Sequence[Path], path: Path, options: Options) -> Table:
    """The table in some files of one format, read by this process."""
    tables = []
    for name in files:
        with naming(name):
            tables.append(known(name, options))
    return FolderTable(path, tables) if path.is_dir() else tables[0]


class FolderTable(Table):
    """Files with the same columns, one below the other."""

    def __init__(self, path: Path, tables: Sequence[Table]):
        first = tables[0]
        super().__init__(path, first.options)
        for table in tables:
            if set(table.names) != set(first.names):
                one, other = (f"{table.path.name} has columns {table.names}" for table in (table, first))
                raise ValueError(f"{one}, {other}; the files of a folder must have the same columns.")
        self.tables, self.names = tables, first.names
        self.n_rows = sum(table.n_rows or 0 for table in tables)

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for table in self.tables:
            with naming(table.path):
                yield from table.batches(columns, ids)

    def pieces(self) -> list[Piece]:
        return [piece for table in self.tables for piece in table.pieces()]
