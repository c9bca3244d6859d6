"""What a file format provides: how its files are recognised, opened, read in pieces, and written."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .limits import Limit

BLOCK_ROWS = 1 << 20  # rows of a block, where a file leaves the choice

# what `Table.batches` yields: columns by name, each an array, an Arrow array, a `Dictionary` or a pair (values, nulls)
Columns = dict[str, Any]


class DamagedFile(Exception):
    """What is wrong with the content of a file; `naming` adds which file, and what to do."""


@dataclass(frozen=True)
class Options:
    """What a user may say about a file; a format ignores what does not concern it."""

    delimiter: str | None = None
    header: bool | None = None
    max_bytes: int | None = None


class Table:
    """An open label file. Opening reads what the file declares about itself and none of its columns."""

    names: list[str]  # columns that may be partitions, in the order of the file
    n_rows: int | None = None  # None when rows are only counted by reading them
    id_name: str | None = None  # columns that the format itself defines as ids and classes; not among `names`
    class_name: str | None = None
    guess_ids = True  # whether a column may be taken for ids because of its name
    must_choose = False  # whether the user has to name the partitions
    guess: list[str] | None = None  # the partitions when the user names none; every column when None
    inspect = True  # whether columns may turn out to be no clusterings

    def __init__(self, path: Path, limit: Limit):
        self.path, self.limit = path, limit

    def batches(self, columns: Sequence[str]) -> Iterator[Columns]:
        """The columns named, some rows at a time, in row order."""
        for block in self.blocks(columns):
            yield block.read()

    def blocks(self, columns: Sequence[str]) -> list[Any]:
        """Pieces that can be read alone and in other processes: each has ``rows`` and ``read()``. One by default."""
        return [Piece(self.path, self.read, (tuple(columns),), self.n_rows)]

    def read(self, columns: Sequence[str], *piece: Any) -> Columns:
        """The columns named: whole, or of the piece that `blocks` chose."""
        raise NotImplementedError

    def heads(self, columns: Sequence[str]) -> Iterator[Columns]:
        """The same, to look at the first rows."""
        return self.batches(columns)

    def array(self) -> np.ndarray | None:
        """The whole table as an array that needs no reading, if it is one."""
        return None

    def require(self, name: str, argument: str) -> None:
        """Refuse a column, given by the user as `argument`, that the file does not have."""
        if name not in self.names:
            raise ValueError(f"{argument}: {self.path.name} has no column {name!r}; it has {listing(self.names)}.")

    def read_ids(self, name: str) -> None:
        """Read the column `name` as ids, where ids and labels are read differently."""


class TableFormat:
    """A file format. A new one is a module with a subclass, and one entry in the list of `formats`."""

    name: str  # what ``format=`` calls it
    suffixes: tuple[str, ...]  # endings of file names
    table: type[Table]  # what `open` opens, as ``table(path, limit)``, unless it is overridden
    magic: tuple[bytes, ...] = ()  # how its files begin; empty for text
    is_text = False  # whether files may be gzip-compressed and written to standard output
    in_folders = False  # whether a folder of such files is one table

    def open(self, path: Path, options: Options) -> Table:
        """The table in a file."""
        return self.table(path, Limit.of([path], options.max_bytes))

    def write(self, target: Any, content: Content) -> None:
        """Write a new file at `target`: a path, or a text stream when `is_text`."""
        raise NotImplementedError

    def append(
        self, source: Sequence[Path], target: Any, columns: dict[str, np.ndarray], options: Options, force: bool
    ) -> None:
        """Write the content of `source` to `target` with more columns; `force` replaces those of the same names."""
        raise NotImplementedError

    def can(self, what: str) -> bool:
        """Whether it can "write", or "append"."""
        return getattr(type(self), what) is not getattr(TableFormat, what)


@dataclass(frozen=True)
class Content:
    """What is written: columns of labels (None where missing), and ids and classes where known."""

    columns: dict[str, Any]  # arrays, or `Dictionary` columns
    n_rows: int
    item_ids: np.ndarray | None = None
    classes: np.ndarray | None = None
    ensemble: Any = None  # for formats that store codes

    def table(self) -> dict[str, Any]:
        """All of it as columns: ids in front, classes at the end."""
        front = {} if self.item_ids is None else {"id": self.item_ids}
        return {**front, **self.columns, **({} if self.classes is None else {"class": self.classes})}


@dataclass(frozen=True)
class Piece:
    """A block of a file, read by a function."""

    path: Path
    function: Callable[..., Columns]
    arguments: tuple
    rows: int | None

    def read(self) -> Columns:
        with naming(self.path):
            return self.function(*self.arguments)


def listing(names: Sequence[str]) -> str:
    """Some of the names, for a message."""
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def one_line(error: BaseException) -> str:
    """The message of an error as one short line."""
    return " ".join(str(error).split())[:120].rstrip(".") or type(error).__name__


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors about the content of a file, of whatever library, are ValueErrors that name it."""
    try:
        yield
    except (MemoryError, ImportError, Warning):
        raise
    except Exception as error:
        # of the system: libraries raise a plain OSError, or seek to before the start of a file (an invalid argument)
        system = isinstance(error, OSError) and (type(error) is not OSError or error.errno not in (None, errno.EINVAL))
        named = path.name in str(error)
        if system or (named and type(error) is ValueError):
            raise
        if type(error) in (TypeError, ValueError):
            raise ValueError(str(error) if named else f"{path.name}: {error}") from error
        raise ValueError(f"{path.name} is damaged or protected ({one_line(error)}); write it again.") from error


def row_ranges(n_rows: int, step: int | None = None) -> Iterator[tuple[int, int]]:
    """(start, length) of pieces of `step` rows, `BLOCK_ROWS` when None."""
    step = step or BLOCK_ROWS
    for start in range(0, n_rows, step):
        yield start, min(step, n_rows - start)
