"""What a cell of text means, and labels as Arrow columns and back: the same for every format.

A cell is missing when it is empty or one of `MISSING`, a number when it is written as a whole number is usually
written, and text otherwise. `cell_of` marks text that would be read as something else with an apostrophe in front, as
spreadsheets do; `label_of` removes the mark where it was needed and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..encode import Dictionary, as_objects, label_array
from ..tables import column_values
from .table import Package, pa

pc: Any = Package("pyarrow.compute")
CELLS = {b"coassoc": b"cells"}  # metadata of a column of text in which 1 is a number and NA is missing
MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"))
MARK = "'"
# 01, +1, 1_0, 1e3 and digits of other scripts are text; 1.0 is how many programs write 1 when a label is missing
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(\.0+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity)", re.IGNORECASE)
_FORMULA = re.compile(r"[=@]|[+-](?![0-9.]*$)")
_SPACE = " \t"


def is_number(text: str) -> bool:
    """Whether a text is a number in any usual notation."""
    return _NUMBER.fullmatch(text) is not None


def label_of(cell: str) -> int | float | str | None:
    """The label in a cell: None when missing, an integer, or text; a number that is not whole, which is no label."""
    if cell[:1] == MARK and _needs_mark(cell[1:]):
        return cell[1:]
    cell = cell.strip(_SPACE)
    if cell in MISSING:
        return None
    whole = _WHOLE.fullmatch(cell)
    if whole is not None and len(cell) < 40 and -(1 << 63) <= (number := int(whole[1])) < 1 << 63:
        return number
    return float(cell) if is_number(cell) and not float(cell).is_integer() else cell


def name_of(cell: str) -> str:
    """The text in a cell of the header."""
    return cell[1:] if cell[:1] == MARK and _needs_mark(cell[1:]) else cell.strip(_SPACE)


def cell_of(label: Any) -> str:
    """What `label_of` reads as `label`."""
    return MARK + label if isinstance(label, str) and _needs_mark(label) else str(label)


def _needs_mark(text: str) -> bool:
    """Whether text would not be read back as itself, or would be run by a spreadsheet."""
    text = text[len(text) - len(text.lstrip(MARK)) :] if text[:1] == MARK else text
    return text in MISSING or text != text.strip(_SPACE) or is_number(text) or _FORMULA.match(text) is not None


def _is_formula(text: str) -> bool:
    return _FORMULA.match(text.lstrip(MARK)) is not None


# -- labels to Arrow -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Content:
    """What is written: columns of labels (−1 or null where missing), and ids and classes where known."""

    columns: dict[str, Any]  # arrays of numbers, or `Dictionary` columns
    n_rows: int
    item_ids: np.ndarray | None = None
    classes: Any = None
    delimiter: str | None = None

    def arrow(self, cells: bool = False) -> dict[str, Any]:
        """All of it as Arrow columns, ids in front and classes at the end; texts as `cells` or as they are."""
        ids = {} if self.item_ids is None else {"id": arrow_ids(self.item_ids, cells)}
        classes = {} if self.classes is None else {"class": self.classes}
        return ids | {name: arrow_array(column, cells) for name, column in (self.columns | classes).items()}


def arrow_array(values: Any, cells: bool = False) -> Any:
    """A NumPy array or a `Dictionary` column as an Arrow array; text as a dictionary, of `cells` where asked for."""
    if not isinstance(values, Dictionary):
        if values.dtype.kind in "OSUc":
            array = pa.array(values.tolist())
            return array.dictionary_encode() if pa.types.is_string(array.type) else array
        kind = np.dtype(np.float64) if values.dtype.kind == "f" else values.dtype.newbyteorder("=")
        return pa.array(np.ascontiguousarray(values, dtype=kind))
    labels, missing = label_array(values.labels.tolist()), values.indices < 0
    if labels.dtype.kind == "i" and len(labels):
        return pa.array(labels[np.maximum(values.indices, 0)], mask=missing)
    texts = [cell_of(label) if cells else str(label) for label in labels.tolist()]
    if len(set(texts)) < len(texts):
        raise ValueError("a number and a text look the same in a column; rename one, or write a file of text.")
    return pa.DictionaryArray.from_arrays(pa.array(values.indices.astype(np.int32), mask=missing),
                                          pa.array(texts, pa.string()))  # fmt: skip


def arrow_ids(ids: np.ndarray, cells: bool = False) -> Any:
    """Ids as an Arrow array: integers, or text as it is; in `cells` only formulas are marked."""
    if ids.dtype.kind in "iu":
        return arrow_array(ids)
    array = pa.array(list(map(str, ids.tolist())), pa.string())
    if cells and pc.any(pc.match_substring_regex(array, "^'*[=@+-]")).as_py():
        return pa.array([MARK + text if _is_formula(text) else text for text in array.to_pylist()], pa.string())
    return array


def record_batch(columns: dict[str, Any], cells: Sequence[str] = ()) -> Any:
    """Arrow columns as a record batch; those named in `cells` hold the cells of a text."""
    fields = [pa.field(name, column.type, metadata=CELLS if name in cells else None)
              for name, column in columns.items()]  # fmt: skip
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


# -- Arrow to labels -----------------------------------------------------------------------------------------------


def labels_in(batch: Any, name: str) -> tuple[Any, np.ndarray | None]:
    """(values, nulls) of a column of a record batch; texts that are cells become the labels they stand for."""
    values, nulls = column_values(batch.column(name))
    if isinstance(values, Dictionary) and _are_cells(batch, name):
        labels = [label_of(text) for text in values.labels.tolist()]
        lookup = np.array([-1 if label is None else i for i, label in enumerate(labels)] + [-1], dtype=np.int32)
        return Dictionary(lookup[values.indices], as_objects(labels)), None
    return values, nulls


def ids_in(batch: Any, name: str) -> np.ndarray:
    """A column of a record batch as ids: its texts as they are."""
    column = batch.column(name)
    column = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    values = as_objects(column.to_pylist()) if column.null_count else column.to_numpy(zero_copy_only=False)
    if _are_cells(batch, name) and pc.any(pc.starts_with(column, MARK)).as_py():
        marked = (text[:1] == MARK and _is_formula(text[1:]) for text in values.tolist())
        return as_objects([text[1:] if mark else text for mark, text in zip(marked, values.tolist())])
    return values


def _are_cells(batch: Any, name: str) -> bool:
    return (batch.schema.field(name).metadata or {}).items() >= CELLS.items()
