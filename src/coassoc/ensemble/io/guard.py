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

from .optional import pa
from .table import DamagedFile, Format, Options, Piece, Table, TooLarge

SECONDS = 5  # of processor time, and two more per megabyte of the files
PATIENCE = 12  # times as long may an answer take by the clock, since other programs run too
# one thread and plain malloc: address space is limited, so none is taken ahead of its use
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
_ENVIRONMENT |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONWARNINGS": "ignore"}


class GuardedTable(Table):
    """A table that a child process reads."""

    def __init__(self, known: Format, files: Sequence[Path], path: Path, options: Options):
        super().__init__(path)
        self.known, self.files, self.options = known, files, options
        self._child: _Child | None = None
        described = self._open()
        self._pieces = [Piece(*piece) for piece in described.pop("pieces")]
        self.__dict__.update(described)

    def _open(self) -> dict[str, Any]:
        self._child = _Child(self.known, self.files, self.path, self.options)
        return self._child.answer()

    def batches(self, columns: Sequence[str], ids: str | None = None, where: Any = None) -> Iterator[Any]:
        if self._child is None:
            self._open()
        child, self._child = self._child, None
        assert child is not None
        with contextlib.closing(child):
            yield from child.stream({"columns": list(columns), "ids": ids, "where": where})

    def pieces(self) -> list[Piece]:
        return self._pieces

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def append_guarded(known: Format, files: Sequence[Path], target: Path, columns: Any, force: bool, options: Options):
    """`Format.append`, done by a child, which gets the new columns as an Arrow stream."""
    with contextlib.closing(_Child(known, files, files[0].parent if len(files) > 1 else files[0], options)) as child:
        child.answer()
        child.ask({"append": str(target), "force": force})
        with contextlib.suppress(BrokenPipeError), pa.ipc.new_stream(child.process.stdin, columns.schema) as stream:
            stream.write_table(columns)
        child.flush()
        child.answer()


class _Child:
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
        self.flush()

    def flush(self) -> None:
        with contextlib.suppress(BrokenPipeError):
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
            how = f"takes more than {PATIENCE * self.seconds} s"
        elif code in (-9, -24):  # SIGKILL, SIGXCPU
            how = f"takes more than {self.seconds} s of processor time"
        else:
            how = f"ends the process that reads it ({f'signal {-code}' if code < 0 else f'exit code {code:#x}'})"
        return DamagedFile(f"reading it {how}")

    def _error(self, told: dict[str, Any]) -> Exception:
        kind, text = told["error"], told["text"]
        if kind == "memory":
            return TooLarge(self.path, self.allowed)
        if kind == "fault":
            return RuntimeError(f"coassoc failed to read {self.path.name}; please report this:\n{text}")
        if kind == "import":
            return ImportError(text)
        if kind == "system":
            return OSError(told["errno"], text, told["filename"]) if told["errno"] else FileExistsError(text)
        return ValueError(text)

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
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths},
        )
    except OSError as error:
        raise ValueError(
            f"no process can be started to read the file in safety ({error.strerror}); if you trust it, pass "
            "trusted=True (--trusted)."
        ) from None
