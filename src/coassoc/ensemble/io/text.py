"""CSV and TSV -> columns, streamed: a row of text is turned into small integers and forgotten."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..encode import Dictionary
from .guard import RawTable, Selector, allowed_bytes

NA_VALUES = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>")
_BLOCK = 1 << 22  # bytes of text parsed at a time
_LONGEST_LINE = 1 << 20  # the first lines must end somewhere
_DELIMITERS = (",", "\t", ";", "|")


def read_text(
    path: Path,
    select: Selector,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    compressed: bool = False,
    max_bytes: int | None = None,
    verbatim: tuple[str, ...] = (),
) -> RawTable:
    """Columns of a delimited text file; `verbatim` columns stay strings, the others become labels."""
    names, delimiter, has_header = text_layout(path, compressed, delimiter, header, max_bytes)
    wanted = select(names)
    if compressed:
        for _ in _blocks(path, True, max_bytes):  # the parser must not meet a damaged or endless archive
            pass
    parse = _parse_arrow if _has_arrow() else _parse_plain
    parsed = parse(path, names, wanted, delimiter, has_header, compressed, max_bytes)
    n_rows = max((len(indices) for indices, _ in parsed.values()), default=0)
    if n_rows == 0:
        raise ValueError(f"{path.name} has a header but no rows; a label table needs one row per item.")
    columns: dict[str, Any] = {}
    for name, (indices, texts) in parsed.items():
        if any("\x00" in text for text in texts):
            raise ValueError(f"{path.name} holds NUL bytes in column {name!r}, so it is not text throughout.")
        labels = np.array(texts, dtype=object) if name in verbatim else _typed(texts, path, name)
        if name not in verbatim:
            nulls = np.array([text in NA_VALUES for text in texts] + [True])
            indices = np.where(nulls[indices], -1, indices)
        columns[name] = Dictionary(indices, labels)
    return RawTable(names, columns, n_rows, {"delimiter": delimiter, "header": has_header})


def text_layout(
    path: Path, compressed: bool, delimiter: str | None, header: bool | None, max_bytes: int | None = None
) -> tuple[list[str], str, bool]:
    """Column names, separator, and whether the first row holds the names."""
    first = _first_line(path, compressed, max_bytes)
    delimiter = delimiter or _delimiter(first)
    cells = next(csv.reader([first], delimiter=delimiter))
    has_header = header if header is not None else _looks_like_header(cells, path)
    names = [cell.strip() for cell in cells] if has_header else [str(j) for j in range(len(cells))]
    _check_names(names, path)
    return names, delimiter, has_header


def _has_arrow() -> bool:
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError:
        return False
    return True


def _first_line(path: Path, compressed: bool, max_bytes: int | None) -> str:
    """The first line as text; doubts the encoding and the line length."""
    head = b""
    for block in _blocks(path, compressed, max_bytes, 1 << 16):
        head += block
        if b"\n" in head or b"\r" in head or len(head) > _LONGEST_LINE:
            break
    if b"\x00" in head:
        raise ValueError(f"{path.name} is not text (it holds NUL bytes); save the table as UTF-8 CSV.")
    if head.startswith((b"<!DOCTYPE", b"<html", b"<HTML", b"<?xml")):
        raise ValueError(f"{path.name} is a web page or XML, not a table; download the data file itself.")
    if head.lstrip().startswith((b"{", b"[")) and b'"' in head[:200]:
        raise ValueError(f"{path.name} looks like JSON, not a table; save it as CSV.")
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            raise ValueError(
                f"{path.name} is not UTF-8 text (byte {error.start} is 0x{head[error.start]:02x}); save it as UTF-8."
            ) from None
        text = head[: error.start].decode("utf-8-sig")
    if not text.strip():
        raise ValueError(f"{path.name} holds blank lines only; a label table needs a header and at least one row.")
    line = text.splitlines()[0]
    if not line.strip():
        raise ValueError(f"{path.name} starts with a blank line; remove it.")
    if len(line) >= _LONGEST_LINE:
        raise ValueError(f"the first line of {path.name} is over {_LONGEST_LINE:,} characters long; is it a table?")
    return line


def _delimiter(line: str) -> str:
    """The separator that splits the first line most; a comma when none does."""
    counts = {mark: line.count(mark) for mark in _DELIMITERS}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","


def _looks_like_header(cells: list[str], path: Path) -> bool:
    """A first row of numbers is data, anything else names columns; 0, 1, 2, ... could be both."""
    texts = [cell.strip() for cell in cells]
    if not all(_is_number(text) or text in NA_VALUES for text in texts) or not any(map(_is_number, texts)):
        return True
    count = [str(j) for j in range(len(texts))]
    if len(texts) > 2 and texts == ["", *count[:-1]]:
        return True  # a frame of unnamed columns, written by pandas with its index
    if len(texts) > 1 and texts == count:
        raise ValueError(
            f"the first row of {path.name} is {','.join(texts[:4])}...: it may be column names or labels; "
            "pass header=True (--header) or header=False (--no-header)."
        )
    return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_names(names: list[str], path: Path) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{path.name} has two columns named {name!r}; rename one of them.")
        seen.add(name)


def _typed(texts: list[str], path: Path, name: str) -> np.ndarray:
    """Labels behind the different texts of a column: integers when all are whole numbers, else strings."""
    known = [text for text in texts if text not in NA_VALUES]
    try:
        numbers = {text: int(text) for text in known}
    except ValueError:
        try:
            floats = {text: float(text) for text in known}
        except ValueError:
            return np.array([text.strip() for text in texts], dtype=object)
        values: list[Any] = [floats.get(text) for text in texts]
        return np.array([float("nan") if v is None else v for v in values], dtype=np.float64)
    if any(abs(number) >= 2**63 for number in numbers.values()):
        return np.array(texts, dtype=object)
    return np.array([numbers.get(text, 0) for text in texts], dtype=np.int64)


# -- parsing ---------------------------------------------------------------------------------------------------


def _parse_arrow(path, names, wanted, delimiter, has_header, compressed, max_bytes):
    """Indices and different texts of each wanted column, by pyarrow's multi-threaded parser."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    read = pacsv.ReadOptions(column_names=names, skip_rows=1 if has_header else 0, block_size=_BLOCK)
    parse = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = pacsv.ConvertOptions(
        include_columns=wanted,
        column_types={name: pa.dictionary(pa.int32(), pa.string()) for name in wanted},
        strings_can_be_null=False,
        auto_dict_encode=False,
    )
    found: dict[str, dict[str, int]] = {name: {} for name in wanted}
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    try:
        with (
            open_text(path, compressed) as stream,
            pacsv.open_csv(
                pa.PythonFile(stream, mode="r"), read_options=read, parse_options=parse, convert_options=convert
            ) as reader,
        ):
            for batch in reader:
                for name in wanted:
                    column = batch.column(name)
                    known = found[name]
                    places = [known.setdefault(text, len(known)) for text in column.dictionary.to_pylist()]
                    lookup = np.array([*places, -1], dtype=np.int32)
                    indices = column.indices.to_numpy(zero_copy_only=False)
                    pieces[name].append(lookup[indices])
    except pa.ArrowInvalid as error:
        raise ValueError(_bad_text(path, names, delimiter, has_header, compressed, max_bytes, str(error))) from None
    return {name: (_joined(pieces[name]), list(found[name])) for name in wanted}


def _bad_text(path, names, delimiter, has_header, compressed, max_bytes, fallback: str) -> str:
    """Where exactly a file that pyarrow refuses is wrong, by reading it again the plain way."""
    try:
        _parse_plain(path, names, [], delimiter, has_header, compressed, max_bytes)
    except ValueError as error:
        return str(error)
    return f"{path.name} cannot be read as a table: {fallback.splitlines()[0]}"


def _parse_plain(path, names, wanted, delimiter, has_header, compressed, max_bytes):
    """The same by the csv module: slower, but it names the row that is wrong."""
    positions = [names.index(name) for name in wanted]
    found: list[dict[str, int]] = [{} for _ in wanted]
    pieces: list[list[np.ndarray]] = [[] for _ in wanted]
    width = len(names)
    csv.field_size_limit(_LONGEST_LINE)
    with open_text(path, compressed) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(_no_nul(text, path), delimiter=delimiter, strict=True)
        try:
            start = 1
            if has_header:
                next(reader)
                start = 2
            while True:
                rows = list(islice(reader, 20_000))
                if not rows:
                    break
                if set(map(len, rows)) != {width}:
                    for i, row in enumerate(rows):
                        if len(row) != width and row:
                            raise ValueError(
                                f"row {start + i} of {path.name} has {len(row)} cells where the first row has {width}; "
                                "every row needs one cell per column."
                            )
                start += len(rows)
                columns = list(zip(*(row for row in rows if row)))
                for c, place in enumerate(positions if columns else []):
                    known, column = found[c], columns[place]
                    for cell in dict.fromkeys(column):  # new texts, in the order they appear
                        known.setdefault(cell, len(known))
                    pieces[c].append(np.fromiter(map(known.__getitem__, column), np.int32, len(column)))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path.name} is not UTF-8 text throughout (0x{error.object[error.start]:02x} near row {start}); "
                "save it as UTF-8."
            ) from None
        except csv.Error as error:
            raise ValueError(
                f"{path.name} is not a well-formed table near row {start}: {error}; check quotes."
            ) from None
    return {name: (_joined(pieces[c]), list(found[c])) for c, name in enumerate(wanted)}


def _no_nul(lines: Any, path: Path) -> Iterator[str]:
    for line in lines:
        if "\x00" in line:
            raise ValueError(f"{path.name} holds NUL bytes, so it is not text throughout; save it as UTF-8 CSV.")
        yield line


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int32)


# -- bytes -----------------------------------------------------------------------------------------------------


def open_text(path: Path, compressed: bool) -> IO[bytes]:
    """The bytes of a text file, unpacked when it is a gzip archive."""
    return gzip.open(path, "rb") if compressed else open(path, "rb")  # type: ignore[return-value]


def _blocks(path: Path, compressed: bool, max_bytes: int | None, size: int = _BLOCK) -> Iterator[bytes]:
    """Blocks of the text; an archive that is damaged or unpacks to far too much is refused on the way."""
    total, allowed = 0, allowed_bytes(path, max_bytes) if compressed else None
    with open_text(path, compressed) as stream:
        while True:
            try:
                block = stream.read(size)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ValueError(f"{path.name} is a damaged gzip archive ({error}); fetch it again.") from None
            if not block:
                return
            total += len(block)
            if allowed is not None and total > allowed:
                raise ValueError(
                    f"{path.name} unpacks to more than the {allowed:,} bytes allowed for a file of "
                    f"{path.stat().st_size:,} bytes; if you trust it, pass a larger max_bytes (--max-bytes)."
                )
            yield block
