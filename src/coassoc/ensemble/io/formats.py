"""What a file format provides, the list of formats, and how a file is recognised and opened."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import Any, BinaryIO

import numpy as np

from ...core.plugins import loaded

# modules of this folder and their classes; a zip archive is a workbook where it holds one, so Excel comes before NPZ
FORMATS = (
    "text:TextTable", "text:TsvTable", "arrow:ParquetTable", "arrow:ArrowTable", "arrays:NpyTable",
    "excel:ExcelTable", "arrays:NpzTable", "h5ad:H5adTable", "arrays:MatTable",
)  # fmt: skip
BLOCK_ROWS = 1 << 20  # rows of a piece, where a file leaves the choice
FREE_BYTES = 1 << 28  # any file may unpack to this much, however small it is
EXPANSION = 200  # a larger file may unpack to this many times its own size
_OURS = str(Path(__file__).parents[2])
_CHECKED_IN_MEMORY = ("partitions", "features", "columns")  # first words of errors about tables in memory


class Package:
    """An optional package, imported when it is first used: arrays in memory need none of them."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


pa: Any = Package("pyarrow")
h5py: Any = Package("h5py")


# -- what a format provides ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """What a user may say about a file, as of `read_ensemble`; a format ignores what does not concern it."""

    columns: Any = None  # names and patterns; one of them may come alone
    exclude: Any = ()
    id_column: str | bool | None = None
    class_column: str | bool | None = None
    format: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    max_bytes: int | None = None
    trusted: bool = False

    def __post_init__(self) -> None:
        for name in ("columns", "exclude"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, [given] if isinstance(given, str) else list(given))

    def allowed(self, files: Sequence[Path]) -> int:
        """Bytes that these files may unpack to."""
        if self.max_bytes is not None:
            return self.max_bytes
        return max(FREE_BYTES, EXPANSION * sum(file.stat().st_size for file in files))


class Table:
    """A file format: the class says how its files are recognised and written, an instance is an open label file.

    A new format is a subclass, and one line in `FORMATS`.
    """

    # the format
    name: str  # what ``format=`` calls it
    suffixes: tuple[str, ...]  # endings of file names
    magic: tuple[bytes, ...] = ()  # how its files begin; empty for text
    packages: tuple[str, ...] = ("pyarrow",)  # what it needs, and the extra of coassoc that installs it
    extra = "io"
    guarded = True  # whether a child process reads files that are not trusted
    is_text = False  # whether files may be gzip-compressed and written to standard output
    by_rows = False  # whether any rows can be read alone: `where` is the first one and their number
    in_folders = False  # whether a folder of such files is one table
    one_array = False  # whether it holds one column, or a table without names, ids and classes
    replaces = False  # whether `append` can replace a column of the source
    # class methods, where files are written:
    # (target, content): a new file at `target`, a path, or an open binary file when `is_text`
    write: Any = None
    # (source, target, columns, options, force): the content of the files `source` with more Arrow columns, by name
    append: Any = None

    # an open file
    names: list[str]  # columns that may be partitions, in the order of the file
    n_rows: int | None = None  # None when rows are only counted by reading them
    id_name: str | None = None  # columns that the format itself defines as ids and classes; not among `names`
    class_name: str | None = None
    guess_ids = True  # whether a column may be taken for ids because of its name
    # partitions when the user names none; None: every column that may be one by its first rows; []: an error
    guess: list[str] | None = None
    notes: Sequence[str] = ()  # what the user should know, for warnings
    hint = ""  # what may be wrong with the columns, for errors
    array: np.ndarray | None = None  # the whole table where it needs no reading
    file: Any = None  # what `close` closes

    def __init__(self, path: Path, options: Options, file: BinaryIO | None = None):
        """`file` is the file at `path` where it is open already."""
        self.path, self.options, self.file = path, options, file

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        """The columns named as Arrow record batches (or arrays), in row order: all rows, or those of a piece.

        The column `ids` is read as text. Columns of cells have the metadata `coding.CELLS`.
        """
        raise NotImplementedError

    def pieces(self) -> list[tuple[str, Any, int]]:
        """The table in pieces that can be read alone and in other processes: the file, `where` as `batches` takes it,
        in plain values, and the number of rows."""
        n_rows = self.n_rows or 0
        if not self.by_rows:
            return [(str(self.path), None, n_rows)]
        sizes = {start: min(BLOCK_ROWS, n_rows - start) for start in range(0, n_rows, BLOCK_ROWS)}
        return [(str(self.path), [start, rows], rows) for start, rows in sizes.items()]

    def opened(self) -> BinaryIO:
        """The file, open and at its beginning."""
        if self.file is None or self.file.closed:
            self.file = open_file(self.path)
        self.file.seek(0)
        return self.file

    def close(self) -> None:
        """Let go of the file."""
        if self.file is not None:
            self.file.close()

    def __del__(self) -> None:
        self.close()

    @classmethod
    def recognises(cls, file: BinaryIO) -> bool:
        """Whether an open file that begins as `magic` says is one."""
        return True

    @classmethod
    def check_packages(cls) -> None:
        """Refuse to go on without an optional package, with the line that installs it."""
        for package in cls.packages:
            if find_spec(package) is None:
                raise ImportError(f"{cls.name} files need {package}: pip install 'coassoc[{cls.extra}]'.")


Format = type[Table]


# -- the list of formats -------------------------------------------------------------------------------------------


@cache
def _own_formats() -> list[Format]:
    named = (entry.split(":") for entry in FORMATS)
    return [getattr(import_module(f".{module}", __package__), name) for module, name in named]


def formats() -> list[Format]:
    """Every format, those of other packages included."""
    return [*_own_formats(), *loaded("formats").values()]


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


# -- files ---------------------------------------------------------------------------------------------------------


def open_file(path: Path) -> BinaryIO:
    """A regular file, open for reading."""
    if not stat.S_ISREG(path.stat().st_mode):
        way_out = "write it to a file, or send it to standard input (-)"
        raise ValueError(f"{path.name} is a pipe or a device, which cannot be read twice; {way_out}.")
    return open(path, "rb")


def find_format(path: Path, wanted: str | None = None, file: BinaryIO | None = None) -> tuple[list[Path], Format]:
    """The files that make one table (one, or those of a folder), and their format, by first bytes and by name.

    `file` is the file where it is open already.
    """
    promised = suffix_format(path) if wanted is None else format_called(wanted)
    if path.is_dir():
        return _folder_files(path, wanted)
    if file is None:
        with open_file(path) as file:
            return find_format(path, wanted, file)
    head = file.read(64)
    if not head:
        raise ValueError(f"{path.name} is empty; a label table needs a header and at least one row.")
    for known in formats() if promised is None else [promised, *formats()]:
        if head.startswith(known.magic) and (known.name == wanted or known.recognises(file)):
            return [path], known
    if promised is not None and promised.magic:
        way_out = "if it is text, rename it to .csv or pass format='csv' (--format csv)"
        raise ValueError(f"{path.name} is named {path.suffix} but holds something else, by its first bytes; {way_out}.")
    return [path], promised or format_called("csv")


def table_format(path: Any, format: str | None = None, source: Any = None) -> Format:
    """The format to write: `format`, or what the name of the file says; to standard output text as of the source."""
    able = [known for known in formats() if known.write]
    found = format_called(format) if format else suffix_format(Path(path))
    if str(path) == "-" and format is None:
        origin = None if source is None else find_format(Path(source))[1]
        found = origin if origin is not None and origin.is_text else format_called("csv")
    if found not in able:
        unknown = f"the name {Path(path).name!r} does not say which format to write"
        what = f"{found.name} files are read, not written" if found else unknown
        raise ValueError(f"{what}; end the name in one of {endings()}.")
    found.check_packages()
    return found


def joins_source(path: Any, source: Any, format: str | None = None) -> bool:
    """Whether labels written to `path` become a column beside everything that `source` holds."""
    if source is None:
        return False
    found = table_format(path, format, source)
    return found.append is not None and found is find_format(Path(source))[1]


def _folder_files(path: Path, wanted: str | None) -> tuple[list[Path], Format]:
    """The files of a folder that make one table, in the order of their names.

    Names that begin with a dot or an underscore are leftovers and notes of other programs, never data.
    """
    able = [known for known in formats() if known.in_folders and wanted in (None, known.name)]
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


def open_here(
    known: Format, files: Sequence[Path], path: Path, options: Options, file: BinaryIO | None = None
) -> Table:
    """The table in some files of one format, read by this process; `file` is the only one where it is open already."""
    tables = []
    for name in files:
        with naming(name):
            tables.append(known(name, options, file))
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

    def pieces(self) -> list[tuple[str, Any, int]]:
        return [piece for table in self.tables for piece in table.pieces()]


# -- errors --------------------------------------------------------------------------------------------------------


class DamagedFile(Exception):
    """What is wrong with the content of a file; `naming` adds which file, and what to do."""


class TooLarge(ValueError):
    """A file unpacks to more than it may."""

    def __init__(self, path: Path, allowed: int):
        super().__init__(
            f"{path.name} unpacks to more than the {allowed:,} bytes allowed for a file of its size; if you trust it, "
            "pass a larger max_bytes (--max-bytes), or trusted=True (--trusted)."
        )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors about the content of a file, of whatever library, are ValueErrors that name it.

    What our own code raises, other than a ValueError, is a fault of ours and passes.
    """
    try:
        yield
    except (MemoryError, ImportError, Warning, TooLarge):
        raise
    except Exception as error:
        # of the system: libraries raise a plain OSError, or seek to before the start of a file (an invalid argument)
        system = isinstance(error, OSError) and (type(error) is not OSError or error.errno not in (None, errno.EINVAL))
        if system or type(error).__module__.partition(".")[0] in ("distributed", "dask", "concurrent", "asyncio"):
            raise
        in_memory = type(error) is TypeError and str(error).startswith(_CHECKED_IN_MEMORY)
        if in_memory or type(error) is ValueError:
            if path.name in str(error):
                raise
            raise ValueError(f"{path.name}: {error}") from error
        ours = extract_tb(error.__traceback__)[-1].filename.startswith(_OURS)
        if ours and not isinstance(error, (ValueError, OSError, DamagedFile)):
            raise
        reason = " ".join(str(error).split())[:120].rstrip(".") or type(error).__name__
        raise ValueError(f"{path.name} is damaged or protected ({reason}); write it again.") from error


def check_added(columns: Any, names: Sequence[str], n_rows: int, source: Path) -> None:
    """Refuse new Arrow columns that the source already has, or that are for other items."""
    for name in set(columns.column_names) & set(names):
        raise ValueError(f"{source.name} already has a column {name!r}; choose another with name= (--name).")
    if n_rows != len(columns):
        raise ValueError(f"{source.name} has {n_rows} rows, but there are {len(columns)} labels.")


def listing(names: Sequence[str]) -> str:
    """Some of the names, for a message."""
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
