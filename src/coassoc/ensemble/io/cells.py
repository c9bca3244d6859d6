"""The cells of a text file: which are missing, which are numbers, how text is marked so that it stays text.

A cell is missing when it is empty or one of `MISSING`, a number when it is written as a whole number is usually
written, and text otherwise. `cell_of` marks text that would be read as something else with an apostrophe in front, as
spreadsheets do; `label_of` removes the mark where it was needed and nowhere else.
"""

from __future__ import annotations

import re
from typing import Any

MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"))
MARK = "'"
# 01, +1, 1_0, 1e3 and digits of other scripts are text; 1.0 is how many programs write 1 when a label is missing
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(\.0+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity)", re.IGNORECASE)
_FORMULA = re.compile(r"[=@]|[+-](?![0-9.]*$)")
_QUOTED = re.compile('[\ufeff"\r\n,;|\t]')  # with every mark that may separate cells
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


def id_of(cell: str) -> str:
    """The id in a cell: its text as it is."""
    return cell[1:] if cell[:1] == MARK and _is_formula(cell[1:]) else cell


def cell_of(label: Any) -> str:
    """What `label_of` reads as `label`."""
    if label is None or label != label:
        return ""
    return MARK + label if isinstance(label, str) and _needs_mark(label) else str(label)


def id_cell_of(item: Any) -> str:
    """What `id_of` reads as `item`."""
    text = str(item)
    return MARK + text if _is_formula(text) else text


def quoted(cell: str, delimiter: str, alone: bool = False) -> str:
    """A cell as it is written; an empty cell that is `alone` in its row must not look like a blank line."""
    if "\x00" in cell:
        raise ValueError(f"text files cannot hold NUL characters, got {cell!r}; rename it.")
    if delimiter in cell or _QUOTED.search(cell) or (alone and not cell.strip(_SPACE)):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _needs_mark(text: str) -> bool:
    """Whether text would not be read back as itself, or would be run by a spreadsheet."""
    text = text[len(text) - len(text.lstrip(MARK)) :] if text[:1] == MARK else text
    return text in MISSING or text != text.strip(_SPACE) or is_number(text) or _FORMULA.match(text) is not None


def _is_formula(text: str) -> bool:
    return _FORMULA.match(text.lstrip(MARK)) is not None
