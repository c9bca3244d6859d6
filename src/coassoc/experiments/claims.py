"""The paper's claims, one by one, tested on stored rows with paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .methods import HIERARCHICAL, NON_HIERARCHICAL
from .store import Row


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
    return {dataset: _summary(values) for dataset, values in differences.items()}


def _summary(values: list[float]) -> Paired:
    n = len(values)
    mean = math.fsum(values) / n
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1)) if n > 1 else math.nan
    return Paired(mean, spread / math.sqrt(n), n)


def _means(rows: Sequence[Row], score: str) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, list[float]]] = {}
    for (dataset, _), scores in scores_by_run(rows, score).items():
        for method, value in scores.items():
            values.setdefault(dataset, {}).setdefault(method, []).append(value)
    return {d: {m: math.fsum(v) / len(v) for m, v in by.items()} for d, by in values.items()}


def check_claims(rows: Sequence[Row]) -> list[Claim]:
    """Those of the five claims that can be tested with these rows."""
    claims = [_highest_density(rows), _comparable_nmi(rows), _bisecting_close(rows), _average_best(rows), _helps(rows)]
    return [claim for claim in claims if claim is not None]


def _highest_density(rows: Sequence[Row]) -> Claim | None:
    rivals = ("H-KM", *NON_HIERARCHICAL, *HIERARCHICAL)
    wins: list[str] = []
    losses: list[str] = []
    for dataset, by in sorted(_means(rows, "density").items()):
        have = {m: by[m] for m in rivals if m in by}
        if "KM" not in by or not have:
            continue
        best = max(have, key=lambda m: have[m])
        (wins if by["KM"] >= have[best] else losses).append(f"{dataset} ({best} {have[best] - by['KM']:+.2f})")
    if not wins and not losses:
        return None
    finding = f"first on {len(wins)} of {len(wins) + len(losses)} sets"
    if losses:
        finding += "; not on " + ", ".join(losses)
    return Claim("KM has the highest density", finding, _verdict(len(wins), len(losses)))


def _comparable_nmi(rows: Sequence[Row]) -> Claim | None:
    rivals = ("H-KM", *NON_HIERARCHICAL, *HIERARCHICAL)
    short = {}
    for dataset, by in sorted(_means(rows, "nmi").items()):
        have = {m: by[m] for m in rivals if m in by}
        if "KM" in by and have:
            best = max(have, key=lambda m: have[m])
            short[dataset] = (have[best] - by["KM"], best)
    if not short:
        return None
    near = [d for d, (gap, _) in short.items() if gap <= 3.0]
    far = [f"{d} ({best} {gap:+.1f})" for d, (gap, best) in short.items() if gap > 3.0]
    mean = math.fsum(gap for gap, _ in short.values()) / len(short)
    finding = f"the best rival is {mean:+.2f} points from KM on average; within 3 points on {len(near)} of {len(short)}"
    if far:
        finding += "; further on " + ", ".join(far)
    return Claim("KM's NMI is comparable to the best", finding, _verdict(len(near), len(far)))


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


def _average_best(rows: Sequence[Row]) -> Claim | None:
    wins, losses = 0, []
    for dataset, by in sorted(_means(rows, "nmi").items()):
        have = {m: by[m] for m in HIERARCHICAL if m in by}
        if "R-AL" not in have or len(have) < 2:
            continue
        best = max(have, key=lambda m: have[m])
        if best == "R-AL":
            wins += 1
        else:
            losses.append(f"{dataset} ({best} {have[best] - have['R-AL']:+.2f})")
    if not wins and not losses:
        return None
    finding = f"first of the six linkages in NMI on {wins} of {wins + len(losses)} sets"
    if losses:
        finding += "; not on " + ", ".join(losses)
    return Claim("Average linkage on the raw matrix is the best linkage", finding, _verdict(wins, len(losses)))


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
