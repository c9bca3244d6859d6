"""The one loop: seed, pass, count, refill, stop. Written over the engine verbs, for every objective."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..engines._verbs import Counts, Labelling, Rows, ScoreTable
from ._objectives import Objective, fix_table


@dataclass
class Fit:
    """Where one start ended."""

    table: ScoreTable  # the labels are exactly its argmax
    counts: Counts
    labelling: Labelling
    losses: list[float] = field(default_factory=list)
    stop: str = "max_iter"  # "fixed_point", "no_gain" or "max_iter"

    @property
    def loss(self) -> float:
        return self.losses[-1]

    @property
    def n_iter(self) -> int:
        return len(self.losses)


class TooFewRows(ValueError):
    """Seeding ran out of rows that differ."""

    def __init__(self, n_clusters: int, n_different: int):
        super().__init__(
            f"n_clusters={n_clusters} is larger than the number of different label rows, {n_different}; "
            f"ask for at most {n_different} clusters."
        )
        self.n_different = n_different


def seed_rows(rows: Rows, k: int, weights: np.ndarray, rng: np.random.Generator, *, greedy: bool = True) -> np.ndarray:
    """Codes (k, p) of k rows chosen by k-means++: D² sampling, the best of 2 + log k candidates each time.

    D² between rows is the integer Hamming distance (twice it, in H), so every draw is exact.
    """
    seeding = rows.seeding(weights)
    n_candidates = 2 + int(math.log(k)) if greedy else 1
    chosen: list[np.ndarray] = []
    for _ in range(k):
        if seeding.total == 0:
            raise TooFewRows(k, len(chosen))
        targets = rng.integers(seeding.total, size=n_candidates if chosen else 1)
        candidates = seeding.locate(targets)
        best = int(np.argmin(seeding.potentials(candidates))) if len(candidates) > 1 else 0
        chosen.append(candidates[best])
        seeding.add(candidates[best])
    return np.array(chosen)


def random_rows(rows: Rows, k: int, rng: np.random.Generator) -> np.ndarray:
    """Codes (k, p) of k different rows drawn uniformly over copies."""
    seeding = rows.seeding(np.ones(rows.layout.n_partitions, dtype=np.int64))
    chosen: dict[bytes, np.ndarray] = {}
    for _ in range(64):
        for row in seeding.locate(rng.integers(seeding.total, size=2 * k)):
            chosen.setdefault(row.tobytes(), row)
            if len(chosen) == k:
                return np.array(list(chosen.values()))
    # few different rows: let distances find the rest
    return seed_rows(rows, k, np.ones(rows.layout.n_partitions, dtype=np.int64), rng, greedy=False)


def lloyd(
    rows: Rows,
    objective: Objective,
    start: Counts,
    max_iter: int,
    labelling: Labelling | None = None,
    report: Callable[[int, float, int], None] | None = None,
) -> Fit:
    """Passes from the centres of `start` until the labels stand still or the exact loss stops falling.

    `labelling` is reused when given, whatever it holds.
    """
    if labelling is None:
        labelling = rows.labelling(start.n_clusters)
    table = fix_table(objective.table(start), rows.layout)
    rows.assign(labelling, table)
    counts = rows.counts(labelling)
    fit = Fit(table, counts, labelling, [objective.loss(counts)])
    while fit.n_iter < max_iter:
        table = fix_table(objective.table(_refilled(rows, labelling, fit.counts, objective)), rows.layout)
        moved = rows.assign(labelling, table)
        if moved == 0:
            fit.table, fit.stop = table, "fixed_point"
            break
        counts = rows.counts(labelling)
        loss = objective.loss(counts)
        if not loss < fit.loss:
            rows.assign(labelling, fit.table)  # labels are a function of the table: this takes the pass back
            fit.stop = "no_gain"
            break
        fit.table, fit.counts = table, counts
        fit.losses.append(loss)
        if report is not None:
            report(fit.n_iter, loss, moved)
    return fit


def _refilled(rows: Rows, labelling: Labelling, counts: Counts, objective: Objective) -> Counts:
    """Counts in which each empty cluster sits on one of the worst-placed rows, so that the loss must fall."""
    empty = np.flatnonzero(counts.sizes == 0)
    if not len(empty):
        return counts
    cost = fix_table(objective.cost_table(counts), rows.layout)
    worst, costs = rows.worst_rows(labelling, cost, len(empty))
    worst = worst[costs > 0]
    return counts.with_rows(empty[: len(worst)], worst)
