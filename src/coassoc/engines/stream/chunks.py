"""One chunk of rows and the functions that are run on it, the same for streaming and for Dask.

A chunk works on its own rows with a local engine and returns small integers: counts, totals, a few rows. What it keeps
between calls (labels, bounds, distances) is a cache: every call says which labels it starts from (a table, or given
labels) and which rows were chosen. A chunk without its cache, or a new copy on another machine, computes the same
result. `chunked.py` calls these functions on all chunks and adds the results.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...core.counts import Layout, RowShares, ScoreTable, smallest_unsigned
from ..contract import Engine, Labelling, Loadable, Rows, Seeding
from ..cuda.device import has_device
from ..cuda.engine import Cuda
from ..native.engine import native_or_none
from ..numpy import Numpy

# The labels a call starts from: (version, table, labels). They are the argmax of the table, or given, or (both None)
# not set yet.
Past = tuple[str, "ScoreTable | None", "np.ndarray | None"]

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


@dataclass
class CachedLabels:
    """Cached labels of a chunk, with the version they belong to."""

    version: str
    labelling: Labelling | None  # None while the labels are packed
    packed: np.ndarray | None = None


@dataclass(eq=False)
class Chunk:
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
        self._local: Engine | None = None
        self.states: OrderedDict[str, Any] = OrderedDict()
        self._rows: Rows | None = None

    def __reduce__(self) -> Any:
        return Chunk, tuple(getattr(self, part.name) for part in fields(self))

    def __sizeof__(self) -> int:
        return 512 + sum(a.nbytes for a in (self.codes, self.copies, self.ids) if a is not None)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def local(self) -> Engine:
        """The engine that works on this chunk, chosen in the process that holds it."""
        if self._local is None:
            self._local = local_engine(self.engine, n_threads=1, gpu=True)
        return self._local

    @property
    def lock(self) -> threading.RLock:
        return _gpu_lock if self.local.name == "cuda" else self._lock

    def rows(self) -> Rows:
        """The rows, loaded in the local engine."""
        rows = self._rows or self.local.load(self._as_ensemble(), self.copies)
        if self.lean is None:
            self._rows = rows
        return rows

    def _as_ensemble(self) -> Loadable:
        # the codes were validated when the ensemble was opened
        sizes = np.zeros(self.layout.n_codes, dtype=np.int64)
        sizes[self.layout.offsets[:-1]] = np.where(self.missing, 0, len(self))  # their sums tell where labels miss
        ensemble = Loadable()
        vars(ensemble).update(
            codes=self.codes,
            n_clusters=self.layout.n_clusters,
            offsets=self.layout.offsets,
            sizes=sizes,
            exact_sizes=False,
            has_missing=bool(self.missing.any()),
            unlabelled=self.unlabelled,
        )
        return ensemble

    def unlabelled(self) -> np.ndarray | None:
        """Positions of rows without a label, None when there are none."""
        if not self.missing.all():  # a partition that labels every row
            return None
        missing = self.layout.n_clusters.astype(self.codes.dtype)
        unlabelled = np.flatnonzero((self.codes == missing).all(axis=1))
        return unlabelled if len(unlabelled) else None

    # -- cache ---------------------------------------------------------------------------------------------

    @contextmanager
    def labelled(self, key: str, k: int, past: Past, version: str | None = None) -> Iterator[tuple[Rows, Labelling]]:
        """The rows and a labelling that holds the labels of `past`; then it is cached, as `version` if changed."""
        with self.lock:
            rows, state = self.rows(), self.states.pop(key, None)
            before, table, labels = past
            packed = None if state is None else state.packed
            if state is not None and state.version == before:
                labelling = state.labelling or rows.labelling(k, packed)
            else:
                labelling = rows.labelling(k, labels)
                if labels is None and table is not None:
                    rows.assign(labelling, table)
            yield rows, labelling
            state = CachedLabels(before if version is None else version, labelling, packed)
            if self.lean is not None and state.version:
                if packed is None:
                    state.packed = self.lean(len(self), smallest_unsigned(k))
                state.packed[:] = rows.labels(labelling)  # type: ignore[index]
                state.labelling = None
            self.remember(key, state)

    def remember(self, key: str, state: Any) -> None:
        self.states[key] = state
        while self.slots is not None and len(self.states) > self.slots:
            self.states.popitem(last=False)

    def forget(self, key: str) -> None:
        self.states.pop(key, None)

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


# -- functions of (chunk, arguments) alone -------------------------------------------------------------------------


def chunk_assign(chunk: Chunk, key: str, k: int, past: Past, version: str, table: ScoreTable) -> tuple:
    """Label the rows by `table`: how many changed, and the counts of the new labels."""
    with chunk.labelled(key, k, past, version) as (rows, labelling):
        moved, counts = rows.assign(labelling, table), rows.counts(labelling)
    return moved, counts.alpha, counts.sizes


def chunk_counts(chunk: Chunk, key: str, k: int, past: Past) -> tuple:
    with chunk.labelled(key, k, past) as (rows, labelling):
        counts = rows.counts(labelling)
    return counts.alpha, counts.sizes


def chunk_labels(chunk: Chunk, key: str, k: int, past: Past) -> np.ndarray:
    """The labels, in the smallest type that holds them."""
    with chunk.labelled(key, k, past) as (rows, labelling):
        return np.asarray(rows.labels(labelling)).astype(smallest_unsigned(k))


def chunk_renumbered(chunk: Chunk, key: str, k: int, past: Past, numbers: np.ndarray) -> np.ndarray:
    return numbers[chunk_labels(chunk, key, k, past)]


def chunk_relabel(chunk: Chunk, key: str, k: int, past: Past, version: str, where: np.ndarray, to: np.ndarray) -> None:
    with chunk.labelled(key, k, past, version) as (rows, labelling):
        if len(where):
            rows.relabel(labelling, where, to)


def chunk_verb(chunk: Chunk, key: str, k: int, past: Past, verb: str, *arguments: Any) -> Any:
    """A verb of `Rows` that reads the labels: ``rows.verb(labelling, *arguments)``."""
    with chunk.labelled(key, k, past) as (rows, labelling):
        return getattr(rows, verb)(labelling, *arguments)


def chunk_potentials(chunk: Chunk, key: str, weights: np.ndarray, chosen: np.ndarray, candidates: np.ndarray | None):
    """Total distance to the chosen rows with each candidate added; without candidates, as it is."""
    with chunk.lock:
        seeding = chunk.seeded(key, weights, chosen)
        if candidates is None:
            return np.array([seeding.total])
        if chunk.lean is None:
            return seeding.potentials(candidates)
        # one by one: an engine may keep the distances of all candidates of a call in memory
        return np.concatenate([seeding.potentials(candidates[c : c + 1]) for c in range(len(candidates))])


def chunk_locate(chunk: Chunk, key: str, weights: np.ndarray, chosen: np.ndarray, targets: np.ndarray) -> np.ndarray:
    with chunk.lock:
        return chunk.seeded(key, weights, chosen).locate(targets)


def chunk_overlap(chunk: Chunk, shares: RowShares | None) -> tuple[np.ndarray]:
    with chunk.lock:
        return (chunk.rows().overlap(shares),)


def chunk_codes_at(chunk: Chunk, indices: np.ndarray) -> np.ndarray:
    return np.asarray(chunk.codes[indices])


def chunk_copies(chunk: Chunk) -> int:
    """Copies of the rows that take part."""
    with chunk.lock:
        return chunk.rows().n_copies


def add_results(parts: Sequence[tuple]) -> tuple:
    """Element by element sums of results."""
    return tuple(sum(column[1:], start=column[0]) for column in zip(*parts))
