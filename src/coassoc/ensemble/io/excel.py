"""Excel workbooks: the first sheet, by openpyxl; read only."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ..encode import as_objects
from .cells import label_of
from .limits import Limit
from .table import Columns, Options, Table, TableFormat

_CELL_BYTES = 8  # memory that a byte of a sheet may take as Python objects


class ExcelTable(Table):
    """The cells of the first sheet, text read as in CSV files."""

    def __init__(self, path: Path, limit: Limit, header: bool | None):
        super().__init__(path, limit)
        self.names, self.content = _read(path, limit, header)
        self.n_rows = len(self.content[0]) if self.content else 0

    def read(self, columns: Sequence[str], *piece: Any) -> Columns:
        return {name: self.content[self.names.index(name)] for name in columns}


def _read(path: Path, limit: Limit, header: bool | None) -> tuple[list[str], list[np.ndarray]]:
    try:
        import openpyxl
    except ImportError:
        raise ImportError("Excel files need openpyxl: pip install 'coassoc[excel]', or save as CSV.") from None
    with zipfile.ZipFile(path) as archive:
        limit.check(_CELL_BYTES * sum(info.file_size for info in archive.infolist()), "sheets")
        if any(info.compress_size > limit.size for info in archive.infolist()):
            raise zipfile.BadZipFile("a part is larger than the file")
    with open(path, "rb") as file:  # by its path, openpyxl would judge the ending
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(c is not None for c in row)]
        sheets = book.sheetnames
    if len(sheets) > 1:
        warnings.warn(f"{path.name} has {len(sheets)} sheets; {sheets[0]!r}, the first, is read.", stacklevel=6)
    named = header if header is not None else bool(rows) and any(isinstance(cell, str) for cell in rows[0])
    names = [("" if c is None else str(c).strip()) if named else str(j) for j, c in enumerate(rows[0] if rows else ())]
    rows = rows[1:] if named else rows
    columns = [column[1:] for column in zip_longest(names, *rows)][: len(names)]
    return names, [as_objects([label_of(c) if isinstance(c, str) else c for c in column]) for column in columns]


class ExcelFormat(TableFormat):
    """Workbooks of the present kind; old .xls files are refused with a reason."""

    name = "xlsx"
    suffixes = (".xlsx", ".xlsm")
    magic = (b"PK\x03\x04",)

    def open(self, path: Path, options: Options) -> ExcelTable:
        return ExcelTable(path, Limit.of([path], options.max_bytes), options.header)


EXCEL = ExcelFormat()
