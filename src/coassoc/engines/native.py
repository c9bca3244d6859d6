"""The native engine: compiled kernels with the results of `coassoc.engines.numpy`, bit for bit, many times faster."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..core.checks import check_integer
from ..core.counts import Counts, Layout, RowShares, ScoreTable
from ..core.moves import Moves, MoveTable
from .compiled import kernels as _kernels
from .compiled import why_missing as _why_not
from .contract import Engine, Fit, Labelling, Loadable, Rows, Seeding, Start, missing_in, participating_copies
from .numpy import Numpy, chunks_of

_LARGE_ROWS = 1 << 19  # one start on so many rows keeps every thread busy; several at a time only need more memory
_STOPS = ("fixed_point", "no_gain", "max_iter", "unfinished")  # in the order of native/kmeans.h
_warned = threading.Event()
_worker = threading.local()  # `busy` in threads of `side_by_side`
_ADVICE = "install a C++17 compiler and reinstall coassoc from source, or install a wheel that carries the kernels"
_EXCHANGE_ROWS = 4096  # rows in one task of the exchange
# Deduplication: measured on two Zen 4 cores, 8 partitions of 2 to 8 clusters, k-means with 8 clusters.
_LEAST_ROWS = 1 << 15  # fewer rows are clustered faster than duplicates are found
_LEAST_COPIES = 3  # minimum mean number of copies of a row for deduplication to be faster, with many starts
_LEAST_COPIES_ONCE = 64  # the same with a single start


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
        self.n_threads = None if n_threads is None else check_integer(n_threads, "n_threads")
        self.chunk_rows = None if chunk_rows is None else check_integer(chunk_rows, "chunk_rows")
        self.simd = simd
        self.blocked_copy = bool(blocked_copy)
        simd_level(simd)

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> NativeRows:
        copies = participating_copies(ensemble, multiplicity)
        if copies is not None:
            copies = np.ascontiguousarray(copies, dtype=np.int64)
        settings = {
            "simd": simd_level(self.simd),
            "n_threads": self.n_threads or default_threads(),
            "chunk_rows": self.chunk_rows or 0,
            "blocked_copy": self.blocked_copy,
        }
        codes, missing = np.ascontiguousarray(ensemble.codes), missing_in(ensemble).astype(np.uint8)
        rows = NativeRows((codes, Layout.of(ensemble), missing, settings), copies)
        if copies is None and ensemble.exact_sizes:
            rows.set_sizes(ensemble.sizes)
        return rows

    def starts_at_once(self, rows: Rows) -> int:
        return (self.n_threads or default_threads()) if rows.n_rows < _LARGE_ROWS else 1

    def kmeans_fits(
        self,
        starts: Sequence[Start],
        k: int,
        n_candidates: int,
        seeding_weights: np.ndarray,
        weights: np.ndarray,
        max_iter: int,
        labelling: Labelling | None = None,
    ) -> list[Fit | int] | None:
        labellings: list[Any] = [start.rows.labelling(k) for start in starts] if labelling is None else [labelling]
        given = np.ascontiguousarray(seeding_weights, np.int64), np.ascontiguousarray(weights, np.float64)
        done: list[Fit | int] = [0] * len(starts)
        large = [i for i, start in enumerate(starts) if start.rows.n_rows >= _LARGE_ROWS]
        small = [i for i in range(len(starts)) if i not in large]
        for group in [*([i] for i in large), small]:  # large starts one at a time, the others side by side
            parts = [(starts[i].rows.core, labellings[i].core, starts[i].rng.integers) for i in group]
            ends = _kernels.kmeans_starts(parts, *given, n_candidates, max_iter)
            for i, (n_seeds, losses, stop) in zip(group, ends):
                rows, own = starts[i].rows, labellings[i]
                found_all = n_seeds == k
                done[i] = (
                    Fit(rows.last_table(own), rows.counts(own), own, losses, _STOPS[stop]) if found_all else n_seeds
                )
        return done

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Results of independent tasks, in order. Small tasks keep to one thread each, large ones share all."""
        workers = min(self.n_threads or default_threads(), len(tasks))
        if workers < 2 or getattr(_worker, "busy", False):  # a task that has tasks of its own does them itself
            return [function(task) for task in tasks]
        flag = _kernels.StopFlag()

        def begin() -> None:
            _kernels.use_stop_flag(flag)
            _worker.busy = True

        pool = ThreadPoolExecutor(workers, thread_name_prefix="coassoc", initializer=begin)
        try:
            return list(pool.map(function, tasks))
        except BaseException:
            flag.stop()  # Ctrl-C reaches the main thread only
            raise
        finally:
            pool.shutdown(cancel_futures=True)


# -- rows: each verb is a call or two of the compiled kernels ----------------------------------------------------------


class NativeLabelling(Labelling):
    def __init__(self, n_clusters: int, labels: np.ndarray, labelled: bool):
        super().__init__(n_clusters, labels)
        self.core = _kernels.Labelling(labels, n_clusters, labelled)


class NativeRows(Rows):
    """Rows of a table, or its different rows, each with the number of rows it stands for.

    Then `number` gives, for each original row in its order, the different row that stands for it: a random draw among
    the original rows depends on their order.
    """

    # For streaming, ``store(shape, dtype)`` allocates zeros for labels, and for the codes of subsets, which are copied
    # so that reading a subset does not read the whole file. None: in memory, and subsets are indices into the codes.
    store: Callable[[Any, Any], np.ndarray] | None = None

    def __init__(self, shared: tuple, copies: Any = None, ids: Any = None, number: Any = None, codes: Any = None):
        self.shared = shared  # with the rows these are split into
        every, self.layout, missing, self.settings = shared
        self.copies, self.number = copies, number
        self.ids = ids  # row numbers in the rows first loaded, None for all
        self.codes = every if codes is None else codes
        self.places = ids if codes is None else None  # of the rows in the codes
        self.n_rows = len(self.codes) if ids is None else len(ids)
        self.n_copies = self.n_rows if copies is None else int(copies.sum())
        self.sizes: np.ndarray | None = None  # of the base clusters, when they are known beforehand
        self.core = _kernels.Rows(self.codes, self.layout.n_clusters, missing, self.places, copies, **self.settings)
        if number is not None:
            self.core.map_duplicates(number)

    def labelling(self, k: int, labels: Any = None) -> NativeLabelling:
        own = (self.store or np.empty)(self.n_rows, np.int32)
        if labels is not None:  # else the first pass fills it
            own[:] = labels
        return NativeLabelling(k, own, labels is not None)

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        return self.core.assign(labelling.core, np.ascontiguousarray(table.values), table.bits)

    def counts(self, labelling: Any) -> Counts:
        alpha = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int64)
        sizes = np.empty(labelling.n_clusters, dtype=np.int64)
        self.core.counts(labelling.core, alpha, sizes)
        return Counts(alpha, sizes, self.layout)

    def whole_counts(self) -> Counts:
        if self.sizes is None:
            return super().whole_counts()
        return Counts(self.sizes[:, None].copy(), np.array([self.n_copies]), self.layout)

    def set_sizes(self, sizes: np.ndarray) -> None:
        """Tell the sizes of the base clusters among these rows, copies counted."""
        self.sizes = np.ascontiguousarray(sizes, dtype=np.int64)
        self.core.set_sizes(self.sizes, self.n_copies)

    def last_table(self, labelling: Any) -> ScoreTable:
        """The table of the labelling's latest pass."""
        values = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int32)
        return ScoreTable(values, labelling.core.table(values))

    def labels(self, labelling: Any) -> np.ndarray:
        return labelling.labels

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        labelling.labels[indices] = targets
        labelling.core.relabelled()

    def own_scores(self, labelling: Any, table: ScoreTable, start: int = 0, stop: int | None = None) -> np.ndarray:
        stop = self.n_rows if stop is None else stop
        scores = np.empty(stop - start, dtype=np.int64)
        self.core.own_scores(labelling.core, np.ascontiguousarray(table.values), start, stop, scores)
        return scores

    def seeding(self, weights: np.ndarray) -> NativeSeeding:
        return NativeSeeding(self, weights)

    def distinct(self, n_starts: int) -> NativeRows:
        if self.ids is not None or self.copies is not None or not _LEAST_ROWS <= self.n_rows < (1 << 32) - 1:
            return self
        if not self.settings["blocked_copy"]:  # memory is short, and deduplication needs more
            return self
        limit = self.n_rows // max(_LEAST_COPIES, _LEAST_COPIES_ONCE // n_starts**2)
        groups = _kernels.distinct_rows(self.codes, limit, self.settings["n_threads"])
        if groups is None:
            return self
        first, copies, number = groups
        _, *others = self.shared
        return NativeRows((self.codes[first], *others), copies, None, number)

    def spread(self, labelling: Any) -> NativeLabelling:
        return NativeLabelling(labelling.n_clusters, self._spread(labelling.labels), True)

    def _spread(self, labels: np.ndarray) -> np.ndarray:
        if self.number is None:
            return labels
        every = np.empty(len(self.number), np.int32)
        _kernels.spread_labels(labels, self.number, every, self.settings["n_threads"])
        return every

    def split(self, labelling: Any) -> list[Rows]:
        if len(self.codes) >= 1 << 32:
            raise ValueError(f"splitting works on fewer than 2**32 rows, got {len(self.codes)}.")
        self.core.free_blocked()  # the children gather from the codes themselves
        places = ids = self.core.split(labelling.core, True)
        if self.ids is not self.places:
            ids = [self.ids[part] for part in places]
        copies: Any = [None] * len(ids)
        numbers = codes = copies
        if self.store is not None:
            codes = [self._stored_codes(part) for part in places]
        if self.copies is not None:
            positions = self.core.split(labelling.core, False)
            copies = [self.copies[part] for part in positions]
            if self.number is not None:
                inside = np.empty(self.n_rows, np.uint32)  # number of each different row within its part
                for part in positions:
                    inside[part] = np.arange(len(part), dtype=np.uint32)
                label, inside = labelling.labels[self.number], inside[self.number]
                numbers = [inside[label == c] for c in range(len(ids))]
        alpha = self.counts(labelling).alpha
        parts: list[Rows] = []
        for c, own in enumerate(zip(copies, ids, numbers, codes)):
            part = NativeRows(self.shared, *own)
            part.store = self.store
            part.set_sizes(alpha[:, c])
            parts.append(part)
        return parts

    def _stored_codes(self, places: np.ndarray) -> np.ndarray:
        """A copy of some rows of `codes`."""
        assert self.store is not None
        codes = self.store((len(places), self.codes.shape[1]), self.codes.dtype)
        for part in chunks_of(len(places), 1 << 20):
            codes[part] = self.codes[places[part]]
        return codes

    def scatter(self, leaves: Sequence[Any]) -> np.ndarray:
        labels = (self.store or np.zeros)(self.n_rows, np.int32)
        if all(leaf.ids is not None for leaf in leaves):  # else it was never split
            _kernels.scatter([leaf.ids for leaf in leaves], labels, self.settings["n_threads"])
        return self._spread(labels)

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        d = self.layout.n_codes
        total = np.empty((d, d), dtype=np.int64)
        weighted = (None, 0, 0) if shares is None else (self.layout.pad(shares.units), shares.bits, shares.most)
        self.core.overlap(*weighted, total)
        return total

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.codes[indices if self.places is None else self.places[indices]])

    def pair_counts(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        together, observed = np.empty(len(pairs), np.int32), np.empty(len(pairs), np.int32)
        self.core.pair_counts(np.ascontiguousarray(pairs, dtype=np.int64), together, observed)
        return together, observed

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        task_rows = self.settings["chunk_rows"] or _EXCHANGE_ROWS
        indices, targets, stop = self.core.propose_moves(labelling.core, table, start, limit, task_rows)
        copies = np.ones(len(indices), np.int64) if self.copies is None else self.copies[indices]
        return Moves(indices, labelling.labels[indices], targets, self.codes_at(indices), copies, stop)


class NativeSeeding(Seeding):
    def __init__(self, rows: NativeRows, weights: np.ndarray):
        self.rows = rows
        self.core = _kernels.Seeding(rows.core, np.ascontiguousarray(weights, dtype=np.int64))

    @property
    def total(self) -> int:  # type: ignore[override]
        return self.core.total

    def locate(self, targets: np.ndarray) -> np.ndarray:
        rows = np.empty(len(targets), dtype=np.int64)
        self.core.locate(np.ascontiguousarray(targets, dtype=np.int64), rows)
        return self.rows.codes_at(rows)

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        totals = np.empty(len(candidates), dtype=np.int64)
        self.core.potentials(self._as_codes(candidates), totals)
        return totals

    def add(self, row: np.ndarray) -> None:
        self.core.add(self._as_codes(row[None, :]))

    def _as_codes(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, dtype=self.rows.codes.dtype)


# -- what is at hand ---------------------------------------------------------------------------------------


def distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """First index of each different row (ascending), its count, and for each row its rank; None without kernels."""
    if _kernels is None or len(codes) >= (1 << 32) - 1:
        return None
    first, counts, inverse = _kernels.distinct_rows(codes, len(codes), default_threads())
    return first, counts, inverse.astype(np.int64)


def local_engine(name: str, n_threads: int | None = None) -> Engine:
    """Compiled kernels, or NumPy without them, for codes that may be larger than memory: there is no copy of these."""
    if name == "numpy" or (name == "auto" and native_or_none() is None):
        return Numpy()
    return Native(n_threads, blocked_copy=False)


def native_or_none() -> Native | None:
    """The native engine, or None after one warning when it was not built."""
    if _kernels is not None:
        return Native()
    if os.environ.get("COASSOC_REQUIRE_NATIVE", "0") not in ("", "0"):
        raise ImportError(
            f"COASSOC_REQUIRE_NATIVE is set but the compiled kernels are not installed ({_why_not}); {_ADVICE}."
        )
    if not _warned.is_set():
        _warned.set()
        warnings.warn(
            f"coassoc runs on plain NumPy, tens of times slower, because its compiled kernels are not installed; "
            f"{_ADVICE}. Pass engine='numpy' to use NumPy without this warning.",
            SlowPathWarning,
            stacklevel=3,
        )
    return None


def simd_levels() -> list[str]:
    """Names of the instruction sets that are compiled in and run on this CPU, slowest first."""
    return [] if _kernels is None else [name for name, built, runs in _kernels.levels() if built and runs]


def simd_level(simd: str | None = None) -> str:
    """The instruction set to use: `simd`, else ``COASSOC_SIMD``, else the best at hand."""
    source, usable = "simd", simd_levels()
    if simd is None:
        simd, source = os.environ.get("COASSOC_SIMD") or usable[-1], "the environment variable COASSOC_SIMD"
    if simd not in usable:
        raise ValueError(f"{source} must be one of {usable}, which this build and this CPU have, got {simd!r}.")
    return simd


def default_threads() -> int:
    """CPUs this process may use: affinity, container quota and ``OMP_NUM_THREADS``, whichever is least."""
    import joblib  # here, because only fits need it

    allowed = joblib.cpu_count()
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(allowed, int(asked)) if asked.isdigit() and int(asked) > 0 else allowed
