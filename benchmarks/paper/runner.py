"""Runs the evaluation: only runs without a stored row, several at a time, and resumable after any interruption."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import coassoc
from coassoc import Ensemble, density, ensemble_nmi, zero_effort
from coassoc.engines.config import version_of

from ..datasets import Dataset, from_csv, load
from ..measure import Meter
from .methods import Column, find_method
from .protocol import Protocol, base_ensemble, method_seed, scaling_of
from .store import Row, append_row, known_rows, row_key

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
        if self.csv is not None:
            wanted = "raw" if scaling == "paper" else scaling
            return from_csv(self.csv, name=self.name, label=self.label, scaling=wanted)
        wanted = scaling_of(self.name, scaling)
        return load(self.name, scaling=wanted, folder=self.folder, allow_download=self.allow_download)


@dataclass
class Outcome:
    """The result of `run_evaluation`: all rows, how many of them were made now, and problems of the stored ones."""

    rows: list[Row]
    done_now: int
    problems: list[str]

    @property
    def failures(self) -> list[Row]:
        return [row for row in self.rows if row.get("error")]


def run_evaluation(
    sources: Sequence[DataSource],
    methods: Sequence[str],
    protocol: Protocol,
    path: Path,
    *,
    cache: Path | None = None,
    n_jobs: int = 1,
    progress: Callable[[str, float], None] | None = None,
) -> Outcome:
    """Make the rows that are not stored in `path` yet, append them to it, and return all rows of this evaluation.

    `methods` are names known to ``find_method``; zero-effort rows are always made. `cache` is the folder of base
    ensembles. Rows do not depend on the number of processes `n_jobs`, except for seconds and memory. `progress` is
    called after each row with what was done and the share of the work that is done.
    """
    specs = {name: None if name in ZERO_EFFORT else find_method(name) for name in (*ZERO_EFFORT, *methods)}
    with known_rows(path) as (stored, problems):
        known = {row_key(row): row for row in stored}
        wanted: list[tuple] = []
        tasks: list[tuple] = []
        work: list[int] = []  # of each run to do: the number of items
        for source in sources:
            dataset = source.load(protocol.scaling)
            for repeat in range(protocol.n_repeats):
                keys = {text: row_key(_identity(dataset, protocol, repeat, text, of)) for text, of in specs.items()}
                wanted.extend(keys.values())
                missing = [text for text, key in keys.items() if known.get(key, {"error": "absent"}).get("error")]
                if missing:
                    tasks.append((source, protocol, repeat, missing, cache))
                    work += [len(dataset.y)] * len(missing)
        done = share = 0
        for done, row in enumerate(_rows(tasks, n_jobs), 1):
            append_row(path, row)
            known[row_key(row)] = row
            share += row["n_samples"]
            if progress is not None:
                text = f"{done}/{len(work)}, {row['dataset']} {row['repeat'] + 1} {row['method']}"
                progress(text, share / sum(work))
    return Outcome([known[key] for key in wanted], done, problems)


def _identity(dataset: Dataset, protocol: Protocol, repeat: int, text: str, method: Column | None) -> Row:
    """What tells a run from all others; `method` is None for a zero-effort row."""
    return {
        "dataset": dataset.name,
        "data": _digest(dataset),
        "scaling": dataset.scaling,
        "seed": protocol.seed,
        "n_partitions": protocol.n_partitions,
        "n_init": protocol.n_init,
        "n_clusters": protocol.n_clusters,
        "repeat": repeat,
        "method": text if method is None else method.name,
        "spec": text if method is None else method.spec,
    }


def _digest(dataset: Dataset) -> str:
    """Short digest of features and classes, so that rows of changed data are not reused."""
    digest = hashlib.sha256(np.ascontiguousarray(dataset.X).tobytes())
    digest.update("\n".join(dataset.y.tolist()).encode())
    return digest.hexdigest()[:12]


# -- running tasks ----------------------------------------------------------------------------------------------


def _rows(tasks: Sequence[tuple], n_jobs: int) -> Iterator[Row]:
    """Rows as they are made: one by one in this process with one job, else those of a task when it is done."""
    if n_jobs == 1:
        for task in tasks:
            yield from run_task(*task)
        return
    pool = Parallel(n_jobs, backend="loky", return_as="generator_unordered")
    for rows in pool(delayed(_in_worker)(task, os.getpid()) for task in tasks):
        yield from rows


def _in_worker(task: tuple, parent: int) -> list[Row]:
    _end_with(parent)
    return list(run_task(*task))


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """From now on, exit when the parent process has died: a worker would wait for it forever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=2)
def _loaded(source: DataSource, scaling: str) -> Dataset:
    return source.load(scaling)


def run_task(
    source: DataSource, protocol: Protocol, repeat: int, methods: Sequence[str], cache: Path | None
) -> Iterator[Row]:
    """The rows of some methods on one ensemble. Seeds depend only on the data set, the repeat and the method."""
    dataset = _loaded(source, protocol.scaling)
    ensemble = base_ensemble(dataset, protocol, repeat, cache)
    digest = hashlib.sha256(ensemble.codes.tobytes()).hexdigest()[:12]
    packages = [f"{name} {version_of(name) or 'absent'}" for name in ("numpy", "scipy", "scikit-learn", "pymetis")]
    versions = ", ".join([f"coassoc {coassoc.__version__}", f"python {platform.python_version()}", *packages])
    for text in methods:
        method = None if text in ZERO_EFFORT else find_method(text)
        row = _identity(dataset, protocol, repeat, text, method)
        row |= {"n_samples": ensemble.n_samples, "ensemble": digest, "versions": versions}
        meter = Meter()
        with threadpool_limits(limits=1):  # for comparable times, and eigenvectors that do not depend on the machine
            if method is None:
                row |= _zero_effort_scores(ensemble, text, meter)
            else:
                seed = method_seed(protocol.seed, source.name, repeat, method.name)
                row |= _scores(ensemble, method, protocol.n_clusters, seed, meter)
        row["seconds"] = round(meter.seconds, 6)
        yield row | {"peak_mib": round(meter.peak_mib, 1), "extra_mib": round(meter.extra_mib, 1)}


def _zero_effort_scores(ensemble: Ensemble, which: str, meter: Meter) -> Row:
    with meter:
        by_metric = {metric: zero_effort(ensemble, metric) for metric in ("nmi", "density")}
    scores = {metric: of.best if which == "Max" else of.mean for metric, of in by_metric.items()}
    return {**scores, "clusters": 0, "variant": "", "method_seed": 0}


def _scores(ensemble: Ensemble, method: Column, n_clusters: int, seed: int, meter: Meter) -> Row:
    row = {"nmi": None, "density": None, "clusters": 0, "variant": "", "method_seed": seed}
    try:
        with meter, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels, variant = method.run(ensemble, n_clusters, seed)
        scores = {"nmi": ensemble_nmi(ensemble, labels), "density": density(ensemble, labels)}
        return {**row, **scores, "clusters": len(np.unique(labels[labels >= 0])), "variant": variant}
    except Exception as error:  # a method that fails gets a row with the error, and the others go on
        return {**row, "error": f"{type(error).__name__}: {error}"[:500]}
