"""Several k-means starts, of which the best is kept, and fewer clusters where the rows do not differ enough."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.checks import stream
from ..core.counts import Counts
from ..core.objectives import Objective, seeding_weights
from ..engines import Engine, Fit, Rows, Start
from ..metrics.labels import fill_missing
from .lloyd import TooFewRows, lloyd, random_rows, seeded_fits

T = TypeVar("T")


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
    """The start that ends with the lowest loss, the first of equals; its labelling holds its labels.

    Starts that find fewer than k rows that differ are left out; TooFewRows when all do.
    """
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
