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

from ...core.counts import Counts, Layout, RowShares, ScoreTable, smallest_unsigned
from ...core.moves import Moves, MoveTable
from ..contract import Labelling, Rows, Seeding, first_different
from .chunks import (
    Past,
    chunk_assign,
    chunk_codes_at,
    chunk_counts,
    chunk_locate,
    chunk_overlap,
    chunk_potentials,
    chunk_renumbered,
    chunk_verb,
    new_version,
)

Arguments = Callable[[int], tuple]  # the arguments of a call for the chunk with this number


class Chunks(ABC):
    """The chunks of some rows and how a function is run on each of them."""

    layout: Layout
    sizes: np.ndarray  # (chunks,) rows
    copies: np.ndarray  # (chunks,) copies that take part

    def __init__(self, layout: Layout):
        self.layout = layout

    @abstractmethod
    def each(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        """``function(chunk, *arguments(c))`` for every chunk c, or those in `which`, in order."""

    @abstractmethod
    def total(self, function: Callable, arguments: Arguments) -> tuple:
        """The sum of the results for every chunk, element by element."""

    def rowwise(self, function: Callable, arguments: Arguments, which: Sequence[int]) -> Any:
        """One array of the results for the rows of the chunks in `which`, in the form returned to the user."""
        return np.concatenate([np.empty(0, np.int64), *self.each(function, arguments, which)])

    def cut(self, labels: Any, k: int) -> list:
        """Labels of all rows as one piece per chunk, stored with the chunks."""
        labels, ends = np.asarray(labels), np.cumsum(self.sizes)
        return [labels[end - size : end].astype(smallest_unsigned(k)) for end, size in zip(ends, self.sizes)]

    def renumber(self, labelling: ChunkedLabelling, numbers: np.ndarray) -> list:
        """``numbers[label]`` of all rows as one piece per chunk, stored with the chunks."""
        return self.each(chunk_renumbered, lambda c: (*labelling.at(c), numbers))

    def scored(self, arguments: Arguments) -> tuple[Any, np.ndarray]:
        """`map_scores` of every chunk: one array of values, in the form returned to the user, and added sums."""
        values, sums = zip(*self.each(chunk_verb, arguments))
        return np.concatenate(values), np.sum(sums, axis=0)

    @abstractmethod
    def forget(self, key: str) -> None:
        """Drop the cached state of a labelling or seeding that is no longer used."""

    def abandon(self) -> None:  # noqa: B027 - optional
        """Cancel remote tasks and free remote memory."""

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
    def relabel(self, labelling: ChunkedLabelling, moves: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Give some rows of each chunk other labels, and set the labelling."""


class ChunkedLabelling(Labelling):
    """The table or given labels from which the labels of any chunk can be computed again."""

    def __init__(self, chunks: Chunks, n_clusters: int, key: str | None = None):
        super().__init__(n_clusters, None)
        self.key = key or new_version()
        self.set("")
        weakref.finalize(self, chunks.forget, self.key).atexit = False

    def set(self, version: str, table: Any = None, pieces: list | None = None, counted: Counts | None = None) -> None:
        """The labels are now those of `table`, or those given in one piece per chunk, or known to the chunks alone."""
        self.version, self.table, self.pieces, self.counted = version, table, pieces, counted

    @property
    def recomputable(self) -> bool:
        """Whether the labels can be computed again from a table or from the labels given."""
        return self.table is not None or self.pieces is not None

    def at(self, chunk: int) -> tuple[str, int, Past]:
        """The first arguments of functions that work on the labels of a chunk."""
        piece = None if self.pieces is None else self.pieces[chunk]
        return self.key, self.n_clusters, (self.version, self.table, piece)


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
            labelling.set(new_version(), pieces=self.chunks.cut(labels, k))
        return labelling

    def renumbered(self, labelling: Any, numbers: np.ndarray, k: int) -> ChunkedLabelling:
        new = ChunkedLabelling(self.chunks, k)
        new.set(new_version(), pieces=self.chunks.renumber(labelling, np.asarray(numbers).astype(smallest_unsigned(k))))
        return new

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        version = new_version()
        moved, alpha, sizes = self.chunks.total(chunk_assign, lambda c: (*labelling.at(c), version, table))
        labelling.set(version, table, counted=Counts(alpha, sizes, self.layout))
        return int(moved)

    def counts(self, labelling: Any) -> Counts:
        if labelling.counted is None:
            alpha, sizes = self.chunks.total(chunk_counts, labelling.at)
            labelling.counted = Counts(alpha, sizes, self.layout)
        return labelling.counted

    def labels(self, labelling: Any) -> Any:
        return self.chunks.gather(labelling)

    def own_scores(self, labelling: Any, table: ScoreTable, start: int = 0, stop: int | None = None) -> Any:
        sizes, stop = self.chunks.sizes, self.n_rows if stop is None else stop
        firsts = np.cumsum(sizes) - sizes
        begins, ends = np.maximum(start - firsts, 0), np.minimum(stop - firsts, sizes)
        which = np.flatnonzero(begins < ends).tolist()
        return self.chunks.rowwise(
            chunk_verb, lambda c: (*labelling.at(c), "own_scores", table, int(begins[c]), int(ends[c])), which
        )

    def map_scores(self, labelling: Any, table: ScoreTable, function: Callable, dtype: Any) -> tuple[Any, np.ndarray]:
        return self.chunks.scored(lambda c: (*labelling.at(c), "map_scores", table, function, dtype))

    def worst_rows(self, labelling: Any, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        of_chunks = self.chunks.each(chunk_verb, lambda c: (*labelling.at(c), "worst_rows", cost, m))
        rows, costs = (np.concatenate(part) for part in zip(*of_chunks))
        # chunks come in row order and each is sorted, so that the lowest index is first among equals
        best = first_different(rows.__getitem__, costs, m)
        return rows[best], costs[best]

    def seeding(self, weights: np.ndarray) -> ChunkedSeeding:
        return ChunkedSeeding(self.chunks, weights)

    def split(self, labelling: Any) -> list[Rows]:
        return [type(self)(part) for part in self.chunks.divide(labelling)]

    def scatter(self, leaves: Sequence[Rows]) -> Any:
        return self.chunks.scatter([leaf.chunks for leaf in leaves if isinstance(leaf, ChunkedRows)])

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        return self.chunks.total(chunk_overlap, lambda c: (shares,))[0]

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return _look_up(self.chunks, self.chunks.sizes, indices, chunk_codes_at)

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        of_chunks, left, stop, first = [], limit, self.n_rows, 0
        for c, size in enumerate(self.chunks.sizes.tolist()):
            if start < first + size:
                asked = (*labelling.at(c), "propose_moves", table, max(start - first, 0), left)
                moves = self.chunks.each(chunk_verb, {c: asked}.__getitem__, [c])[0]
                of_chunks.append((moves.indices + first, moves.sources, moves.targets, moves.codes, moves.copies))
                left -= len(moves)
                if left == 0:
                    stop = first + moves.stop
                    break
            first += size
        indices, sources, targets, codes, copies = (np.concatenate(part) for part in zip(*of_chunks))
        return Moves(indices, sources, targets, codes, copies, stop)

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        if len(indices):
            where, inside = _place(self.chunks.sizes, indices)
            chosen = [where == c for c in range(len(self.chunks.sizes))]
            self.chunks.relabel(labelling, [(inside[here], targets[here]) for here in chosen])


class ChunkedSeeding(Seeding):
    """k-means++ distances by chunk. Two rounds per chosen row: one finds the candidates, one computes their totals.

    The second also gives each chunk's total after any candidate is added, so `add` needs no third round.
    """

    def __init__(self, chunks: Chunks, weights: np.ndarray):
        self.chunks, self.weights = chunks, weights
        self.key = new_version()
        self._totals = chunks.copies.astype(np.int64)  # of each chunk
        self._chosen = np.zeros((0, chunks.layout.n_partitions), np.uint8)
        self._measured: dict[bytes, np.ndarray] = {}  # the totals of each chunk with a candidate added
        weakref.finalize(self, chunks.forget, self.key).atexit = False

    @property
    def total(self) -> int:  # type: ignore[override]
        return int(self._totals.sum())

    def locate(self, targets: np.ndarray) -> np.ndarray:
        return _look_up(self.chunks, self._totals, targets, chunk_locate, self.key, self.weights, self._chosen)

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        totals = self._measure(candidates)
        self._measured = {row.tobytes(): own for row, own in zip(candidates, totals.T)}
        return totals.sum(axis=0)

    def add(self, row: np.ndarray) -> None:
        known = self._measured.get(row.tobytes())
        self._measured, self._chosen = {}, np.vstack([self._chosen, row])
        self._totals = self._measure(None)[:, 0] if known is None else known

    def _measure(self, candidates: np.ndarray | None) -> np.ndarray:
        asked = self.key, self.weights, self._chosen, candidates
        return np.array(self.chunks.each(chunk_potentials, lambda c: asked))


def _place(sizes: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chunk of each target, and its place there."""
    ends = np.cumsum(sizes)
    where = np.searchsorted(ends, targets, side="right")
    return where, targets - (ends - sizes)[where]


def _look_up(chunks: Chunks, sizes: np.ndarray, targets: np.ndarray, function: Callable, *args: Any) -> np.ndarray:
    """Rows found by ``function(chunk, *args, targets)``, in the order of the targets, which count over all chunks.

    `sizes` says how many of the targets belong to each chunk.
    """
    where, inside = _place(sizes, np.asarray(targets, dtype=np.int64))
    which = np.unique(where)
    of_chunks = chunks.each(function, lambda c: (*args, inside[where == c]), which.tolist())
    out = np.empty((len(where), of_chunks[0].shape[1]), dtype=of_chunks[0].dtype)
    for c, rows in zip(which, of_chunks):
        out[where == c] = rows
    return out
