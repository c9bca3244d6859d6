"""Runs the evaluation: only runs without a stored row, several at a time, and resumable after any interruption."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..datasets import Dataset, from_csv, load
from ..ensemble import Ensemble
from ..metrics import density, ensemble_nmi, zero_effort
from .ensembles import base_ensemble
from .measure import Meter, versions
from .methods import Method, find_method
from .protocol import Protocol, method_seed, scaling_of
from .store import Row, RowStore, only_writer, row_key

ZERO_EFFORT = ("Max", "Mean")


@dataclass(frozen=True)
class DataSource:
    """A data set of the evaluation: one of the paper's by name, or a CSV file of the user."""

    name: str
    csv: str | None = None
    label: str | None = None
    folder: str | None = None
    allow_download: bool = False

    def load(self, scaling: str) -> Dataset:
        wanted = scaling_of(self.name, scaling) if self.csv is None else ("raw" if scaling == "paper" else scaling)
        if self.csv is not None:
            return from_csv(self.csv, name=self.name, label=self.label, scaling=wanted)
        return load(self.name, scaling=wanted, folder=self.folder, allow_download=self.allow_download)


@dataclass(frozen=True)
class Task:
    """Some methods on one ensemble; it is sent to other processes."""

    source: DataSource
    protocol: Protocol
    repeat: int
    methods: tuple[str, ...]
    cache: str | None


@dataclass
class Outcome:
    """The result of `run_evaluation`."""

    rows: list[Row] = field(default_factory=list)
    done_before: int = 0
    done_now: int = 0
    failures: list[Row] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@dataclass
class Step:
    """Argument of the progress callback, called after each row."""

    row: Row
    done: int
    total: int
    work_done: float
    work_total: float


def run_evaluation(
    sources: Sequence[DataSource],
    methods: Sequence[str],
    protocol: Protocol,
    store: RowStore,
    *,
    cache: Path | None = None,
    n_jobs: int = 1,
    progress: Callable[[Step], None] | None = None,
) -> Outcome:
    """Make the rows that the store does not have yet, and return all rows of this evaluation.

    Parameters
    ----------
    sources : list of DataSource
        Data sets.
    methods : list of str
        Names known to ``find_method``, without the zero-effort rows, which are always made.
    protocol : Protocol
        Seed, repeats, partitions, clusters, scaling.
    store : RowStore
        Where rows are read from and appended to.
    cache : Path, optional
        Folder of base ensembles.
    n_jobs : int, default=1
        Processes. Rows do not depend on it, except for what was measured (seconds, memory).
    progress : callable, optional
        Called with a `Step` after each row.
    """
    with only_writer(store.path):
        known = {row_key(row): row for row in store.read()}
        complaints = list(store.complaints)
        store.mend()
        specs = {name: find_method(name) for name in methods}
        wanted: list[tuple] = []
        tasks: list[Task] = []
        weights: dict[str, int] = {}
        for source in sources:
            dataset = source.load(protocol.scaling)
            weights[source.name] = len(dataset.y)
            for repeat in range(protocol.n_repeats):
                keys = {
                    text: row_key(_identity(dataset, protocol, repeat, text, specs.get(text)))
                    for text in (*ZERO_EFFORT, *methods)
                }
                wanted.extend(keys.values())
                missing = tuple(t for t, key in keys.items() if key not in known or known[key].get("error"))
                if missing:
                    tasks.append(Task(source, protocol, repeat, missing, None if cache is None else str(cache)))
        outcome = Outcome(done_before=len(wanted) - sum(len(t.methods) for t in tasks), complaints=complaints)
        total = sum(len(t.methods) for t in tasks)
        work_total = float(sum(len(t.methods) * weights[t.source.name] for t in tasks))
        work = 0.0
        for row in _rows(tasks, n_jobs):
            store.append(row)
            known[row_key(row)] = row
            outcome.done_now += 1
            work += weights[row["dataset"]]
            if progress is not None:
                progress(Step(row, outcome.done_now, total, work, work_total))
    outcome.rows = [known[key] for key in wanted if key in known]
    outcome.failures = [row for row in outcome.rows if row.get("error")]
    return outcome


def _identity(dataset: Dataset, protocol: Protocol, repeat: int, text: str, method: Method | None) -> Row:
    """What tells a run from all others; `method` is None for a zero-effort row."""
    return {
        "dataset": dataset.name,
        "data": data_digest(dataset),
        "scaling": dataset.scaling,
        "seed": protocol.seed,
        "n_partitions": protocol.n_partitions,
        "n_init": protocol.n_init,
        "n_clusters": protocol.n_clusters,
        "repeat": repeat,
        "method": text if method is None else method.name,
        "spec": text if method is None else method.spec,
    }


def data_digest(dataset: Dataset) -> str:
    """Short digest of features and classes, so that rows of changed data are not reused."""
    digest = hashlib.sha256(np.ascontiguousarray(dataset.X).tobytes())
    digest.update("\n".join(dataset.y.tolist()).encode())
    return digest.hexdigest()[:12]


# -- running tasks ----------------------------------------------------------------------------------------------


def _rows(tasks: Sequence[Task], n_jobs: int) -> Iterator[Row]:
    """Rows as they are made: one by one in this process with one job, else those of a task when it is done."""
    if n_jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield from run_task(task)
        return
    pool = ProcessPoolExecutor(
        min(n_jobs, len(tasks)),
        mp_context=get_context("spawn"),
        initializer=_leave_with_parent,
        initargs=(os.getpid(),),
    )
    try:
        for future in as_completed([pool.submit(_collect, task) for task in tasks]):
            yield from future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _leave_with_parent(parent: int) -> None:
    """Run in each worker: exit when the parent process has died."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _collect(task: Task) -> list[Row]:
    return list(run_task(task))


@lru_cache(maxsize=2)
def _loaded(source: DataSource, scaling: str) -> Dataset:
    return source.load(scaling)


def run_task(task: Task) -> Iterator[Row]:
    """The rows of one task. Seeds depend only on the data set, the repeat and the method."""
    dataset = _loaded(task.source, task.protocol.scaling)
    cache = None if task.cache is None else Path(task.cache)
    ensemble = base_ensemble(dataset, task.protocol, task.repeat, cache)
    digest = hashlib.sha256(ensemble.codes.tobytes()).hexdigest()[:12]
    for text in task.methods:
        method = None if text in ZERO_EFFORT else find_method(text)
        row = _identity(dataset, task.protocol, task.repeat, text, method)
        row |= {"n_samples": ensemble.n_samples, "ensemble": digest, "versions": versions()}
        with threadpool_limits(limits=1):  # for comparable times, and eigenvectors that do not depend on the machine
            if method is None:
                row |= _zero_effort_row(ensemble, text)
            else:
                row |= _method_row(ensemble, method, task)
        yield row


def _zero_effort_row(ensemble: Ensemble, which: str) -> Row:
    with Meter() as meter:
        by_nmi, by_density = zero_effort(ensemble, "nmi"), zero_effort(ensemble, "density")
    best = which == "Max"
    return {
        "nmi": by_nmi.best if best else by_nmi.mean,
        "density": by_density.best if best else by_density.mean,
        "clusters": 0,
        "variant": "",
        "method_seed": 0,
        **_cost(meter),
    }


def _method_row(ensemble: Ensemble, method: Method, task: Task) -> Row:
    seed = method_seed(task.protocol.seed, task.source.name, task.repeat, method.name)
    meter = Meter()
    try:
        with meter, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels, variant = method.run(ensemble, task.protocol.n_clusters, seed)
        scores: dict[str, Any] = {
            "nmi": ensemble_nmi(ensemble, labels),
            "density": density(ensemble, labels),
            "clusters": len(np.unique(labels[labels >= 0])),
            "variant": variant,
        }
    except Exception as error:  # a method that fails gets a row with the error, and the others go on
        scores = {"nmi": None, "density": None, "clusters": 0, "variant": "",
                  "error": f"{type(error).__name__}: {error}"[:500]}  # fmt: skip
    return {**scores, "method_seed": seed, **_cost(meter)}


def _cost(meter: Meter) -> Row:
    return {
        "seconds": round(meter.seconds, 6),
        "peak_mib": round(meter.peak_mib, 1),
        "extra_mib": round(meter.extra_mib, 1),
    }
