"""The drawings of the evaluation, by matplotlib."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from io import BytesIO
from itertools import zip_longest
from statistics import median
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.stats import t

from coassoc import Ensemble
from coassoc.metrics import order_by_size
from coassoc.report.blocks import block_means

from .claims import paired
from .methods import PAPER_METHODS
from .store import Row
from .tables import SCORES, summarise

_ORDER = ("Max", "Mean", *PAPER_METHODS)


def new_figure(width: float, height: float) -> Figure:
    """A figure that pyplot does not keep, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def embedded(figure: Any, text: str, kind: str = "svg", **settings: Any) -> str:
    """The figure inside an HTML element; `text` describes it to those who do not see it."""
    data = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "coassoc"}):
        figure.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else None, **settings)
    mime = "image/svg+xml" if kind == "svg" else f"image/{kind}"
    return f'<img alt="{escape(text)}" src="data:{mime};base64,{b64encode(data.getvalue()).decode()}">'


def ordered_methods(rows: Sequence[Row]) -> list[str]:
    """Methods in the order of the tables, others after them."""
    names = {row["method"] for row in rows}
    return [m for m in _ORDER if m in names] + sorted(names - set(_ORDER))


def dot_plots(rows: Sequence[Row], score: str, columns: int = 3) -> str:
    """A panel per data set: our mean of every method with its standard error, and the printed figure as a diamond."""
    cells = summarise(rows, score)
    methods = ordered_methods(rows)
    lines = math.ceil(len(cells) / columns)
    figure = new_figure(11, lines * (0.8 + 0.19 * len(methods)))
    for ax, name in zip_longest(figure.subplots(lines, columns, squeeze=False).flat, cells):
        if name is None:
            ax.axis("off")
            continue
        shown = [m for m in methods if m in cells[name] and not math.isnan(cells[name][m].mean)]
        drawn = [cells[name][m] for m in shown]
        at = np.arange(len(shown))
        ax.errorbar([c.mean for c in drawn], at, xerr=[np.nan_to_num(c.error) for c in drawn], fmt="o", markersize=4)
        printed = [(c.paper, i) for c, i in zip(drawn, at) if c.paper is not None]
        ax.plot(*np.array(printed).reshape(-1, 2).T, "D", markersize=5, fillstyle="none", color="tab:orange")
        ax.set_yticks(at, [m + c.mark for m, c in zip(shown, drawn)], fontsize=8)
        ax.invert_yaxis()
        ax.grid(axis="x", alpha=0.3)
        ax.set_title(name, fontsize=10)
    return embedded(figure, f"{SCORES[score]} of every method on each data set, beside the paper's figure")


def paired_plot(rows: Sequence[Row], score: str, reference: str = "KM") -> str:
    """Each method minus the reference on the same ensembles: a dot per data set, their mean and its 95 % interval."""
    names = [m for m in ordered_methods(rows) if m not in (reference, "Max", "Mean")]
    means = {m: [p.mean for p in paired(rows, score, m, reference).values()] for m in names}
    means = {m: values for m, values in means.items() if values}
    figure = new_figure(8, 1 + 0.28 * len(means))
    ax = figure.subplots()
    for i, values in enumerate(means.values()):
        ax.plot(values, [i] * len(values), "o", markersize=4, alpha=0.55, color="tab:blue")
        n = len(values)
        half = t.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n) if n > 1 else 0.0
        ax.errorbar(np.mean(values), i, xerr=half, fmt="D", markersize=5, color="tab:orange")
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set_yticks(range(len(means)), list(means))
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.3)
    ax.set_xlabel(f"{SCORES[score]} points above {reference}")
    return embedded(figure, f"{SCORES[score]}: difference of each method to {reference}, a dot per data set")


def time_points(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """Median seconds of each method by number of items."""
    seconds: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if row["method"] not in ("Max", "Mean") and row.get("nmi") is not None:
            seconds.setdefault((row["method"], row["n_samples"]), []).append(max(row["seconds"], 1e-6))
    points: dict[str, list[tuple[int, float]]] = {}
    for (method, n), values in sorted(seconds.items()):
        points.setdefault(method, []).append((n, median(values)))
    return points


def time_plot(rows: Sequence[Row]) -> str:
    """Seconds against n for every method, both on logarithmic scales."""
    figure = new_figure(9, 4.5)
    ax = figure.subplots()
    for method, points in sorted(time_points(rows).items(), key=lambda item: -item[1][-1][1]):
        ax.loglog(*zip(*points), marker="o", markersize=3, label=f"{method} ({points[-1][1]:.2g} s)")
    ax.set(xlabel="items", ylabel="seconds")
    ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    return embedded(figure, "Seconds per consensus against the number of items, for every method")


def block_pictures(ensemble: Ensemble, labels_of: dict[str, np.ndarray], columns: int = 5) -> str:
    """The co-association matrix with its rows in the order of each consensus: a good one shows dark blocks."""
    lines = math.ceil(len(labels_of) / columns)
    figure = new_figure(11, 2.4 * lines)
    for ax, name in zip_longest(figure.subplots(lines, columns, squeeze=False).flat, labels_of):
        ax.axis("off")
        if name is not None:
            blocks = block_means(ensemble, order_by_size(labels_of[name]), 300)
            ax.imshow(blocks.values, cmap="gray_r", vmin=0, vmax=1)
            ax.set_title(name, fontsize=9)
    return embedded(figure, f"co-association ordered by {', '.join(labels_of)}", "png", dpi=130)
