"""`coassoc completion`: completion scripts for bash, zsh and fish, made from the parsers themselves."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from .terminal import say, say_json

DESCRIPTION = """print a script that teaches your shell to complete coassoc's commands, options and choices."""

EPILOG = """examples:
  coassoc completion bash > ~/.local/share/bash-completion/completions/coassoc
  coassoc completion zsh > ~/.zfunc/_coassoc        # a folder of your fpath
  coassoc completion fish > ~/.config/fish/completions/coassoc.fish
"""


@dataclass
class _Command:
    """Options of a command and the values they take."""

    help: str
    options: dict[str, str] = field(default_factory=dict)  # option -> its help
    choices: dict[str, list[str]] = field(default_factory=dict)  # option -> the values it takes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")


def run(args: argparse.Namespace) -> int:
    commands = _commands()
    if args.json:
        say_json({name: {"options": list(c.options), "choices": c.choices} for name, c in commands.items()})
        return 0
    say({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](commands), end="")
    return 0


def _commands() -> dict[str, _Command]:
    """Options and choices of every command this installation has."""
    from . import COMMANDS, command_parser, load

    found = {}
    for name, (_, help) in COMMANDS.items():
        command = _Command(help)
        try:
            parser = command_parser(name, load(name))
        except (ImportError, ValueError):
            continue  # the module of this command is not installed
        for action in parser._actions:
            for option in action.option_strings:
                if not option.startswith("--") and any(o.startswith("--") for o in action.option_strings):
                    continue  # only the long form is listed
                command.options[option] = " ".join((action.help or "").split())
                if action.choices:
                    command.choices[option] = [str(choice) for choice in action.choices]
            if not action.option_strings and action.choices:
                command.choices[""] = [str(choice) for choice in action.choices]
        found[name] = command
    return found


def _bash(commands: dict[str, _Command]) -> str:
    names = " ".join(commands)
    values = "".join(
        f'    "{name} {option}") COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$cur")); return ;;\n'
        for name, command in commands.items()
        for option, choices in command.choices.items()
        if option
    )
    options = "".join(
        f'      {name}) COMPREPLY=($(compgen -W "{" ".join(command.options)}" -- "$cur")) ;;\n'
        for name, command in commands.items()
    )
    plain = "".join(
        f'    {name}) COMPREPLY=($(compgen -W "{" ".join(command.choices[""])}" -- "$cur")); return ;;\n'
        for name, command in commands.items()
        if "" in command.choices
    )
    return f"""# bash completion of coassoc
_coassoc() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{names} --help --version" -- "$cur"))
    return
  fi
  case "$command $prev" in
{values}  esac
  if [ "${{cur#-}}" != "$cur" ]; then
    case "$command" in
{options}    esac
    return
  fi
  case "$command" in
{plain}  esac
  COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -o filenames -F _coassoc coassoc
"""


def _zsh(commands: dict[str, _Command]) -> str:
    names = " ".join(f"{_quoted(f'{name}:{command.help}')}" for name, command in commands.items())
    values = "".join(
        f'    "{name} {option}") compadd -- {" ".join(choices)}; return ;;\n'
        for name, command in commands.items()
        for option, choices in command.choices.items()
        if option
    )
    options = "".join(
        f"      {name}) compadd -- {' '.join(command.options)} ;;\n" for name, command in commands.items()
    )
    plain = "".join(
        f"    {name}) compadd -- {' '.join(command.choices[''])}; return ;;\n"
        for name, command in commands.items()
        if "" in command.choices
    )
    return f"""#compdef coassoc
_coassoc() {{
  if (( CURRENT == 2 )); then
    local -a commands
    commands=({names})
    _describe command commands
    return
  fi
  case "$words[2] $words[CURRENT-1]" in
{values}  esac
  if [[ "$words[CURRENT]" == -* ]]; then
    case "$words[2]" in
{options}    esac
    return
  fi
  case "$words[2]" in
{plain}  esac
  _files
}}
if [ "$funcstack[1]" = "_coassoc" ]; then
  _coassoc "$@"
else
  compdef _coassoc coassoc
fi
"""


def _fish(commands: dict[str, _Command]) -> str:
    lines = ["# fish completion of coassoc"]
    for name, command in commands.items():
        lines.append(f"complete -c coassoc -f -n __fish_use_subcommand -a {name} -d {_quoted(command.help)}")
    for name, command in commands.items():
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for option, help in command.options.items():
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            choices = command.choices.get(option)
            tail = f" -x -a {_quoted(' '.join(choices))}" if choices else ""
            lines.append(f"complete -c coassoc {seen} {flag} -d {_quoted(help[:80])}{tail}")
        if "" in command.choices:
            lines.append(f"complete -c coassoc -f {seen} -a {_quoted(' '.join(command.choices['']))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    plain = text.replace("\\", "").replace("'", "")
    return f"'{plain}'"
