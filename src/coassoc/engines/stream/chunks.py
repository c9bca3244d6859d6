"""One chunk of rows and what can be asked of it, the same for streaming and for Dask.

A chunk works on its own rows with a local engine (compiled or NumPy) and answers with small integers: counts,
totals, a few rows. What it keeps between calls (labels, bounds, distances) is a shortcut and never the truth: every
call says what the labels were (a table, or given labels) and which rows were chosen, so a chunk that has lost its
memory, or is a fresh copy on another machine, computes the same answer. `_chunked.py` asks and adds.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.counts import Layout, ScoreTable
from ..contract import Engine, Labelling, Rows, Seeding

if TYPE_CHECKING:
    from ...core.moves import Moves, MoveTable
    from ...core.overlaps import RowShares

# What the labels of a chunk were: (version, table, labels); table None and labels None: not yet labelled.
Past = tuple[str, "ScoreTable | None", "np.ndarray | None"]
UNLABELLED: Past = ("", None, None)

_numbers = itertools.count()
_process = uuid.uuid4().hex[:12]


def new_version() -> str:
    """A name no other labelling, seeding or pass has, here or in another process."""
    return f"{_process}-{next(_numbers)}"


def local_engine(name: str | Engine, n_threads: int | None = None) -> Engine:
    """The engine a chunk works with: compiled kernels where installed, else NumPy."""
    if isinstance(name, Engine):
        return name
    from ..native.engine import native_or_none
    from ..numpy import Numpy

    if name not in ("auto", "native", "numpy"):
        raise ValueError(f"local must be 'auto', 'native', 'numpy' or an engine, got {name!r}.")
    native = None if name == "numpy" else native_or_none()
    if native is None:
        if name == "native":
            raise ImportError("local='native' needs the compiled kernels, which are not installed; use 'numpy'.")
        return Numpy()
    # a copy of the codes by columns would double the memory of a chunk that may be larger than memory
    return type(native)(n_threads=n_threads, blocked_copy=False)


def smallest_label_type(k: int) -> np.dtype:
    """Smallest unsigned type for labels 0..k-1."""
    return np.dtype(np.uint8 if k <= 1 << 8 else np.uint16 if k <= 1 << 16 else np.uint32)


class _State:
    """Labels of a chunk as its engine keeps them, with the version they belong to."""

    __slots__ = ("labelling", "packed", "version")

    labelling: Any  # None while the labels are packed

    def __init__(self, version: str, labelling: Labelling, packed: np.ndarray | None = None):
        self.version, self.labelling, self.packed = version, labelling, packed


class Chunk:
    """Some rows, where they are worked on, and shortcuts to what was last computed on them.

    Parameters
    ----------
    codes : ndarray of shape (rows, n_partitions)
        In memory or memory-mapped.
    layout : Layout
        Shape of the whole ensemble.
    copies : ndarray or None
        Multiplicity of each row; None: one each. Rows without a label count 0 whatever it says.
    ids : ndarray or None
        Row numbers in the rows first loaded; None: as they stand.
    missing : ndarray of bool, shape (n_partitions,), or None
        Partitions in which a label may be missing; None: all of them.
    engine : Engine or str
        The local engine; a name is looked up where the chunk is used.
    slots : int or None
        Labellings and seedings remembered at once, the oldest goes first; None: all, until told to forget.
    lean : callable or None
        None keeps the engine's own state between calls (quick). Otherwise only the labels are kept, packed into
        an array that ``lean(n_rows, dtype)`` provides, and the rest is made anew at each call.
    keep_distances : bool
        Whether seeding distances are kept between calls; otherwise each call measures every chosen row again.
    """

    _KEPT = ("codes", "copies", "engine", "ids", "keep_distances", "layout", "missing", "slots")

    def __init__(
        self,
        codes: np.ndarray,
        layout: Layout,
        copies: np.ndarray | None = None,
        ids: np.ndarray | None = None,
        *,
        missing: np.ndarray | None = None,
        engine: str | Engine = "auto",
        slots: int | None = 4,
        lean: Callable[[int, np.dtype], np.ndarray] | None = None,
        keep_distances: bool = True,
    ):
        self.codes, self.layout, self.copies, self.ids = codes, layout, copies, ids
        self.missing = np.ones(layout.n_partitions, dtype=bool) if missing is None else missing
        self.engine, self.slots = engine, slots
        self.lean, self.keep_distances = lean, keep_distances
        self._start()

    def _start(self) -> None:
        self.lock = threading.RLock()
        self.states: OrderedDict[str, Any] = OrderedDict()
        self._rows: Rows | None = None

    def __getstate__(self) -> dict:
        return {name: self.__dict__[name] for name in self._KEPT}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, lean=None)
        self._start()

    def __sizeof__(self) -> int:
        return 512 + sum(a.nbytes for a in (self.codes, self.copies, self.ids) if a is not None)

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self) -> Rows:
        """The rows, loaded in the local engine."""
        rows = self._rows or self.part(0, len(self))
        if self.lean is None:
            self._rows = rows
        return rows

    def part(self, start: int, stop: int) -> Rows:
        """Some of the rows, loaded in the local engine."""
        copies = None if self.copies is None else self.copies[start:stop]
        return local_engine(self.engine, n_threads=1).load(self._as_ensemble(self.codes[start:stop]), copies)

    def _as_ensemble(self, codes: np.ndarray) -> Any:
        # what engines read of an ensemble; the codes were doubted when the whole was opened
        unlabelled = self.unlabelled(codes)
        sizes = np.zeros(self.layout.n_codes, dtype=np.int64)
        sizes[self.layout.offsets[:-1]] = np.where(self.missing, 0, len(codes))  # their sums say who may be missing
        return SimpleNamespace(
            codes=codes,
            n_clusters=self.layout.n_clusters,
            offsets=self.layout.offsets,
            n_samples=len(codes),
            n_partitions=codes.shape[1],
            sizes=sizes,
            exact_sizes=False,
            has_missing=bool(self.missing.any()),
            unlabelled=lambda: unlabelled,
        )

    def unlabelled(self, codes: np.ndarray | None = None) -> np.ndarray | None:
        """Positions of rows without a label, None when there are none."""
        if not self.missing.all():  # a partition that labels every row
            return None
        codes = self.codes if codes is None else codes
        found = np.flatnonzero((codes == self.layout.n_clusters.astype(codes.dtype)).all(axis=1))
        return found if len(found) else None

    # -- shortcuts -----------------------------------------------------------------------------------------

    def labelled(self, key: str, k: int, past: Past) -> tuple[Rows, _State]:
        """The rows, and a state that holds the labels of `past`, taken out of the shortcuts: `keep` puts it back."""
        rows, state = self.rows(), self.states.pop(key, None)
        version, table, labels = past
        if state is None or state.version != version:
            packed = None if state is None else state.packed
            labelling = rows.labelling(k, labels)
            if labels is None and table is not None:
                rows.assign(labelling, table)
            state = _State(version, labelling, packed)
        elif state.labelling is None:
            state.labelling = rows.labelling(k, state.packed)
        return rows, state

    def keep(self, key: str, rows: Rows, state: _State, version: str) -> None:
        state.version = version
        if self.lean is not None and version:
            if state.packed is None:
                state.packed = self.lean(len(self), smallest_label_type(state.labelling.n_clusters))
            state.packed[:] = rows.labels(state.labelling)
            state.labelling = None
        self.remember(key, state)

    def remember(self, key: str, state: Any) -> None:
        self.states[key] = state
        while self.slots is not None and len(self.states) > self.slots:
            self.states.popitem(last=False)

    def forget(self, key: str) -> None:
        self.states.pop(key, None)

    def seeded(self, key: str, weights: np.ndarray, chosen: np.ndarray) -> Seeding:
        """Distances to the chosen rows; only those not yet added cost a pass."""
        known, seeding = self.states.pop(key, (None, None))
        if known is None or len(known) > len(chosen) or not np.array_equal(known, chosen[: len(known)]):
            known, seeding = chosen[:0], self.rows().seeding(weights)
        for row in chosen[len(known) :]:
            seeding.add(row)
        if self.keep_distances:
            self.remember(key, (chosen.copy(), seeding))
        return seeding


# -- what is asked of a chunk: functions of (chunk, arguments) alone ----------------------------------------------


def chunk_assign(chunk: Chunk, key: str, k: int, past: Past, version: str, table: ScoreTable):
    """Label the rows by `table`: how many changed, and the counts of the new labels."""
    with chunk.lock:
        rows, state = chunk.labelled(key, k, past)
        moved = rows.assign(state.labelling, table)
        counts = rows.counts(state.labelling)
        chunk.keep(key, rows, state, version)
        return moved, counts.alpha, counts.sizes


def chunk_counts(chunk: Chunk, key: str, k: int, past: Past):
    with chunk.lock:
        rows, state = chunk.labelled(key, k, past)
        counts = rows.counts(state.labelling)
        chunk.keep(key, rows, state, past[0])
        return 0, counts.alpha, counts.sizes


def chunk_labels(chunk: Chunk, key: str, k: int, past: Past) -> np.ndarray:
    """The labels, in the smallest type that holds them."""
    with chunk.lock:
        state = chunk.states.get(key)
        if state is not None and state.version == past[0] and state.labelling is None:
            return state.packed  # no need to touch the rows
        rows, state = chunk.labelled(key, k, past)
        labels = np.asarray(rows.labels(state.labelling)).astype(smallest_label_type(k))
        chunk.keep(key, rows, state, past[0])
        return labels


def chunk_worst(chunk: Chunk, key: str, k: int, past: Past, cost: ScoreTable, m: int):
    with chunk.lock:
        rows, state = chunk.labelled(key, k, past)
        found = rows.worst_rows(state.labelling, cost, m)
        chunk.keep(key, rows, state, past[0])
        return found


def chunk_potentials(chunk: Chunk, key: str, weights: np.ndarray, chosen: np.ndarray, candidates: np.ndarray | None):
    """Total distance to the chosen rows with each candidate added; without candidates, as it is."""
    with chunk.lock:
        seeding = chunk.seeded(key, weights, chosen)
        if candidates is None:
            return np.array([seeding.total])
        if chunk.lean is None:
            return seeding.potentials(candidates)
        # an engine may keep the distances of every candidate it measures together: one by one takes less memory
        return np.concatenate([seeding.potentials(candidates[c : c + 1]) for c in range(len(candidates))])


def chunk_locate(chunk: Chunk, key: str, weights: np.ndarray, chosen: np.ndarray, targets: np.ndarray) -> np.ndarray:
    with chunk.lock:
        return chunk.seeded(key, weights, chosen).locate(targets)


def chunk_overlap(chunk: Chunk, shares: RowShares | None) -> tuple[np.ndarray]:
    with chunk.lock:
        return (chunk.rows().overlap(shares),)


def chunk_codes_at(chunk: Chunk, indices: np.ndarray) -> np.ndarray:
    return np.asarray(chunk.codes[indices])


def chunk_propose(chunk: Chunk, key: str, k: int, past: Past, table: MoveTable, start: int, limit: int) -> Moves:
    with chunk.lock:
        rows, state = chunk.labelled(key, k, past)
        moves = rows.propose_moves(state.labelling, table, start, limit)
        chunk.keep(key, rows, state, past[0])
        return moves


def chunk_describe(chunk: Chunk) -> tuple[int, int]:
    """Rows, and copies of those that take part."""
    with chunk.lock:
        return len(chunk), chunk.rows().n_copies


def add_results(parts: Sequence[tuple]) -> tuple:
    """Element by element sums of results."""
    total = list(parts[0])
    for part in parts[1:]:
        for i, value in enumerate(part):
            total[i] = total[i] + value
    return tuple(total)
