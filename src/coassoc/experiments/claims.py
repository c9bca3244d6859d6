"""The paper's claims, one by one, tested on stored rows with paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .methods import HIERARCHICAL, NON_HIERARCHICAL
from .store import Row
from .tables import mean_and_error

_RIVALS = ("H-KM", *NON_HIERARCHICAL, *HIERARCHICAL)


@dataclass(frozen=True)
class Paired:
    """Differences of two methods on the same ensembles, in points: mean, standard error, repeats."""

    mean: float
    error: float
    n: int


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what was found, and the verdict."""

    text: str
    finding: str
    holds: str


def scores_by_run(rows: Sequence[Row], score: str) -> dict[tuple[str, int], dict[str, float]]:
    """Percent by (data set, repeat), then method; linkage of micro-clusters is left out."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        if row.get(score) is not None and not str(row.get("variant", "")).startswith("micro"):
            found.setdefault((row["dataset"], row["repeat"]), {})[row["method"]] = 100.0 * row[score]
    return found


def paired(rows: Sequence[Row], score: str, first: str, second: str) -> dict[str, Paired]:
    """Differences ``first - second`` per data set, over the repeats that have both."""
    differences: dict[str, list[float]] = {}
    for (dataset, _), scores in sorted(scores_by_run(rows, score).items()):
        if first in scores and second in scores:
            differences.setdefault(dataset, []).append(scores[first] - scores[second])
    return {dataset: Paired(*mean_and_error(values), len(values)) for dataset, values in differences.items()}


def _lead_of_best(rows: Sequence[Row], score: str, own: str, rivals: Sequence[str]) -> dict[str, tuple[float, str]]:
    """By data set, how far the best of `rivals` is above `own` on average, and which it is."""
    values: dict[str, dict[str, list[float]]] = {}
    for (dataset, _), scores in scores_by_run(rows, score).items():
        for method, value in scores.items():
            values.setdefault(dataset, {}).setdefault(method, []).append(value)
    found = {}
    for dataset, by in sorted(values.items()):
        means = {m: mean_and_error(by[m])[0] for m in rivals if m in by}
        if own in by and means:
            best = max(means, key=lambda m: means[m])
            found[dataset] = (means[best] - mean_and_error(by[own])[0], best)
    return found


def check_claims(rows: Sequence[Row]) -> list[Claim]:
    """Those of the five claims that can be tested with these rows."""
    dense = _lead_of_best(rows, "density", "KM", _RIVALS)
    average = _lead_of_best(rows, "nmi", "R-AL", [m for m in HIERARCHICAL if m != "R-AL"])
    words = "first of the six linkages in NMI on {} of {} sets"
    claims = [
        _first("KM has the highest density", "first on {} of {} sets", dense),
        _comparable_nmi(rows),
        _bisecting_close(rows),
        _first("Average linkage on the raw matrix is the best linkage", words, average),
        _helps(rows),
    ]
    return [claim for claim in claims if claim is not None]


def _first(claim: str, words: str, leads: dict[str, tuple[float, str]]) -> Claim | None:
    """The claim that a method is the best one, by the leads of its best rival."""
    losses = [f"{d} ({best} {lead:+.2f})" for d, (lead, best) in leads.items() if lead > 0]
    if not leads:
        return None
    wins = len(leads) - len(losses)
    finding = words.format(wins, len(leads)) + ("; not on " + ", ".join(losses) if losses else "")
    return Claim(claim, finding, _verdict(wins, len(losses)))


def _comparable_nmi(rows: Sequence[Row]) -> Claim | None:
    leads = _lead_of_best(rows, "nmi", "KM", _RIVALS)
    if not leads:
        return None
    far = [f"{d} ({best} {lead:+.1f})" for d, (lead, best) in leads.items() if lead > 3.0]
    near, mean = len(leads) - len(far), mean_and_error([lead for lead, _ in leads.values()])[0]
    finding = f"the best rival is {mean:+.2f} points from KM on average; within 3 points on {near} of {len(leads)}"
    if far:
        finding += "; further on " + ", ".join(far)
    return Claim("KM's NMI is comparable to the best", finding, _verdict(near, len(far)))


def _bisecting_close(rows: Sequence[Row]) -> Claim | None:
    parts, near, far = [], 0, 0
    for score in ("density", "nmi"):
        found = paired(rows, score, "H-KM", "KM")
        if not found:
            return None
        mean = math.fsum(p.mean for p in found.values()) / len(found)
        above = sum(p.mean > 0 for p in found.values())
        parts.append(f"{score}: H-KM - KM is {mean:+.2f} on average, above KM on {above} of {len(found)} sets")
        if score == "density":
            near = sum(abs(p.mean) <= 3.0 for p in found.values())
            far = len(found) - near
            parts[-1] += f", within 3 points on {near}"
    return Claim("Bisecting is close to KM", "; ".join(parts), _verdict(near, far))


def _helps(rows: Sequence[Row]) -> Claim | None:
    found = paired(rows, "nmi", "E-ML", "R-ML")
    if not found:
        return None
    up = [d for d, p in found.items() if p.mean > 2 * p.error or (math.isnan(p.error) and p.mean > 0)]
    down = [f"{d} ({p.mean:+.1f})" for d, p in found.items() if p.mean < -2 * p.error]
    mean = math.fsum(p.mean for p in found.values()) / len(found)
    finding = f"E-ML - R-ML in NMI is {mean:+.2f} on average, clearly above 0 on {len(up)} of {len(found)} sets"
    if down:
        finding += "; clearly below on " + ", ".join(down)
    return Claim("Enhancement helps complete linkage", finding, _verdict(len(up), len(found) - len(up)))


def _verdict(yes: int, no: int) -> str:
    share = yes / (yes + no)
    return "holds" if share == 1 else "holds mostly" if share >= 0.75 else "mixed" if share >= 0.4 else "does not hold"


def claims_markdown(rows: Sequence[Row]) -> str:
    """The claims as a Markdown table; nothing when no claim can be tested."""
    claims = check_claims(rows)
    if not claims:
        return ""
    lines = ["### The paper's claims", "", "| claim | found here | verdict |", "| --- | --- | --- |"]
    lines += [f"| {c.text} | {c.finding} | {c.holds} |" for c in claims]
    return "\n".join(lines) + "\n"
