"""Reads files in children with limits on memory and time, and says what went wrong.

``python -m fuzz.runner parquet --cases 100000`` (with ``PYTHONPATH=src:tests``) runs that many mutants against one
target (``mutants.mutant`` makes any of them again); ``python -m fuzz.runner files A B`` reads the files named. A child
reads many files. It is replaced when it dies, so a crash costs one fork, not one interpreter start.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import coassoc as ca
from coassoc.ensemble.io import guard
from coassoc.ensemble.io.formats import TooLarge
from fuzz import mutants

# what reads a file: read_ensemble, Ensemble(path) which leaves the labels in the file, or load for models
TARGETS = (*mutants.KINDS, "npy-stored", "parquet-stored")
SECONDS = 10  # of processor time for one read; how busy the machine is does not matter
LIMIT = 1 << 28  # what a small file may unpack to by default, see `max_bytes` of read_ensemble


def violations(target: str, *, cases: int = 0, seed: int = 0, files: Sequence[str] = ()) -> list[dict]:
    """Broken rules over `cases` mutants, or with the target "files" over `files` ("TARGET:PATH")."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *(p for p in sys.path if p)])
    command = [sys.executable, "-m", "fuzz.runner", target, *files]
    environment = {**os.environ, **guard._ENVIRONMENT, "PYTHONPATH": paths}
    command += ["--seed", str(seed), "--cases", str(cases)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- one file ------------------------------------------------------------------------------------------------------


def check(path: Path, target: str) -> tuple[str, str] | None:
    """Rule that reading a file broke, with a detail; None when it was read or refused as it should be."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # the default action of both signals ends the process
    signal.setitimer(signal.ITIMER_REAL, 30 * SECONDS)
    try:
        if target == "model":
            return _check_model(path)
        stored = target.endswith("-stored")
        return _check_ensemble(ca.Ensemble(path) if stored else ca.read_ensemble(path, columns="*"))
    except MemoryError as error:
        return f"memory above {2 * LIMIT >> 20} MiB", str(error)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        # a clear error is a ValueError, or an OSError of Python itself, that names the file
        system = isinstance(error, OSError) and type(error).__module__ == "builtins"
        if type(error) not in (ValueError, TooLarge) and not system:
            return f"raw {type(error).__name__}", text
        return None if path.name in str(error) else (f"{type(error).__name__} without the file's name", text)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _check_ensemble(ens) -> tuple[str, str] | None:
    n, p = ens.n_samples, ens.n_partitions
    codes, k = np.asarray(ens.codes), np.asarray(ens.n_clusters)
    counts = [np.bincount(codes[:, j], minlength=k[j] + 1) for j in range(p)]
    rules = {
        "shape of codes": codes.shape == (n, p) and k.shape == (p,) and n > 0 and p > 0,
        "codes above n_clusters": all(len(count) == k[j] + 1 for j, count in enumerate(counts)),
        "sizes": np.array_equal(np.concatenate([c[:-1] for c in counts]), ens.sizes),
        "names": len(ens.names) == len(set(ens.names)) == p,
        "categories": [len(labels) for labels in ens.categories] == k.tolist(),
        "labels twice": all(len(set(labels.tolist())) == len(labels) for labels in ens.categories),
        "item_ids": ens.item_ids is None or len(ens.item_ids) == len(set(ens.item_ids.tolist())) == n,
        "classes": ens.classes is None or len(ens.classes) == n,
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    return ("inconsistent ensemble", ", ".join(broken)) if broken else None


def _check_model(path: Path) -> tuple[str, str] | None:
    """A saved model that loads must be one of ours; edited ones label rows or raise, and never crash."""
    model = ca.load(path)
    if not any(type(model) is type(saved) for saved in mutants.fitted_models()):
        return "not a saved estimator", f"{type(model).__module__}.{type(model).__qualname__}"
    try:
        model.predict(mutants.model_rows())
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
    return None


# -- many files ----------------------------------------------------------------------------------------------------


def run_cases(targets: Sequence[str], case: Callable[[int], tuple[str, bytes]], stop: int) -> list[dict]:
    """Check ``case(i)``, a target and a file, for each i below `stop`, in children that end with the first crash."""
    for target in targets:
        mutants.seeds(target.split("-")[0])  # made once, here
    progress, found, start = mmap.mmap(-1, 8), [], 0
    while start < stop:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _work(targets, case, range(start, stop), progress, os.fdopen(writer, "w"))
        os.close(writer)
        with os.fdopen(reader) as lines:
            found += [json.loads(line) for line in lines]
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        if code > 0:
            raise RuntimeError(found[-1])
        index = struct.unpack("<q", progress[:])[0]
        name = signal.Signals(-code).name
        slow = {"SIGPROF": f"over {SECONDS} s of processor time", "SIGALRM": f"waits for over {30 * SECONDS} s"}
        found.append({"index": index, "problem": slow.get(name, f"killed by {name}"), "detail": ""})
        start = index + 1
    return found


class _Fork:
    """A child that reads as `guard` asks, forked, since starting an interpreter for each of many files takes long."""

    def __init__(self):
        theirs, ours = os.pipe()
        mine, yours = os.pipe()
        self.pid, self.code = os.fork(), None
        if self.pid == 0:
            os.close(ours)
            os.close(mine)
            try:
                with os.fdopen(theirs, "rb") as source, os.fdopen(yours, "wb") as out:
                    guard.serve(source, out)
            finally:
                os._exit(0)
        os.close(theirs)
        os.close(yours)
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(mine, "rb")

    def kill(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


def _work(targets: Sequence[str], case: Callable[[int], Any], indices: range, progress: mmap.mmap, out: TextIO) -> None:
    """The child: never returns. Seeds are read first, so that libraries hold their threads and buffers already."""
    guard.start = _Fork
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        with tempfile.TemporaryDirectory() as folder:

            def read(target: str, data: bytes) -> tuple[str, str] | None:
                kind = target.split("-")[0]
                path = Path(folder, f"case.{'skops' if kind == 'model' else kind}")
                path.write_bytes(data)
                return check(path, target)

            for target in targets:
                for data in mutants.seeds(target.split("-")[0]):
                    read(target, data)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 4 * LIMIT, used + 4 * LIMIT))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for i in indices:
                progress[:] = struct.pack("<q", i)
                target, data = case(i)
                before = _peak_memory(reset=True)
                broken = read(target, data)
                if broken is None and (taken := _peak_memory() - before) > 2 * LIMIT:
                    broken = f"memory above {2 * LIMIT >> 20} MiB", f"took {taken:,} bytes"
                if broken is not None:
                    print(json.dumps({"index": i, "problem": broken[0], "detail": broken[1]}), file=out, flush=True)
        os._exit(0)
    except BaseException as error:  # of this program, not of what it tests
        print(json.dumps(repr(error)), file=out, flush=True)
        os._exit(3)


def _peak_memory(*, reset: bool = False) -> int:
    """Largest resident size in bytes since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "files"])
    parser.add_argument("files", nargs="*", help="with 'files': TARGET:PATH")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    import h5py  # noqa: F401
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if given.target == "files":
        named = [entry.split(":", 1) for entry in given.files]
        targets = sorted({target for target, _ in named})
        found = run_cases(targets, lambda i: (named[i][0], Path(named[i][1]).read_bytes()), len(named))
    else:
        kind = given.target.split("-")[0]
        case = lambda i: (given.target, mutants.mutant(kind, given.seed, i))  # noqa: E731
        found = run_cases([given.target], case, given.cases)
    print(*map(json.dumps, found), sep="\n", end="\n" * bool(found))


if __name__ == "__main__":
    main()
