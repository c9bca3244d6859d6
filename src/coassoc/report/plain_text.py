"""Numbers and tables as plain text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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


# scores of a consensus -> the head of their column, and how they are written
_SCORES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "clusters": ("clusters", str),
    "density": ("density", number),
    "ensemble_nmi": ("ensemble NMI", number),
    "left_out_nmi": ("NMI left out", number),
    "class_ari": ("class ARI", number),
    "class_nmi": ("class NMI", number),
    "seconds": ("time", seconds),
}


def scores_table(
    rows: Sequence[Mapping[str, Any]], single: Mapping[str, Mapping[str, float]], clusters: str | None = None
) -> str:
    """Scores of methods, one row each, then those of single clusterings; columns without any value are left out.

    `single` has the mean and the best of each score over the clusterings, `clusters` their numbers of clusters.
    """
    lines = [*rows]
    for which, words in (("mean", "on average"), ("best", "the best")):
        scores = {name: of[which] for name, of in single.items()}
        lines.append({"method": f"one clustering, {words}", "clusters": clusters, **scores})
    shown = {name: of for name, of in _SCORES.items() if any(line.get(name) is not None for line in lines)}
    cells = [["–" if line.get(n) is None else write(line[n]) for n, (_, write) in shown.items()] for line in lines]
    head = ["", *(head for head, _ in shown.values())]
    return text_table(head, [[line["method"], *of] for line, of in zip(lines, cells)])
