"""The verbs over many chunks, shared by streaming and Dask: call a function on every chunk, add the results.

`Chunks` runs a function on every chunk, one after the other from a file or on the workers of a cluster;
`ChunkedRows` and `ChunkedSeeding` implement the verbs with it.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.counts import Counts, Layout, ScoreTable, smallest_unsigned
from ...core.moves import Moves, MoveTable
from ...core.overlaps import RowShares
from ..contract import Labelling, Rows, Seeding
from ..numpy import first_different
from .chunks import (
    UNLABELLED,
    Past,
    add_results,
    chunk_assign,
    chunk_codes_at,
    chunk_counts,
    chunk_locate,
    chunk_overlap,
    chunk_potentials,
    chunk_propose,
    chunk_worst,
    new_version,
)


class _Each:
    """Placeholder among the arguments of a call for what differs from chunk to chunk."""

    def __repr__(self) -> str:
        return "EACH"

    def __reduce__(self) -> str:
        return "EACH"  # the same one wherever it is sent


EACH: Any = _Each()


def arguments_for(args: Sequence, piece: Any) -> list:
    """`args` with `piece` in the place of `EACH`, also inside tuples."""
    return [piece if a is EACH else tuple(arguments_for(a, piece)) if isinstance(a, tuple) else a for a in args]


class Chunks(ABC):
    """The chunks of some rows and how a function is run on each of them."""

    layout: Layout
    sizes: np.ndarray  # (chunks,) rows
    copies: np.ndarray  # (chunks,) copies that take part

    def __init__(self, layout: Layout):
        self.layout = layout
        self.labellings: weakref.WeakSet[ChunkedLabelling] = weakref.WeakSet()

    @abstractmethod
    def each(self, function: Callable, *args: Any, per_chunk: Sequence | None = None, which=None) -> list:
        """``function(chunk, *args)`` for every chunk (or those in `which`), in order.

        `EACH` among the arguments is replaced by the chunk's entry of `per_chunk`.
        """

    def total(self, function: Callable, *args: Any, per_chunk: Sequence | None = None) -> tuple:
        """The sum of the results, element by element; one partial sum is in memory."""
        sums: list[tuple] = []

        def add(chunk: Any, *arguments: Any) -> None:
            sums[:] = [add_results([*sums, function(chunk, *arguments)])]

        self.each(add, *args, per_chunk=per_chunk)
        return sums[0]

    def share(self, value: Any) -> Any:
        """A large argument in the form in which it is sent to many chunks."""
        return value

    def cut(self, labels: np.ndarray, k: int) -> list:
        """Labels of all rows as one piece per chunk, stored with the chunks."""
        ends = np.cumsum(self.sizes)
        return [labels[end - size : end].astype(smallest_unsigned(k)) for end, size in zip(ends, self.sizes)]

    @abstractmethod
    def forget(self, key: str) -> None:
        """Drop the cached state of a labelling or seeding that is no longer used."""

    def abandon(self) -> None:  # noqa: B027 - optional
        """Cancel remote tasks and free remote memory."""

    def begin_seeding(self) -> None:  # noqa: B027 - optional
        """Free memory, if needed: a distance for every row is about to be stored."""

    @abstractmethod
    def gather(self, labelling: ChunkedLabelling) -> Any:
        """The labels of all rows, in the form returned to the user."""

    @abstractmethod
    def divide(self, labelling: ChunkedLabelling) -> list[Chunks]:
        """The rows of each cluster as chunks of their own."""

    @abstractmethod
    def scatter(self, leaves: Sequence[Chunks]) -> Any:
        """For each row, the position in `leaves` of the one that holds it."""

    @abstractmethod
    def relabel(self, labelling: ChunkedLabelling, indices: np.ndarray, targets: np.ndarray) -> None:
        """Give some rows other labels and update ``labelling.past``."""


class ChunkedLabelling(Labelling):
    """The table or given labels from which the labels of any chunk can be computed again."""

    def __init__(self, chunks: Chunks, n_clusters: int):
        super().__init__(n_clusters)
        self.key = new_version()
        self.past: Past = UNLABELLED  # its labels are EACH when `pieces` holds one array per chunk
        self.pieces: list | None = None
        self.counted: Counts | None = None
        chunks.labellings.add(self)
        weakref.finalize(self, chunks.forget, self.key).atexit = False

    def __reduce__(self) -> Any:
        # when a worker returns a labelling: its key finds the state cached there, its past the labels elsewhere
        return _labelling_from, (self.key, self.n_clusters, self.past, self.counted)

    @property
    def recomputable(self) -> bool:
        """Whether the labels can be computed again from a table or from the labels given."""
        return self.past[1] is not None or self.pieces is not None

    @property
    def arguments(self) -> tuple[str, int, Past]:
        """The first arguments of functions that work on labels; `past` may hold `EACH`."""
        return self.key, self.n_clusters, self.past

    def piece(self, chunk: int) -> Any:
        return None if self.pieces is None else self.pieces[chunk]

    def arguments_of(self, chunk: int) -> tuple[str, int, Past]:
        """The same for one chunk, with `EACH` filled in."""
        key, k, past = arguments_for(self.arguments, self.piece(chunk))
        return key, k, past


def _labelling_from(key: str, n_clusters: int, past: Past, counted: Counts | None) -> ChunkedLabelling:
    labelling = ChunkedLabelling.__new__(ChunkedLabelling)
    Labelling.__init__(labelling, n_clusters)
    labelling.key, labelling.past, labelling.pieces, labelling.counted = key, past, None, counted
    return labelling


class ChunkedRows(Rows):
    """Rows in chunks: each verb runs a function on every chunk and adds the results."""

    def __init__(self, chunks: Chunks):
        self.chunks = chunks
        self.layout = chunks.layout
        self.n_rows = int(chunks.sizes.sum())
        self.n_copies = int(chunks.copies.sum())

    def abandon(self) -> None:
        self.chunks.abandon()

    def labelling(self, k: int, labels: Any = None) -> ChunkedLabelling:
        labelling = ChunkedLabelling(self.chunks, k)
        if labels is not None:
            labelling.past = (new_version(), None, EACH)
            labelling.pieces = self.chunks.cut(np.asarray(labels), k)
        return labelling

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        version, shared = new_version(), self.chunks.share(table)
        moved, alpha, sizes = self._sum(chunk_assign, labelling, version, shared)
        labelling.past, labelling.pieces = (version, shared, None), None
        labelling.counted = Counts(alpha, sizes, self.layout)
        return int(moved)

    def counts(self, labelling: Any) -> Counts:
        if labelling.counted is None:
            alpha, sizes = self._sum(chunk_counts, labelling)
            labelling.counted = Counts(alpha, sizes, self.layout)
        return labelling.counted

    def labels(self, labelling: Any) -> Any:
        return self.chunks.gather(labelling)

    def worst_rows(self, labelling: Any, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        cost = self.chunks.share(cost)
        found = self.chunks.each(chunk_worst, *labelling.arguments, cost, m, per_chunk=labelling.pieces)
        rows, costs = (np.concatenate(part) for part in zip(*found))
        # chunks come in row order and each is sorted, so that the lowest index is first among equals
        best, costs = first_different(rows, np.arange(len(rows)), costs, m)
        return rows[best], costs

    def seeding(self, weights: np.ndarray) -> ChunkedSeeding:
        return ChunkedSeeding(self.chunks, weights)

    def split(self, labelling: Any) -> list[Rows]:
        return [type(self)(part) for part in self.chunks.divide(labelling)]

    def scatter(self, leaves: Sequence[Rows]) -> Any:
        return self.chunks.scatter([leaf.chunks for leaf in leaves if isinstance(leaf, ChunkedRows)])

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        return self.chunks.total(chunk_overlap, shares)[0]

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        indices = np.atleast_1d(np.asarray(indices, dtype=np.int64))
        indices = np.where(indices < 0, indices + self.n_rows, indices)
        ends = np.cumsum(self.chunks.sizes)
        where = np.searchsorted(ends, indices, side="right")
        inside = indices - (ends - self.chunks.sizes)[where]
        which = np.unique(where)
        asked = [inside[where == c] for c in which]
        return _put_back(self.chunks.each(chunk_codes_at, EACH, per_chunk=asked, which=which), where, which)

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        shared, found, left, stop = self.chunks.share(table), [], limit, self.n_rows
        first = 0
        for c, size in enumerate(self.chunks.sizes.tolist()):
            if start < first + size:
                asked = (*labelling.arguments, shared, max(start - first, 0), left)
                moves = self.chunks.each(chunk_propose, *asked, per_chunk=[labelling.piece(c)], which=[c])[0]
                found.append((moves.indices + first, moves.sources, moves.targets, moves.codes, moves.copies))
                left -= len(moves)
                if left == 0:
                    stop = first + moves.stop
                    break
            first += size
        if not found:
            empty = np.zeros(0, np.int64)
            return Moves(empty, empty, empty, np.zeros((0, self.layout.n_partitions), np.uint8), empty, stop)
        indices, sources, targets, codes, copies = (np.concatenate(part) for part in zip(*found))
        return Moves(indices, sources, targets, codes, copies, stop)

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        if len(indices):
            self.chunks.relabel(labelling, indices, targets)
            labelling.counted = None

    def _sum(self, function: Callable, labelling: ChunkedLabelling, *args: Any) -> tuple:
        return self.chunks.total(function, *labelling.arguments, *args, per_chunk=labelling.pieces)


class ChunkedSeeding(Seeding):
    """k-means++ distances by chunk. Two rounds per chosen row: one finds the candidates, one computes their totals.

    The second also gives each chunk's total after any candidate is added, so `add` needs no third round.
    """

    def __init__(self, chunks: Chunks, weights: np.ndarray):
        self.chunks, self.weights = chunks, weights
        self.key = new_version()
        self.total = int(chunks.copies.sum())
        self._totals = chunks.copies.astype(np.int64)  # of each chunk
        self._chosen: np.ndarray | None = None
        self._measured: tuple[np.ndarray, np.ndarray] | None = None  # candidates, totals (chunks, candidates)
        chunks.begin_seeding()
        weakref.finalize(self, chunks.forget, self.key).atexit = False

    def locate(self, targets: np.ndarray) -> np.ndarray:
        targets = np.asarray(targets, dtype=np.int64)
        ends = np.cumsum(self._totals)
        where = np.searchsorted(ends, targets, side="right")
        inside = targets - (ends - self._totals)[where]
        which = np.unique(where)
        asked = [inside[where == c] for c in which]
        found = self.chunks.each(
            chunk_locate, self.key, self.weights, self._so_far(), EACH, per_chunk=asked, which=which
        )
        return _put_back(found, where, which)

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        found = np.array(self.chunks.each(chunk_potentials, self.key, self.weights, self._so_far(), candidates))
        self._measured = (candidates, found)
        return found.sum(axis=0)

    def add(self, row: np.ndarray) -> None:
        row = np.asarray(row)
        chosen = row[None, :] if self._chosen is None else np.vstack([self._chosen, row])
        measured, self._measured, self._chosen = self._measured, None, chosen
        if measured is not None:
            same = np.flatnonzero((measured[0] == row).all(axis=1))
            if len(same):
                self._totals = measured[1][:, same[0]]
                self.total = int(self._totals.sum())
                return
        found = self.chunks.each(chunk_potentials, self.key, self.weights, chosen, None)
        self._totals = np.array(found)[:, 0]
        self.total = int(self._totals.sum())

    def _so_far(self) -> np.ndarray:
        return np.zeros((0, self.chunks.layout.n_partitions), np.uint8) if self._chosen is None else self._chosen


def _put_back(found: list[np.ndarray], where: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Rows found chunk by chunk, in the order of the targets."""
    out = np.empty((len(where), found[0].shape[1]), dtype=found[0].dtype)
    for c, rows in zip(which, found):
        out[where == c] = rows
    return out
