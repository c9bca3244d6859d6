"""CSV and TSV: read as a stream, each different text of a column looked at once."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..encode import Dictionary, as_objects
from .cells import MISSING, cell_of, id_cell_of, id_of, is_number, label_of, name_of, quoted
from .limits import Limit
from .table import Columns, Content, Options, Piece, Table, TableFormat, row_ranges

LONGEST_CELL = 131_072  # characters; the limit of Python's csv module
_LONGEST_HEADER = 1 << 20
_BATCH_BYTES = 1 << 22  # text parsed at a time
_BLOCK_BYTES = 1 << 26  # text of a block
_BATCH_ROWS = 8192
_DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True)
class Layout:
    """How the rows of a file are written."""

    path: Path
    delimiter: str
    width: int  # cells of a row
    has_header: bool
    start: int  # byte at which the rows begin
    compressed: bool
    padded: bool  # whether every row ends in a delimiter, and so in an empty cell
    ids: str | None = None  # the column read as ids


class TextTable(Table):
    """A delimited text file."""

    def __init__(self, path: Path, limit: Limit, options: Options, delimiter: str | None):
        super().__init__(path, limit)
        compressed = _is_gzip(path)
        if compressed:
            _check_archive(path, limit)
        cells, start, delimiter = _first_row(path, compressed, options.delimiter or delimiter)
        limit.check_table(1, len(cells))
        layout = Layout(path, delimiter, len(cells), True, start, compressed, False)
        header = _is_header(cells, layout) if options.header is None else options.header
        names = [name_of(cell) for cell in cells] if header else [str(j) for j in range(len(cells))]
        padded = header and len(names) > 1 and names[-1] == ""
        self.names = names[:-1] if padded else names
        if "" in self.names[1:]:
            raise ValueError(f"column {self.names.index('', 1) + 1} has no name; name every column in the first row.")
        self.layout = replace(layout, has_header=header, start=start if header else 0, padded=padded)

    def read_ids(self, name: str) -> None:
        """Read the column `name` as ids: its cells stay as they are."""
        self.layout = replace(self.layout, ids=name)

    def heads(self, columns: Sequence[str]) -> Iterator[Columns]:
        return self.batches(columns, _parse_plain)  # fewer rows at a time

    def batches(self, columns: Sequence[str], parse: Callable[..., Iterator[Columns]] | None = None):
        n_rows = 0
        with _open(self.path, self.layout.compressed) as stream:
            stream.seek(self.layout.start)
            for batch in (parse or _parse)(stream, self.layout, self._places(columns)):
                n_rows += len(next(iter(batch.values()), ()))
                yield batch
        if n_rows == 0 and columns:
            raise ValueError(f"{self.path.name} has a header but no rows; a label table needs one row per item.")

    def blocks(self, columns: Sequence[str]) -> list[Piece]:
        cuts = list(_cuts(self.layout))
        if self.layout.compressed:  # only read from the start to the end
            cuts = [(self.layout.start, -1, sum(rows for *_, rows in cuts))]
        return [Piece(self.path, _read, (self.layout, self._places(columns), *cut), cut[-1]) for cut in cuts]

    def _places(self, columns: Sequence[str]) -> dict[str, int]:
        return {name: self.names.index(name) for name in columns}


def _read(layout: Layout, places: dict[str, int], start: int, stop: int, rows: int) -> Columns:
    """Rows between two bytes of a text file; an archive is read as a stream to its end."""
    with _open(layout.path, layout.compressed) as stream:
        stream.seek(start)
        batches = list(_parse(stream if layout.compressed else io.BytesIO(stream.read(stop - start)), layout, places))
    columns = {name: Dictionary.join(batch[name] for batch in batches) for name in places}
    if any(len(column) != rows for column in columns.values()):
        raise ValueError(f"{layout.path.name} is not a well-formed table: check the quotes in its cells.")
    return columns


# -- the first row -------------------------------------------------------------------------------------------------


def _first_row(path: Path, compressed: bool, delimiter: str | None) -> tuple[list[str], int, str]:
    """Cells of the first row, the byte after it, and the delimiter."""
    with _open(path, compressed) as stream:
        head = stream.read(1 << 16)
    _check_head(head, path)
    used = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    with _open(path, compressed) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:
        stream.seek(used)

        def lines() -> Iterator[str]:
            nonlocal used
            while line := text.readline(_LONGEST_HEADER):
                used += len(line.encode())
                if used >= _LONGEST_HEADER:
                    raise ValueError(f"the first line is over {_LONGEST_HEADER:,} characters long; is it a table?")
                yield line

        try:
            first = next(lines(), "")
            if not first.strip(" \t\r\n"):
                blank = "starts with a blank line; remove it" if head.strip() else "holds blank lines only"
                raise ValueError(f"{path.name} {blank}; a label table needs a header and at least one row.")
            delimiter = delimiter or _delimiter(first)
            cells = next(csv.reader(chain([first], lines()), delimiter=delimiter, strict=True))
        except UnicodeDecodeError as error:
            what = f"0x{error.object[error.start]:02x} in its first row"
            raise ValueError(f"{path.name} is not UTF-8 text ({what}); save it as UTF-8.") from None
        except csv.Error as error:
            raise ValueError(f"{path.name} is not a well-formed table near row 1: {error}; check quotes.") from None
    return cells, used, delimiter


def _check_head(head: bytes, path: Path) -> None:
    if b"\x00" in head:
        raise ValueError(f"{path.name} is not text (it holds NUL bytes); save the table as UTF-8 CSV.")
    if head.startswith((b"<!DOCTYPE", b"<html", b"<HTML", b"<?xml")):
        raise ValueError(f"{path.name} is a web page or XML, not a table; download the data file itself.")
    if head.lstrip().startswith((b"{", b"[")) and b'"' in head[:200]:
        raise ValueError(f"{path.name} looks like JSON, not a table; save it as CSV.")


def _delimiter(line: str) -> str:
    """The mark that splits the first line most; a comma when none does."""
    line = re.sub('"[^"]*"', "", line)
    counts = {mark: line.count(mark) for mark in _DELIMITERS}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","


def _is_header(cells: list[str], layout: Layout) -> bool:
    """Whether the first row names the columns.

    It does unless every cell is a number or missing. Numbers that differ are names when none of them is a label of
    its own column below, and could be both when one is.
    """
    texts = [cell.strip() for cell in cells]
    if not all(is_number(text) or text in MISSING for text in texts) or not any(map(is_number, texts)):
        return True
    count = [str(j) for j in range(len(texts))]
    if len(texts) > 2 and texts == ["", *count[:-1]]:
        return True  # columns without names of their own, written by pandas with the index
    if len(set(texts)) < len(texts) or any(text in MISSING for text in texts[1:]):
        return False
    with _open(layout.path, layout.compressed) as stream:
        stream.seek(layout.start)
        for batch in _parse(stream, layout, {str(j): j for j in range(len(cells))}):
            for text, column in zip(texts, batch.values()):
                if text and label_of(text) in column.labels.tolist():
                    raise ValueError(
                        f"the first row holds numbers ({','.join(texts[:4])}{'...' * (len(texts) > 4)}) that may be "
                        "column names or labels; pass header=True (--header) or header=False (--no-header)."
                    )
    return True


# -- rows ----------------------------------------------------------------------------------------------------------


def _parse(stream: IO[bytes], layout: Layout, places: dict[str, int]) -> Iterator[Columns]:
    # pyarrow drops blank lines, which may be rows when there is one column
    if layout.width > 1 and has_arrow():
        return _parse_arrow(stream, layout, places)
    return _parse_plain(stream, layout, places)


def has_arrow() -> bool:
    """Whether pyarrow's parser is installed."""
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError:
        return False
    return True


def _parse_arrow(stream: IO[bytes], layout: Layout, places: dict[str, int]) -> Iterator[Columns]:
    """Batches of the wanted columns, by pyarrow's parser."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    names = [str(j) for j in range(layout.width)]
    wanted = [str(place) for place in places.values()] + (names[-1:] if layout.padded else [])
    read = pacsv.ReadOptions(column_names=names, block_size=_BATCH_BYTES, use_threads=False)
    convert = pacsv.ConvertOptions(
        include_columns=wanted or names[:1],
        column_types={name: pa.dictionary(pa.int32(), pa.string()) for name in names},
        strings_can_be_null=False,
    )
    parse = pacsv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    try:
        with pacsv.open_csv(
            pa.PythonFile(stream, mode="r"), read_options=read, parse_options=parse, convert_options=convert
        ) as reader:
            for batch in reader:
                if layout.padded:
                    _check_padding(batch.column(wanted[-1]).dictionary.to_pylist(), layout)
                found = {name: batch.column(str(place)) for name, place in places.items()}
                yield {
                    name: _typed(column.indices.to_numpy(False), column.dictionary.to_pylist(), name, layout)
                    for name, column in found.items()
                }
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return
        raise ValueError(_why_not(layout, str(error))) from None


def _typed(indices: np.ndarray, texts: Sequence[str], name: str, layout: Layout) -> Dictionary:
    """Labels behind the different texts of a column; missing ones have index −1."""
    for text in texts:
        if len(text) > LONGEST_CELL or "\x00" in text:
            what = "a NUL byte" if "\x00" in text else f"a cell of more than {LONGEST_CELL:,} characters"
            raise ValueError(f"{layout.path.name} holds {what} in column {name!r}; is it a table of labels?")
    if name == layout.ids:
        return Dictionary(indices, as_objects([id_of(text) for text in texts]))
    labels = [label_of(text) for text in texts]
    lookup = np.array([-1 if label is None else i for i, label in enumerate(labels)] + [-1], dtype=np.int32)
    return Dictionary(lookup[indices], as_objects(labels))


def _check_padding(texts: Iterable[str], layout: Layout) -> None:
    if any(text.strip() for text in texts):
        raise ValueError(f"{layout.path.name}: column {layout.width} has no name; name every column in the first row.")


def _why_not(layout: Layout, reason: str) -> str:
    """Where a file that pyarrow refuses is wrong, by reading it again with the csv module."""
    try:
        with _open(layout.path, layout.compressed) as stream:
            stream.seek(layout.start)
            for _ in _parse_plain(stream, layout, {}):
                pass
    except ValueError as error:
        return str(error)
    return f"{layout.path.name} cannot be read as a table: {reason.splitlines()[0]}"


def _parse_plain(stream: IO[bytes], layout: Layout, places: dict[str, int]) -> Iterator[Columns]:
    """The same by the csv module: slower, but it names the row that is wrong."""
    path, start, blank = layout.path, 1 + layout.has_header, 0
    lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=layout.delimiter, strict=True)
    try:
        while rows := list(islice(reader, _BATCH_ROWS)):
            kept = []
            for i, row in enumerate(rows, start):
                if not row:
                    blank = blank or i
                    continue
                if blank and layout.width == 1:
                    raise ValueError(
                        f'row {blank} of {path.name} is blank; write NA or "" for a missing label, or remove the line.'
                    )
                if len(row) != layout.width:
                    raise ValueError(
                        f"row {i} of {path.name} has {len(row)} cells where the first row has {layout.width}; every "
                        "row needs one cell per column."
                    )
                kept.append(row)
            start += len(rows)
            if kept:
                columns = list(zip(*kept))
                if layout.padded:
                    _check_padding(columns[-1], layout)
                yield {name: _coded(columns[place], name, layout) for name, place in places.items()}
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(f"not UTF-8 text throughout (0x{byte:02x} near row {start}); save it as UTF-8.") from None
    except csv.Error as error:
        long = f"a cell of more than {LONGEST_CELL:,} characters near row {start}; is it a table of labels?"
        other = f"not a well-formed table near row {start}: {error}; check quotes."
        raise ValueError(long if "field larger" in str(error) else other) from None
    finally:
        lines.close()


def _coded(cells: Sequence[str], name: str, layout: Layout) -> Dictionary:
    known = {cell: i for i, cell in enumerate(dict.fromkeys(cells))}
    return _typed(np.fromiter(map(known.__getitem__, cells), np.int32, len(cells)), list(known), name, layout)


# -- bytes ---------------------------------------------------------------------------------------------------------


def _cuts(layout: Layout) -> Iterator[tuple[int, int, int]]:
    """(start, stop, rows) of pieces of about `_BLOCK_BYTES`, cut where a row ends."""
    start = layout.start
    with _open(layout.path, layout.compressed) as file:
        file.seek(start)
        while piece := bytearray(file.read(_BLOCK_BYTES)):
            quotes, line = piece.count(b'"'), file.readline()
            while line:
                piece += line
                quotes += line.count(b'"')
                line = file.readline() if quotes % 2 else b""
            yield start, start + len(piece), _count_rows(piece)
            start += len(piece)


def _count_rows(text: bytes | bytearray) -> int:
    """Lines that are not blank, those within quotes not counted."""
    text = text.replace(b"\r\n", b"\n")
    if b'"' not in text and b"\r" not in text:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 10)
        return int((np.diff(ends, prepend=-1, append=len(text)) > 1).sum())
    rows = quotes = 0
    for line in io.TextIOWrapper(io.BytesIO(text), encoding="latin-1", newline=""):  # lines as the parsers see them
        quotes += line.count('"')
        rows += quotes % 2 == 0 and bool(line.strip("\r\n"))
    return rows


def _is_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _open(path: Path, compressed: bool) -> IO[bytes]:
    return gzip.open(path, "rb") if compressed else open(path, "rb")  # type: ignore[return-value]


def _check_archive(path: Path, limit: Limit) -> None:
    """Refuse a gzip archive that is damaged or unpacks to far too much, before it reaches the parser."""
    total = 0
    try:
        with gzip.open(path, "rb") as stream:
            while total <= limit.allowed and (block := stream.read(_BATCH_BYTES)):
                total += len(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} is a damaged gzip archive ({error}); fetch it again.") from None
    if total > limit.allowed:
        raise ValueError(
            f"{path.name} unpacks to more than the {limit.allowed:,} bytes allowed for a file of {limit.size:,} bytes; "
            "if you trust it, pass a larger max_bytes (--max-bytes)."
        )


# -- the formats ---------------------------------------------------------------------------------------------------


class TextFormat(TableFormat):
    """CSV or TSV."""

    is_text = True

    def __init__(self, name: str, suffixes: tuple[str, ...], delimiter: str):
        self.name, self.suffixes, self.delimiter = name, suffixes, delimiter

    def open(self, path: Path, options: Options) -> TextTable:
        delimiter = self.delimiter if self.name == "tsv" else None
        return TextTable(path, Limit.of([path], options.max_bytes), options, delimiter)

    def write(self, target: Any, content: Content) -> None:
        columns = content.table()
        mark, alone = self.delimiter, len(columns) == 1
        target.write(mark.join(quoted(cell_of(str(name)), mark, alone) for name in columns) + "\n")
        writers = [id_cell_of if column is content.item_ids else cell_of for column in columns.values()]
        for start, length in row_ranges(content.n_rows, 50_000):
            rows = slice(start, start + length)
            parts = [_cells(column, rows, write, mark, alone) for column, write in zip(columns.values(), writers)]
            target.writelines(mark.join(row) + "\n" for row in zip(*parts))

    def append(
        self, source: Sequence[Path], target: Any, columns: dict[str, np.ndarray], options: Options, force: bool
    ) -> None:
        """The rows of the source as they are, with more cells."""
        (path,) = source
        table = TextTable(path, Limit.of([path], options.max_bytes), options, options.delimiter)
        check_new(columns, table.names if table.layout.has_header else [], path)
        mark, n_rows, n_labels = table.layout.delimiter, 0, len(next(iter(columns.values())))
        with (
            _open(path, table.layout.compressed) as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as lines,
        ):
            header = table.layout.has_header
            for row in csv.reader(lines, delimiter=mark, strict=True):
                if not row:
                    continue
                cells = [cell_of(name) for name in columns]
                if not header:
                    cells = [cell_of(c[n_rows].item()) if n_rows < n_labels else "" for c in columns.values()]
                    n_rows += 1
                header = False
                kept = row[:-1] if table.layout.padded else row
                target.write(mark.join(quoted(one, mark) for one in [*kept, *cells]) + "\n")
        if n_rows != n_labels:
            raise ValueError(f"{path.name} has {n_rows} rows, but there are {n_labels} labels.")


def _cells(column: Any, rows: slice, write: Any, mark: str, alone: bool) -> list[str]:
    """Cells of some rows of a column; each different label is written once."""
    if isinstance(column, Dictionary):
        indices = column.indices[rows]
        used, places = np.unique(indices, return_inverse=True)
        texts = [quoted("" if i < 0 else write(column.labels[i]), mark, alone) for i in used.tolist()]
        return [texts[place] for place in places.tolist()]
    return [quoted(write(value), mark, alone) for value in np.asarray(column[rows]).tolist()]


def check_new(columns: Iterable[str], names: Sequence[str], source: Path) -> None:
    """Refuse names that the source already has."""
    for name in set(columns) & set(names):
        raise ValueError(f"{source.name} already has a column {name!r}; choose another with name= (--name).")


CSV = TextFormat("csv", (".csv", ".txt"), ",")
TSV = TextFormat("tsv", (".tsv", ".tab"), "\t")
