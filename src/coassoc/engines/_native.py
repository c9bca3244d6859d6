"""The verbs on compiled kernels: same results as `coassoc.engines._numpy`, bit for bit, many times faster."""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from ._exchange import Moves, MoveTable
from ._numpy import _first_different
from ._verbs import Counts, Engine, Labelling, Layout, RowCounts, Rows, ScoreTable, Seeding, Start, participating_copies

try:
    from .. import _kernels
except ImportError as error:  # pragma: no cover - depends on the build
    _kernels = None
    _why_not: str | None = str(error)
else:
    _why_not = None

_ADVICE = "install a C++17 compiler and reinstall coassoc from source, or install a wheel that carries the kernels"
_EXCHANGE_ROWS = 4096  # rows in one task of the exchange
_WORST_ROWS = 1 << 18  # rows ranked at a time when clusters are refilled; bounds the temporary memory


class SlowPathWarning(UserWarning):
    """The compiled kernels are missing, so the plain NumPy engine is used."""


class Native(Engine):
    """Compiled C++ engine: threads and the CPU's vector instructions, results equal to `Numpy`, bit for bit.

    Parameters
    ----------
    n_threads : int, optional
        Threads to use. By default as many as this process may run at once (CPU affinity, container limits),
        at most ``OMP_NUM_THREADS`` where that is set.
    chunk_rows : int, optional
        Rows in one task of a thread, rounded up to whole blocks of 64. Chosen by the work per row by default;
        never changes a result.
    simd : {"baseline", "avx2", "avx512"}, optional
        Instruction set; by default the environment variable ``COASSOC_SIMD``, else the best this CPU has.
    blocked_copy : bool, default=True
        Keep one column-wise copy of the codes, which makes seeding and passes several times faster. ``False``
        works straight on the codes given, for memory maps and when memory is short.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.engines.Native(n_threads=2, simd="baseline")  # doctest: +SKIP
    Native(n_threads=2, simd='baseline')

    Notes
    -----
    Memory beyond the codes: the copy (as many bytes as the codes), 6 bytes per item for labels and bounds, and
    during seeding up to 9 bytes per item, freed before the passes.
    """

    name = "native"
    large_rows = 1 << 19

    def __init__(
        self,
        n_threads: int | None = None,
        chunk_rows: int | None = None,
        simd: str | None = None,
        blocked_copy: bool = True,
    ):
        if _kernels is None:
            raise ImportError(
                f"engine 'native' needs the compiled kernels, which are not installed ({_why_not}); {_ADVICE}, "
                "or use engine='numpy'."
            )
        self.n_threads = _whole("n_threads", n_threads)
        self.chunk_rows = _whole("chunk_rows", chunk_rows)
        self.simd = simd
        self.blocked_copy = bool(blocked_copy)
        simd_level(simd)

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in ("n_threads", "chunk_rows", "simd") if (value := getattr(self, name))]
        return f"Native({', '.join(given + ([] if self.blocked_copy else ['blocked_copy=False']))})"

    def load(self, ensemble: Any, multiplicity: np.ndarray | None = None) -> NativeRows:
        copies = participating_copies(ensemble, multiplicity)
        layout = NativeLayout(_as(ensemble.n_clusters, np.int64), ensemble.offsets)
        absent = ensemble.n_samples - np.add.reduceat(ensemble.sizes, layout.offsets[:-1])
        missing = (absent > 0).astype(np.uint8)
        if copies is not None:
            copies = np.ascontiguousarray(copies, dtype=np.int64)
        settings = {
            "simd": simd_level(self.simd),
            "n_threads": self.n_threads or default_threads(),
            "chunk_rows": self.chunk_rows or 0,
            "blocked_copy": self.blocked_copy,
        }
        rows = NativeRows(np.ascontiguousarray(ensemble.codes), layout, missing, copies, None, settings)
        if copies is None and getattr(ensemble, "exact_sizes", True):
            rows.core.set_whole(_as(ensemble.sizes, np.int64), absent)  # what all rows count together is known
        return rows

    @property
    def tasks_at_once(self) -> int:  # type: ignore[override]
        return self.n_threads or default_threads()

    def starts_at_once(self, rows: Rows) -> int:
        return self.tasks_at_once if self.fuses_starts and rows.n_rows < self.large_rows else 1

    @property
    def fuses_starts(self) -> bool:  # type: ignore[override]
        return _draws_like_numpy()

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
        labellings: list[Any] = [rows.labelling(k) for rows, _ in tasks] if labelling is None else [labelling]
        seeds = [np.empty((k, rows.layout.n_partitions), rows.codes.dtype) for rows, _ in tasks]
        parts = [
            (rows.core, labelling.core, rng.bit_generator.capsule, chosen)
            for (rows, rng), labelling, chosen in zip(tasks, labellings, seeds)
        ]
        done = _kernels.kmeans_starts(
            parts, _as(seeding_weights, np.int64), _as(weights, np.float64), n_candidates, limit
        )
        return [
            Start(chosen[:found], labelling, tuple(passes))
            for chosen, labelling, (found, *passes) in zip(seeds, labellings, done)
        ]

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Results of independent tasks, in order. Small tasks keep to one thread each, large ones share all."""
        workers = min(self.tasks_at_once, len(tasks))
        if workers < 2 or getattr(_worker, "busy", False):  # a task that has tasks of its own does them itself
            return [function(task) for task in tasks]
        token = _kernels.Token()

        def call(task: Any) -> Any:
            _kernels.use_token(token)
            _worker.busy = True
            try:
                return function(task)
            finally:
                _worker.busy = False
                _kernels.use_token(None)

        futures: list[Future] = []
        try:
            for task in tasks:
                futures.append(_threads(self.tasks_at_once).submit(call, task))
            return [future.result() for future in futures]
        except BaseException:
            token.cancel()  # Ctrl-C reaches the main thread only
            for future in futures:
                future.cancel()
            raise
        finally:
            wait(futures)


# Threads for tasks side by side: starting them anew takes longer than a small task.
_pools: dict[int, ThreadPoolExecutor] = {}
_worker = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def _threads(n: int) -> ThreadPoolExecutor:
    if n not in _pools:
        _pools[n] = ThreadPoolExecutor(n, thread_name_prefix="coassoc")
    return _pools[n]


class NativeLayout(Layout):
    """The same arithmetic on tables, compiled: a pass over few rows would otherwise be spent in it."""

    def sums(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, squares = np.empty((2, len(self.n_clusters), alpha.shape[1]), np.int64)
        _kernels.partition_sums(_as(alpha, np.int64), self.n_clusters, cells, squares)
        return cells, squares

    def mean_scores(self, counts: Counts, weights: np.ndarray) -> np.ndarray:
        scores = np.empty(counts.alpha.shape)
        alpha, cells = _as(counts.alpha, np.int64), counts.cells
        _kernels.mean_scores(alpha, self.n_clusters, cells, counts.squares, _as(weights, np.float64), scores)
        return scores

    def largest(self, scores: np.ndarray) -> np.ndarray:
        largest = np.empty(len(self.n_clusters))
        _kernels.largest_scores(_as(scores, np.float64), self.n_clusters, largest)
        return largest

    def rounded(self, scores: np.ndarray, scale: float) -> np.ndarray:
        values = np.empty(scores.shape, np.int32)
        _kernels.rounded_scores(_as(scores, np.float64), scale, values)
        return values


class _NativeLabelling(Labelling):
    def __init__(self, n_clusters: int, labels: np.ndarray, labelled: bool):
        super().__init__(n_clusters)
        self.labels = labels
        self.core = _kernels.Labelling(labels, n_clusters, labelled)


class NativeRows(Rows):
    fuses_kmeans = True

    def __init__(self, codes, layout, missing, copies, ids, settings):
        self.codes = codes  # every row loaded; `ids` says which are ours
        self.layout = layout
        self.missing = missing
        self.copies = copies
        self.ids = ids
        self.settings = settings
        self.n_rows = len(codes) if ids is None else len(ids)
        self.n_copies = self.n_rows if copies is None else int(copies.sum())
        self.core = _kernels.Rows(codes, layout.n_clusters, missing, ids, copies, **settings)

    def labelling(self, k: int) -> _NativeLabelling:
        return _NativeLabelling(k, _room(self.n_rows, np.int32), False)  # the first pass fills it

    def labelling_of(self, labels: np.ndarray, k: int) -> _NativeLabelling:
        return _NativeLabelling(k, np.array(labels, dtype=np.int32, order="C"), True)

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        return self.core.assign(labelling.core, np.ascontiguousarray(table.values), table.bits)

    def kmeans_passes(
        self, labelling: Any, weights: np.ndarray, centres: Counts | None, limit: int, before: float = np.inf
    ) -> tuple[list[int], list[float], int]:
        start: np.ndarray | None = None
        if isinstance(centres, RowCounts) and centres.rows.dtype == self.codes.dtype:
            start = np.ascontiguousarray(centres.rows)
        elif centres is not None:
            start = _as(centres.alpha, np.int64)
        return self.core.kmeans_passes(labelling.core, weights, start, limit, before)

    def last_table(self, labelling: Any, earlier: bool = False) -> ScoreTable:
        values = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int32)
        return ScoreTable(values, labelling.core.table(values, earlier))

    def counts(self, labelling: Any) -> Counts:
        alpha = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int64)
        sizes = np.empty(labelling.n_clusters, dtype=np.int64)
        sums = np.empty((2, self.layout.n_partitions, labelling.n_clusters), dtype=np.int64)
        known = self.core.counts(labelling.core, alpha, sizes, sums[0], sums[1])
        return Counts(alpha, sizes, self.layout, *(sums if known else ()))

    def ended(self, labelling: Any) -> tuple[ScoreTable, Counts]:
        k, layout = labelling.n_clusters, self.layout
        if k == 2:  # small, and a split hands the counts on
            return super().ended(labelling)
        sizes = np.empty(k, dtype=np.int64)
        sums = np.empty((2, layout.n_partitions, k), dtype=np.int64)
        table = ScoreTable(*labelling.core.take_table(layout.n_codes))
        alpha, known = self.core.take_counts(labelling.core, sizes, sums[0], sums[1])
        return table, Counts(alpha, sizes, layout, *(sums if known else ()))

    def whole_counts(self) -> Counts:
        alpha = np.empty((self.layout.n_codes, 1), dtype=np.int64)
        size = np.empty(1, dtype=np.int64)
        return Counts(alpha, size, self.layout) if self.core.whole(alpha, size) else super().whole_counts()

    def labels(self, labelling: Any) -> np.ndarray:
        return labelling.labels

    def worst_rows(self, labelling: Any, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        rows, costs = np.empty(0, np.int64), np.empty(0, np.int64)
        for start in range(0, self.n_rows, _WORST_ROWS):
            stop = min(start + _WORST_ROWS, self.n_rows)
            here = np.empty(stop - start, dtype=np.int64)
            self.core.own_scores(labelling.core, np.ascontiguousarray(cost.values), start, stop, here)
            taking_part = np.arange(start, stop)
            if self.copies is not None:
                taking_part = taking_part[self.copies[start:stop] > 0]
                here = here[taking_part - start]
            best = self._worst_of(taking_part, here, m)
            rows, costs = (np.concatenate(x) for x in zip((rows, costs), best))
            rows, costs = self._worst_of(rows, costs, m)
        return self.codes_at(rows), costs

    def _worst_of(self, rows: np.ndarray, costs: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Of `rows`, the m with the largest cost whose codes differ; looks at a few top rows first."""
        top = 4 * m
        while top < len(rows):
            least = np.partition(costs, len(costs) - top)[len(costs) - top]
            high = np.flatnonzero(costs >= least)
            found = self._different(rows[high], costs[high], m)
            if len(found[0]) == m:
                return found
            top = max(8 * top, len(high) + 1)
        return self._different(rows, costs, m)

    def _different(self, rows: np.ndarray, costs: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        kept, kept_costs = _first_different(self.codes_at(rows), np.arange(len(rows)), costs, m)
        return rows[kept], kept_costs

    def seeding(self, weights: np.ndarray) -> NativeSeeding:
        return NativeSeeding(self, weights)

    def rest(self, labelling: Any) -> None:
        if labelling.core.rest():
            labelling.labels = None  # packed
        self.core.free_blocked()

    def split(self, labelling: Any) -> list[Rows]:
        if self.n_rows >= 1 << 32 or (self.ids is None and len(self.codes) >= 1 << 32):
            raise ValueError(f"splitting works on fewer than 2**32 rows, got {self.n_rows}.")
        self.core.free_blocked()  # the children gather from the codes themselves
        parts = [_room(size, np.uint32) for size in self.core.split_sizes(labelling.core)]
        copies: list[Any] = [None] * len(parts)
        if self.copies is not None:
            self.core.split(labelling.core, parts, False)
            copies = [self.copies[part] for part in parts]
        self.core.split(labelling.core, parts, True)
        children: list[Rows] = []
        for cluster, (ids, own) in enumerate(zip(parts, copies)):
            child = NativeRows(self.codes, self.layout, self.missing, own, ids, self.settings)
            child.core.descend(self.core, labelling.core, cluster)
            children.append(child)
        return children

    def scatter(self, leaves: Sequence[Any]) -> np.ndarray:
        self.core.free_spare()  # the splitting is over
        if any(leaf.ids is None for leaf in leaves):  # it was never split
            return np.zeros(self.n_rows, dtype=np.int32)
        labels = _room(self.n_rows, np.int32)
        self.core.scatter([leaf.ids for leaf in leaves], labels)
        return labels

    def overlap(self, weights: np.ndarray | None = None) -> np.ndarray:
        d = self.layout.n_codes
        if weights is None:
            total = np.empty((d, d), dtype=np.int64)
            self.core.overlap(total)
            return total
        shares = np.empty((d, d), dtype=np.float64)
        self.core.weighted_overlap(np.ascontiguousarray(weights, dtype=np.float64), shares)
        return shares

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.codes[indices if self.ids is None else self.ids[indices]])

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        indices, targets, stop = _kernels.propose_moves(
            self.codes,
            self.ids,
            self.copies,
            labelling.labels,
            np.ascontiguousarray(self.layout.n_clusters, dtype=np.int64),
            np.ascontiguousarray(self.layout.offsets, dtype=np.int64),
            table,
            start,
            limit,
            self.settings["n_threads"],
            self.settings["chunk_rows"] or _EXCHANGE_ROWS,
        )
        copies = np.ones(len(indices), np.int64) if self.copies is None else self.copies[indices]
        return Moves(indices, labelling.labels[indices], targets, self.codes_at(indices), copies, stop)

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        labelling.labels[indices] = targets
        labelling.core.relabelled()


class NativeSeeding(Seeding):
    def __init__(self, rows: NativeRows, weights: np.ndarray):
        self.rows = rows
        self.core = _kernels.Seeding(rows.core, np.ascontiguousarray(weights, dtype=np.int64))

    @property
    def total(self) -> int:  # type: ignore[override]
        return self.core.total

    def locate(self, targets: np.ndarray) -> np.ndarray:
        found = np.empty(len(targets), dtype=np.int64)
        self.core.locate(np.ascontiguousarray(targets, dtype=np.int64), found)
        return self.rows.codes_at(found)

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        totals = np.empty(len(candidates), dtype=np.int64)
        self.core.potentials(self._as_codes(candidates), totals)
        return totals

    def add(self, row: np.ndarray) -> None:
        self.core.add(self._as_codes(row[None, :]))

    def choose(self, targets: np.ndarray) -> np.ndarray:
        row = np.empty((1, self.rows.layout.n_partitions), dtype=self.rows.codes.dtype)
        self.core.choose(_as(targets, np.int64), row)
        return row[0]

    def choose_all(self, k: int, n_candidates: int, rng: np.random.Generator) -> np.ndarray:
        if not _draws_like_numpy():
            return super().choose_all(k, n_candidates, rng)
        chosen = np.empty((k, self.rows.layout.n_partitions), dtype=self.rows.codes.dtype)
        return chosen[: self.core.choose_all(rng.bit_generator.capsule, chosen, n_candidates)]

    def _as_codes(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, dtype=self.rows.codes.dtype)


def _room(n: int, dtype: Any) -> np.ndarray:
    """An array of n numbers to be filled."""
    return _kernels.memory(n * np.dtype(dtype).itemsize).view(dtype)


@functools.cache
def _draws_like_numpy() -> bool:
    """Whether compiled draws still are those of this NumPy's `Generator.integers`."""
    ours, theirs = np.random.default_rng(0), np.random.default_rng(0)
    drawn = np.empty(8, np.uint64)
    for end in (1, 3, 1_000_003, (1 << 31) + 11, 1 << 32, (1 << 32) + 5, (1 << 62) + 1):
        _kernels.draws(ours.bit_generator.capsule, end, drawn)
        if drawn.tolist() != theirs.integers(end, size=len(drawn)).tolist():
            return False
    return True


# -- what is at hand ---------------------------------------------------------------------------------------


def kernels_missing() -> str | None:
    """Why the compiled kernels cannot be used; None when they can."""
    return None if _kernels is not None else _why_not


def native_or_none() -> Native | None:
    """The native engine, or None after one warning when it was not built."""
    if _kernels is not None:
        return Native()
    if os.environ.get("COASSOC_REQUIRE_NATIVE", "0") not in ("", "0"):
        raise ImportError(
            f"COASSOC_REQUIRE_NATIVE is set but the compiled kernels are not installed ({_why_not}); {_ADVICE}."
        )
    _warn_slow_path()
    return None


_warned = threading.Event()


def _warn_slow_path() -> None:
    if not _warned.is_set():
        _warned.set()
        warnings.warn(
            f"coassoc runs on plain NumPy, tens of times slower, because its compiled kernels are not installed; "
            f"{_ADVICE}. Pass engine='numpy' to use NumPy without this warning.",
            SlowPathWarning,
            stacklevel=4,
        )


def simd_levels() -> list[str]:
    """Names of the instruction sets that are compiled in and run on this CPU, slowest first."""
    return [] if _kernels is None else [name for name, built, runs in _kernels.levels() if built and runs]


def simd_level(simd: str | None = None) -> str:
    """The instruction set to use: `simd`, else ``COASSOC_SIMD``, else the best at hand."""
    source = "simd"
    if simd is None:
        simd, source = os.environ.get("COASSOC_SIMD") or None, "the environment variable COASSOC_SIMD"
    usable = simd_levels()
    if simd is None:
        return usable[-1]
    if simd in usable:
        return simd
    for name, built, _ in _kernels.levels():
        if name == simd:
            reason = "this CPU does not support it" if built else "this build of coassoc does not contain it"
            raise ValueError(f"{source} asks for {simd!r}, but {reason}; use one of {usable}.")
    raise ValueError(f"{source} must be one of {usable}, got {simd!r}.")


def default_threads() -> int:
    """CPUs this process may use: affinity, container quota and ``OMP_NUM_THREADS``, whichever is least."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        allowed = os.cpu_count() or 1
    quota = _read_once(_container_cpus)
    if quota is not None:
        allowed = min(allowed, max(1, int(quota)))
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        allowed = min(allowed, int(asked))
    return allowed


@functools.cache
def _read_once(read: Callable[[], float | None]) -> float | None:
    return read()


def _container_cpus(root: str = "/sys/fs/cgroup") -> float | None:
    """CPUs granted by a control group (version 2, then 1); None without a limit."""
    try:
        quota, period = (Path(root) / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota_us = int((Path(root) / "cpu/cpu.cfs_quota_us").read_text())
        return None if quota_us <= 0 else quota_us / int((Path(root) / "cpu/cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None


def _as(values: np.ndarray, dtype: Any) -> np.ndarray:
    if values.dtype == dtype and values.flags.c_contiguous:
        return values
    return np.ascontiguousarray(values, dtype=dtype)


def _whole(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number or None, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}.")
    return int(value)
