"""Figures and tables that docs/make_pages.py computes from the rows in docs/results.

The key of a figure is words with dots between them. truth.PART.WHAT, from the rows of benchmarks/truth.py and
benchmarks/truth_checks.py (PART is design or held-out):

    truth.held-out.clean.LWEA       mean adjusted Rand index of a method over the clean (or corrupted) families
    truth.held-out.clean.best       the three best single methods with their means; best1: the best one
    truth.design.behind             families where the answer is more than NEAR points behind the best method
    truth.design.k.chosen k         mean of a column of the tables k, bad and confidence
    truth.design.ordered            ensembles where surer items are right more often; also ordered-share, one-class,
                                    out-of-order, near-order, unsupported, ensembles
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import re
import sys
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results"
sys.path.append(str(RESULTS.parents[1] / "benchmarks"))

import truth  # noqa: E402  (of the folder benchmarks)
import truth_checks  # noqa: E402

TRUTH = [RESULTS / "truth-methods.jsonl.gz", RESULTS / "truth-answers.jsonl.gz"]
NEAR = 1.5  # points behind the best method of a family that were allowed
SHUFFLED, OWN_K, ORDER = 2.0, 4.0, 90  # points lost to shuffled members, points lost to an own k, percent in order
NAMES = {"AL": "average linkage", "KM": "k-means"}


def markdown(columns, rows) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


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
    rows = [row for path in TRUTH for row in truth.read(path) if row["part"] == part]
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


def truth_figure(part: str, what: str, which: str = "") -> str:
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


FIGURES = {"truth": truth_figure}
TABLES = {"truth": truth_table}
