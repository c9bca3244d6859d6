"""The one loop: seed, pass, count, refill, stop. Written over the engine verbs, for every objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.counts import Counts, ScoreTable
from ..core.tables import KMeansObjective, Objective, fix_table
from ..engines.contract import Engine, Labelling, Rows, Start
from .descent import descent_on


@dataclass
class Fit:
    """Where one start ended."""

    table: ScoreTable  # the labels are exactly its argmax
    counts: Counts
    labelling: Labelling
    losses: list[float]
    stop: str  # "fixed_point", "no_gain" or "max_iter"

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
    chosen = rows.seeding(weights).choose_all(k, _n_candidates(k) if greedy else 1, rng)
    if len(chosen) < k:
        raise TooFewRows(k, len(chosen))
    return chosen


def _n_candidates(k: int) -> int:
    return 2 + int(math.log(k))


def random_rows(rows: Rows, k: int, rng: np.random.Generator) -> np.ndarray:
    """Codes (k, p) of k items drawn at random, copies being items of their own.

    Drawn items may carry the same row; the loop then refills the clusters that come out empty. At least k rows
    that differ must exist.
    """
    weights = np.ones(rows.layout.n_partitions, dtype=np.int64)
    seeding = rows.seeding(weights)
    if seeding.total < k:
        raise TooFewRows(k, _count_different(rows, k, weights, rng))
    drawn = seeding.locate(rng.choice(seeding.total, size=k, replace=False))
    different = {row.tobytes() for row in drawn}
    for _ in range(16):
        if len(different) >= k:
            return drawn
        different.update(row.tobytes() for row in seeding.locate(rng.integers(seeding.total, size=2 * k)))
    found = _count_different(rows, k, weights, rng)
    if found < k:
        raise TooFewRows(k, found)
    return drawn


def _count_different(rows: Rows, k: int, weights: np.ndarray, rng: np.random.Generator) -> int:
    """How many rows that differ k-means++ finds, k at most."""
    try:
        return len(seed_rows(rows, k, weights, rng, greedy=False))
    except TooFewRows as short:
        return short.n_different


def lloyd(
    rows: Rows,
    objective: Objective,
    start: Counts | Start,
    max_iter: int,
    labelling: Labelling | None = None,
    report: Callable[[int, float, int], None] | None = None,
) -> Fit:
    """Passes from the centres of `start` until the labels stand still or the exact loss stops falling.

    `labelling` is reused when given, whatever it holds. A `Start` brings its own, on which passes were made.
    """
    centres: Counts | None = None
    if isinstance(start, Start):
        labelling, begun = start.labelling, start
    else:
        labelling, begun = labelling or rows.labelling(start.n_clusters), None
        centres = start
    descent = descent_on(rows, objective, labelling, begun)
    losses: list[float] = []
    stop = "max_iter"
    while stop == "max_iter" and len(losses) < max_iter:
        for moved, loss in descent.passes(centres, max_iter - len(losses), losses):
            if losses and moved == 0:
                stop = "fixed_point"
            elif losses and not loss < losses[-1]:
                # a pass that changed no count (rows that count 0 times moved, say) leaves the table as it is
                stop = "no_gain" if descent.take_back() else "fixed_point"
            else:
                losses.append(loss)
                if report is not None and len(losses) > 1:
                    report(len(losses), loss, moved)
        refill = descent.n_empty and stop == "max_iter"
        centres = _refilled(rows, labelling, descent.counts, objective) if refill else None
    return Fit(*descent.ended(), labelling, losses, stop)


def seeded_fits(
    engine: Engine,
    tasks: Sequence[tuple[Rows, np.random.Generator]],
    objective: Objective,
    k: int,
    weights: np.ndarray,
    max_iter: int,
    labelling: Labelling | None = None,
    report: Callable[[int, float, int], None] | None = None,
) -> list[Fit | TooFewRows]:
    """A fit from k-means++ seeds for every (rows, generator), or why there is none.

    `weights` are those of `seed_rows`; `labelling` is reused by a single task, whatever it holds. Tasks run side by
    side where the engine has starts in one call.
    """
    fits: list[Fit | TooFewRows] = []
    if engine.fuses_starts and type(objective) is KMeansObjective:
        v = objective.weights
        starts = engine.kmeans_starts(tasks, k, _n_candidates(k), weights, v, max_iter, labelling)
        for (rows, _), start in zip(tasks, starts):
            if len(start.seeds) < k:
                fits.append(TooFewRows(k, len(start.seeds)))
            else:
                fits.append(lloyd(rows, objective, start, max_iter, None, report))
        return fits
    for rows, rng in tasks:
        try:
            centres = Counts.of_rows(seed_rows(rows, k, weights, rng), rows.layout)
        except TooFewRows as short:
            fits.append(short)
        else:
            fits.append(lloyd(rows, objective, centres, max_iter, labelling, report))
    return fits


def _refilled(rows: Rows, labelling: Labelling, counts: Counts, objective: Objective) -> Counts:
    """Counts in which each empty cluster sits on one of the worst-placed rows, so that the loss must fall."""
    empty = np.flatnonzero(counts.sizes == 0)
    cost = fix_table(objective.cost_table(counts), rows.layout)
    worst, costs = rows.worst_rows(labelling, cost, len(empty))
    worst = worst[costs > 0]
    return counts.with_rows(empty[: len(worst)], worst)
