"""Excel workbooks, by openpyxl: the first sheet is read, one sheet is written; texts mean what they mean in CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from .coding import Content, cell_of, name_of, record_batch
from .formats import DamagedFile, Options, Package, Table, pa

openpyxl: Any = Package("openpyxl")
_LONGEST_CELL, _MOST_ROWS = 32_767, 1_048_576


class ExcelTable(Table):
    """The cells of the first sheet; old .xls files are refused."""

    name, suffixes, magic = "xlsx", (".xlsx", ".xlsm"), (b"PK\x03\x04",)
    packages, extra = ("openpyxl", "pyarrow"), "excel"

    def __init__(self, path: Path, options: Options, file: Any = None):
        super().__init__(path, options, file)
        book = openpyxl.load_workbook(self.opened(), read_only=True, data_only=True)
        if not book.worksheets:
            raise DamagedFile("it has no sheet")
        rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(c is not None for c in row)]
        sheets, first = book.sheetnames, rows[0] if rows else ()
        if len(sheets) > 1:
            self.notes = [f"{path.name} has {len(sheets)} sheets; {sheets[0]!r}, the first, is read."]
        named = any(isinstance(cell, str) for cell in first) if options.header is None else options.header
        self.names = [("" if c is None else name_of(str(c))) if named else str(j) for j, c in enumerate(first)]
        rows = rows[1:] if named else rows
        self.n_rows, self.columns = len(rows), dict(zip(self.names, zip_longest(*rows)))

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        found = {}
        for name in columns:
            try:
                found[name] = pa.array(self.columns[name])
            except pa.ArrowException:  # numbers among text
                cells = [int(cell) if isinstance(cell, bool) else cell for cell in self.columns[name]]
                found[name] = pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
        yield record_batch(found, [name for name, column in found.items() if pa.types.is_string(column.type)])

    @classmethod
    def recognises(cls, file: Any) -> bool:
        file.seek(max(0, file.seek(0, 2) - (1 << 16)))  # names of the parts are listed at the end
        return b"xl/workbook.xml" in file.read()

    @classmethod
    def write(cls, target: Any, content: Content) -> None:
        if content.n_rows >= _MOST_ROWS:
            raise ValueError(f"a sheet has fewer than {_MOST_ROWS:,} rows, got {content.n_rows:,}; write another kind.")
        columns = content.arrow(cells=True)
        names, lists = [_cell(cell_of(str(name))) for name in columns], list(map(_cells, columns.values()))
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet("labels")
        for row in (names, *zip(*lists)):  # a row without any cell would be none
            sheet.append(row if any(cell is not None for cell in row) else ["NA"] * len(row))
        book.save(target)


def _cells(column: Any) -> list[Any]:
    """Cells of an Arrow column; each different one is made once."""
    values = column.to_pylist()
    cells = {value: _cell(value) for value in set(values)}
    return [cells[value] for value in values]


def _cell(value: Any) -> Any:
    """A number as it is where Excel can hold it, text as in CSV files."""
    if value is None or (isinstance(value, (int, float)) and abs(value) < 1 << 53):
        return value
    text = str(value)
    if len(text) > _LONGEST_CELL or any((ord(c) < 32 and c not in "\t\n") or ord(c) in (0xFFFE, 0xFFFF) for c in text):
        raise ValueError(f"a sheet cannot hold the text {text[:40]!r}: control characters, or too long; rename it.")
    return text or None
