"""Numbers and tables as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def text_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    first, *widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ["  ".join([name.ljust(first), *map(str.rjust, rest, widths)]) for name, *rest in cells]
    lines.insert(1, "  ".join("─" * width for width in (first, *widths)))
    return "\n".join(f"  {line.rstrip()}" for line in lines)


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
