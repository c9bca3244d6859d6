"""One chunk of rows on a Dask worker, and the functions that a worker runs on it.

A chunk works on its own rows with a local engine and returns small integers: counts, totals, a few rows. What it keeps
between calls (labels, bounds, distances) is a cache: every call says which labels it starts from (a table, or given
labels) and which rows were chosen. A chunk without its cache, or a new copy on another machine, computes the same
result.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.counts import Layout, RowShares, ScoreTable, smallest_unsigned
from .contract import Engine, Fit, Labelling, Loadable, Rows, Seeding
from .cuda.device import has_device
from .cuda.engine import Cuda
from .native import local_engine

# The labels a call starts from: (version, table, labels). They are the argmax of the table, or given, or (both None)
# not set yet.
Past = tuple[str, "ScoreTable | None", "np.ndarray | None"]

_gpu_lock = threading.RLock()  # chunks of one process share its GPU
_numbers = itertools.count()
_process = uuid.uuid4().hex[:12]


def new_version() -> str:
    """A unique name for the labels after a pass, or for a seeding, also across processes."""
    return f"{_process}-{next(_numbers)}"


@dataclass(eq=False)
class Chunk(Loadable):
    """Some rows, loaded in a local engine, and a cache of what was last computed on them."""

    codes: np.ndarray  # (rows, n_partitions)
    layout: Layout  # shape of the whole ensemble
    copies: np.ndarray | None  # multiplicity of each row; rows without a label count 0 whatever it says
    ids: np.ndarray | None  # row numbers in the rows first loaded; None: those of a chunk that was never split
    missing: np.ndarray  # (n_partitions,) bool: where a label may be missing
    engine: str | Engine  # the local engine; a name is looked up in the process that works on the chunk
    slots: int  # labellings and seedings cached at once; the oldest is dropped

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: Rows | None = None
        self._states: OrderedDict[str, Any] = OrderedDict()  # labellings by version; (chosen rows, seeding) by key
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
        if isinstance(self.engine, Engine):
            return self.engine
        if self.engine == "cuda" or (self.engine == "auto" and has_device()):
            return Cuda()
        return local_engine(self.engine, n_threads=1)

    @property
    def lock(self) -> threading.RLock:
        return _gpu_lock if self.local.name == "cuda" else self._lock

    def rows(self) -> Rows:
        """The rows, loaded in the local engine."""
        self._rows = self._rows or self.local.load(self, self.copies)
        return self._rows

    def unlabelled(self) -> np.ndarray | None:
        """Positions of rows without a label, None when there are none."""
        if not self.missing.all():  # a partition that labels every row
            return None
        missing = self.n_clusters.astype(self.codes.dtype)
        unlabelled = np.flatnonzero((self.codes == missing).all(axis=1))
        return unlabelled if len(unlabelled) else None

    @contextmanager
    def labelled(self, k: int, past: Past, version: str | None = None) -> Iterator[tuple[Rows, Labelling]]:
        """The rows and a labelling that holds the labels of `past`; then it is cached, as `version` if changed."""
        with self.lock:
            before, table, labels = past
            rows, labelling = self.rows(), self._states.pop(before, None)
            if labelling is None:
                labelling = rows.labelling(k, labels)
                if labels is None and table is not None:
                    rows.assign(labelling, table)
            yield rows, labelling
            self.remember(version or before, labelling)

    def remember(self, key: str, state: Any) -> None:
        self._states[key] = state
        while len(self._states) > self.slots:
            self._states.popitem(last=False)

    def seeded(self, key: str, weights: np.ndarray, chosen: np.ndarray) -> Seeding:
        """Distances to the chosen rows; rows not in the cached seeding are added to it."""
        known, seeding = self._states.pop(key, (None, None))
        if known is None or len(known) > len(chosen) or not np.array_equal(known, chosen[: len(known)]):
            known, seeding = chosen[:0], self.rows().seeding(weights)
        for row in chosen[len(known) :]:
            seeding.add(row)
        self.remember(key, (chosen.copy(), seeding))
        return seeding

    # -- what is called on all chunks: functions of the chunk and the arguments alone ------------------------

    def counts(
        self, k: int, past: Past, version: str | None = None, table: ScoreTable | None = None
    ) -> tuple[int, np.ndarray, np.ndarray]:
        """Label the rows by `table`, where one is given: how many changed, and the counts."""
        with self.labelled(k, past, version) as (rows, labelling):
            moved = 0 if table is None else rows.assign(labelling, table)
            counts = rows.counts(labelling)
        return moved, counts.alpha, counts.sizes

    def labels(self, k: int, past: Past) -> np.ndarray:
        """The labels, in the smallest type that holds them."""
        with self.labelled(k, past) as (rows, labelling):
            return np.asarray(rows.labels(labelling)).astype(smallest_unsigned(k))

    def renumbered(self, k: int, past: Past, numbers: np.ndarray) -> np.ndarray:
        return numbers[self.labels(k, past)]

    def moved(self, k: int, past: Past, where: np.ndarray, to: np.ndarray) -> np.ndarray:
        """The labels after moves. The chunk keeps neither these nor, since no later call needs them, those before."""
        with self.lock:
            labels = self.labels(k, past)
            del self._states[past[0]]
        labels[where] = to
        return labels

    def verb(self, k: int, past: Past, verb: str, *arguments: Any) -> Any:
        """A verb of `Rows` that reads the labels: ``rows.verb(labelling, *arguments)``."""
        with self.labelled(k, past) as (rows, labelling):
            return getattr(rows, verb)(labelling, *arguments)

    def potentials(self, key: str, weights: np.ndarray, chosen: np.ndarray, candidates: np.ndarray | None):
        """Total distance to the chosen rows with each candidate added; without candidates, as it is."""
        with self.lock:
            seeding = self.seeded(key, weights, chosen)
            return np.array([seeding.total]) if candidates is None else seeding.potentials(candidates)

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

    def shares(self, k: int, past: Past) -> np.ndarray:
        """Rows and participating copies of each label, shape (2, k)."""
        with self.labelled(k, past) as (rows, labelling):
            labels = np.asarray(rows.labels(labelling))
            return np.array([np.bincount(labels, minlength=k), rows.counts(labelling).sizes])

    def part(self, k: int, past: Past, label: int, start: int) -> Chunk:
        """The rows of one label as a chunk; `start` as for `row_numbers`."""
        rows, few = np.flatnonzero(self.labels(k, past) == label), start + len(self) <= 1 << 32
        ids = self.row_numbers(start)[rows].astype(np.uint32 if few else np.int64, copy=False)
        copies = None if self.copies is None else self.copies[rows]
        return replace(self, codes=self.codes[rows], copies=copies, ids=ids)

    def row_numbers(self, start: int) -> np.ndarray:
        """Row numbers in the rows first loaded; `start` is that of the first row of a chunk which was never split."""
        return np.arange(start, start + len(self)) if self.ids is None else self.ids


# -- functions that workers run beside those of `Chunk`: pure, so they may be run again ----------------------------


def read_rows(path: str, dtype: str, p: int, offset: int, rows: int) -> np.ndarray:
    """Codes from a file of codes."""
    kind = np.dtype(dtype)
    try:
        size = Path(path).stat().st_size
    except FileNotFoundError:
        raise FileNotFoundError(
            f"a worker cannot see {path!r}; put the file where every worker can read it, or load it into memory first "
            "(np.asarray) to have it sent."
        ) from None
    if offset + rows * p * kind.itemsize > size:
        raise ValueError(f"{path!r} is shorter on this worker than where the fit was started; is it the same file?")
    return np.fromfile(path, dtype=kind, count=rows * p, offset=offset).reshape(rows, p)


def make_chunk(codes: np.ndarray, copies: np.ndarray | None, settings: tuple) -> Chunk:
    layout, *others = settings
    return Chunk(np.ascontiguousarray(codes), layout, copies, None, *others)


def marked(chunk: Chunk, labels: np.ndarray) -> np.ndarray:
    """Labels for the user: int32, −1 for rows without any base label."""
    labels, unlabelled = labels.astype(np.int32), chunk.unlabelled()
    if unlabelled is not None:
        labels[unlabelled] = -1
    return labels


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    copies = None if chunks[0].copies is None else np.concatenate([c.copies for c in chunks])
    codes, ids = (np.concatenate([getattr(c, name) for c in chunks]) for name in ("codes", "ids"))
    return replace(chunks[0], codes=codes, copies=copies, ids=ids)


def sort_ids(ids: Sequence[np.ndarray], positions: Sequence[int], ends: np.ndarray) -> list:
    """Row numbers and the position of their leaf, by the chunk (ending at `ends`) that holds the row."""
    every = np.concatenate([part.astype(np.int64) for part in ids])
    leaf = np.repeat(np.array(positions, dtype=np.int32), [len(part) for part in ids])
    order = np.argsort(every, kind="stable")
    every, leaf = every[order], leaf[order]
    cuts = np.searchsorted(every, ends)
    starts = np.concatenate([[0], cuts[:-1]])
    begins = np.concatenate([[0], ends[:-1]])
    return [(every[a:b] - begin, leaf[a:b]) for a, b, begin in zip(starts, cuts, begins)]


def fill_positions(chunk: Chunk, parts: Sequence) -> np.ndarray:
    labels = np.zeros(len(chunk), dtype=np.int32)
    for rows, leaves in parts:
        labels[rows] = leaves
    return labels


def run_on_chunk(chunk: Chunk, function: Callable, task: Any, version: str) -> Any:
    """``function(task)`` with ``task.rows`` the rows of the chunk; a fit leaves its labels here, as `version`."""
    with chunk.lock:
        result = function(replace(task, rows=chunk.rows()))
        if not isinstance(result, Fit):
            return result
        chunk.remember(version, result.labelling)
        return replace(result, labelling=Labelling(result.counts.n_clusters, None))


def add_results(parts: Sequence[tuple]) -> tuple:
    """Element by element sums of results."""
    return tuple(sum(column[1:], start=column[0]) for column in zip(*parts))
