"""Numbers and tables as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def text_table(head: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[j]) for row in cells) for j in range(len(head))]
    lines = []
    for i, row in enumerate(cells):
        first, *rest = [cell.ljust(w) if j == 0 else cell.rjust(w) for j, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  " + "  ".join([first, *rest]).rstrip())
        if i == 0:
            lines.append("  " + "  ".join("─" * w for w in widths))
    return "\n".join([*lines, *(f"  {note}" for note in notes)])


def number(value: float | None, digits: int = 4) -> str:
    """Rounded; never "-0.000"."""
    return "–" if value is None or not math.isfinite(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def span(low: int, high: int) -> str:
    """A range of numbers; never "6 to 6"."""
    return f"{low}" if low == high else f"{low} to {high}"


def seconds(value: float | None) -> str:
    """A duration in a fitting unit."""
    if value is None:
        return "–"
    for unit, size, digits in (("h", 3600, 1), ("min", 60, 0), ("s", 1, 1)):
        if value >= 1.5 * size or (value >= 1 and size == 1):
            return f"{value / size:.{digits}f} {unit}"
    return f"{1000 * value:.0f} ms"
