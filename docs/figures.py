"""Figures and tables that docs/make_pages.py computes from the rows in docs/results.

The key of a figure is words with dots between them. truth.PART.WHAT, from the rows of benchmarks/truth.py and
benchmarks/truth_checks.py (PART is design or held-out):

    truth.held-out.clean.LWEA       mean adjusted Rand index of a method over the clean (or corrupted) families
    truth.now.clean.Answer          the same on the held-out sets with the answer of today
    truth.held-out.clean.best       the three best single methods with their means; best1: the best one
    truth.design.behind             families where the answer is more than NEAR points behind the best method
    truth.design.k.chosen k         mean of a column of the tables k, bad and confidence
    truth.within.7                  draws of 7 scenes in which the method best on all is within NEAR points of the best
    truth.design.ordered            ensembles where surer items are right more often; also ordered-share, one-class,
                                    out-of-order, near-order, unsupported, ensembles

paper.METHOD.SET.SCORE, from rows.jsonl.gz (SCORE is nmi or density, in percent): how far the mean of a method is above
the printed one, with SET "mean" the mean absolute distance; nmi-ours and nmi-printed are the two means.
paper.worst.METHODS.SCORE is the largest mean absolute distance of some methods.

    lead.Density.KM.density         range over the sets of the lead of one method over another
    lead-sets.Density.KM.density    on how many sets it is above 0
    ties.SET.READING.nmi            single linkage under a reading of its ties, from single-linkage-ties.json; nmi-gap:
                                    above the printed figure, nmi-sd: deviation between ensembles, nmi-first: first 20
    ties.all.READING.nmi            mean absolute distance from the printed figures; nmi-near: sets within 3 points
    gpu.fits.ROW.COLUMN             a time of gpu.json
    speed.300000.METHOD.time        median of a method in speed.json; ratio: its time in units of ours; mb: memory
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import re
from pathlib import Path

import numpy as np

from benchmarks import json_lines, truth, truth_checks
from benchmarks import single_linkage_ties as ties
from benchmarks.markdown import table as markdown_table
from benchmarks.paper.claims import claims_markdown, paired
from benchmarks.paper.store import read_rows
from benchmarks.paper.tables import gaps, paper_tables, summarise

RESULTS = Path(__file__).resolve().parent / "results"
TRUTH = [RESULTS / "truth-methods.jsonl.gz", RESULTS / "truth-answers.jsonl.gz"]
NOW = [TRUTH[0], RESULTS / "truth-answers-now.jsonl.gz"]  # the answer of today, on the held-out sets
NEAR = 1.5  # points behind the best method of a family that were allowed
SHUFFLED, OWN_K, ORDER = 2.0, 4.0, 90  # points lost to shuffled members, points lost to an own k, percent in order
NAMES = {"AL": "average linkage", "KM": "k-means"}


def markdown(columns, rows) -> str:
    """A table in Markdown."""
    return markdown_table(columns, rows) + "\n"


def measured(key: str) -> str:
    """A figure of figures.json with its unit."""
    groups = json.loads((RESULTS / "figures.json").read_text(encoding="utf-8")).values()
    return with_unit({key: of for group in groups for key, of in group["figures"].items()}[key])


def with_unit(of: dict) -> str:
    value = of["value"] if isinstance(of["value"], str) else f"{of['value']:,}"
    return f"{value} {of['unit']}".strip()


def signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


# -- the default answer against known truth ------------------------------------------------------------------------


@functools.cache
def family_means(part: str) -> dict[str, dict[str, float]]:
    """family -> method -> mean over sets, of the families that all methods were run on."""
    files, part = (NOW, "held-out") if part == "now" else (TRUTH, part)
    rows = [row for path in files for row in json_lines.read(path) if row["part"] == part]
    sets = truth.set_means(rows, "ari")
    found = {f: {m: float(np.mean(list(s.values()))) for m, s in of.items()} for f, of in sets.items()}
    most = max(map(len, found.values()))
    return {family: of for family, of in found.items() if len(of) == most}


def method_means(part: str, corrupted: bool) -> dict[str, float]:
    families = [of for family, of in family_means(part).items() if truth.is_corrupted(family) == corrupted]
    return {method: float(np.mean([of[method] for of in families])) for method in families[0]}


def best_single(part: str, corrupted: bool, count: int = 3) -> str:
    means = method_means(part, corrupted)
    order = sorted((m for m in means if m != "Answer"), key=lambda m: -means[m])
    return ", ".join(f"{NAMES.get(m, m)} {means[m]:.1f}" for m in order[:count])


def behind(part: str) -> dict[str, tuple[str, float]]:
    """The best single method of each clean family and how far the answer is above it, the worst family first."""
    found = {}
    for family, of in family_means(part).items():
        if not truth.is_corrupted(family):
            best = max((m for m in of if m != "Answer"), key=lambda m: of[m])
            found[family] = (best, of["Answer"] - of[best])
    return dict(sorted(found.items(), key=lambda item: item[1][1]))


@functools.cache
def checks(part: str) -> tuple[dict[str, str], dict[str, str]]:
    """What `truth_checks.py table` prints: its tables by name, and the counts in its sentences."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        truth_checks.table(argparse.Namespace(files=TRUTH[1:], part=part))
    parts = out.getvalue().strip().split("\n\n")
    tables = dict(zip(("k", "bad", "confidence"), (text + "\n" for text in parts if text.startswith("|")), strict=True))
    text = " ".join(" ".join(text for text in parts if not text.startswith("|")).split())
    ordered, of, share, one = re.search(r"often on (\d+) of (\d+) .*?(\d+) %; (\d+) ensembles have one", text).groups()
    wrong = re.search(r"standard errors: (\d+)", text)[1]
    unsupported, every = re.search(r"unsupported: (\d+) of (\d+)", text).groups()
    counts = {"ordered": f"{ordered} of {of}", "ordered-share": f"{share} %", "one-class": one, "out-of-order": wrong}
    counts["near-order"] = f"{100 - 100 * int(wrong) / int(of):.0f} %"
    counts["unsupported"] = f"{unsupported} of {every}"
    counts["ensembles"] = str(int(of) + int(one))
    return tables, counts


def cells(part: str, table: str) -> dict[str, dict[str, float]]:
    """A table of `checks` as numbers: row -> column -> value."""
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in checks(part)[0][table].splitlines()]
    return {row[0]: {c: float(cell) for c, cell in zip(lines[0][1:], row[1:]) if cell} for row in lines[2:]}


def within(size: int, draws: int = 4000) -> str:
    """Share of draws of `size` scenes in which the method that is best on all of them is near the best of the draw."""
    rows = [row for row in json_lines.read(TRUTH[0]) if row["family"].startswith("scenes")]
    rng, shares = np.random.default_rng(0), []
    for family, of in truth.set_means(rows, "ari").items():
        if not truth.is_corrupted(family):
            values = np.array([[sets[name] for name in sorted(sets)] for sets in of.values()])
            means = values[:, rng.integers(values.shape[1], size=(draws, size))].mean(axis=2)
            shares.append(100 * (means[values.mean(axis=1).argmax()] >= means.max(axis=0) - NEAR).mean())
    return f"{min(shares):.0f} to {max(shares):.0f} %"


def truth_figure(part: str, what: str, which: str = "") -> str:
    if part == "within":
        return within(int(what))
    if what in ("clean", "corrupted"):
        if which.startswith("best"):
            return best_single(part, what == "corrupted", int(which[4:] or 3))
        return f"{method_means(part, what == 'corrupted')[which]:.1f}"
    if what == "behind":
        return ", ".join(f"`{f}` ({NAMES.get(m, m)} {-by:.1f})" for f, (m, by) in behind(part).items() if by < -NEAR)
    if which:
        return f"{cells(part, what)['mean'][which]:.1f}"
    return checks(part)[1][what]


def truth_table(name: str) -> str:
    if name == "reached":
        return reached()
    what, _, part = name.partition("-")
    if what not in ("methods", "pairs"):
        return checks(part)[0][what]
    against = {"methods": None, "pairs": "Answer"}[what]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        truth.table(argparse.Namespace(rows=TRUTH, score="ari", against=against, part=part))
    return out.getvalue().strip().split("\n\n")[-1] + "\n"


def reached(part: str = "held-out") -> str:
    """What the rule was meant to reach and what was found."""

    def verdict(gaps: dict[str, float], limit: float) -> str:
        """Families below and above -limit."""
        below = [f"`{f}` {signed(by)}" for f, by in gaps.items() if by < -limit]
        met = [f"`{f}` {signed(by)}" for f, by in gaps.items() if by >= -limit]
        both = [f"**missed** on {len(below)} of {len(gaps)}: " + ", ".join(below)] if below else []
        return "; ".join(both + (["met on " + ", ".join(met)] if met else []))

    clean, corrupted = method_means(part, False), method_means(part, True)
    means = {f: by for f, (_, by) in behind(part).items()}
    bad = {f: of for f, of in cells(part, "bad").items() if f.endswith("shuffled-50")}
    lost = {f: of["with bad members"] - of["all good"] for f, of in bad.items()}
    alone = {f: of["the good ones among them"] - of["all good"] for f, of in bad.items() if lost[f] < -SHUFFLED}
    own = {p: cells(p, "k")["mean"] for p in (part, "design")}
    by = {p: of["true k"] - of["chosen k"] for p, of in own.items()}
    share = float(checks(part)[1]["ordered-share"].split()[0])

    def missed(bad: bool) -> str:
        return "**missed**: " if bad else "met: "

    ahead = clean["Answer"] >= max(clean.values())
    rows = [
        (f"true k, mean over the {len(means)} clean families", "ahead of every single method",
         f"{missed(not ahead)}{clean['Answer']:.1f}; {best_single(part, False)}"),
        ("true k, each family", f"within {NEAR} points of its best method", verdict(means, NEAR)),
        ("half of the members shuffled", f"at most {SHUFFLED:.0f} points lost", verdict(lost, SHUFFLED)
         + "".join(f"; the good members of `{f}` alone: {signed(by)}" for f, by in alone.items())),
        ("bad members, mean over the corrupted families", "",
         f"{corrupted['Answer']:.1f}; {best_single(part, True)}"),
        ("its own k", f"within {OWN_K:.0f} points of the true k", missed(by[part] > OWN_K) + f"{by[part]:.1f} "
         f"({own[part]['chosen k']:.1f} against {own[part]['true k']:.1f}); design sets {by['design']:.1f}"),
    ]  # fmt: skip
    for p in (part, "design"):
        both = [(f, of["chosen k"], of.get("k of the old rule")) for f, of in cells(p, "k").items()]
        old = {f: new - before for f, new, before in both if before is not None}
        below = [f"`{f}` {signed(by)}" for f, by in old.items() if by < 0 and f != "mean"]
        if old:
            found = "**missed** on " + ", ".join(below) if below else "met"
            rows.append((f"its own k, each family, {p} sets", "not below the rule before", found))
    rows.append(("confidence in order", f"{ORDER} % of the ensembles", f"{missed(share < ORDER)}{share:.0f} % "
                 f"({checks(part)[1]['ordered']}); {checks(part)[1]['near-order']} are not out of order by more than "
                 "two standard errors"))  # fmt: skip
    rows += [
        ("blobs; digits", "54 of 60; 9 to 12", f"{measured('truth_blobs')}; {measured('truth_digits')}"),
        ("noise called supported", "0 of 100", measured("truth_noise")),
        ("a million items", "10 times k-means, memory 3 times the codes",
         f"{measured('answer_million_ratio')}, {measured('answer_million_codes')}"),
    ]  # fmt: skip
    return markdown(("", "asked", "found"), rows)


# -- the published evaluation --------------------------------------------------------------------------------------


@functools.cache
def evaluation() -> list:
    return read_rows(RESULTS / "rows.jsonl.gz")[0]


def paper_figure(method: str, where: str, what: str) -> str:
    score, _, which = what.partition("-")
    if method == "worst":
        return f"{max(gap.mean_absolute for gap in gaps(evaluation(), score, where.split())):.1f}"
    if where == "mean":
        return f"{gaps(evaluation(), score, [method])[0].mean_absolute:.1f}"
    cell = summarise(evaluation(), score)[where][method]
    return {"": signed(cell.difference), "ours": f"{cell.mean:.1f}", "printed": f"{cell.paper:.1f}"}[which]


def lead_figure(first: str, second: str, score: str) -> str:
    leads = [of.mean for of in paired(evaluation(), score, first, second).values()]
    return f"{min(leads):.1f} to {max(leads):.1f}"


def lead_sets(first: str, second: str, score: str) -> str:
    leads = [of.mean for of in paired(evaluation(), score, first, second).values()]
    return f"{sum(lead > 0 for lead in leads)} of {len(leads)}"


def printed_claims() -> str:
    """The claims checked on the figures that the paper prints for the sets that we have."""
    have, cells = {row["dataset"] for row in evaluation()}, {}
    for key, sets in paper_tables().items():
        for dataset, methods in sets.items():
            for method, value in methods.items():
                if value is not None and dataset in have:
                    cells.setdefault((dataset, method), {})[key.partition("_")[0]] = value / 100
    rows = [{"dataset": d, "method": m, "repeat": 0, **scores} for (d, m), scores in sorted(cells.items())]
    lines = claims_markdown(rows).split("\n\n", 1)[1].splitlines(keepends=True)
    return "".join(line.replace("found here", "found in the printed figures") for line in lines)


@functools.cache
def stored_ties() -> dict:
    return json.loads((RESULTS / "single-linkage-ties.json").read_text(encoding="utf-8"))


def ties_figure(name: str, reading: str, what: str) -> str:
    score, _, which = what.partition("-")
    number = ("nmi", "density").index(score)
    gap, _ = ties.gaps(stored_ties(), reading, number)
    if name == "all":
        return f"{(abs(gap) <= 3).sum()} of {len(gap)}" if which == "near" else f"{abs(gap).mean():.1f}"
    if which == "gap":
        return signed(gap[list(stored_ties()).index(name)])
    return f"{stored_ties()[name][reading][{'': 'mean', 'sd': 'sd', 'first': 'first 20'}[which]][number]:.1f}"


def ties_table(name: str) -> str:
    if name == "readings":
        with contextlib.redirect_stdout(io.StringIO()) as out:
            ties.table()
        return re.sub(r"-(?=\d)", "−", out.getvalue().split("\n\n")[0]) + "\n"
    sets = dict(list(stored_ties().items())[:5])
    printed = [[paper_tables()[f"{score}_hier"][name]["R-SL"] for score in ("nmi", "density")] for name in sets]

    def mean(of: dict, reading: str, digits: int = 1) -> list[str]:
        return [f"{value:.{digits}f}" for value in of[reading]["mean"]]

    spread = [list(zip(mean(of, ties.SPREAD[0]), mean(of, ties.SPREAD[1]))) for of in sets.values()]
    rows = {
        "printed: NMI, density": [f"{nmi:.1f}, {density:.1f}" for nmi, density in printed],
        "clusters before → after the tied merges": [
            " → ".join(mean(of, "blocks, clusters after", 0)) for of in sets.values()
        ],
        "NMI, lowest to highest order": [" to ".join(of[0]) for of in spread],
        "density, lowest to highest order": [" to ".join(of[1]) for of in spread],
        "lowest row (`EAC`)": [", ".join(mean(of, "lowest")) for of in sets.values()],
        "random order, mean": [", ".join(mean(of, "random")) for of in sets.values()],
    }
    return markdown(("", *sets), [(what, *line) for what, line in rows.items()])


# -- speed and scale -----------------------------------------------------------------------------------------------


def gpu_figure(table: str, row: str, column: str) -> str:
    """A time of gpu.json, from the one row whose name contains `row`."""
    stored = json.loads((RESULTS / "gpu.json").read_text(encoding="utf-8"))[table]
    (line,) = [line for line in stored["rows"] if row in line[0].replace("*", "")]
    milliseconds = float(line[stored["columns"].index(column)])
    return f"{milliseconds:.0f} ms" if milliseconds < 100 else f"{milliseconds / 1000:.2f} s"


@functools.cache
def speed_runs() -> list[dict]:
    return json.loads((RESULTS / "speed.json").read_text(encoding="utf-8"))["runs"]


def speed_figure(n: str, method: str, what: str) -> str:
    """A median over the seeds of speed.json."""

    def column(of: str, name: str) -> list[float]:
        return [run[name] for run in speed_runs() if (run["n"], run["method"]) == (int(n), of)]

    if what == "mb":
        return f"{max(column(method, 'peak_mb')):.0f} MB"
    seconds = float(np.median(column(method, "seconds")))
    if what == "ratio":
        own = {"sklearn-bisecting": "coassoc-bisecting"}.get(method, "coassoc")
        return f"{seconds / np.median(column(own, 'seconds')):.0f} times"
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def k_checks_table(name: str) -> str:
    """A table that `python -m benchmarks.k_checks NAME --out docs/results/k-checks.json` stored."""
    path = RESULTS / "k-checks.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if name not in stored:
        return f"*Not measured yet: `python -m benchmarks.k_checks {name} --out docs/results/k-checks.json`.*\n"
    rows = stored[name]
    columns = list(next(iter(rows.values())))
    return markdown(("", *columns), [(row, *(str(cells.get(c, "")) for c in columns)) for row, cells in rows.items()])


def model_table(name: str) -> str:
    """Time and memory of up to 10¹¹ items on a cluster, by the formulas of benchmarks/notes/scale.md."""
    p, k, passes = 20, 20, 10
    rows = []
    for power, workers in ((9, 1), (9, 8), (9, 32), (10, 128), (10, 512), (11, 1024), (11, 4096)):
        n, most = 10.0**power, 1 << 23
        chunks = max(2 * workers, -(-int(n) // most))
        chunks = -(-chunks // workers) * workers
        overhead = 0.010 + 0.003 * chunks
        memory = n / workers * (p + 6) / 1e9 + 0.15
        seeding, run = k * (n * 3.5e-9 / workers + 2 * overhead), passes * (n * 13e-9 / workers + overhead)
        items = f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[power]}" if power < 10 else f"10¹{'⁰¹²³⁴⁵⁶⁷⁸⁹'[power - 10]}"
        rows.append((items, workers, chunks, f"{memory:.1f} GB", f"{seeding:.0f} s", f"{run:.0f} s"))
    return markdown(("items n", "workers c", "chunks C", "memory each, one start", "seeding", "ten passes"), rows)


FIGURES = {
    "truth": truth_figure,
    "paper": paper_figure,
    "lead": lead_figure,
    "lead-sets": lead_sets,
    "ties": ties_figure,
    "gpu": gpu_figure,
    "speed": speed_figure,
}
TABLES = {
    "truth": truth_table,
    "ties": ties_table,
    "model": model_table,
    "kchecks": k_checks_table,
    "printed": lambda name: printed_claims(),
}
