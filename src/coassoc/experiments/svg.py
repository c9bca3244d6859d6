"""SVG and PNG drawings for the evaluation page, without a plotting library."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np

from ..report.charts import ticks
from ..report.png import png, png_uri

# eight colours that colour-blind readers can tell apart, on light and dark backgrounds
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6bb1", "#7f7f7f")


class Drawing:
    """An SVG picture built from lines, dots and words; lines and words take the colour of the page's text."""

    def __init__(self, width: float, height: float, title: str):
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, *, colour: str = "currentColor", width: float = 1.0,
             opacity: float = 1.0) -> None:  # fmt: skip
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width:g}" stroke-opacity="{opacity:g}"/>'
        )

    def path(self, points: Sequence[tuple[float, float]], *, colour: str, width: float = 1.5) -> None:
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>')

    def dot(self, x: float, y: float, r: float, *, colour: str, note: str = "", opacity: float = 1.0) -> None:
        tip = f"<title>{html.escape(note)}</title>" if note else ""
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" fill="{colour}" fill-opacity="{opacity:g}">{tip}</circle>'
        )

    def diamond(self, x: float, y: float, r: float, *, colour: str = "currentColor", fill: str = "none",
                note: str = "") -> None:  # fmt: skip
        tip = f"<title>{html.escape(note)}</title>" if note else ""
        corners = f"{x:.1f},{y - r:.1f} {x + r:.1f},{y:.1f} {x:.1f},{y + r:.1f} {x - r:.1f},{y:.1f}"
        self.parts.append(f'<polygon points="{corners}" fill="{fill}" stroke="{colour}">{tip}</polygon>')

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", size: float = 11, bold: bool = False,
             colour: str = "currentColor") -> None:  # fmt: skip
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}" fill="{colour}"{weight}>'
            f"{html.escape(words)}</text>"
        )

    def render(self) -> str:
        """The picture as an inline SVG element."""
        title = html.escape(self.title)
        return (
            f'<svg viewBox="0 0 {self.width:.0f} {self.height:.0f}" width="{self.width:.0f}" role="img" '
            f'aria-label="{title}" xmlns="http://www.w3.org/2000/svg"><title>{title}</title>'
            + "".join(self.parts)
            + "</svg>"
        )


class Axis:
    """Values to positions along one direction, linear or logarithmic."""

    def __init__(self, low: float, high: float, start: float, stop: float, log: bool = False):
        if log:
            low, high = math.log10(low), math.log10(high)
        if high <= low:
            low, high = low - 0.5, high + 0.5
        self.low, self.high, self.start, self.stop, self.log = low, high, start, stop, log

    def __call__(self, value: float) -> float:
        at = math.log10(value) if self.log else value
        return self.start + (at - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self, about: int = 4) -> list[float]:
        """Round values inside the range."""
        if self.log:
            return [10.0**e for e in range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)]
        return ticks(self.low, self.high, about)


def padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """A range around values with a margin on both sides."""
    low, high = min(values), max(values)
    air = max((high - low) * share, 0.5)
    return low - air, high + air


def gray_png(shades: np.ndarray) -> str:
    """A picture of values in [0, 1] (1 is dark) as the data URI of a PNG."""
    pixels = np.rint(255 * (1.0 - np.clip(shades, 0.0, 1.0))).astype(np.uint8)
    return png_uri(png(pixels))
