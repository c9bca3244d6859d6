"""The paper's claims, one by one, tested on stored rows with paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from .methods import HIERARCHICAL, NON_HIERARCHICAL
from .store import Row
from .tables import markdown, mean_and_error, summarise

_RIVALS = ("H-KM", *NON_HIERARCHICAL, *HIERARCHICAL)
_NEAR = 3.0  # points


class Paired(NamedTuple):
    """Differences of two methods on the same ensembles, in points: mean, standard error, repeats."""

    mean: float
    error: float
    n: int


def _exact(rows: Sequence[Row]) -> list[Row]:
    """The rows that were not made by linkage of micro-clusters."""
    return [row for row in rows if not str(row.get("variant", "")).startswith("micro")]


def paired(rows: Sequence[Row], score: str, first: str, second: str) -> dict[str, Paired]:
    """Differences ``first - second`` per data set, over the repeats that have both."""
    scores: dict[tuple[str, int], dict[str, float]] = {}
    for row in _exact(rows):
        if row.get(score) is not None:
            scores.setdefault((row["dataset"], row["repeat"]), {})[row["method"]] = 100.0 * row[score]
    differences: dict[str, list[float]] = {}
    for (dataset, _), of in sorted(scores.items()):
        if first in of and second in of:
            differences.setdefault(dataset, []).append(of[first] - of[second])
    return {dataset: Paired(*mean_and_error(values), len(values)) for dataset, values in differences.items()}


def _leads(rows: Sequence[Row], score: str, own: str, rivals: Sequence[str]) -> dict[str, tuple[float, str]]:
    """By data set, how far the best of `rivals` is above `own` on average, and which it is."""
    leads = {}
    for dataset, by in summarise(_exact(rows), score).items():
        means = {m: by[m].mean for m in rivals if m in by and by[m].n}
        if own in by and by[own].n and means:
            best = max(means, key=lambda m: means[m])
            leads[dataset] = (means[best] - by[own].mean, best)
    return leads


def check_claims(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Those of the five claims that can be tested with these rows: the claim, what was found, the verdict."""
    dense, agreeing = (_leads(rows, score, "KM", _RIVALS) for score in ("density", "nmi"))
    average = _leads(rows, "nmi", "R-AL", [m for m in HIERARCHICAL if m != "R-AL"])
    bisecting = {score: paired(rows, score, "H-KM", "KM") for score in ("density", "nmi")}
    complete = paired(rows, "nmi", "E-ML", "R-ML")
    claims = []
    if dense:
        claims.append(_first("KM has the highest density", "first", dense))
    if agreeing:
        claims.append(_comparable(agreeing))
    if all(bisecting.values()):
        claims.append(_close(bisecting))
    if average:
        what = "Average linkage on the raw matrix is the best linkage"
        claims.append(_first(what, "first of the six linkages in NMI", average))
    if complete:
        claims.append(_helps(complete))
    return claims


def _first(claim: str, words: str, leads: dict[str, tuple[float, str]]) -> tuple[str, str, str]:
    """The claim that a method is the best one, by the leads of its best rival."""
    losses = [f"{d} ({best} {lead:+.2f})" for d, (lead, best) in leads.items() if lead > 0]
    wins = len(leads) - len(losses)
    finding = f"{words} on {wins} of {len(leads)} sets" + ("; not on " + ", ".join(losses) if losses else "")
    return claim, finding, _verdict(wins, len(leads))


def _comparable(leads: dict[str, tuple[float, str]]) -> tuple[str, str, str]:
    far = [f"{d} ({best} {lead:+.1f})" for d, (lead, best) in leads.items() if lead > _NEAR]
    near, mean = len(leads) - len(far), fmean(lead for lead, _ in leads.values())
    finding = f"the best rival is {mean:+.2f} points from KM on average; within 3 points on {near} of {len(leads)}"
    finding += "; further on " + ", ".join(far) if far else ""
    return "KM's NMI is comparable to the best", finding, _verdict(near, len(leads))


def _close(by_score: dict[str, dict[str, Paired]]) -> tuple[str, str, str]:
    parts = {}
    for score, by in by_score.items():
        mean, above = fmean(p.mean for p in by.values()), sum(p.mean > 0 for p in by.values())
        parts[score] = f"{score}: H-KM - KM is {mean:+.2f} on average, above KM on {above} of {len(by)} sets"
    near = sum(abs(p.mean) <= _NEAR for p in by_score["density"].values())
    finding = f"{parts['density']}, within 3 points on {near}; {parts['nmi']}"
    return "Bisecting is close to KM", finding, _verdict(near, len(by_score["density"]))


def _helps(by_set: dict[str, Paired]) -> tuple[str, str, str]:
    up = [d for d, p in by_set.items() if p.mean > 2 * p.error or (math.isnan(p.error) and p.mean > 0)]
    down = [f"{d} ({p.mean:+.1f})" for d, p in by_set.items() if p.mean < -2 * p.error]
    mean = fmean(p.mean for p in by_set.values())
    finding = f"E-ML - R-ML in NMI is {mean:+.2f} on average, clearly above 0 on {len(up)} of {len(by_set)} sets"
    finding += "; clearly below on " + ", ".join(down) if down else ""
    return "Enhancement helps complete linkage", finding, _verdict(len(up), len(by_set))


def _verdict(yes: int, total: int) -> str:
    share = yes / total
    return "holds" if share == 1 else "holds mostly" if share >= 0.75 else "mixed" if share >= 0.4 else "does not hold"


def claims_markdown(rows: Sequence[Row]) -> str:
    """The claims as a Markdown table; nothing when no claim can be tested."""
    claims = check_claims(rows)
    return markdown("The paper's claims", ["claim", "found here", "verdict"], claims) if claims else ""
