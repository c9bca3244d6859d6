"""The six tables of the paper, from stored rows, with the printed figures."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from statistics import fmean, stdev

from ..markdown import table as markdown_table
from .methods import DISTINCT, HIERARCHICAL, NON_HIERARCHICAL, PAPER_METHODS, known_methods
from .store import Row

COMPARISON = ("Max", "Mean", "KM", "H-KM", "Best-NH", "Best-H")
SCORES = {"nmi": "NMI", "density": "Density"}
UNAVAILABLE = ("gisette",)  # sets that no source has; only their printed figures are shown
# marks of sets too large for the paper: exact linkage over different rows, or linkage of micro-clusters
MARKS = {"": "", DISTINCT: "†"}
MICRO_MARK = "‡"
# a cell in Markdown as LaTeX writes it
_LATEX = {r"\*\*(.+?)\*\*": r"\\textbf{\1}", "†": r"$^\\dagger$", "‡": r"$^\\ddagger$", "±": r"$\\pm$",
          r", ([+-][\d.]+)\)": r", $\1$)"}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One score of one method on one data set, in percent: mean, standard error, the printed figure."""

    mean: float
    error: float
    n: int
    paper: float | None = None
    mark: str = ""
    best: bool = False

    @property
    def difference(self) -> float | None:
        return None if self.paper is None or math.isnan(self.mean) else self.mean - self.paper


@dataclass
class Table:
    """Cells by data set and method; of sets that are not available, the printed figures."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Cell]] = field(default_factory=dict)
    unavailable: dict[str, dict[str, float | None]] = field(default_factory=dict)


@lru_cache(maxsize=1)
def paper_tables() -> dict[str, dict[str, dict[str, float | None]]]:
    """The printed figures: table -> data set -> method -> percent."""
    return json.loads((files(__package__) / "paper_tables.json").read_text(encoding="utf-8"))


def paper_value(score: str, dataset: str, method: str) -> float | None:
    """The printed figure of one method, from whichever table has it."""
    printed = (paper_tables()[f"{score}_{kind}"].get(dataset, {}) for kind in ("nonhier", "hier", "comparison"))
    return next((of[method] for of in printed if of.get(method) is not None), None)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error; NaN where there are too few values."""
    n = len(values)
    return fmean(values) if n else math.nan, stdev(values) / math.sqrt(n) if n > 1 else math.nan


def summarise(rows: Iterable[Row], score: str) -> dict[str, dict[str, Cell]]:
    """Mean and standard error over repeats of every data set and method, in percent."""
    runs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        runs.setdefault((row["dataset"], row["method"]), []).append(row)
    cells: dict[str, dict[str, Cell]] = {}
    for dataset, method in sorted(runs):
        done = [row for row in runs[dataset, method] if row.get(score) is not None]
        mark = max((MARKS.get(row.get("variant") or "", MICRO_MARK) for row in done), default="")
        mean, error = mean_and_error([100.0 * row[score] for row in done])
        cells.setdefault(dataset, {})[method] = Cell(mean, error, len(done), paper_value(score, dataset, method), mark)
    return cells


def make_tables(rows: Sequence[Row]) -> list[Table]:
    """The paper's six tables, then one per score for methods beyond it where there are rows."""
    names = {row["method"] for row in rows}
    beyond = [m for m in known_methods() if m in names and m not in PAPER_METHODS]
    beyond += sorted(names - {*known_methods(), *COMPARISON})
    cells = {score: summarise(rows, score) for score in SCORES}
    return [
        _table(f"{score}_{kind}", f"{label}: {text}", columns, cells[score])
        for kind, text, columns in (
            ("nonhier", "non-hierarchical algorithms", NON_HIERARCHICAL),
            ("hier", "hierarchical algorithms", HIERARCHICAL),
            ("comparison", "comparison", COMPARISON),
            ("further", "methods beyond the paper, with KM for reference", ("KM", *beyond) if beyond else ()),
        )
        if names.intersection(columns)
        for score, label in SCORES.items()
    ]


def _table(key: str, title: str, columns: tuple[str, ...], cells: dict[str, dict[str, Cell]]) -> Table:
    table = Table(key, title, columns)
    printed = paper_tables().get(key, {})
    for dataset in sorted({*cells, *printed}):
        have = dict(cells.get(dataset, {}))
        for name, group in (("Best-NH", NON_HIERARCHICAL), ("Best-H", HIERARCHICAL)):
            rivals = [have[m] for m in group if m in have and not math.isnan(have[m].mean)]
            if rivals:
                best = max(rivals, key=lambda cell: cell.mean)
                have[name] = replace(best, paper=paper_value(key.partition("_")[0], dataset, name))
        chosen = {name: have[name] for name in columns if name in have}
        # the highest mean is marked; zero-effort columns are left out, as in the paper
        means = {m: round(c.mean, 2) for m, c in chosen.items() if m not in ("Max", "Mean") and not math.isnan(c.mean)}
        if chosen:
            top = max(means.values(), default=None)
            table.rows[dataset] = {m: replace(c, best=m in means and means[m] == top) for m, c in chosen.items()}
        elif dataset in UNAVAILABLE:
            table.unavailable[dataset] = printed[dataset]
    return table


# -- gaps --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gap:
    """How far a method's column is from the printed one, over the data sets both have."""

    method: str
    n_sets: int
    mean_absolute: float
    mean: float
    worst_set: str
    worst: float


def gaps(rows: Sequence[Row], score: str, methods: Sequence[str] = ("Max", "Mean", *PAPER_METHODS)) -> list[Gap]:
    """Mean absolute difference to the paper per method; cells not made by exact linkage are left out."""
    cells = summarise(rows, score)
    columns = []
    for method in methods:
        mine = {dataset: by[method] for dataset, by in cells.items() if method in by}
        known = {d: c.difference for d, c in mine.items() if c.difference is not None and c.mark != MICRO_MARK}
        if known:
            worst = max(known, key=lambda d: abs(known[d]))
            absolute = fmean(map(abs, known.values()))
            columns.append(Gap(method, len(known), absolute, fmean(known.values()), worst, known[worst]))
    return columns


# -- writing -----------------------------------------------------------------------------------------------


def cell_text(cell: Cell | None, repeats: int = 0) -> str:
    """``ours ± standard error (paper, difference)``, the best in bold; ``[n]`` where there are fewer than `repeats`."""
    if cell is None:
        return "NA"
    if math.isnan(cell.mean):
        return "failed"
    text = (f"**{cell.mean:.2f}**" if cell.best else f"{cell.mean:.2f}") + cell.mark
    if not math.isnan(cell.error):
        text += f" ± {cell.error:.2f}"
    if cell.difference is not None:
        text += f" ({cell.paper:.2f}, {cell.difference:+.2f})"
    return f"{text} [{cell.n}]" if cell.n < repeats else text


def _texts(table: Table) -> dict[str, list[str]]:
    """The cells of each data set as text."""
    most = max((cell.n for cells in table.rows.values() for cell in cells.values()), default=0)
    return {name: [cell_text(cells.get(m), most) for m in table.columns] for name, cells in table.rows.items()}


def markdown(title: str, head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A heading and a table in Markdown."""
    return f"### {title}\n\n{markdown_table(head, lines)}\n"


def to_markdown(table: Table) -> str:
    """The table in Markdown."""
    lines = [[name, *texts] for name, texts in _texts(table).items()]
    for name, printed in table.unavailable.items():
        figures = ["NA" if printed.get(m) is None else f"({printed[m]:.2f})" for m in table.columns]
        lines.append([f"{name}: not available here", *figures])
    return markdown(table.title, ["data set", *table.columns], lines)


def to_latex(table: Table) -> str:
    """The table in LaTeX, as a tabular in a table environment."""
    body = ""
    for name, texts in _texts(table).items():
        text = " & ".join(texts)
        for ours, theirs in _LATEX.items():
            text = re.sub(ours, theirs, text)
        body += f"    \\texttt{{{name}}} & ".replace("_", "\\_") + f"{text} \\\\\n"
    return (
        "\\begin{table}[h]\n"
        "  \\centering\n"
        f"  \\caption{{{table.title}. Ours $\\pm$ standard error (paper, difference)}}\n"
        f"  \\begin{{tabular}}{{l{'r' * len(table.columns)}}}\n"
        "    \\hline\n"
        f"    data set & {' & '.join(table.columns)} \\\\\n"
        f"    \\hline\n{body}"
        "    \\hline\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )


def to_csv(tables: Iterable[Table]) -> str:
    """All tables in long form, one line per cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["table", "dataset", "method", "mean", "standard_error", "repeats", "paper", "difference", "best", "mark"]
    )
    for table in tables:
        for dataset, cells in table.rows.items():
            for method, c in cells.items():
                paper = "" if c.paper is None else f"{c.paper:.2f}"
                difference = "" if c.difference is None else f"{c.difference:.4f}"
                numbers = ["" if math.isnan(v) else f"{v:.4f}" for v in (c.mean, c.error)]
                writer.writerow([table.key, dataset, method, *numbers, c.n, paper, difference, int(c.best), c.mark])
    return out.getvalue()


def gaps_markdown(rows: Sequence[Row]) -> str:
    """Distance to the printed columns, method by method."""
    head = ["method", "sets", *(f"{s}: {what}" for s in ("NMI", "density") for what in ("mean absolute", "mean"))]
    density = {g.method: g for g in gaps(rows, "density")}
    lines = []
    for g in gaps(rows, "nmi"):
        means = [text for of in (g, density[g.method]) for text in (f"{of.mean_absolute:.2f}", f"{of.mean:+.2f}")]
        lines.append([g.method, str(g.n_sets), *means, f"{g.worst_set} {g.worst:+.2f}"])
    title = "Distance to the paper, in points, over the data sets both have"
    return markdown(title, [*head, "largest NMI gap"], lines)
