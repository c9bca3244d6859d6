"""print a script that teaches your shell to complete coassoc's commands, options and choices.

examples:
  coassoc completion bash > ~/.local/share/bash-completion/completions/coassoc
  coassoc completion zsh > ~/.zfunc/_coassoc        # a folder of your fpath
  coassoc completion fish > ~/.config/fish/completions/coassoc.fish
"""

from __future__ import annotations

import argparse

from .common import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")


def run(args: argparse.Namespace) -> None:
    try:
        import shtab
    except ImportError:
        raise ImportError("completion needs shtab: pip install 'coassoc[cli]'.") from None
    from . import COMMANDS, command_parser

    parser = argparse.ArgumentParser(prog="coassoc")
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    commands = parser.add_subparsers()
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text, parents=[command_parser(name)], add_help=False)
        for action in command._actions:
            if action.nargs != 0 and not action.choices and action.type is None:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(parser, args.shell)
    tell(args, {"shell": args.shell, "script": script}, script)
