"""The command line: parse, call the library, print. The module of a command is imported when it is chosen."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import threading
import time
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn, TextIO

from ..report.plain_text import seconds

# command -> what the list of commands says about it. Its module has add_arguments and run; its docstring is the help.
COMMANDS = {
    "demo": "see it work in a few seconds, without any data of your own",
    "ensemble": "cluster a table of features many times",
    "fit": "many clusterings in, one consensus out",
    "predict": "label new rows with a saved model",
    "score": "density and agreement of a partition with an ensemble",
    "compare": "run several consensus methods side by side",
    "select-k": "how many clusters the ensemble supports",
    "report": "one self-contained HTML page about an ensemble and its consensus",
}
_FORMAT = argparse.RawDescriptionHelpFormatter
OK, FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: partial files are removed on the way out, as after Ctrl-C."""


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors are one line, printed where all other errors are.

    Options that take several names, such as --columns, take every word up to the next option. When that leaves no word
    for the file, the last of those words that names a file is the file.
    """

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        try:
            return super().parse_args(words, namespace)
        except ValueError as error:
            files = [i for i in range(2, len(words)) if words[i - 1][:1] != "-" and os.path.exists(words[i])]
            if not files or "arguments are required" not in str(error):
                raise
            return super().parse_args([words.pop(files[-1]), *words], namespace)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {self.prog} --help.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done; 1: an internal error; 2: bad input or usage; 130: Ctrl-C; 143: terminated.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    messages.json = "--json" in words
    try:
        with _settings(debug):
            check_streams()
            try:
                return _run(words)
            finally:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output went away, as `head` does: the rest goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (KeyboardInterrupt, Exception) as error:
        if debug:
            raise
        text, code = _message(error)
        messages.error(text, code)
        return code


def _message(error: BaseException) -> tuple[str, int]:
    """The message of an error, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        what, code = ("terminated", TERMINATED) if isinstance(error, Terminated) else ("interrupted", INTERRUPTED)
        return f"{what}; nothing was left half written.", code
    if isinstance(error, (ValueError, TypeError, OSError, ImportError, MemoryError)):
        return sentence(error), BAD_INPUT
    if type(error).__module__.startswith(("distributed", "dask", "concurrent")):
        return f"the Dask cluster failed ({sentence(error)}); start it and run the command again.", BAD_INPUT
    where = "Run the command with --debug to see where."
    return f"internal error, {type(error).__name__}: {sentence(error)} {where}", FAILED


@contextmanager
def _settings(debug: bool) -> Iterator[None]:
    """Warnings as one line, and signals that end the process as exceptions; both restored afterwards."""

    def stop(number: int, frame: Any) -> NoReturn:
        raise Terminated

    format_before, caught = warnings.formatwarning, {}
    if not debug:
        warnings.formatwarning = lambda message, *_, **__: messages.line(str(message), "note") + "\n"
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                caught[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        warnings.formatwarning = format_before
        for number, handler in caught.items():
            signal.signal(number, handler)


def _run(words: list[str]) -> int:
    """Run the command among the words; options may come before it."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is None:
        parser = _whole_parser()
        parser.parse_args(words)
        parser.print_help(sys.stderr)
        return BAD_INPUT
    rest = words.copy()
    rest.remove(name)
    if name == "help":
        return _run([*rest, "--help"])
    if name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(COMMANDS)}."
        raise ValueError(f"there is no command {name!r}; {hint}")
    if os.getcwd() not in sys.path:  # so that -m finds methods of the user's own in the current folder
        sys.path.append(os.getcwd())
    load(name).run(command_parser(name).parse_args(rest))
    return OK


def load(name: str) -> ModuleType:
    """The module of a command."""
    return import_module(f".{name.replace('-', '_')}", __name__)


def command_parser(name: str) -> Parser:
    """The parser of one command, with the options every command has."""
    module = load(name)
    description, head, examples = (module.__doc__ or "").partition("\n\nexample")
    parser = Parser(f"coassoc {name}", None, description, head.lstrip() + examples, formatter_class=_FORMAT)
    module.add_arguments(parser)
    return _with_common(parser)


def _whole_parser() -> Parser:
    """The parser of words without a command."""
    from .. import __version__

    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:<{width}}{text}" for name, text in COMMANDS.items())
    parser = Parser(
        prog="coassoc",
        description="Many clusterings in, one partition out, with a statement of how reliable it is.",
        epilog=f"commands (each has --help with an example):\n{commands}\n\n"
        "example:\n  coassoc demo\n  coassoc fit labels.csv -k 10 -o consensus.csv\n",
        formatter_class=_FORMAT,
        usage="coassoc [-V | --version] [--help] COMMAND ...",
    )
    told = f"coassoc {__version__}"
    parser.add_argument("-V", "--version", action="version", version=told, help="print the version")
    return _with_common(parser)


def _with_common(parser: Parser) -> Parser:
    parser.add_argument("--json", action="store_true", help="print the result as JSON, for programs")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


# -- what is printed; names from files are made harmless here --------------------------------------------------------


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
