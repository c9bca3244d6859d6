"""Rows in chunks, for streaming and for Dask: call a function on every chunk, add the results.

A chunk works on its own rows with a local engine and returns small integers: counts, totals, a few rows. What it keeps
between calls (labels, bounds, distances) is a cache: every call says which labels it starts from (a table, or given
labels) and which rows were chosen. A chunk without its cache, or a new copy on another machine, computes the same
result.
"""

from __future__ import annotations

import itertools
import threading
import uuid
import weakref
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.counts import Counts, Layout, RowShares, ScoreTable, smallest_unsigned
from ..core.moves import Moves, MoveTable
from .contract import Engine, Labelling, Loadable, Rows, Seeding, first_different
from .cuda.device import has_device
from .cuda.engine import Cuda
from .native import native_or_none
from .numpy import Numpy

# The labels a call starts from: (version, table, labels). They are the argmax of the table, or given, or (both None)
# not set yet.
Past = tuple[str, "ScoreTable | None", "np.ndarray | None"]
Arguments = Callable[[int], tuple]  # the arguments of a call for the chunk with this number

_gpu_lock = threading.RLock()  # chunks of one process share its GPU
_numbers = itertools.count()
_process = uuid.uuid4().hex[:12]


def new_version() -> str:
    """A unique name for a labelling, a seeding or a pass, also across processes."""
    return f"{_process}-{next(_numbers)}"


def local_engine(name: str | Engine, n_threads: int | None = None, gpu: bool = False) -> Engine:
    """The engine a chunk works with: a GPU of this process if `gpu` allows it, else compiled kernels, else NumPy."""
    if isinstance(name, Engine):
        return name
    names = ("auto", *(("cuda",) if gpu else ()), "native", "numpy")
    if name not in names:
        argument = "worker_engine" if gpu else "local"
        raise ValueError(f"{argument} must be one of {names} or an engine, got {name!r}.")
    if gpu and (name == "cuda" or (name == "auto" and has_device())):
        return Cuda()
    native = None if name == "numpy" else native_or_none()
    if native is None:
        if name == "native":
            raise ImportError("'native' needs the compiled kernels, which are not installed here; use 'numpy'.")
        return Numpy()
    # no column-wise copy of the codes: a chunk may be larger than memory
    return type(native)(n_threads=n_threads, blocked_copy=False)


# -- one chunk -----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Chunk(Loadable):
    """Some rows, loaded in a local engine, and a cache of what was last computed on them."""

    codes: np.ndarray  # (rows, n_partitions), in memory or mapped from a file
    layout: Layout  # shape of the whole ensemble
    copies: np.ndarray | None  # multiplicity of each row; rows without a label count 0 whatever it says
    ids: np.ndarray | None  # row numbers in the rows first loaded; None: those of a chunk that was never split
    missing: np.ndarray  # (n_partitions,) bool: where a label may be missing
    engine: str | Engine  # the local engine; a name is looked up in the process that works on the chunk
    slots: int | None = None  # labellings and seedings cached at once, the oldest is dropped; None: until `forget`
    # None caches the engine's own state between calls (fast). Otherwise only the labels are kept, packed into an array
    # that ``lean(n_rows, dtype)`` provides, and everything else is computed again at each call.
    lean: Callable[[int, np.dtype], np.ndarray] | None = None
    keep_distances: bool = True  # whether seeding distances are cached

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: Rows | None = None
        # of a labelling (version, labelling, packed labels), of a seeding (chosen rows, seeding)
        self.states: OrderedDict[str, tuple] = OrderedDict()
        # what engines read of an ensemble; the codes were validated when it was opened
        self.n_clusters, self.offsets = self.layout.n_clusters, self.layout.offsets
        self.has_missing, self.exact_sizes = bool(self.missing.any()), False
        self.sizes = np.zeros(self.layout.n_codes, dtype=np.int64)
        self.sizes[self.offsets[:-1]] = np.where(self.missing, 0, len(self))  # their sums tell where labels miss

    def __reduce__(self) -> Any:
        return Chunk, tuple(getattr(self, part.name) for part in fields(self))

    def __sizeof__(self) -> int:
        return 512 + sum(a.nbytes for a in (self.codes, self.copies, self.ids) if a is not None)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def local(self) -> Engine:
        """The engine that works on this chunk, chosen in the process that holds it."""
        return local_engine(self.engine, n_threads=1, gpu=True)

    @property
    def lock(self) -> threading.RLock:
        return _gpu_lock if self.local.name == "cuda" else self._lock

    def rows(self) -> Rows:
        """The rows, loaded in the local engine."""
        rows = self._rows or self.local.load(self, self.copies)
        if self.lean is None:
            self._rows = rows
        return rows

    def unlabelled(self) -> np.ndarray | None:
        """Positions of rows without a label, None when there are none."""
        if not self.missing.all():  # a partition that labels every row
            return None
        missing = self.n_clusters.astype(self.codes.dtype)
        unlabelled = np.flatnonzero((self.codes == missing).all(axis=1))
        return unlabelled if len(unlabelled) else None

    @contextmanager
    def labelled(self, key: str, k: int, past: Past, version: str | None = None) -> Iterator[tuple[Rows, Labelling]]:
        """The rows and a labelling that holds the labels of `past`; then it is cached, as `version` if changed."""
        with self.lock:
            before, table, labels = past
            rows = self.rows()
            cached, labelling, packed = self.states.pop(key, (None, None, None))
            if cached == before:
                labelling = labelling or rows.labelling(k, packed)
            else:
                labelling = rows.labelling(k, labels)
                if labels is None and table is not None:
                    rows.assign(labelling, table)
            yield rows, labelling
            version = before if version is None else version
            if self.lean is not None and version:
                packed = self.lean(len(self), smallest_unsigned(k)) if packed is None else packed
                packed[:] = rows.labels(labelling)
                labelling = None
            self.remember(key, (version, labelling, packed))

    def remember(self, key: str, state: tuple) -> None:
        self.states[key] = state
        while self.slots is not None and len(self.states) > self.slots:
            self.states.popitem(last=False)

    def seeded(self, key: str, weights: np.ndarray, chosen: np.ndarray) -> Seeding:
        """Distances to the chosen rows; rows not in the cached seeding are added to it."""
        known, seeding = self.states.pop(key, (None, None))
        if known is None or len(known) > len(chosen) or not np.array_equal(known, chosen[: len(known)]):
            known, seeding = chosen[:0], self.rows().seeding(weights)
        for row in chosen[len(known) :]:
            seeding.add(row)
        if self.keep_distances:
            self.remember(key, (chosen.copy(), seeding))
        return seeding

    # -- what is called on all chunks: functions of the chunk and the arguments alone ------------------------

    def counts(
        self, key: str, k: int, past: Past, version: str | None = None, table: ScoreTable | None = None
    ) -> tuple[int, np.ndarray, np.ndarray]:
        """Label the rows by `table`, where one is given: how many changed, and the counts."""
        with self.labelled(key, k, past, version) as (rows, labelling):
            moved = 0 if table is None else rows.assign(labelling, table)
            counts = rows.counts(labelling)
        return moved, counts.alpha, counts.sizes

    def labels(self, key: str, k: int, past: Past) -> np.ndarray:
        """The labels, in the smallest type that holds them."""
        with self.labelled(key, k, past) as (rows, labelling):
            return np.asarray(rows.labels(labelling)).astype(smallest_unsigned(k))

    def renumbered(self, key: str, k: int, past: Past, numbers: np.ndarray) -> np.ndarray:
        return numbers[self.labels(key, k, past)]

    def relabel(self, key: str, k: int, past: Past, version: str, where: np.ndarray, to: np.ndarray) -> None:
        with self.labelled(key, k, past, version) as (rows, labelling):
            if len(where):
                rows.relabel(labelling, where, to)

    def moved(self, key: str, k: int, past: Past, where: np.ndarray, to: np.ndarray) -> np.ndarray:
        """The labels after moves, of which the chunk keeps nothing."""
        labels = self.labels(key, k, past).copy()
        labels[where] = to
        return labels

    def verb(self, key: str, k: int, past: Past, verb: str, *arguments: Any) -> Any:
        """A verb of `Rows` that reads the labels: ``rows.verb(labelling, *arguments)``."""
        with self.labelled(key, k, past) as (rows, labelling):
            return getattr(rows, verb)(labelling, *arguments)

    def potentials(self, key: str, weights: np.ndarray, chosen: np.ndarray, candidates: np.ndarray | None):
        """Total distance to the chosen rows with each candidate added; without candidates, as it is."""
        with self.lock:
            seeding = self.seeded(key, weights, chosen)
            if candidates is None:
                return np.array([seeding.total])
            if self.lean is None:
                return seeding.potentials(candidates)
            # one by one: an engine may keep the distances of all candidates of a call in memory
            return np.concatenate([seeding.potentials(row[None]) for row in candidates])

    def locate(self, key: str, weights: np.ndarray, chosen: np.ndarray, targets: np.ndarray) -> np.ndarray:
        with self.lock:
            return self.seeded(key, weights, chosen).locate(targets)

    def overlap(self, shares: RowShares | None) -> tuple[np.ndarray]:
        with self.lock:
            return (self.rows().overlap(shares),)

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.codes[indices])

    def n_copies(self) -> int:
        """Copies of the rows that take part."""
        with self.lock:
            return self.rows().n_copies

    # -- subsets ---------------------------------------------------------------------------------------------

    def shares(self, key: str, k: int, past: Past) -> np.ndarray:
        """Rows and participating copies of each label, shape (2, k)."""
        with self.labelled(key, k, past) as (rows, labelling):
            labels = np.asarray(rows.labels(labelling))
            return np.array([np.bincount(labels, minlength=k), rows.counts(labelling).sizes])

    def part(self, key: str, k: int, past: Past, label: int, start: int) -> Chunk:
        """The rows of one label as a chunk; `start` as for `row_numbers`."""
        rows, few = np.flatnonzero(self.labels(key, k, past) == label), start + len(self) <= 1 << 32
        ids = self.row_numbers(start)[rows].astype(np.uint32 if few else np.int64, copy=False)
        copies = None if self.copies is None else self.copies[rows]
        return replace(self, codes=self.codes[rows], copies=copies, ids=ids)

    def row_numbers(self, start: int) -> np.ndarray:
        """Row numbers in the rows first loaded; `start` is that of the first row of a chunk which was never split."""
        return np.arange(start, start + len(self)) if self.ids is None else self.ids


def add_results(parts: Sequence[tuple]) -> tuple:
    """Element by element sums of results."""
    return tuple(sum(column[1:], start=column[0]) for column in zip(*parts))


# -- all chunks ----------------------------------------------------------------------------------------------------


class ChunkedLabelling(Labelling):
    """The table or given labels from which the labels of any chunk can be computed again."""

    def __init__(self, rows: ChunkedRows, n_clusters: int, key: str | None = None):
        super().__init__(n_clusters, None)
        self.key = key or new_version()
        self.set("")
        weakref.finalize(self, rows.forget, self.key).atexit = False

    def set(self, version: str, table: Any = None, pieces: list | None = None, counted: Counts | None = None) -> None:
        """The labels are now those of `table`, or those given in one piece per chunk, or known to the chunks alone."""
        self.version, self.table, self.pieces, self.counted = version, table, pieces, counted

    def at(self, chunk: int) -> tuple[str, int, Past]:
        """The first arguments of functions that work on the labels of a chunk."""
        piece = None if self.pieces is None else self.pieces[chunk]
        return self.key, self.n_clusters, (self.version, self.table, piece)


class ChunkedRows(Rows):
    """Rows in chunks: each verb runs a function on every chunk and adds the results."""

    chunk_sizes: np.ndarray  # (chunks,) rows
    chunk_copies: np.ndarray  # (chunks,) copies that take part

    def _count(self, sizes: Any, copies: Any) -> None:
        self.chunk_sizes, self.chunk_copies = (np.array(each, dtype=np.int64) for each in (sizes, copies))
        self.n_rows, self.n_copies = int(self.chunk_sizes.sum()), int(self.chunk_copies.sum())

    @abstractmethod
    def each(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        """``function(chunk, *arguments(c))`` for every chunk c, or those in `which`, in order."""

    @abstractmethod
    def total(self, function: Callable, arguments: Arguments) -> tuple:
        """The sum of the results for every chunk, element by element."""

    def pieces(self, function: Callable, arguments: Arguments) -> list:
        """The results for every chunk, stored with the chunks."""
        return self.each(function, arguments)

    def cut(self, labels: Any, k: int) -> list:
        """Labels of all rows as one piece per chunk, stored with the chunks."""
        pieces = np.split(np.asarray(labels), np.cumsum(self.chunk_sizes)[:-1])
        return [piece.astype(smallest_unsigned(k)) for piece in pieces]

    @abstractmethod
    def move(self, labelling: ChunkedLabelling, moves: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Give some rows of each chunk other labels, and set the labelling."""

    def forget(self, key: str) -> None:
        """Drop the cached state of a labelling or seeding that is no longer used."""

    def labelling(self, k: int, labels: Any = None) -> ChunkedLabelling:
        labelling = ChunkedLabelling(self, k)
        if labels is not None:
            labelling.set(new_version(), pieces=self.cut(labels, k))
        return labelling

    def renumbered(self, labelling: Any, numbers: np.ndarray, k: int) -> ChunkedLabelling:
        new, numbers = ChunkedLabelling(self, k), np.asarray(numbers).astype(smallest_unsigned(k))
        new.set(new_version(), pieces=self.pieces(Chunk.renumbered, lambda c: (*labelling.at(c), numbers)))
        return new

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        version = new_version()
        moved, alpha, sizes = self.total(Chunk.counts, lambda c: (*labelling.at(c), version, table))
        labelling.set(version, table, counted=Counts(alpha, sizes, self.layout))
        return int(moved)

    def counts(self, labelling: Any) -> Counts:
        if labelling.counted is None:
            _, alpha, sizes = self.total(Chunk.counts, labelling.at)
            labelling.counted = Counts(alpha, sizes, self.layout)
        return labelling.counted

    def own_scores(self, labelling: Any, table: ScoreTable, start: int = 0, stop: int | None = None) -> Any:
        return self.map_scores(labelling, table, _as_they_are, np.int64)[0][start:stop]

    def map_scores(self, labelling: Any, table: ScoreTable, function: Callable, dtype: Any) -> tuple[Any, np.ndarray]:
        of_chunks = self.each(Chunk.verb, lambda c: (*labelling.at(c), "map_scores", table, function, dtype))
        values, sums = zip(*of_chunks)
        return np.concatenate(values), np.sum(sums, axis=0)

    def worst_rows(self, labelling: Any, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        of_chunks = self.each(Chunk.verb, lambda c: (*labelling.at(c), "worst_rows", cost, m))
        rows, costs = (np.concatenate(part) for part in zip(*of_chunks))
        # chunks come in row order and each is sorted, so that the lowest index is first among equals
        best = first_different(rows.__getitem__, costs, m)
        return rows[best], costs[best]

    def seeding(self, weights: np.ndarray) -> ChunkedSeeding:
        return ChunkedSeeding(self, weights)

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        return self.total(Chunk.overlap, lambda c: (shares,))[0]

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return self.look_up(self.chunk_sizes, indices, Chunk.codes_at)

    def look_up(self, sizes: np.ndarray, targets: np.ndarray, function: Callable, *arguments: Any) -> np.ndarray:
        """Rows found by ``function(chunk, *arguments, targets)``, in the order of the targets.

        Targets count over all chunks; `sizes` says how many belong to each.
        """
        where, inside = _place(sizes, np.asarray(targets, dtype=np.int64))
        which = np.unique(where)
        of_chunks = self.each(function, lambda c: (*arguments, inside[where == c]), which.tolist())
        out = np.empty((len(where), of_chunks[0].shape[1]), dtype=of_chunks[0].dtype)
        for c, rows in zip(which, of_chunks):
            out[where == c] = rows
        return out

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        of_chunks, left, stop, first = [], limit, self.n_rows, 0
        for c, size in enumerate(self.chunk_sizes.tolist()):
            if start < first + size:
                asked = (*labelling.at(c), "propose_moves", table, max(start - first, 0), left)
                moves = self.each(Chunk.verb, {c: asked}.__getitem__, [c])[0]
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
            where, inside = _place(self.chunk_sizes, indices)
            chosen = [where == c for c in range(len(self.chunk_sizes))]
            self.move(labelling, [(inside[here], targets[here]) for here in chosen])


class ChunkedSeeding(Seeding):
    """k-means++ distances by chunk. Two rounds per chosen row: one finds the candidates, one computes their totals.

    The second also gives each chunk's total after any candidate is added, so `add` needs no third round.
    """

    def __init__(self, rows: ChunkedRows, weights: np.ndarray):
        self.rows, self.weights = rows, weights
        self.key = new_version()
        self._totals = rows.chunk_copies  # of each chunk
        self._chosen = np.zeros((0, rows.layout.n_partitions), np.uint8)
        self._measured: dict[bytes, np.ndarray] = {}  # the totals of each chunk with a candidate added
        weakref.finalize(self, rows.forget, self.key).atexit = False

    @property
    def total(self) -> int:  # type: ignore[override]
        return int(self._totals.sum())

    def locate(self, targets: np.ndarray) -> np.ndarray:
        return self.rows.look_up(self._totals, targets, Chunk.locate, self.key, self.weights, self._chosen)

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
        return np.array(self.rows.each(Chunk.potentials, lambda c: asked))


def _place(sizes: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chunk of each target, and its place there."""
    ends = np.cumsum(sizes)
    where = np.searchsorted(ends, targets, side="right")
    return where, targets - (ends - sizes)[where]


def _as_they_are(scores: Any) -> tuple[Any]:
    """The function of `map_scores` that keeps the scores and sums nothing."""
    return (scores,)
