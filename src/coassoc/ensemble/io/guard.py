"""Opening a label file: here, or by a child process when its format is binary and the user does not trust it.

Libraries crash on damaged files, loop for ever, or take any amount of memory, inside calls that Python cannot stop. The
child has limits on memory and processor time (on Linux), and is killed when an answer takes too long. It hands the
columns over a pipe as Arrow record batches, whose sizes are added up here. This process never parses the file.

The child is told what to do by a line of JSON: to append, or to open a table, which it describes in a line; then a
second line says which columns to read. Each record batch is a line and an Arrow stream. A last line says how it ended.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from .formats import DamagedFile, Options, Table, TooLarge, find_format, format_called, naming, open_file, open_here, pa

SECONDS = 5  # of processor time, and two more per megabyte of the files
PATIENCE = 12  # times as long may an answer take by the clock, since other programs run too
# one thread and plain malloc: address space is limited, so none is taken ahead of its use
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
_ENVIRONMENT |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONWARNINGS": "ignore"}
_ERRORS = {kind.__name__: kind for kind in (ImportError, ValueError, OSError, RuntimeError)}
_DESCRIBED = ("names", "n_rows", "id_name", "class_name", "guess_ids", "guess", "notes")
# HDF5 tells of a lack of memory in words, and calls a damaged address "past end of allocation"
_NO_MEMORY = re.compile("malloc|realloc|allocate|(?<!past end of )allocation|out of memory|bad_alloc")


def open_table(path: Path, options: Options) -> tuple[Table, type[Table]]:
    """The table in a file, or in the files of a folder, and its format."""
    with contextlib.ExitStack() as on_error:
        file = None if path.is_dir() else on_error.enter_context(open_file(path))
        files, known = find_format(path, options.format, file)
        table = open_files(known, files, path, options, file)
        on_error.pop_all()
    twice = next((name for name, count in Counter(table.names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"two columns named {twice!r}; rename one, or pass header=False (--no-header).")
    if table.n_rows == 0:
        raise ValueError(f"{path.name} has columns but no rows; a label table needs one row per item.")
    return table, known


def open_files(
    known: type[Table], files: Sequence[Path], path: Path, options: Options, file: BinaryIO | None = None
) -> Table:
    """The table in some files of one format: read by a child process, or here when the format or the user says so."""
    known.check_packages()
    if options.trusted or not known.guarded:
        return open_here(known, files, path, options, file)
    if file is not None:
        file.close()  # the child opens it
    return GuardedTable(known, files, path, options)


class GuardedTable(Table):
    """A table that a child process reads."""

    def __init__(self, *task: Any):
        _, _, path, options = self._task = task
        super().__init__(path, options)
        self.file = Child(*task)
        described = self.file.answer()
        self._pieces = described.pop("pieces")
        self.__dict__.update(described)

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        child, self.file = self.file, None
        if child is None:
            child = Child(*self._task)
            child.answer()
        with contextlib.closing(child):
            yield from child.batches({"columns": list(columns), "ids": ids, "where": where})

    def pieces(self) -> list[Any]:
        return self._pieces


def append_guarded(
    known: type[Table], files: Sequence[Path], target: Path, columns: Any, options: Options, force: bool
) -> None:
    """`Table.append`, done by a child, which finds the new columns in a temporary Arrow file."""
    with tempfile.TemporaryDirectory(prefix="coassoc-") as folder:
        added = str(Path(folder, "columns.arrow"))
        with pa.ipc.new_file(added, columns.schema) as out:
            out.write_table(columns)
        path = files[0].parent if len(files) > 1 else files[0]
        with contextlib.closing(Child(known, files, path, options, [added, str(target), force])) as child:
            child.answer()


class Child:
    """A child process that has been told what to do."""

    def __init__(self, known: type[Table], files: Sequence[Path], path: Path, options: Options, append: Any = None):
        self.path, self.allowed, self.late = path, options.allowed(files), False
        self.seconds = SECONDS + (sum(file.stat().st_size for file in files) >> 19)
        self.process = start()
        self._tell({
            "format": known.name, "files": [str(file) for file in files], "path": str(path), "options": asdict(options),
            "allowed": self.allowed, "seconds": self.seconds, "append": append,
        })  # fmt: skip

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next line of the child; an error when it tells one, or has ended."""
        line = self._in_time(self.process.stdout.readline)
        try:
            told = json.loads(line)
        except ValueError:
            raise self._death() from None
        if "error" in told:
            kind, *details = told["error"]
            raise TooLarge(self.path, self.allowed) if kind == "TooLarge" else _ERRORS[kind](*details)
        return told

    def batches(self, question: dict[str, Any]) -> Iterator[Any]:
        """The record batches that answer a question."""
        self._tell(question)
        total = 0
        while self.answer():
            try:
                batches = self._in_time(_read_stream, self.process.stdout)
            except (pa.ArrowException, OSError, EOFError) as error:
                raise self._death() from error
            for batch in batches:
                # a column of dictionary indices, or of empty text, becomes more than it is
                total += max(batch.nbytes, 8 * batch.num_rows * batch.num_columns)
                if total > self.allowed:
                    raise TooLarge(self.path, self.allowed)
                yield batch

    def _in_time(self, read: Callable[..., Any], *of: Any) -> Any:
        """What `read` returns; the child is killed when that takes too long."""

        def end() -> None:
            self.late = True
            self.process.kill()

        timer = threading.Timer(PATIENCE * self.seconds, end)
        timer.daemon = True
        timer.start()
        try:
            return read(*of)
        finally:
            timer.cancel()

    def _death(self) -> Exception:
        """Why the child ended without an answer."""
        self.process.stdout.close()
        code = self.process.wait()
        if self.late:
            return DamagedFile(f"reading it takes more than {PATIENCE * self.seconds} s")
        if code in (-9, -24):  # SIGKILL, SIGXCPU
            return DamagedFile(f"reading it takes more than {self.seconds} s of processor time")
        how = f"signal {-code}" if code < 0 else f"exit code {code:#x}"
        return DamagedFile(f"reading it ends the process that reads it ({how})")

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.wait()


def _read_stream(pipe: Any) -> list[Any]:
    """The record batch of a stream, or none where sending it has failed: why is told next."""
    with pa.ipc.open_stream(pipe) as stream:
        return list(stream)


def start() -> Any:
    """The child process, which waits for the first line."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    # -P: a module in the current folder must not take the place of another
    command = [sys.executable, "-P", "-c", "from coassoc.ensemble.io import guard; guard.main()"]
    environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths}
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)
    except OSError as error:
        way_out = "if you trust the file, pass trusted=True (--trusted)"
        raise ValueError(f"no process can be started to read in safety ({error.strerror}); {way_out}.") from None


# -- in the child --------------------------------------------------------------------------------------------------


def main() -> None:
    """What the child process runs."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    serve(sys.stdin.buffer, pipe)


def serve(source: Any, out: Any) -> None:
    """Do what the first line says: append columns to files, or open them, describe the table and send its columns."""
    task = json.loads(source.readline())
    files, path = [Path(file) for file in task["files"]], Path(task["path"])

    def tell(message: dict[str, Any]) -> None:
        out.write(json.dumps(message).encode() + b"\n")
        out.flush()

    try:
        with naming(path):
            known, options = format_called(task["format"]), Options(**task["options"])
            for package in known.packages:
                import_module(package)
            set_limits(7 * task["allowed"] // 4, task["seconds"])  # of memory, less than twice what may come out
            if task["append"]:
                added, target, force = task["append"]
                with pa.ipc.open_file(added) as columns:
                    known.append(files, Path(target), columns.read_all(), options, force)
            else:
                table = open_here(known, files, path, options)
                if 8 * (table.n_rows or 0) > task["allowed"]:
                    raise TooLarge(path, task["allowed"])
                tell({name: getattr(table, name) for name in _DESCRIBED} | {"pieces": table.pieces()})
                question = json.loads(source.readline() or "null")
                for batch in table.batches(**question) if question else ():
                    batch.validate(full=True)  # offsets that lead elsewhere would crash who reads them
                    tell({"batch": len(batch)})
                    with pa.ipc.new_stream(out, batch.schema) as stream:
                        stream.write_batch(batch)
        tell({})
    except Exception as error:
        tell({"error": _described(error, path)})


def _described(error: Exception, path: Path) -> list[Any]:
    """The kind of an error, and what an error of that kind is made of."""
    text = str(error)
    if isinstance(error, (MemoryError, TooLarge)) or (isinstance(error, ValueError) and _NO_MEMORY.search(text)):
        return ["TooLarge"]
    if isinstance(error, OSError):
        return ["OSError", error.errno, error.strerror or text, error.filename]
    if isinstance(error, (ImportError, ValueError)):
        return ["ImportError" if isinstance(error, ImportError) else "ValueError", text]
    fault = "".join(traceback.format_exception(error))
    return ["RuntimeError", f"coassoc failed to read {path.name}; please report this:\n{fault}"]


def set_limits(memory: int, seconds: int) -> None:
    """Limits on this process, where the system has them: not on Windows and macOS."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        seconds += math.ceil(time.process_time())  # what starting took
        limits = {resource.RLIMIT_AS: used + memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
        for kind, value in limits.items():
            most = resource.getrlimit(kind)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (value, value))
