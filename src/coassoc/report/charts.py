"""Numbers -> small SVG pictures for the page. Colours are CSS variables, so that they follow light and dark mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from .distribution import Distribution, delta_area
from .png import colours
from .summary import leaf_positions

_SERIES = ("var(--s1)", "var(--s2)", "var(--s3)", "var(--s4)", "var(--s5)", "var(--s6)")


class Axes:
    """A plotting area with linear axes inside an SVG of `width` by `height`."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], width=640, height=300, left=52, bottom=40):
        self.x, self.y = _widened(*x), _widened(*y)
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = left, width - 14, 14, height - bottom
        self.parts: list[str] = []

    def px(self, x: float) -> float:
        share = (x - self.x[0]) / (self.x[1] - self.x[0])
        return round(self.left + share * (self.right - self.left), 2)

    def py(self, y: float) -> float:
        share = (y - self.y[0]) / (self.y[1] - self.y[0])
        return round(self.bottom - share * (self.bottom - self.top), 2)

    def add(self, text: str) -> None:
        self.parts.append(text)

    def frame(self, x_label: str, y_label: str, x_ticks: Sequence[float] | None = None) -> None:
        """Grid lines, tick labels and titles."""
        for y in ticks(*self.y):
            self.add(f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{self.py(y)}" y2="{self.py(y)}"/>')
            self.add(f'<text class="tick" x="{self.left - 8}" y="{self.py(y) + 4}" text-anchor="end">{short(y)}</text>')
        for x in ticks(*self.x) if x_ticks is None else x_ticks:
            self.add(
                f'<text class="tick" x="{self.px(x)}" y="{self.bottom + 17}" text-anchor="middle">{short(x)}</text>'
            )
        self.add(f'<line class="axis" x1="{self.left}" x2="{self.right}" y1="{self.bottom}" y2="{self.bottom}"/>')
        middle = (self.left + self.right) / 2
        self.add(
            f'<text class="label" x="{middle}" y="{self.height - 4}" text-anchor="middle">{escape(x_label)}</text>'
        )
        height = (self.top + self.bottom) / 2
        self.add(
            f'<text class="label" transform="translate(13 {height}) rotate(-90)" text-anchor="middle">'
            f"{escape(y_label)}</text>"
        )

    def line(self, xs: Any, ys: Any, colour: str = _SERIES[0], name: str = "") -> None:
        points = " ".join(f"{self.px(x)},{self.py(y)}" for x, y in zip(xs, ys))
        title = f"<title>{escape(name)}</title>" if name else ""
        self.add(f'<polyline class="line" points="{points}" style="stroke:{colour}">{title}</polyline>')

    def dot(self, x: float, y: float, tip: str, colour: str = _SERIES[0], radius: float = 4.5, extra: str = "") -> None:
        self.add(
            f'<circle class="dot" cx="{self.px(x)}" cy="{self.py(y)}" r="{radius}" style="fill:{colour}" '
            f'data-tip="{escape(tip)}" tabindex="0" {extra}/>'
        )

    def svg(self, description: str) -> str:
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(description)}">'
            + "".join(self.parts)
            + "</svg>"
        )


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two values."""
    step = 10.0 ** math.floor(math.log10((high - low) / about))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= about + 0.5:
            step *= factor
            break
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A tick label."""
    if abs(value) >= 10_000:
        for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{value / size:g}{mark}"
    return f"{value:g}".replace("-", "−")


def _widened(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def colour_of(value: float) -> str:
    """The heat map's colour of a value in [0, 1]."""
    red, green, blue = colours(np.array([value]))[0].tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


# -- one function per picture ----------------------------------------------------------------------------------


def clusters_chart(rows: list[dict[str, Any]]) -> str:
    """Bars: size of each consensus cluster, coloured by its density."""
    shown = rows[:200]
    axes = Axes((0, len(shown)), (0, max(row["size"] for row in shown) * 1.05), height=260)
    every = max(1, math.ceil(len(shown) / 20))
    axes.frame("consensus cluster, largest first", "items", [])
    width = (axes.right - axes.left) / len(shown)
    for i, row in enumerate(shown):
        top = axes.py(row["size"])
        tip = f"cluster {row['cluster']}: {row['size']:,} items, density {row['density']:.3f}"
        axes.add(
            f'<rect x="{axes.left + i * width + width * 0.1:.2f}" y="{top}" width="{width * 0.8:.2f}" '
            f'height="{max(axes.bottom - top, 0.5):.2f}" rx="1.5" style="fill:{colour_of(row["density"])}" '
            f'class="bar" data-tip="{escape(tip)}" tabindex="0"/>'
        )
        if i % every == 0:
            x = axes.left + (i + 0.5) * width
            axes.add(
                f'<text class="tick" x="{x:.1f}" y="{axes.bottom + 17}" text-anchor="middle">{row["cluster"]}</text>'
            )
    return axes.svg("sizes of the consensus clusters, coloured by density")


def tree_chart(tree: dict[str, Any]) -> str:
    """The bisecting tree: splits from top to bottom in the order they were made, nodes coloured by density."""
    n_leaves = (len(tree["node"]) + 1) // 2
    axes = Axes((0, n_leaves), (0, n_leaves), height=360, left=30, bottom=30)
    position = leaf_positions(tree)
    height = [n_leaves - rank if rank else 0 for rank in tree["rank"]]
    for node, parent in enumerate(tree["parent"]):
        if parent >= 0:
            x, y, top = axes.px(position[node]), axes.py(height[node]), axes.py(height[parent])
            axes.add(f'<path class="branch" d="M{x} {y}V{top}H{axes.px(position[parent])}"/>')
    cut = tree["cut"]
    y = axes.py(n_leaves - cut + 0.5)
    if cut < n_leaves:
        axes.add(f'<line class="cut" x1="{axes.left}" x2="{axes.right}" y1="{y}" y2="{y}"/>')
        axes.add(f'<text class="tick" x="{axes.right}" y="{y - 5}" text-anchor="end">cut into {cut}</text>')
    biggest = max(tree["size"])
    for node, rank in enumerate(tree["rank"]):
        gain = tree["gain"][node]
        tip = f"{tree['size'][node]:,} items, density {tree['density'][node]:.3f}"
        tip += f", split {rank} gains {gain:+.4f}" if rank else ", a leaf"
        radius = 2.5 + 6 * math.sqrt(tree["size"][node] / biggest)
        axes.add(
            f'<circle class="dot" cx="{axes.px(position[node])}" cy="{axes.py(height[node])}" r="{radius:.1f}" '
            f'style="fill:{colour_of(tree["density"][node])}" data-tip="{escape(tip)}" tabindex="0"/>'
        )
    return axes.svg(f"bisecting tree with {n_leaves} leaves, nodes coloured by density")


def density_by_k_chart(tree: dict[str, Any]) -> str:
    """Density of every cut of the tree."""
    values = tree["density_at"]
    axes = Axes((1, len(values)), (0, 1), height=240)
    axes.frame("clusters (cut of the tree)", "density S")
    axes.line(range(1, len(values) + 1), values)
    for k, value in enumerate(values, 1):
        extra = "" if k == tree["cut"] else 'opacity="0.35"'
        axes.dot(k, value, f"k = {k}: density {value:.4f}", radius=5 if k == tree["cut"] else 3, extra=extra)
    return axes.svg("density of the cuts of the bisecting tree")


def stability_histogram(own: np.ndarray, other: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts and edges of the margins of the labelled items."""
    margin = (own - other)[labels >= 0]
    edges = np.linspace(-1, 1, 41)
    return np.histogram(margin, bins=edges)[0], edges


def stability_chart(counts: np.ndarray, edges: np.ndarray) -> str:
    """Histogram of item stability."""
    used = np.flatnonzero(counts)
    low = min(float(edges[used[0]]), 0.0) if len(used) else -1.0
    axes = Axes((low, 1), (0, max(1, int(counts.max())) * 1.05), height=260)
    axes.frame("own cluster minus best other (co-association)", "items")
    total = int(counts.sum())
    for i, count in enumerate(counts.tolist()):
        if edges[i] < low - 1e-9:
            continue
        x, end, top = axes.px(edges[i]), axes.px(edges[i + 1]), axes.py(count)
        tip = f"{edges[i]:.2f} to {edges[i + 1]:.2f}: {count:,} items ({count / max(total, 1):.1%})"
        colour = "var(--warn)" if edges[i + 1] <= 1e-9 else _SERIES[0]
        axes.add(
            f'<rect class="bar" x="{x + 0.7:.2f}" y="{top}" width="{max(end - x - 1.4, 0.5):.2f}" '
            f'height="{max(axes.bottom - top, 0):.2f}" style="fill:{colour}" data-tip="{escape(tip)}" tabindex="0"/>'
        )
    return axes.svg("histogram of item stability")


def cdf_chart(distribution: Distribution) -> str:
    """CDF of co-association, the ambiguous range shaded."""
    axes = Axes((0, 1), (0, 1), height=280)
    x1, x2 = axes.px(0.1), axes.px(0.9)
    axes.add(f'<rect class="shade" x="{x1}" y="{axes.top}" width="{x2 - x1}" height="{axes.bottom - axes.top}"/>')
    axes.frame("co-association of a pair", "share of pairs at most that")
    axes.line(distribution.grid, distribution.cdf)
    for i in range(0, 101, 10):
        x, y = float(distribution.grid[i]), float(distribution.cdf[i])
        axes.dot(x, y, f"{y:.1%} of pairs have co-association at most {x:.1f}", radius=3.5)
    return axes.svg("cumulative distribution of the co-association")


def over_k_charts(curves: list[Distribution]) -> list[tuple[str, str]]:
    """CDF of each k, relative change of its area, PAC of each k."""
    ks = [curve.k or 0 for curve in curves]
    first = Axes((0, 1), (0, 1), height=280)
    first.frame("co-association of a pair", "share of pairs at most that")
    for i, curve in enumerate(curves):
        share = i / max(len(curves) - 1, 1)
        first.line(curve.grid, curve.cdf, colour_of(0.1 + 0.75 * share), f"k = {curve.k}")
        at = 15 + int(70 * share)
        tip = f"k = {curve.k}: area {curve.area:.4f}, PAC {curve.pac:.4f}"
        first.dot(float(curve.grid[at]), float(curve.cdf[at]), tip, colour_of(0.1 + 0.75 * share))
    pictures = [("CDF at each k", first.svg("cumulative distribution at each k"))]
    for name, values in (
        ("Relative change of the area under the CDF", delta_area(curves)),
        ("PAC (lower is clearer)", [curve.pac for curve in curves]),
    ):
        axes = Axes((min(ks), max(ks)), (min(0.0, *values), max(values) * 1.1 or 1.0), width=420, height=240)
        axes.frame("k", "", ks if len(ks) <= 15 else None)
        axes.line(ks, values)
        for k, value in zip(ks, values):
            axes.dot(k, value, f"k = {k}: {value:.4f}")
        pictures.append((name, axes.svg(name)))
    return pictures


def comparison_chart(rows: list[dict[str, Any]]) -> str:
    """Density against ensemble NMI, one dot a method."""
    ran = [row for row in rows if row["density"] is not None]
    xs, ys = [row["density"] for row in ran], [row["ensemble_nmi"] for row in ran]
    pad_x, pad_y = max((max(xs) - min(xs)) * 0.15, 0.005), max((max(ys) - min(ys)) * 0.15, 0.005)
    axes = Axes((min(xs) - pad_x, max(xs) + pad_x), (min(ys) - pad_y, max(ys) + pad_y), height=300, left=60)
    axes.frame("density S", "ensemble NMI")
    for i, row in enumerate(ran):
        colour = _SERIES[0] if row["chosen"] else _SERIES[1 + i % (len(_SERIES) - 1)]
        tip = f"{row['method']}: density {row['density']:.4f}, ensemble NMI {row['ensemble_nmi']:.4f}"
        axes.dot(row["density"], row["ensemble_nmi"], tip, colour, 7 if row["chosen"] else 5)
        x, y = axes.px(row["density"]), axes.py(row["ensemble_nmi"])
        end = x > (axes.left + axes.right) / 2
        axes.add(
            f'<text class="tick" x="{x - 10 if end else x + 10}" y="{y + 4}" '
            f'text-anchor="{"end" if end else "start"}">{escape(row["method"])}</text>'
        )
    return axes.svg("density and ensemble NMI of each method")
