"""The drawings of the evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from ..ensemble import Ensemble
from .claims import paired
from .methods import PAPER_METHODS
from .store import Row
from .svg import COLOURS, Axis, Drawing, gray_png, padded
from .tables import SCORES, summarise

_ORDER = ("Max", "Mean", *PAPER_METHODS)


def ordered_methods(rows: Sequence[Row]) -> list[str]:
    """Methods in the order of the tables, others after them."""
    names = {row["method"] for row in rows}
    return [m for m in _ORDER if m in names] + sorted(names - set(_ORDER))


def dot_plot(rows: Sequence[Row], dataset: str, score: str) -> str:
    """Every method on one data set: our mean with its standard error, and the printed figure as a diamond."""
    cells = summarise(rows, score)[dataset]
    names = [m for m in ordered_methods(rows) if m in cells and not math.isnan(cells[m].mean)]
    height = 44 + 16 * len(names)
    picture = Drawing(330, height, f"{SCORES[score]} of every method on {dataset}, beside the paper's figure")
    picture.text(8, 14, dataset, bold=True, size=12)
    if not names:
        return picture.render()
    values = [cells[m].mean for m in names] + [p for m in names if (p := cells[m].paper) is not None]
    x = Axis(*padded(values), 90, 318)
    bottom = height - 22
    for tick in x.ticks():
        picture.line(x(tick), 22, x(tick), bottom, opacity=0.15)
        picture.text(x(tick), height - 8, f"{tick:g}", anchor="middle", size=10)
    for i, method in enumerate(names):
        cell, y = cells[method], 32 + 16 * i
        colour = COLOURS[0] if method not in ("Max", "Mean") else COLOURS[7]
        picture.text(84, y + 4, method + cell.mark, anchor="end")
        if not math.isnan(cell.error):
            picture.line(x(cell.mean - cell.error), y, x(cell.mean + cell.error), y, colour=colour, width=2)
        picture.dot(x(cell.mean), y, 4, colour=colour, note=f"{method}: {cell.mean:.2f} over {cell.n} repeats")
        if cell.paper is not None:
            picture.diamond(x(cell.paper), y, 5, colour=COLOURS[1], note=f"{method} in the paper: {cell.paper:.2f}")
    return picture.render()


def paired_plot(rows: Sequence[Row], score: str, reference: str = "KM") -> str:
    """Each method minus the reference on the same ensembles: a dot per data set, their mean and its 95 % interval."""
    names = [m for m in ordered_methods(rows) if m not in (reference, "Max", "Mean")]
    by_method = {m: paired(rows, score, m, reference) for m in names}
    by_method = {m: found for m, found in by_method.items() if found}
    height = 50 + 22 * max(1, len(by_method))
    picture = Drawing(680, height, f"{SCORES[score]}: difference of each method to {reference}, a dot per data set")
    if not by_method:
        return picture.render()
    values = [p.mean for found in by_method.values() for p in found.values()] + [0.0]
    x = Axis(*padded(values), 100, 660)
    for tick in x.ticks(8):
        picture.line(x(tick), 10, x(tick), height - 30, opacity=0.15)
        picture.text(x(tick), height - 16, f"{tick:+g}", anchor="middle", size=10)
    picture.line(x(0), 10, x(0), height - 30, opacity=0.7)
    picture.text(380, height - 2, f"{SCORES[score]} points above {reference}", anchor="middle", size=10)
    for i, (method, found) in enumerate(by_method.items()):
        y = 22 + 22 * i
        picture.text(94, y + 4, method, anchor="end")
        means = [p.mean for p in found.values()]
        for dataset, p in found.items():
            picture.dot(x(p.mean), y, 3.5, colour=COLOURS[0], opacity=0.55, note=f"{dataset}: {p.mean:+.2f}")
        mean = math.fsum(means) / len(means)
        if len(means) > 1:
            spread = math.sqrt(math.fsum((v - mean) ** 2 for v in means) / (len(means) - 1) / len(means))
            half = _t95(len(means) - 1) * spread
            ends = max(mean - half, x.low), min(mean + half, x.high)
            picture.line(x(ends[0]), y, x(ends[1]), y, colour=COLOURS[1], width=2.5)
        picture.diamond(x(mean), y, 5.5, colour=COLOURS[1], fill=COLOURS[1], note=f"mean {mean:+.2f}")
    return picture.render()


def _t95(freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))


def mean_ranks(rows: Sequence[Row], score: str, methods: Sequence[str]) -> tuple[dict[str, float], int, float]:
    """Mean rank of each method over the data sets that have all of them, how many, and the critical difference.

    Two methods whose mean ranks differ by more than the critical difference differ significantly at 5 % by the Nemenyi
    test.
    """
    from scipy.stats import rankdata, studentized_range

    cells = summarise(rows, score)
    whole = [by for by in cells.values() if all(m in by and not math.isnan(by[m].mean) for m in methods)]
    if len(whole) < 2 or len(methods) < 2:
        return {}, len(whole), math.nan
    ranks = np.array([rankdata([-by[m].mean for m in methods]) for by in whole]).mean(axis=0)
    k = len(methods)
    critical = float(studentized_range.ppf(0.95, k, np.inf)) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * len(whole)))
    return dict(zip(methods, ranks.tolist())), len(whole), critical


def rank_plot(rows: Sequence[Row], score: str) -> str:
    """Mean ranks on a line with the critical difference beside them."""
    methods = [m for m in ordered_methods(rows) if m not in ("Max", "Mean")]
    ranks, n_sets, critical = mean_ranks(rows, score, methods)
    if not ranks:  # linkage did not run on the largest sets: compare the other methods
        methods = [m for m in methods if m[:2] not in ("R-", "E-")]
        ranks, n_sets, critical = mean_ranks(rows, score, methods)
    picture = Drawing(680, 60 + 15 * len(ranks), f"{SCORES[score]}: mean rank of each method over {n_sets} data sets")
    if not ranks:
        return ""
    x = Axis(1, max(2.0, float(len(ranks))), 40, 640)
    picture.line(x(1), 40, x(x.high), 40)
    for tick in range(1, len(ranks) + 1):
        picture.line(x(tick), 36, x(tick), 44)
        picture.text(x(tick), 32, str(tick), anchor="middle", size=10)
    picture.line(x(1), 14, x(min(1 + critical, x.high)), 14, colour=COLOURS[1], width=3)
    picture.text(x(1), 10, f"critical difference {critical:.2f} (5 %, {n_sets} sets)", size=10)
    for i, (method, rank) in enumerate(sorted(ranks.items(), key=lambda item: item[1])):
        y = 60 + 15 * i
        picture.line(x(rank), 40, x(rank), y, opacity=0.4)
        picture.dot(x(rank), 40, 3.5, colour=COLOURS[0])
        side = x(rank) < 480
        picture.text(x(rank) + (5 if side else -5), y + 3, f"{method} {rank:.2f}", anchor="start" if side else "end")
    return picture.render()


def time_points(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """Median seconds of each method by number of items."""
    seconds: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if row["method"] not in ("Max", "Mean") and row.get("nmi") is not None:
            seconds.setdefault((row["method"], row["n_samples"]), []).append(max(row["seconds"], 1e-6))
    found: dict[str, list[tuple[int, float]]] = {}
    for (method, n), values in sorted(seconds.items()):
        found.setdefault(method, []).append((n, median(values)))
    return found


def time_plot(rows: Sequence[Row]) -> str:
    """Seconds against n for every method, both on logarithmic scales."""
    points = time_points(rows)
    picture = Drawing(760, 400, "Seconds per consensus against the number of items, for every method")
    if not points:
        return picture.render()
    sizes = [n for found in points.values() for n, _ in found]
    times = [t for found in points.values() for _, t in found]
    x = Axis(min(sizes) / 1.2, max(sizes) * 1.2, 60, 600, log=True)
    y = Axis(min(times) / 1.5, max(times) * 1.5, 360, 20, log=True)
    for tick in x.ticks():
        picture.line(x(tick), 20, x(tick), 360, opacity=0.15)
        picture.text(x(tick), 376, f"{tick:,.0f}", anchor="middle", size=10)
    for tick in y.ticks():
        picture.line(60, y(tick), 600, y(tick), opacity=0.15)
        picture.text(54, y(tick) + 4, f"{tick:g} s", anchor="end", size=10)
    picture.text(330, 394, "items", anchor="middle", size=10)
    lines = sorted(points.items(), key=lambda item: -item[1][-1][1])
    for i, (method, found) in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        picture.path([(x(n), y(t)) for n, t in found], colour=colour)
        for n, t in found:
            picture.dot(x(n), y(t), 3, colour=colour, note=f"{method}, {n} items: {t:.3g} s")
        picture.line(612, 26 + 16 * i, 628, 26 + 16 * i, colour=colour, width=3)
        picture.text(634, 30 + 16 * i, f"{method} ({found[-1][1]:.2g} s)", size=11)
    return picture.render()


def block_picture(ensemble: Ensemble, labels: np.ndarray, most: int = 300) -> str:
    """The co-association matrix with its rows in the order of a consensus: a good one shows dark blocks."""
    order = block_order(labels, most)
    return gray_png(ensemble.coassociation(order))


def block_order(labels: np.ndarray, most: int) -> np.ndarray:
    """Items sorted by cluster, the largest cluster first; evenly thinned when there are too many."""
    labels = np.asarray(labels)
    seen = np.flatnonzero(labels >= 0)
    sizes = np.bincount(labels[seen])
    order = seen[np.lexsort((seen, labels[seen], -sizes[labels[seen]]))]
    if len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).astype(int)]
    return order
