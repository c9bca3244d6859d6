"""CSV and TSV files: read by pyarrow, columns as dictionaries of their different texts; rows are added to without
being parsed. What a cell means: `coding.py`."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .coding import MISSING, Content, cell_of, is_number, name_of, pc, record_batch
from .formats import Options, Package, Table, TooLarge, check_added, pa

pacsv: Any = Package("pyarrow.csv")
_LONGEST_HEADER = 1 << 20
_BATCH_BYTES = 1 << 22  # text parsed at a time
_BLOCK_BYTES = 1 << 26  # text taken at a time where rows get more cells
_SNIFFED = ",\t;|"  # those that are found by looking
_OTHER_KINDS = re.compile(rb'\s*(<[!?a-zA-Z]|\{\s*"|\[\s*[\[{"])')  # how HTML, XML and JSON begin
_MUST_QUOTE = '[\ufeff"\r\n,;|\t{}]'  # every mark that may separate cells, and the one that does


class _Text:
    """The text of a file from some byte on, unpacked when it is compressed; counts what it hands out."""

    closed = False

    def __init__(self, table: TextTable, start: int = 0):
        file: Any = table.opened()
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        self.path, self.at, self.quotes = table.path, start, 0
        self.file = gzip.GzipFile(fileobj=file) if is_packed else file
        self.file.seek(start)
        self.allowed = table.options.allowed([table.path]) if is_packed else math.inf

    def read(self, size: int) -> bytes:
        try:
            data = self.file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.path.name} is a damaged gzip archive ({error}); fetch it again.") from None
        self.at += len(data)
        self.quotes += data.count(b'"')
        if self.at > self.allowed:
            raise TooLarge(self.path, int(self.allowed))
        if b"\x00" in data:
            what = "holds NUL bytes: it is neither UTF-8 text (perhaps UTF-16) nor a file of another known kind"
            raise ValueError(f"{what}; save it as UTF-8 text.")
        return data


class TextTable(Table):
    """A delimited text file."""

    name, suffixes, guarded, is_text = "csv", (".csv", ".txt"), False, True
    usual: str | None = None  # the separator that the name promises; None looks at the first line

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        line, second = self._first_rows()
        self.first_row = line.rstrip("\r\n")
        self.eol = line[len(self.first_row) :] or "\n"
        self.delimiter = options.delimiter or self.usual or _delimiter(line)
        try:
            cells = next(csv.reader(io.StringIO(line, newline=""), delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            raise ValueError(f"{path.name} is not a well-formed table near row 1: {error}; check quotes.") from None
        if len(cells) == 1:
            self.hint = "; if another mark separates its cells, pass delimiter= (--delimiter), as in --delimiter ' '"
            numbers = second.split()
            if len(numbers) > 1 and all(map(is_number, numbers)):
                raise ValueError(f"{path.name} has one column, {cells[0]!r}, with several numbers in a row{self.hint}.")
        self.has_header = _is_header(cells) if options.header is None else options.header
        self.names = [name_of(cell) for cell in cells] if self.has_header else [str(j) for j in range(len(cells))]
        if "" in self.names[1:]:
            what = f"column {self.names.index('', 1) + 1} has no name (a mark at the end of a row begins one more)"
            raise ValueError(f"{what}; name it in the first row, or remove it.")
        self.start = self.after_first if self.has_header else self.mark  # the byte at which the rows begin

    def _first_rows(self) -> tuple[str, str]:
        """The first row, and the line that follows; notes where they begin."""
        name = self.path.name
        data = _Text(self).read(_LONGEST_HEADER)
        found = re.match(rb'(?:[^"\r\n]++|"[^"]*+")*+(\r\n?|\n)', data)  # possessive, so that it takes linear time
        end = len(data) if found is None else found.end()
        if end == _LONGEST_HEADER:
            raise ValueError(f"the first line of {name} is over {_LONGEST_HEADER:,} bytes long; is it a table?")
        if _OTHER_KINDS.match(data):
            raise ValueError(f"{name} is a web page, XML or JSON, not a table; save the data as text with a header.")
        self.mark, self.after_first = 3 if data.startswith(b"\xef\xbb\xbf") else 0, end
        try:
            line = data[self.mark : end].decode()
        except UnicodeDecodeError:
            raise ValueError(f"{name} is not UTF-8 text in its first row; save it as UTF-8.") from None
        if not line.strip(" \t\r\n"):
            raise ValueError(f"{name} starts with a blank line; a label table needs a header and at least one row.")
        return line, (data[end:].decode(errors="replace").splitlines() or [""])[0]

    # -- rows ------------------------------------------------------------------------------------------------------

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        coded = pa.dictionary(pa.int32(), pa.string())
        places = {name: str(self.names.index(name)) for name in columns}
        kinds = {place: pa.string() if name == ids else coded for name, place in places.items()}
        alone = len(self.names) == 1  # then a blank line is a cell, told from "" by being null
        n_rows, n_blank, last = 0, 0, ""
        text = _Text(self, self.start)
        try:
            for batch in pacsv.open_csv(
                pa.PythonFile(text, mode="r"),
                pacsv.ReadOptions(column_names=[str(j) for j in range(len(self.names))], block_size=_BATCH_BYTES,
                                  use_threads=False),
                pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=not alone),
                pacsv.ConvertOptions(column_types=kinds, include_columns=list(kinds), null_values=[""],
                                     strings_can_be_null=alone, quoted_strings_can_be_null=False),
            ):  # fmt: skip
                found = [batch.column(place) for place in places.values()]
                if alone:
                    full = found[0].is_valid().to_numpy(zero_copy_only=False)
                    if full.any() and (n_blank or not full[: int(full.sum())].all()):
                        way_out = 'write NA or "" for a missing label, or remove the line'
                        raise ValueError(f"a line before row {n_rows + int(full.sum())} is blank; {way_out}.")
                    n_blank, found = n_blank + int((~full).sum()), [found[0].drop_null()]
                n_rows += len(found[0])
                last = found[-1][-1].as_py() if len(found[-1]) else last
                yield record_batch(dict(zip(columns, found)), columns)
        except pa.ArrowInvalid as error:
            reason, _, _ = str(error).partition("\n")
            reason = re.sub(r"Row #(\d+)", lambda number: f"row {int(number[1]) + self.has_header}", reason)
            if "straddling" in reason:
                reason = f"it has a row of more than {_BATCH_BYTES:,} bytes"
            if "Empty CSV file" not in reason:
                what = "is not a well-formed table of UTF-8 text with one cell per column in every row"
                raise ValueError(f"{self.path.name} {what}: {reason}.") from None
        if text.quotes % 2 and "\n" in (last or ""):
            raise ValueError(f"{self.path.name} is not a well-formed table: a quote is opened and never closed.")
        if n_rows == 0:
            raise ValueError(f"{self.path.name} has a header but no rows; a label table needs one row per item.")

    def _rows(self) -> Iterator[Any]:
        """The texts of the rows as Arrow arrays, without blank lines and line ends.

        A row ends at a line end with an even number of quotes before it.
        """
        left, more = b"", True
        stream = _Text(self, self.start)
        while more:
            data = left + (new := stream.read(_BLOCK_BYTES))
            more, text = bool(new), np.frombuffer(data, np.uint8)
            ends = np.flatnonzero(text == ord(self.eol[-1])) + 1
            if b'"' in data:
                ends = ends[np.searchsorted(np.flatnonzero(text == ord('"')), ends) % 2 == 0]
            if not more and data:
                ends = np.union1d(ends, len(data))
            left = data[int(ends[-1]) if len(ends) else 0 :]
            offsets = pa.py_buffer(np.append(0, ends).astype(np.int32))
            lines = pa.Array.from_buffers(pa.string(), len(ends), [None, offsets, pa.py_buffer(data)])
            lines = pc.ascii_rtrim(lines, "\r\n")
            yield lines.filter(pc.greater(pc.binary_length(lines), 0))

    # -- writing ---------------------------------------------------------------------------------------------------

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        columns, mark = content.arrow(cells=True), content.delimiter or cls.usual or ","
        alone = len(columns) == 1
        target.write((_header(columns, mark, alone) + "\n").encode())
        _write_rows(target, [_texts(column, mark, alone) for column in columns.values()], mark, "\n")

    @classmethod
    def append(cls, source: Sequence[Path], target: Any, columns: Any, options: Options, force: bool) -> None:
        """The rows of the source as they are, with more cells."""
        (path,) = source
        table = cls(path, options)
        mark = table.delimiter
        if table.has_header:
            head = ("\ufeff" if table.mark else "") + table.first_row + mark
            target.write((head + _header(columns.column_names, mark) + table.eol).encode())
        new, n_rows = [_texts(column, mark) for column in columns.columns], 0
        for lines in table._rows():
            cells = [column.slice(n_rows, len(lines)) for column in new]
            n_rows += len(lines)
            if n_rows <= len(columns):
                _write_rows(target, [lines, *cells], mark, table.eol)
        check_added(columns, table.names if table.has_header else [], n_rows, path)


class TsvTable(TextTable):
    """A text file whose name promises tabs."""

    name, suffixes, usual = "tsv", (".tsv", ".tab"), "\t"


def _delimiter(line: str) -> str:
    """The mark that splits the first line most; a comma when none does."""
    return max(_SNIFFED, key=re.sub('"[^"]*"', "", line).count)


def _is_header(cells: list[str]) -> bool:
    """Whether the first row names the columns: numbers, some of them twice, do not; different numbers may."""
    texts = [cell.strip() for cell in cells]
    if not all(is_number(text) or text in MISSING for text in texts) or not any(map(is_number, texts)):
        return True
    if len(texts) > 2 and texts == ["", *map(str, range(len(texts) - 1))]:
        return True  # columns without names of their own, written by pandas with the index
    if len(set(texts)) < len(texts) or any(text in MISSING for text in texts[1:]):
        return False
    way_out = "pass header=True (--header) or header=False (--no-header)"
    raise ValueError(f"numbers in the first row, such as {texts[-1]}, may be names or labels; {way_out}.")


def _header(names: Any, mark: str, alone: bool = False) -> str:
    """Names as the first row."""
    return mark.join(_quoted(pa.array([cell_of(str(name)) for name in names]), mark, alone).to_pylist())


def _texts(column: Any, mark: str, alone: bool = False) -> Any:
    """An Arrow column of cells as it is written; each label of a dictionary is written once."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.type == pa.string():
        return _quoted(column, mark, alone)
    column = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    labels = pa.array([str(label) for label in column.dictionary.to_pylist()], pa.string())
    return _quoted(labels, mark, alone).take(column.indices).fill_null('""' if alone else "")


def _quoted(cells: Any, mark: str, alone: bool = False) -> Any:
    """Texts in quotes where they must be; an empty cell that is `alone` in its row must not look like a blank line."""
    if pc.any(pc.match_substring(cells, "\x00")).as_py():
        raise ValueError("text files cannot hold NUL characters; rename the labels, names or ids that do.")
    pattern = _MUST_QUOTE.format(re.escape(mark)) + ("|^[ \t]*$" if alone else "")
    special = pc.match_substring_regex(cells, pattern)
    if not pc.any(special).as_py():
        return cells
    doubled = pc.replace_substring(cells, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), cells)


def _write_rows(target: Any, columns: Sequence[Any], mark: str, eol: str) -> None:
    """Rows of cells: Arrow keeps joined texts one after the other, which is the text to write."""
    for start in range(0, len(columns[0]), 1 << 20):
        joined = pc.binary_join_element_wise(*(column.slice(start, 1 << 20) for column in columns), mark)
        lines = pc.binary_join_element_wise(joined, eol, "")
        lines = lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines
        target.write(lines.buffers()[2])
