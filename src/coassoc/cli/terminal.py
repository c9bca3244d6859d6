"""Everything the commands print: text, notes, errors, JSON, progress. Names from files are made harmless here."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import unicodedata
from typing import Any, TextIO

from ..report.plain_text import seconds


def printable(text: str) -> str:
    r"""`text` with control, format and invalid characters written as ``\uXXXX``, as JSON does.

    Names and ids come from files and may hold terminal escape sequences; line ends and tabs are kept.
    """
    if text.isprintable():
        return text
    harmless = {c for c in {*text} if c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs"}
    return "".join(c if c in harmless else json.dumps(c)[1:-1].replace("\x7f", "\\u007f") for c in text)


def say(text: str = "", *, file: TextIO | None = None) -> None:
    """Print text that may hold names from files. What the stream cannot encode is escaped too."""
    stream = sys.stdout if file is None else file
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        print(printable(text).encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
    except OSError as error:  # a full disk, or a reader that is gone
        name = "standard output" if stream is sys.stdout else "standard error"
        raise OSError(error.errno, os.strerror(error.errno or 0), name) from None


def say_json(data: Any, *, file: TextIO | None = None, indent: int | None = 2) -> None:
    """Print a result for programs."""
    text = json.dumps(data, default=lambda value: value.tolist() if hasattr(value, "tolist") else os.fspath(value))
    finite = json.loads(text, parse_constant=lambda name: None)  # NaN and infinity
    say(json.dumps(finite, indent=indent, ensure_ascii=False), file=file)


class Messages:
    """Notes and errors on standard error: lines for people, or with --json one JSON object a line."""

    json = False

    def line(self, text: str, kind: str) -> str:
        text = " ".join(text.split())
        return printable(json.dumps({kind: text}, ensure_ascii=False) if self.json else f"coassoc: {kind}: {text}")

    def note(self, text: str, kind: str = "note") -> None:
        say(self.line(text, kind), file=sys.stderr)

    def error(self, text: str, exit_code: int) -> None:
        shown = json.dumps({"error": text, "exit_code": exit_code}, ensure_ascii=False)
        say(shown if self.json else f"coassoc: {text}", file=sys.stderr)


messages = Messages()
note = messages.note


_OF_FILES = {
    FileNotFoundError: "there is no file {}; check the path.",
    IsADirectoryError: "{} is a folder; name a file in it.",
    PermissionError: "no permission to open {}; check who owns it.",
}


def sentence(error: BaseException) -> str:
    """An error as one line that says what is wrong and, where known, what to do."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        rule = _OF_FILES.get(type(error), "{}: " + f"{error.strerror}.")
        text = rule.format(repr(os.fsdecode(error.filename)))
    elif isinstance(error, OSError) and error.strerror:
        text = f"a file or stream could not be read or written: {error.strerror}."
    elif isinstance(error, MemoryError):
        text = f"not enough memory ({error}); use fewer rows or columns." if str(error) else "not enough memory."
    return " ".join(text.split())


def check_streams() -> None:
    """Refuse a closed standard output before any work; open the null device in place of other closed streams.

    Without this the next file that is opened gets the number of the closed stream, and what is printed ends in it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  lives as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        raise ValueError("standard output is closed; redirect it to a file or to /dev/null.")


def discard_output() -> None:
    """Send what is still to be written to standard output nowhere: its reader is gone or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Progress:
    """What a command is doing, on standard error: by rich on a terminal, else a line after every `every` seconds."""

    def __init__(self, what: str, quiet: bool = False, every: float = math.inf):
        self.what, self.every, self.quiet = what, every, quiet
        self.start = self.last = time.monotonic()
        self.bar = _rich_bar(what) if sys.stderr.isatty() and not quiet else None

    def __call__(self, done: int, total: int) -> None:
        self.step(f"{done}/{total}", done / max(total, 1))

    def step(self, text: str, share: float | None = None) -> None:
        """Say what is done now, and which share of the work is done where that is known."""
        text = printable(" ".join(text.split()))
        now = time.monotonic()
        if self.bar is not None:
            known = {"total": None, "refresh": True} if share is None else {"total": 1, "completed": share}
            self.bar.update(self.bar.task_ids[0], description=f"{self.what}: {text}", **known)
        elif not self.quiet and now - self.last >= self.every:
            self.last = now
            left = f", {share:.0%}, {seconds((now - self.start) * (1 - share) / share)} left" if share else ""
            say(f"{self.what}: {text}{left}", file=sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def _rich_bar(what: str) -> Any:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    text = progress.TextColumn("{task.description}", markup=False)
    console = Console(file=sys.stderr)
    bar = progress.Progress(text, progress.BarColumn(), progress.TimeRemainingColumn(), console=console, transient=True)
    bar.add_task(what, total=None)
    bar.start()
    return bar
