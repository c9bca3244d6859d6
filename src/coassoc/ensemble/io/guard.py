"""The guard: files of binary formats that are not trusted are read by a child process.

Libraries that read such files crash on damaged ones, loop for ever, or take any amount of memory, inside calls that
Python cannot stop. The child (``python -m coassoc.ensemble.io.child``) has limits on memory and processor time where
the system has them (Linux); everywhere it is killed when an answer takes too long. It hands the columns over a pipe as
Arrow record batches, whose sizes are added up here. This process never parses the file.

The talk: a line of JSON that says what to open; a line that describes the table, or an error; a line that says what to
do; for columns Arrow streams, each announced by a line; and a line that says how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .table import DamagedFile, Format, Options, Piece, Table, TooLarge, pa

SECONDS = 5  # of processor time, and two more per megabyte of the files
PATIENCE = 12  # times as long may an answer take by the clock, since other programs run too
# one thread and plain malloc: address space is limited, so none is taken ahead of its use
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
_ENVIRONMENT |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONWARNINGS": "ignore"}


class GuardedTable(Table):
    """A table that a child process reads."""

    def __init__(self, known: Format, files: Sequence[Path], path: Path, options: Options):
        self._task = known, files, path, options
        super().__init__(Child(*self._task), path, options)
        described = self.file.answer()
        self._pieces = [Piece(*piece) for piece in described.pop("pieces")]
        self.__dict__.update(described)

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        child, self.file = self.file, None
        if child is None:
            child = Child(*self._task)
            child.answer()
        with contextlib.closing(child):
            yield from child.stream({"columns": list(columns), "ids": ids, "where": where})

    def pieces(self) -> list[Piece]:
        return self._pieces


def append_guarded(known: Format, files: Sequence[Path], target: Path, columns: Any, options: Options, force: bool):
    """`Format.append`, done by a child, which gets the new columns as an Arrow stream."""
    with contextlib.closing(Child(known, files, files[0].parent if len(files) > 1 else files[0], options)) as child:
        child.answer()
        with contextlib.suppress(BrokenPipeError):
            child.ask({"append": str(target), "force": force})
            with pa.ipc.new_stream(child.process.stdin, columns.schema) as stream:
                stream.write_table(columns)
            child.process.stdin.flush()
        child.answer()


class Child:
    """A child process that has been told what to open."""

    def __init__(self, known: Format, files: Sequence[Path], path: Path, options: Options):
        self.path, self.allowed, self.late = path, options.allowed(files), False
        self.seconds = SECONDS + (sum(file.stat().st_size for file in files) >> 19)
        self.process = start()
        self.ask({
            "format": known.name, "files": [str(file) for file in files], "path": str(path), "options": asdict(options),
            "allowed": self.allowed, "seconds": self.seconds,
        })  # fmt: skip

    def ask(self, question: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next line of the child; an error when it tells one, or has ended."""
        with self._patience():
            line = self.process.stdout.readline()
        try:
            told = json.loads(line)
        except ValueError:
            raise self._death() from None
        if "error" in told:
            raise self._error(told)
        return told

    def stream(self, question: dict[str, Any]) -> Iterator[Any]:
        """The record batches that answer a question."""
        self.ask(question)
        total = 0
        while self.answer():  # a stream for every schema: the files of a folder may differ
            try:
                with self._patience():
                    reader = pa.ipc.open_stream(self.process.stdout)
                while True:
                    with self._patience():
                        batch = next(reader, None)
                    if batch is None:
                        break
                    # a column of dictionary indices, or of empty text, becomes more than it is
                    total += max(batch.nbytes, 8 * batch.num_rows * batch.num_columns)
                    if total > self.allowed:
                        raise TooLarge(self.path, self.allowed)
                    yield batch
            except (pa.ArrowException, OSError, EOFError) as error:
                raise self._death() from error

    @contextlib.contextmanager
    def _patience(self) -> Iterator[None]:
        """Kill the child when what follows takes too long."""

        def end() -> None:
            self.late = True
            self.process.kill()

        timer = threading.Timer(PATIENCE * self.seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
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

    def _error(self, told: dict[str, Any]) -> Exception:
        kind, text = told["error"], told["text"]
        if kind == "memory":
            return TooLarge(self.path, self.allowed)
        if kind == "fault":
            return RuntimeError(f"coassoc failed to read {self.path.name}; please report this:\n{text}")
        if kind == "system":
            return OSError(told["errno"], text, told["filename"]) if told["errno"] else FileExistsError(text)
        return ImportError(text) if kind == "import" else ValueError(text)

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.wait()


def start() -> Any:
    """The child process, which waits for the first line."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    # -P: a module in the current folder must not take the place of another
    command = [sys.executable, "-P", "-m", "coassoc.ensemble.io.child"]
    environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths}
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)
    except OSError as error:
        raise ValueError(
            f"no process can be started to read the file in safety ({error.strerror}); if you trust it, pass "
            "trusted=True (--trusted)."
        ) from None
