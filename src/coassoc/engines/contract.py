"""The engine contract: a few coarse verbs over the rows of an ensemble.

An engine says where the rows live and how a verb is mapped over them; every algorithm is written once, above.
A verb's result is integers added over row chunks, or a function of (row, table) alone, so neither chunking nor
threads nor the engine can change an answer, and a lost chunk is recomputed, not mourned.

    engine.load(ensemble, multiplicity)     -> Rows, used in a with block: what stops the work also ends it elsewhere
    rows.labelling(k)                       -> a labelling to be filled by assign
    rows.labelling_of(labels, k)            -> a labelling that holds given labels
    rows.assign(labelling, table)           -> how many rows changed; labels are now argmax of the table's scores
    rows.counts(labelling)                  -> Counts: α (d, k) and sizes (k,), exact int64
    rows.kmeans_passes(labelling, weights…) -> both for k-means, with tables and losses, where an engine has them in one
    rows.labels(labelling)                  -> the labels, as an array where the caller lives
    rows.worst_rows(labelling, cost, m)     -> codes of the m different rows with the largest cost
    rows.seeding(weights)                   -> Seeding, for k-means++ with integer distances
    rows.split(labelling)                   -> the rows of each cluster, as Rows of their own
    rows.distinct(n_starts)                 -> Rows in which equal rows are one, where that is cheaper; else the rows
    rows.renumbered(labelling, numbers, k)  -> another labelling, numbers[label] for every row
    rows.joined(parts, labellings)          -> a labelling, from those of the parts the rows were split into
    rows.overlap(shares)                    -> HᵀH (d, d)
    rows.codes_at(indices)                  -> codes of a few rows
    engine.side_by_side(function, tasks)    -> results of independent tasks, in order
    engine.kmeans_starts(tasks, …)          -> seeds and first passes of k-means on many rows, where it has them in one

    rows.propose_moves(labelling, table, start, limit) -> Moves: rows that gain by moving, on a frozen state
    rows.apply_moves(labelling, state, moves, threshold) -> how many still gained on live counts and were made

The tables of exchange moves and the serial, re-checked application are in `_exchange.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core.counts import MAX_COPIES, Counts, Layout, ScoreTable
from ..core.moves import Moves, MoveTable
from ..core.overlaps import RowShares
from .settling import settle


class Labelling:
    """Labels of the rows, where and as the engine keeps them. Engines add what they need."""

    labels: Any

    def __init__(self, n_clusters: int):
        self.n_clusters = n_clusters


class Seeding(ABC):
    """Distances of every row to the nearest chosen row, for k-means++.

    The distance between two rows is the sum of integer weights over the partitions that label both rows and
    label them differently. Before the first `add`, every row that takes part counts 1.
    """

    total: int  # Σ_i copies_i · distance_i

    @abstractmethod
    def locate(self, targets: np.ndarray) -> np.ndarray:
        """Codes (len(targets), p) of the rows where the running sum of copies·distance first exceeds each target."""

    @abstractmethod
    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        """What `total` would be, for each candidate row of codes, if it were added (int64)."""

    @abstractmethod
    def add(self, row: np.ndarray) -> None:
        """Add one row of codes to the chosen ones; updates `total`."""

    def choose(self, targets: np.ndarray) -> np.ndarray:
        """Codes of the row at one of `targets` that leaves the least `total`, the first of equals; adds it."""
        candidates = self.locate(targets)
        best = int(np.argmin(self.potentials(candidates))) if len(candidates) > 1 else 0
        self.add(candidates[best])
        return candidates[best]

    def choose_all(self, k: int, n_candidates: int, rng: np.random.Generator) -> np.ndarray:
        """Codes (k, p) of k chosen rows, the first drawn alone, each other one the best of `n_candidates`.

        Fewer than k when every row is at distance 0 of those chosen.
        """
        chosen: list[np.ndarray] = []
        while len(chosen) < k and self.total > 0:
            chosen.append(self.choose(rng.integers(self.total, size=n_candidates if chosen else 1)))
        return np.array(chosen)


class Rows(ABC):
    """The rows of an ensemble, kept where the engine works. See the module's page for the verbs."""

    layout: Layout
    n_rows: int
    n_copies: int  # Σ multiplicities of the rows that take part
    #: whether `kmeans_passes` and `last_table` are there
    fuses_kmeans = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        """The work on these rows is over; when `kind` is not None, it stopped in the middle of anything."""
        if kind is not None:
            self.abandon()

    def abandon(self) -> None:  # noqa: B027 - memory here is given back without a word
        """Leave nothing of the work on these rows elsewhere, although a traceback may still hold all of it."""

    @abstractmethod
    def labelling(self, k: int) -> Labelling: ...

    @abstractmethod
    def labelling_of(self, labels: np.ndarray, k: int) -> Labelling: ...

    @abstractmethod
    def assign(self, labelling: Labelling, table: ScoreTable) -> int: ...

    @abstractmethod
    def counts(self, labelling: Labelling) -> Counts: ...

    def whole_counts(self) -> Counts:
        """Counts of all rows as one cluster."""
        return self.counts(self.labelling_of(np.zeros(self.n_rows, np.int32), 1))

    @abstractmethod
    def labels(self, labelling: Labelling) -> Any: ...

    @abstractmethod
    def worst_rows(self, labelling: Labelling, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Codes (≤ m, p) of the different rows with the largest cost under their own label, and those costs.

        Only rows that take part; largest first, lowest row index on ties.
        """

    @abstractmethod
    def seeding(self, weights: np.ndarray) -> Seeding: ...

    def distinct(self, n_starts: int) -> Rows:
        """Rows in which equal ones are one that counts as often, where k-means starts are cheaper so; else these.

        Draws among them find what they would find among these, so that seeds, tables and counts are the same.
        """
        return self

    def spread(self, labelling: Labelling) -> Labelling:
        """The same labels for the rows of which these are the `distinct` ones."""
        return labelling

    def kmeans_passes(
        self, labelling: Labelling, weights: np.ndarray, centres: Counts | None, limit: int, before: float = np.inf
    ) -> tuple[list[int], list[float], int]:
        """Whole passes of k-means in one call: fixed-point table, `assign`, `counts` and exact loss, `limit` at most.

        From the centres of `centres`, or of the labelling's own counts when None, until a pass moves no row, does
        not lower the loss (`before`: that of the pass before the first), or leaves a cluster empty. Gives the rows
        that moved and the loss of each pass and the number of empty clusters, the same to the last bit as the verbs
        one by one, which take longer than the work itself when rows are few.
        """
        raise NotImplementedError(f"{type(self).__name__} has no k-means passes of its own.")

    def last_table(self, labelling: Labelling, earlier: bool = False) -> ScoreTable:
        """The table of the labelling's latest pass, or of the one before it."""
        raise NotImplementedError(f"{type(self).__name__} keeps no tables.")

    def ended(self, labelling: Labelling) -> tuple[ScoreTable, Counts]:
        """`last_table` and `counts` after the last of `kmeans_passes`; they need not stay with the labelling."""
        return self.last_table(labelling), self.counts(labelling)

    def rest(self, labelling: Labelling) -> None:  # noqa: B027 - not every engine keeps anything
        """Drop what speeds passes up and can be made again: these rows wait, labelled so, for a split."""

    @abstractmethod
    def split(self, labelling: Labelling) -> list[Rows]:
        """The rows of each cluster, in their present order."""

    @abstractmethod
    def scatter(self, leaves: Sequence[Rows]) -> Any:
        """Labels over these rows, the position in `leaves` of the subset that holds each row."""

    def renumbered(self, labelling: Labelling, numbers: np.ndarray, k: int) -> Labelling:
        """A labelling of its own with `k` clusters, ``numbers[label]`` for every row: a copy, a merge.

        This one takes the labels through the caller; an engine that keeps them elsewhere can do without.
        """
        return self.labelling_of(np.asarray(numbers)[np.asarray(self.labels(labelling))], k)

    def joined(self, parts: Sequence[Rows], labellings: Sequence[Labelling | None]) -> Labelling:
        """The rows first loaded, each with its label in its part; labels are numbered part after part.

        `parts` hold every row once, as `split` gives them; a part whose labelling is None is one cluster.
        """
        leaves: list[Rows] = []
        for part, labelling in zip(parts, labellings):
            leaves += [part] if labelling is None else part.split(labelling)
        return self.labelling_of(np.asarray(self.scatter(leaves)), len(leaves))

    @abstractmethod
    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        """HᵀH (d, d), int64, in which a row counts its copies, times what `shares` gives it."""

    def weighted_overlap(self, weights: np.ndarray) -> np.ndarray:
        """Σ_i h_i h_iᵀ / Σ_{f∈i} u_f (d, d), float64, for weights u >= 0 (d,) of base clusters."""
        shares = RowShares.of(weights, self.layout.n_partitions, self.n_copies)
        return self.overlap(shares) * shares.scale

    @abstractmethod
    def codes_at(self, indices: np.ndarray) -> np.ndarray: ...

    def propose_moves(self, labelling: Labelling, table: MoveTable, start: int, limit: int) -> Moves:
        """The first `limit` rows from `start` on, in row order, that would gain by moving to their best cluster.

        Every row is judged against the one frozen state of `table`, so chunks and threads cannot matter. `stop` of
        the result is the first row not judged or not returned: behind the last move when there are `limit` of
        them, else the number of rows. All copies of a row move together.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot propose moves; use engine='native' or 'numpy'.")

    def apply_moves(self, labelling: Labelling, state: Any, moves: Moves, threshold: float) -> int:
        """Apply in row order the moves that still gain more than `threshold` on the live `state`; how many did.

        Runs where the caller lives: counts are small and the moves carry their codes.
        """
        accepted = settle(state, moves, threshold)
        kept = moves.some(accepted)
        self.relabel(labelling, kept.indices, kept.targets)
        return len(kept)

    def relabel(self, labelling: Labelling, indices: np.ndarray, targets: np.ndarray) -> None:
        """Set the labels of a few rows."""
        raise NotImplementedError(f"{type(self).__name__} cannot apply moves; use engine='native' or 'numpy'.")


@dataclass(frozen=True)
class Start:
    """What `Engine.kmeans_starts` did with one set of rows."""

    seeds: np.ndarray  # (k, p) codes; fewer than k when the rows do not differ enough, and then no pass was made
    labelling: Labelling
    passes: tuple[list[int], list[float], int]  # as `Rows.kmeans_passes` gives them


class Engine(ABC):
    """Where rows live and how verbs are mapped over them. Instances are configuration, not state."""

    name: str
    #: whether `kmeans_starts` is there
    fuses_starts = False
    #: tasks over at least this many rows keep every thread busy by themselves: side by side they only take more memory
    large_rows: int | None = None
    #: how many tasks `side_by_side` really runs at a time
    tasks_at_once: int = 1

    @abstractmethod
    def load(self, ensemble: Any, multiplicity: np.ndarray | None = None) -> Rows: ...

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        return [function(task) for task in tasks]

    def kmeans_starts(
        self,
        tasks: Sequence[tuple[Any, np.random.Generator]],
        k: int,
        n_candidates: int,
        seeding_weights: np.ndarray,
        weights: np.ndarray,
        limit: int,
        labelling: Labelling | None = None,
    ) -> list[Start]:
        """For every (rows, generator): `Seeding.choose_all`, a labelling, and `Rows.kmeans_passes` from those seeds.

        All tasks share the threads, and the results are those of the verbs one by one, but for the rows that a
        first pass moves: all of them. A single task may bring its labelling, whatever it holds.
        """
        raise NotImplementedError(f"{type(self).__name__} has no starts of k-means of its own.")

    def starts_at_once(self, rows: Rows) -> int:
        """How many restarts may run side by side, each with a labelling of its own."""
        return 1

    def __deepcopy__(self, memo: dict) -> Engine:
        return self  # clone() must not copy a live connection


def participating_copies(ensemble: Any, multiplicity: np.ndarray | None) -> np.ndarray | None:
    """How often each row counts: the multiplicity, 0 for rows without any label; None when all are 1."""
    unlabelled = ensemble.unlabelled()
    if unlabelled is not None:
        multiplicity = np.ones(ensemble.n_samples, np.int64) if multiplicity is None else multiplicity.copy()
        multiplicity[unlabelled] = 0
    total = ensemble.n_samples if multiplicity is None else int(multiplicity.sum())
    if total > MAX_COPIES:
        raise ValueError(f"the ensemble has {total} items, copies counted; exact counts hold for at most {MAX_COPIES}.")
    return multiplicity
