"""The native engine: compiled kernels with the results of `coassoc.engines.numpy`, bit for bit, many times faster."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from ...core.checks import check_integer
from ...core.counts import Layout
from ..compiled import kernels as _kernels
from ..compiled import why_missing as _why_not
from ..contract import Engine, Fit, Labelling, Loadable, Rows, Start, missing_in, participating_copies
from .native_rows import NativeRows

_LARGE_ROWS = 1 << 19  # one start on so many rows keeps every thread busy; several at a time only need more memory
_STOPS = ("fixed_point", "no_gain", "max_iter", "unfinished")  # in the order of native/kmeans.h
_warned = threading.Event()
_ADVICE = "install a C++17 compiler and reinstall coassoc from source, or install a wheel that carries the kernels"


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

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in ("n_threads", "chunk_rows", "simd") if (value := getattr(self, name))]
        return f"Native({', '.join(given + ([] if self.blocked_copy else ['blocked_copy=False']))})"

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> NativeRows:
        copies = participating_copies(ensemble, multiplicity)
        layout, missing = Layout.of(ensemble), missing_in(ensemble).astype(np.uint8)
        if copies is not None:
            copies = np.ascontiguousarray(copies, dtype=np.int64)
        settings = {
            "simd": simd_level(self.simd),
            "n_threads": self.n_threads or default_threads(),
            "chunk_rows": self.chunk_rows or 0,
            "blocked_copy": self.blocked_copy,
        }
        rows = NativeRows(np.ascontiguousarray(ensemble.codes), layout, missing, copies, None, settings)
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
        done: dict[int, Fit | int] = {}
        large = [i for i, start in enumerate(starts) if start.rows.n_rows >= _LARGE_ROWS]
        small = [i for i in range(len(starts)) if i not in large]
        for group in [*([i] for i in large), small]:  # large starts one at a time, the others side by side
            parts = [(starts[i].rows.core, labellings[i].core, starts[i].rng.integers) for i in group]
            ends = _kernels.kmeans_starts(parts, *given, n_candidates, max_iter)
            for i, (n_seeds, losses, stop) in zip(group, ends):
                rows, own = starts[i].rows, labellings[i]
                done[i] = n_seeds
                if n_seeds == k:
                    done[i] = Fit(rows.last_table(own), rows.counts(own), own, losses, _STOPS[stop])
        return [done[i] for i in range(len(starts))]

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Results of independent tasks, in order. Small tasks keep to one thread each, large ones share all."""
        threads = self.n_threads or default_threads()
        workers = min(threads, len(tasks))
        if workers < 2 or getattr(_worker, "busy", False):  # a task that has tasks of its own does them itself
            return [function(task) for task in tasks]
        flag = _kernels.StopFlag()

        def call(task: Any) -> Any:
            _kernels.use_stop_flag(flag)
            _worker.busy = True
            try:
                return function(task)
            finally:
                _worker.busy = False
                _kernels.use_stop_flag(None)

        futures: list[Future] = []
        try:
            for task in tasks:
                futures.append(_threads(threads).submit(call, task))
            return [future.result() for future in futures]
        except BaseException:
            flag.stop()  # Ctrl-C reaches the main thread only
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


# -- what is at hand ---------------------------------------------------------------------------------------


def distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """First index of each different row (ascending), its count, and for each row its rank; None without kernels."""
    if _kernels is None or len(codes) >= (1 << 32) - 1:
        return None
    first, counts, inverse = _kernels.distinct_rows(codes, len(codes), default_threads())
    return first, counts, inverse.astype(np.int64)


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
    import joblib  # here, because only fits need it

    allowed = joblib.cpu_count()
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(allowed, int(asked)) if asked.isdigit() and int(asked) > 0 else allowed
