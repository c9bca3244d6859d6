"""The engine contract: where the rows of an ensemble are kept, and the verbs the algorithms use on them.

Every algorithm is written once, over these verbs. A verb returns integers that are summed over chunks of rows, or a
function of one row and a small table. Chunking, threads and the choice of engine therefore cannot change a result,
and a chunk lost with its worker is computed again.

An engine implements `Engine.load`, the abstract methods of `Rows` and the three of `Seeding`; the other methods have
defaults over those. Of an ensemble, `load` reads ``codes``, ``n_clusters``, ``offsets``, ``n_samples``, ``sizes``,
``has_missing`` and ``unlabelled()``.

Shapes: p partitions with d base clusters in total, k consensus clusters. A row of codes has one integer per
partition; the code ``n_clusters[j]`` marks a missing label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core.counts import MAX_COPIES, Counts, Layout, ScoreTable
from ..core.moves import Moves, MoveTable
from .settling import settle


class Labelling:
    """A label for each row, stored as the engine likes. Engines add what they need."""

    labels: Any

    def __init__(self, n_clusters: int):
        self.n_clusters = n_clusters


class Seeding(ABC):
    """Distances of every row to the nearest chosen row, for k-means++.

    The distance between two rows is the sum of integer weights over the partitions that label both rows and
    label them differently. Before the first `add`, every row that takes part has distance 1.
    """

    total: int  # Σ_i copies_i · distance_i

    @abstractmethod
    def locate(self, targets: np.ndarray) -> np.ndarray:
        """Codes (len(targets), p) of the rows where the running sum of copies·distance first exceeds each target."""

    @abstractmethod
    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        """The `total` that would result from adding each candidate row of codes (int64)."""

    @abstractmethod
    def add(self, row: np.ndarray) -> None:
        """Add one row of codes to the chosen ones; updates `total`."""

    def choose(self, targets: np.ndarray) -> np.ndarray:
        """Add the row, of those at `targets`, that leaves the smallest `total` (the first on ties); its codes."""
        candidates = self.locate(targets)
        best = int(np.argmin(self.potentials(candidates))) if len(candidates) > 1 else 0
        self.add(candidates[best])
        return candidates[best]

    def choose_all(self, k: int, n_candidates: int, rng: np.random.Generator) -> np.ndarray:
        """Codes (k, p) of k chosen rows: the first is drawn alone, each later one is the best of `n_candidates`.

        Fewer than k rows when every other row has distance 0 to the chosen ones.
        """
        chosen: list[np.ndarray] = []
        while len(chosen) < k and self.total > 0:
            chosen.append(self.choose(rng.integers(self.total, size=n_candidates if chosen else 1)))
        return np.array(chosen)


class Rows(ABC):
    """The rows of an ensemble, or a subset of them, as one engine stores them."""

    layout: Layout
    n_rows: int
    n_copies: int  # Σ multiplicities of the rows that take part
    #: whether `kmeans_passes` and `last_table` are there
    fuses_kmeans = False

    # -- verbs that every engine implements ----------------------------------------------------------------

    @abstractmethod
    def labelling(self, k: int, labels: Any = None) -> Labelling:
        """A labelling with k clusters that holds a copy of `labels`, or one for `assign` to fill."""

    @abstractmethod
    def assign(self, labelling: Labelling, table: ScoreTable) -> int:
        """Give each row the cluster with the largest sum of scores, the lowest on ties; how many labels changed."""

    @abstractmethod
    def counts(self, labelling: Labelling) -> Counts:
        """Exact counts: α (d, k) and sizes (k,), int64."""

    @abstractmethod
    def labels(self, labelling: Labelling) -> Any:
        """The labels, as an array where the caller keeps its arrays."""

    @abstractmethod
    def relabel(self, labelling: Labelling, indices: np.ndarray, targets: np.ndarray) -> None:
        """Set the labels of a few rows."""

    @abstractmethod
    def worst_rows(self, labelling: Labelling, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Codes (≤ m, p) of the different rows with the largest cost under their own label, and those costs.

        Only rows that take part; largest first, lowest row index on ties.
        """

    @abstractmethod
    def propose_moves(self, labelling: Labelling, table: MoveTable, start: int, limit: int) -> Moves:
        """The first `limit` rows from `start` on, in row order, that would gain by moving to their best cluster.

        All rows are compared with the one frozen state of `table`. `stop` of the result is the first row that was
        not examined: one after the last move when there are `limit` of them, else the number of rows. All copies of
        a row move together.
        """

    @abstractmethod
    def seeding(self, weights: np.ndarray) -> Seeding:
        """Distances for k-means++ with these integer partition weights; no row is chosen yet."""

    @abstractmethod
    def split(self, labelling: Labelling) -> list[Rows]:
        """The rows of each cluster, in their present order."""

    @abstractmethod
    def scatter(self, leaves: Sequence[Rows]) -> Any:
        """A label for each row: the position in `leaves` of the subset that holds it."""

    @abstractmethod
    def overlap(self, weights: np.ndarray | None = None) -> np.ndarray:
        """HᵀH (d, d), int64; with base-cluster `weights` u, float64 Σ_i h_i h_iᵀ / Σ_{f∈i} u_f."""

    @abstractmethod
    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        """Codes (len(indices), p) of a few rows."""

    # -- defaults over those; an engine may replace them by faster ones ------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        """End the work on these rows; an exception inside the with block also cancels it."""
        if kind is not None:
            self.abandon()

    def abandon(self) -> None:  # noqa: B027 - local memory is freed without help
        """Cancel remote tasks and free remote memory, although a traceback may still refer to them."""

    def whole_counts(self) -> Counts:
        """Counts of all rows as one cluster."""
        return self.counts(self.labelling(1, np.zeros(self.n_rows, np.int32)))

    def renumbered(self, labelling: Labelling, numbers: np.ndarray, k: int) -> Labelling:
        """A new labelling with `k` clusters that holds ``numbers[label]`` for every row."""
        return self.labelling(k, np.asarray(numbers)[np.asarray(self.labels(labelling))])

    def joined(self, parts: Sequence[Rows], labellings: Sequence[Labelling | None]) -> Labelling:
        """A labelling of these rows from those of its `parts`; labels are numbered part after part.

        `parts` hold every row once, as `split` gives them; a part whose labelling is None is one cluster.
        """
        leaves: list[Rows] = []
        for part, labelling in zip(parts, labellings):
            leaves += [part] if labelling is None else part.split(labelling)
        return self.labelling(len(leaves), np.asarray(self.scatter(leaves)))

    def apply_moves(self, labelling: Labelling, state: Any, moves: Moves, threshold: float) -> int:
        """Apply, in row order, the moves that still gain more than `threshold` on the live `state`; how many did.

        Runs in the caller's process: counts are small and the moves carry their codes.
        """
        accepted = settle(state, moves, threshold)
        kept = moves.some(accepted)
        self.relabel(labelling, kept.indices, kept.targets)
        return len(kept)

    def labelling_of(self, labels: np.ndarray, k: int) -> Labelling:
        return self.labelling(k, labels)

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
