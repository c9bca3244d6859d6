"""The command line: parse, call the library, print. The module of a command is imported when it is chosen."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from .terminal import check_streams, discard_output, messages, sentence

# command -> what the list of commands says about it. Its module has DESCRIPTION, EPILOG, add_arguments and run.
COMMANDS = {
    "demo": "see it work in a few seconds, without any data of your own",
    "ensemble": "cluster a table of features many times",
    "fit": "many clusterings in, one consensus out",
    "predict": "label new rows with a saved model",
    "score": "density and agreement of a partition with an ensemble",
    "compare": "run several consensus methods side by side",
    "select-k": "how many clusters the ensemble supports",
    "report": "one self-contained HTML page about an ensemble and its consensus",
    "completion": "print the completion script of a shell",
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
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        discard_output()
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
    rest = words if name is None else [*words[: words.index(name)], *words[words.index(name) + 1 :]]
    if name == "help":
        return _run([*rest, "--help"])
    if name is None:
        parser = _whole_parser()
        parser.parse_args(rest)
        parser.print_help(sys.stderr)
        return BAD_INPUT
    if name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(COMMANDS)}."
        raise ValueError(f"there is no command {name!r}; {hint}")
    if os.getcwd() not in sys.path:  # so that -m finds methods of the user's own in the current folder
        sys.path.append(os.getcwd())
    return load(name).run(command_parser(name).parse_args(rest))


def load(name: str) -> ModuleType:
    """The module of a command."""
    return import_module(f".{name.replace('-', '_')}", __name__)


def command_parser(name: str) -> Parser:
    """The parser of one command, with the options every command has."""
    module = load(name)
    texts = {"description": module.DESCRIPTION, "epilog": module.EPILOG}
    parser = Parser(prog=f"coassoc {name}", formatter_class=_FORMAT, **texts)
    module.add_arguments(parser)
    return _with_common(parser)


def _whole_parser() -> Parser:
    """The parser of words without a command."""
    import coassoc

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
    version = f"coassoc {coassoc.__version__}"
    parser.add_argument("-V", "--version", action="version", version=version, help="print the version")
    return _with_common(parser)


def _with_common(parser: Parser) -> Parser:
    parser.add_argument("--json", action="store_true", help="print the result as JSON, for programs")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser
