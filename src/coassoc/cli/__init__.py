"""The command line: parse, call the library, print. A command's module is imported only when it is chosen."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

# command -> (module, what the list of commands says about it). The module has EPILOG, add_arguments and run.
COMMANDS = {
    "demo": ("coassoc.cli.demo", "see it work in a few seconds, without any data of your own"),
    "ensemble": ("coassoc.cli.ensemble", "cluster a table of features many times"),
    "fit": ("coassoc.cli.fit", "many clusterings in, one consensus out"),
    "score": ("coassoc.cli.score", "density and agreement of a partition with an ensemble"),
    "compare": ("coassoc.cli.compare", "run several consensus methods side by side"),
    "select-k": ("coassoc.cli.select_k", "how many clusters the ensemble supports"),
    "report": ("coassoc.cli.report", "one self-contained HTML page about an ensemble and its consensus"),
    "reproduce": ("coassoc.cli.reproduce", "run the published evaluation again"),
    "bench": ("coassoc.cli.bench", "time this machine against scikit-learn and faiss"),
    "completion": ("coassoc.cli.completion", "print the completion script of a shell"),
}
OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a fault of ours, 2 bad input or usage, 130 Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    if not debug:
        warnings.formatwarning = _one_line_warning
    try:
        try:
            name, rest = _split(words)
            if name is None:
                return _no_command(rest)
            return _run(name, rest)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        if debug:
            raise
        print("coassoc: interrupted; nothing was left half written.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if debug:
            raise
        print(f"coassoc: {sentence(error)}", file=sys.stderr)
        return BAD_INPUT
    except Exception as error:  # a fault of ours: say so, and how to learn more
        if debug:
            raise
        print(
            f"coassoc: internal error, {type(error).__name__}: {sentence(error)} "
            "Run the command again with --debug to see where.",
            file=sys.stderr,
        )
        return FAILED


def sentence(error: BaseException) -> str:
    """An error as one line that says what to do."""
    if isinstance(error, FileNotFoundError):
        text = f"there is no file {_name(error)}; check the path."
    elif isinstance(error, IsADirectoryError):
        text = f"{_name(error)} is a folder; name a file in it."
    elif isinstance(error, PermissionError):
        text = f"no permission to open {_name(error)}; check who owns it."
    elif isinstance(error, OSError) and error.strerror:
        text = f"{_name(error)}: {error.strerror}."
    elif isinstance(error, MemoryError):
        text = f"not enough memory ({error}); use fewer rows or columns." if str(error) else "not enough memory."
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> str:
    return f"coassoc: note: {' '.join(str(message).split())}\n"


def _name(error: OSError) -> str:
    return repr(str(error.filename)) if error.filename is not None else "input or output"


def _split(words: list[str]) -> tuple[str | None, list[str]]:
    """The command and what follows it; --debug may stand anywhere."""
    for i, word in enumerate(words):
        if not word.startswith("-"):
            return word, words[:i] + words[i + 1 :]
    return None, words


def _run(name: str, rest: list[str]) -> int:
    if name == "help":
        return _no_command(["--help"]) if not rest else _run(rest[0], ["--help"])
    if name not in COMMANDS:
        raise ValueError(_unknown(name))
    parser = command_parser(name, load(name))
    args = parser.parse_args(rest)
    return int(args.run(args) or OK)


def load(name: str) -> ModuleType:
    """The module of a command."""
    module = COMMANDS[name][0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("coassoc"):
            raise ValueError(f"the command {name!r} is not part of this installation of coassoc.") from error
        raise


def command_parser(name: str, module: ModuleType) -> argparse.ArgumentParser:
    """The parser of one command, with the options every command has."""
    parser = argparse.ArgumentParser(
        prog=f"coassoc {name}",
        description=getattr(module, "DESCRIPTION", None) or COMMANDS[name][1],
        epilog=getattr(module, "EPILOG", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    known = parser._option_string_actions
    if "--json" not in known:
        parser.add_argument("--json", action="store_true", help="print the result as JSON, for programs")
    if "--debug" not in known:
        parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=module.run)
    return parser


def _no_command(rest: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="coassoc",
        description="Many clusterings in, one trustworthy partition out, in linear time.",
        epilog=_commands_list() + "\n\nexample:\n  coassoc demo\n  coassoc fit labels.csv -k 10 -o consensus.csv\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="coassoc [--version] [--help] COMMAND ...",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    args = parser.parse_args(rest)
    if args.version:
        import coassoc

        print(f"coassoc {coassoc.__version__}")
        return OK
    parser.print_help(sys.stderr)
    return BAD_INPUT


def _commands_list() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{text}" for name, (_, text) in COMMANDS.items()]
    return "commands (each has --help with an example):\n" + "\n".join(lines)


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(COMMANDS)}."
    return f"there is no command {name!r}; {hint}"


if __name__ == "__main__":
    sys.exit(main())
