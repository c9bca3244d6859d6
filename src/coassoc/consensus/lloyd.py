"""The k-means loop, for every objective: seed, assign, count, refill, stop; and the best of several starts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.checks import stream
from ..core.counts import Counts
from ..core.objectives import Objective, fix_table, seeding_weights
from ..engines import Engine, Fit, Rows, Start
from ..engines.contract import Labelling
from ..metrics.labels import fill_missing

T = TypeVar("T")


class TooFewRows(ValueError):
    """There are fewer different rows than clusters asked for."""

    def __init__(self, n_clusters: int, n_different: int):
        super().__init__(
            f"n_clusters={n_clusters} is larger than the number of different label rows, {n_different}; "
            f"ask for at most {n_different} clusters."
        )
        self.n_different = n_different


def seed_rows(rows: Rows, k: int, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Codes (k, p) of k rows by k-means++, the best of 2 + log k candidates each time; D² are integers, draws exact."""
    chosen = rows.seeding(weights).choose_all(k, _n_candidates(k), rng)
    if len(chosen) < k:
        raise TooFewRows(k, len(chosen))
    return chosen


def unit_weights(rows: Rows) -> np.ndarray:
    """Seeding weights where all partitions count the same."""
    return seeding_weights(np.ones(rows.layout.n_partitions), rows.whole_counts())


def _n_candidates(k: int) -> int:
    return 2 + int(math.log(k))


def random_rows(rows: Rows, k: int, rng: np.random.Generator) -> np.ndarray:
    """Codes (k, p) of k items drawn at random, which may carry the same row; at least k rows that differ must exist."""
    seeding = rows.seeding(np.ones(rows.layout.n_partitions, dtype=np.int64))
    drawn = seeding.locate(rng.choice(seeding.total, size=min(k, seeding.total), replace=False))
    if len(np.unique(drawn, axis=0)) < k:
        seed_rows(rows, k, unit_weights(rows), rng)  # an error where fewer than k rows differ
    return drawn


def lloyd(
    rows: Rows, objective: Objective, start: Counts | Fit, max_iter: int, labelling: Labelling | None = None
) -> Fit:
    """Passes from the centers of `start` until the labels stay the same or the exact loss no longer falls.

    A `Fit` is resumed where it ended. Otherwise `labelling` is reused when given, whatever it holds.
    """
    fit: Fit | None = None
    if isinstance(start, Fit):
        fit, centers, labelling = start, start.counts, start.labelling
    else:
        centers, labelling = start, labelling or rows.labelling(start.n_clusters)
    while fit is None or fit.n_iter < max_iter:
        if fit is not None:
            centers = _refilled(rows, labelling, fit.counts, objective)
        table = fix_table(objective.table(centers), rows.layout)
        moved = rows.assign(labelling, table)
        if fit is not None and moved == 0:
            return replace(fit, table=table, stop="fixed_point")
        counts = rows.counts(labelling)
        loss = objective.loss(counts)
        if fit is not None and not loss < fit.loss:
            if np.array_equal(counts.alpha, fit.counts.alpha):  # only rows with multiplicity 0 moved, for example
                return replace(fit, table=table, counts=counts, stop="fixed_point")
            rows.assign(labelling, fit.table)  # undo the pass: the labels are a function of the table
            return replace(fit, stop="no_gain")
        fit = Fit(table, counts, labelling, [*(fit.losses if fit else ()), loss], "max_iter")
    return fit


def seeded_fits(
    engine: Engine,
    starts: Sequence[Start],
    objective: Objective,
    k: int,
    weights: np.ndarray,
    max_iter: int,
    labelling: Labelling | None = None,
) -> list[Fit | TooFewRows]:
    """A fit from k-means++ seeds for every start, or the reason why there is none.

    `weights` are those of `seed_rows`; a single start reuses `labelling`, whatever it holds.
    """
    v = getattr(objective, "kmeans_weights", None)
    fits: list[Fit | int] | None = None
    if v is not None:
        fits = engine.kmeans_fits(starts, k, _n_candidates(k), weights, v, max_iter, labelling)

    def over_verbs(start: Start) -> Fit | int:  # runs where the rows are, so it returns what can be sent
        try:
            seeds = seed_rows(start.rows, k, weights, start.rng)
        except TooFewRows as short:
            return short.n_different
        return lloyd(start.rows, objective, Counts.of_rows(seeds, start.rows.layout), max_iter, labelling)

    def finished(start: Start, fit: Fit | int) -> Fit | TooFewRows:
        if not isinstance(fit, Fit):
            return TooFewRows(k, fit)
        return lloyd(start.rows, objective, fit, max_iter) if fit.stop == "unfinished" else fit

    if fits is None:
        fits = engine.side_by_side(over_verbs, starts) if labelling is None else [over_verbs(start) for start in starts]
    return [finished(start, fit) for start, fit in zip(starts, fits)]


def _refilled(rows: Rows, labelling: Labelling, counts: Counts, objective: Objective) -> Counts:
    """Counts in which each empty cluster holds one of the worst-placed rows, so that the loss must fall."""
    empty = np.flatnonzero(counts.sizes == 0)
    if len(empty) == 0:
        return counts
    cost = fix_table(objective.cost_table(counts), rows.layout)
    worst, costs = rows.worst_rows(labelling, cost, len(empty))
    worst = worst[costs > 0]
    return counts.with_rows(empty[: len(worst)], worst)


@dataclass(frozen=True)
class Starts:
    """Settings of the starts of one fit."""

    n_clusters: int
    n_init: int
    max_iter: int
    seed: int
    init: str | np.ndarray = "k-means++"  # or "random", or codes of a partition, −1 where it has no label
    verbose: str = ""  # name under which a line per start is printed; "" prints nothing


def best_start(rows: Rows, engine: Engine, objective: Objective, v: np.ndarray, starts: Starts) -> Fit:
    """The start with the lowest loss, the first of equals; TooFewRows when all find fewer than k rows that differ."""
    best: Fit | None = None
    short: TooFewRows | None = None
    every, k = rows, starts.n_clusters
    drawn = isinstance(starts.init, str)
    if drawn:
        rows = every.distinct(starts.n_init)
    restarts = range(starts.n_init if drawn else 1)
    at_once = min(engine.starts_at_once(rows), len(restarts))
    shared = rows.labelling(k) if at_once == 1 else None  # by starts that run one after the other
    seeded = drawn and starts.init == "k-means++" and k > 1
    weights = seeding_weights(v, every.whole_counts()) if seeded else v

    def run(restart: int) -> Fit:
        first = _first_counts(rows, starts, stream(starts.seed, restart))
        return lloyd(rows, objective, first, starts.max_iter, shared)

    for first in range(0, len(restarts), at_once):
        batch = restarts[first : first + at_once]
        if seeded:
            planned = [Start(rows, stream(starts.seed, restart)) for restart in batch]
            fits = seeded_fits(engine, planned, objective, k, weights, starts.max_iter, shared)
        else:
            fits = engine.side_by_side(run, batch)
        for restart, fit in zip(batch, fits):
            if isinstance(fit, TooFewRows):
                if short is None or fit.n_different > short.n_different:
                    short = fit
                continue
            if starts.verbose:
                print(f"{starts.verbose}: start {restart}, {fit.n_iter} passes, loss {fit.loss:.6g}")
            if best is None or fit.loss < best.loss:
                best = fit
    if best is None:
        assert short is not None
        raise short
    if shared is not None and best is not fit:
        rows.assign(shared, best.table)  # labels are a function of the table
    return best if rows is every else replace(best, labelling=rows.spread(best.labelling))


def _first_counts(rows: Rows, starts: Starts, rng: np.random.Generator) -> Counts:
    """Counts whose centers the first pass uses, unless they are those of k-means++."""
    k = starts.n_clusters
    if not isinstance(starts.init, str):  # items without a label form one more cluster, which is then dropped
        counts = rows.counts(rows.labelling(k + 1, fill_missing(starts.init, k)))
        return Counts(counts.alpha[:, :k].copy(), counts.sizes[:k].copy(), counts.layout)
    if k == 1:
        return rows.whole_counts()
    return Counts.of_rows(random_rows(rows, k, rng), rows.layout)


def with_fewer_clusters(fit: Callable[[int], T], n_clusters: int, *, silent: bool = False) -> tuple[T, int]:
    """``fit(k)`` and k: `n_clusters`, or, with a warning, the number of different rows when that is smaller."""
    k = n_clusters
    while True:
        try:
            result = fit(k)
        except TooFewRows as short:
            k = short.n_different
        else:
            if not silent:
                warn_if_fewer(n_clusters, k)
            return result, k


def warn_if_fewer(n_clusters: int, n_different: int, what: str = "different label rows") -> None:
    """Warn, as scikit-learn does, when there are fewer different rows than clusters asked for."""
    if n_different < n_clusters:
        warnings.warn(
            f"n_clusters={n_clusters} is larger than the number of {what}, {n_different}; "
            f"{n_different} clusters are returned.",
            ConvergenceWarning,
            stacklevel=3,
        )
