"""The list of file formats, and how a file is recognised and opened. Readers, writers and commands use this list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ...core.plugins import loaded
from .arrays import NpyTable, NpzTable
from .arrow import ArrowTable, ParquetTable
from .excel import ExcelTable
from .guard import GuardedTable
from .h5ad import H5adTable
from .mat import MatTable
from .table import Format, Options, Piece, Table, naming, open_file
from .text import TextTable, TsvTable

# a zip archive is a workbook where it holds one, so Excel comes before NPZ
FORMATS: list[Format] = [
    TextTable, TsvTable, ParquetTable, ArrowTable, NpyTable, ExcelTable, NpzTable, H5adTable, MatTable
]  # fmt: skip

_FOREIGN = {
    "a zip archive": (b"PK\x03\x04",),
    "a pickle": (b"\x80\x04", b"\x80\x05"),
    "an old Excel or Word file": (b"\xd0\xcf\x11\xe0",),
    "a compressed archive": (b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"),
    "UTF-16 text (save it as UTF-8)": (b"\xff\xfe", b"\xfe\xff"),
}
_FOREIGN_NAMES = (".xls", ".ods", ".pkl", ".pickle", ".rds", ".json")


def formats() -> list[Format]:
    """Every format, those of other packages included."""
    return [*FORMATS, *loaded("formats").values()]


def format_names() -> list[str]:
    """Names of the formats, as ``format=`` takes them."""
    return [known.name for known in formats()]


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
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return next((known for known in formats() if suffixes and suffixes[-1] in known.suffixes), None)


def find_format(head: bytes, path: Path, wanted: str | None = None) -> Format:
    """Format of a file, from its first bytes and its name."""
    promised = suffix_format(path) if wanted is None else format_called(wanted)
    if not head:
        raise ValueError(f"{path.name} is empty; a label table needs a header and at least one row.")
    if wanted is not None and promised is not None and any(map(head.startswith, promised.magic)):
        return promised
    for known in formats() if promised is None else [promised, *formats()]:
        if any(map(head.startswith, known.magic)) and known.recognises(path):
            return known
    for what, magic in _FOREIGN.items():
        if head.startswith(magic):
            raise ValueError(f"{path.name} is {what}, not a label table; supported are {', '.join(format_names())}.")
    if (promised is not None and promised.magic) or path.suffix.lower() in _FOREIGN_NAMES:
        raise ValueError(
            f"{path.name} is named {path.suffix} but holds something else, by its first bytes; if it is a text "
            "table, rename it to .csv or pass format='csv' (--format csv)."
        )
    return promised or TextTable


def source_files(path: Path, format: str | None = None) -> tuple[list[Path], Format]:
    """The files that make one table (one, or those of a folder), and their format."""
    if format is not None:
        format_called(format)
    if path.is_dir():
        return _folder_files(path, format)
    with open_file(path) as file:
        return [path], find_format(file.read(64), path, format)


def open_table(path: Path, format: str | None = None, options: Options | None = None) -> tuple[Table, Format]:
    """The table in a file, or in the files of a folder, and its format."""
    options = options or Options()
    if path.is_dir():
        files, known = source_files(path, format)
        table = open_with(known, files, path, options)
    else:
        if format is not None:
            format_called(format)
        file = open_file(path)
        try:
            known = find_format(file.read(64), path, format)
            table = open_with(known, [path], path, options, file)
        except BaseException:
            file.close()
            raise
    twice = next((name for name, count in Counter(table.names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(
            f"{path.name} has two columns named {twice!r}; rename one of them, or pass header=False (--no-header) if "
            "its first row is data."
        )
    if table.n_rows == 0:
        raise ValueError(f"{path.name} has columns but no rows; a label table needs one row per item.")
    return table, known


def open_with(
    known: Format, files: Sequence[Path], path: Path, options: Options, file: BinaryIO | None = None
) -> Table:
    """The table in some files of one format: read by a child process, or here when the format or the user says so.

    `file` is the only one of them, when it is open already.
    """
    known.check_packages()
    if known.guarded and not options.trusted:
        if file is not None:
            file.close()
        return GuardedTable(known, files, path, options)
    return open_here(known, files, path, options, file)


def open_here(
    known: Format, files: Sequence[Path], path: Path, options: Options, file: BinaryIO | None = None
) -> Table:
    """The table in some files of one format, read by this process."""
    tables = []
    for name in files:
        with naming(name):
            tables.append(known(file or open_file(name), name, options))
    return FolderTable(path, tables) if path.is_dir() else tables[0]


def _folder_files(path: Path, format: str | None = None) -> tuple[list[Path], Format]:
    """The files of a folder that make one table, in the order of their names.

    Names that begin with a dot or an underscore are leftovers and notes of other programs, never data.
    """
    able = [known for known in formats() if known.in_folders and format in (None, known.name)]
    inside = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    ]
    for known in able:
        files = [file for file in inside if file.suffix.lower() in known.suffixes]
        if files:
            return files, known
    if path.suffix.lower() == ".zarr":
        way_out = f"anndata.read_zarr({path.name!r}).write_h5ad(...)"
        raise ValueError(f"{path.name} is a Zarr store, which is not read; write it as a file: {way_out}.")
    names = ", ".join(known.name for known in formats() if known.in_folders)
    raise ValueError(f"{path.name} is a folder without label files; a folder may hold {names} files, in parts.")


class FolderTable(Table):
    """Files with the same columns, one below the other."""

    def __init__(self, path: Path, tables: Sequence[Table]):
        super().__init__(None, path, tables[0].options)
        first = tables[0]
        for table in tables:
            if set(table.names) != set(first.names):
                raise ValueError(
                    f"{table.path.name} has columns {table.names}, but {first.path.name} has {first.names}; the files "
                    f"of the folder {path.name} must have the same columns."
                )
        self.tables, self.names = tables, first.names
        self.n_rows = sum(table.n_rows or 0 for table in tables)

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        for table in self.tables:
            with naming(table.path):
                yield from table.batches(columns, ids)

    def pieces(self) -> list[Piece]:
        return [piece for table in self.tables for piece in table.pieces()]
