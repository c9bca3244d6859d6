"""The six tables of the paper, from stored rows, with the printed figures."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files

from .methods import DISTINCT, HIERARCHICAL, NON_HIERARCHICAL, PAPER_METHODS, known_methods
from .store import Row

COMPARISON = ("Max", "Mean", "KM", "H-KM", "Best-NH", "Best-H")
SCORES = {"nmi": "NMI", "density": "Density"}
UNAVAILABLE = ("gisette",)  # sets that no source has; only their printed figures are shown
# marks of sets too large for the paper: exact linkage over different rows, or linkage of micro-clusters
MARKS = {"": "", DISTINCT: "†"}
MICRO_MARK = "‡"


@dataclass(frozen=True)
class Cell:
    """One score of one method on one data set, in percent: mean, standard error, the printed figure."""

    mean: float
    error: float
    n: int
    paper: float | None = None
    mark: str = ""
    best: bool = False
    failed: int = 0

    @property
    def difference(self) -> float | None:
        return None if self.paper is None or math.isnan(self.mean) else self.mean - self.paper


@dataclass
class Table:
    """Cells by data set and method."""

    key: str
    title: str
    score: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Cell]] = field(default_factory=dict)
    # printed figures without rows of ours, and the reason
    missing: dict[str, tuple[dict[str, float], str]] = field(default_factory=dict)


@lru_cache(maxsize=1)
def paper_tables() -> dict[str, dict[str, dict[str, float | None]]]:
    """The printed figures: table -> data set -> method -> percent."""
    text = (files("coassoc.experiments") / "paper_tables.json").read_text(encoding="utf-8")
    return json.loads(text)


def paper_value(score: str, dataset: str, method: str) -> float | None:
    """The printed figure of one method, from whichever table has it."""
    for kind in ("nonhier", "hier", "comparison"):
        value = paper_tables()[f"{score}_{kind}"].get(dataset, {}).get(method)
        if value is not None:
            return value
    return None


def summarise(rows: Iterable[Row], score: str) -> dict[str, dict[str, Cell]]:
    """Mean and standard error over repeats of every data set and method, in percent."""
    values: dict[tuple[str, str], list[float]] = {}
    marks: dict[tuple[str, str], str] = {}
    failed: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda r: r["repeat"]):
        at = (row["dataset"], row["method"])
        if row.get(score) is None:
            failed[at] = failed.get(at, 0) + 1
            continue
        values.setdefault(at, []).append(100.0 * row[score])
        marks[at] = max(marks.get(at, ""), MARKS.get(row.get("variant") or "", MICRO_MARK))
    found: dict[str, dict[str, Cell]] = {}
    for at in sorted({*values, *failed}):
        dataset, method = at
        own, paper = values.get(at, []), paper_value(score, dataset, method)
        cell = Cell(*mean_and_error(own), len(own), paper, marks.get(at, ""), failed=failed.get(at, 0))
        found.setdefault(dataset, {})[method] = cell
    return found


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error; NaN where there are too few values."""
    n = len(values)
    mean = math.fsum(values) / n if n else math.nan
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1)) if n > 1 else math.nan
    return mean, spread / math.sqrt(max(n, 1))


def make_tables(rows: Sequence[Row]) -> list[Table]:
    """The paper's six tables, then one per score for methods beyond it where there are rows."""
    names = {row["method"] for row in rows}
    further = [m for m in known_methods() if m in names and m not in PAPER_METHODS]
    own = sorted(names - {*known_methods(), *COMPARISON})
    tables = []
    for kind, text, columns in (
        ("nonhier", "non-hierarchical algorithms", NON_HIERARCHICAL),
        ("hier", "hierarchical algorithms", HIERARCHICAL),
        ("comparison", "comparison", COMPARISON),
        ("further", "methods beyond the paper, with KM for reference", ("KM", *further, *own)),
    ):
        if kind == "further" and not (further or own):
            continue
        for score, label in SCORES.items():
            cells = summarise(rows, score)
            if not any(m in by for by in cells.values() for m in columns if not m.startswith("Best")):
                continue
            tables.append(_table(f"{score}_{kind}", f"{label}: {text}", score, tuple(columns), cells))
    return tables


def _table(key: str, title: str, score: str, columns: tuple[str, ...], cells: dict[str, dict[str, Cell]]) -> Table:
    table = Table(key, title, score, columns)
    printed = paper_tables().get(key, {})
    for dataset in sorted({*cells, *printed}):
        have = dict(cells.get(dataset, {}))
        for name, group in (("Best-NH", NON_HIERARCHICAL), ("Best-H", HIERARCHICAL)):
            best = best_of(have, group)
            if best is not None:
                paper = paper_tables()[f"{score}_comparison"].get(dataset, {}).get(name)
                have[name] = replace(best, paper=paper, failed=0)
        chosen = {name: have[name] for name in columns if name in have}
        if chosen:
            table.rows[dataset] = _with_best(chosen)
        elif dataset in printed and dataset in UNAVAILABLE and cells:
            figures = {m: v for m, v in printed[dataset].items() if v is not None}
            table.missing[dataset] = (figures, "not available here")
    return table


def best_of(cells: dict[str, Cell], group: Iterable[str]) -> Cell | None:
    """The best cell of a family, as in the paper's Best columns."""
    have = [cells[m] for m in group if m in cells and not math.isnan(cells[m].mean)]
    return max(have, key=lambda c: c.mean, default=None)


def _with_best(cells: dict[str, Cell]) -> dict[str, Cell]:
    """Mark the highest mean; zero-effort columns are left out, as in the paper."""
    rivals = [m for m in cells if m not in ("Max", "Mean") and not math.isnan(cells[m].mean)]
    if not rivals:
        return cells
    top = max(round(cells[m].mean, 2) for m in rivals)
    return {m: replace(c, best=m in rivals and round(c.mean, 2) == top) for m, c in cells.items()}


# -- gaps --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gap:
    """How far a method's column is from the printed one, over the data sets both have."""

    method: str
    score: str
    n_sets: int
    mean_absolute: float
    mean: float
    worst_set: str
    worst: float


def gaps(rows: Sequence[Row], score: str, methods: Sequence[str] = ()) -> list[Gap]:
    """Mean absolute difference to the paper per method; cells not made by exact linkage are left out."""
    cells = summarise(rows, score)
    found = []
    for method in methods or ("Max", "Mean", *PAPER_METHODS):
        mine = {dataset: by[method] for dataset, by in cells.items() if method in by}
        known = {d: c.difference for d, c in mine.items() if c.difference is not None and c.mark != MICRO_MARK}
        if known:
            worst = max(known, key=lambda d: abs(known[d]))
            absolute, mean = (
                mean_and_error(values)[0] for values in (list(map(abs, known.values())), [*known.values()])
            )
            found.append(Gap(method, score, len(known), absolute, mean, worst, known[worst]))
    return found


# -- writing -----------------------------------------------------------------------------------------------


def _number(value: float, digits: int = 2) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def cell_text(cell: Cell | None, style: str = "markdown", repeats: int = 0) -> str:
    """``ours ± standard error (paper, difference)``, the best in bold; ``[n]`` where there are fewer than `repeats`."""
    if cell is None:
        return "NA"
    if math.isnan(cell.mean):
        return "failed"
    latex = style == "latex"
    ours = _number(cell.mean)
    if cell.best:
        ours = f"\\textbf{{{ours}}}" if latex else f"**{ours}**"
    if cell.mark:
        ours += {"†": "$^\\dagger$"}.get(cell.mark, "$^\\ddagger$") if latex else cell.mark
    text = ours
    if not math.isnan(cell.error):
        text += f" $\\pm$ {_number(cell.error)}" if latex else f" ± {_number(cell.error)}"
    if cell.difference is not None:
        sign = f"{cell.difference:+.2f}"
        text += f" ({_number(cell.paper or 0.0)}, {'$' + sign + '$' if latex else sign})"
    return f"{text} [{cell.n}]" if cell.n < repeats else text


def _most_repeats(table: Table) -> int:
    return max((cell.n for cells in table.rows.values() for cell in cells.values()), default=0)


def to_markdown(table: Table) -> str:
    """The table in Markdown."""
    lines = [
        f"### {table.title}",
        "",
        "| data set | " + " | ".join(table.columns) + " |",
        "| --- |" + " --- |" * len(table.columns),
    ]
    most = _most_repeats(table)
    for dataset, cells in table.rows.items():
        texts = [cell_text(cells.get(m), repeats=most) for m in table.columns]
        lines.append(f"| {dataset} | " + " | ".join(texts) + " |")
    for dataset, (printed, why) in table.missing.items():
        texts = [f"({printed[m]:.2f})" if m in printed else "NA" for m in table.columns]
        lines.append(f"| {dataset}: {why} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """The table in LaTeX, as a tabular in a table environment."""
    most = _most_repeats(table)
    lines = [
        "\\begin{table}[h]",
        "  \\centering",
        f"  \\caption{{{table.title}. Ours $\\pm$ standard error (paper, difference)}}",
        "  \\begin{tabular}{l" + "r" * len(table.columns) + "}",
        "    \\hline",
        "    data set & " + " & ".join(table.columns) + " \\\\",
        "    \\hline",
    ]
    for dataset, cells in table.rows.items():
        name = dataset.replace("_", "\\_")
        texts = [cell_text(cells.get(m), "latex", most) for m in table.columns]
        lines.append(f"    \\texttt{{{name}}} & " + " & ".join(texts) + " \\\\")
    lines += ["    \\hline", "  \\end{tabular}", "\\end{table}"]
    return "\n".join(lines) + "\n"


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
    lines = [
        "### Distance to the paper, in points, over the data sets both have",
        "",
        "| method | sets | NMI: mean absolute | NMI: mean | density: mean absolute | density: mean | largest NMI gap |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    nmi = {g.method: g for g in gaps(rows, "nmi")}
    density = {g.method: g for g in gaps(rows, "density")}
    for method, g in nmi.items():
        d = density[method]
        lines.append(
            f"| {method} | {g.n_sets} | {g.mean_absolute:.2f} | {g.mean:+.2f} | {d.mean_absolute:.2f} | {d.mean:+.2f} "
            f"| {g.worst_set} {g.worst:+.2f} |"
        )
    return "\n".join(lines) + "\n"
