"""How much memory and time reading a file may take: one limit and one estimate for every format.

A small file can declare far more than it holds: compression, run lengths, empty strings, repeated references. Every
reader therefore estimates what decoding takes, before it decodes, and asks a `Limit`.

HDF5 loops for ever, or asks for any amount of memory, on some damaged files: inside one call of its own, which Python
cannot stop. Where a library may not come back, a child reads the file first, within limits; when it comes back, the
same reads are safe here.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FREE_BYTES = 1 << 28  # any file may take this much, however small it is
EXPANSION = 200  # a larger file may take this many times its own size
CELL_BYTES = 8  # a label while a table is read: its index in a block, then its code
ROW_BYTES = 48  # temporary arrays over the rows of one column
COLUMN_BYTES = 2000  # names, arrays and Python objects of one column
SECONDS = 5  # of processor time, and one more per megabyte of the file
_MEMORY = 3  # exit code of a child that needed more than it may have
_START = "import json, sys; task = json.loads(sys.argv[1]); sys.path[:] = task.pop('path'); "
_START += "from coassoc.ensemble.io.limits import child; child(**task)"


@dataclass(frozen=True)
class Limit:
    """The bytes that decoding one file, or the files of one folder, may take."""

    name: str
    size: int
    allowed: int

    @classmethod
    def of(cls, paths: Sequence[Path], max_bytes: int | None, name: str | None = None) -> Limit:
        size = sum(path.stat().st_size for path in paths)
        return cls(name or paths[0].name, size, max(FREE_BYTES, EXPANSION * size) if max_bytes is None else max_bytes)

    def check(self, needed: int, what: str) -> None:
        """Refuse, before memory is taken, content that is far larger than the file."""
        if needed > self.allowed:
            raise ValueError(
                f"{self.name} declares {what}, which take {needed:,} bytes in memory, more than the {self.allowed:,} "
                f"allowed for a file of {self.size:,} bytes; if you trust it, pass max_bytes={needed} (--max-bytes)."
            )

    def check_table(self, n_rows: int, n_columns: int, extra: int = 0) -> None:
        """Refuse a table that is too large; `extra` is what its cells take beside their codes."""
        needed = table_bytes(n_rows, n_columns) + extra
        self.check(needed, f"{n_rows:,} rows of {n_columns:,} columns")


def table_bytes(n_rows: int, n_columns: int) -> int:
    """Estimated peak memory of reading a table of labels into codes."""
    return n_rows * (CELL_BYTES * n_columns + ROW_BYTES) + COLUMN_BYTES * n_columns


def try_reading(function: str, path: Path, limit: Limit) -> None:
    """Call ``function(path, limit)``, given as "module:name", in a child; an error if that is not safe to do here."""
    seconds = SECONDS + (limit.size >> 20)
    code = launch({"function": function, "file": os.fspath(path), "allowed": limit.allowed, "seconds": seconds})
    if code == _MEMORY:
        limit.check(2 * limit.allowed, "content that cannot be unpacked")
    elif code < 0:  # ended by a signal
        slow = -code in (signal.SIGKILL, getattr(signal, "SIGXCPU", None))
        what = f"takes more than {seconds} s of processor time" if slow else f"crashes with signal {-code}"
        raise ValueError(f"{path.name} is damaged: reading it {what}; write it again.")


def launch(task: dict) -> int:
    """Exit code of a child that does the task; 0 also where no child can be started."""
    command = [sys.executable, "-c", _START, json.dumps({**task, "path": sys.path})]
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=60 * task["seconds"])
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL
    except OSError:
        return 0
    return done.returncode


def child(function: str, file: str, allowed: int, seconds: int) -> None:
    """The child's work. Only a lack of memory counts: other errors are found again, and named, by the parent."""
    module, name = function.split(":")
    read, limit = getattr(importlib.import_module(module), name), Limit.of([Path(file)], allowed)
    _set_limits(7 * allowed // 4, seconds)  # with what the process has freed before, less than twice the limit
    try:
        read(Path(file), limit)
    except Exception as error:
        if isinstance(error, MemoryError) or short_of_memory(str(error)):
            sys.exit(_MEMORY)


def short_of_memory(message: str) -> bool:
    """Whether a library's error says that memory was refused; HDF5 calls a damaged address "past end of allocation"."""
    return re.search("malloc|realloc|allocate|(?<!past end of )allocation|out of memory", message) is not None


def _set_limits(memory: int, seconds: int) -> None:
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        seconds += math.ceil(time.process_time())  # what starting took
        limits = {resource.RLIMIT_AS: used + memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
        for kind, value in limits.items():
            most = resource.getrlimit(kind)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (value, value))
    except (ImportError, OSError):  # not Linux: the limit on elapsed time remains
        pass
