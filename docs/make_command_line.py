"""Write docs/command-line.md from the parsers themselves. Run: python docs/make_command_line.py"""

import os
from pathlib import Path

os.environ["COLUMNS"] = "100"

from coassoc import cli

HEAD = """# Command line

`coassoc COMMAND --help` prints the same text. Every command takes `--json` (the result, notes and errors as JSON, the
latter two on standard error, one object a line) and `--debug` (tracebacks). Exit codes: 0 done, 1 internal error, 2 bad
input or usage (one line says what), 130 Ctrl-C, 143 terminated.

All paths are checked before any work. Files are written under a temporary name and renamed, so they are whole or absent;
an existing file is replaced only with `--force`, an input never.

Completion for your shell: `coassoc completion bash`, `zsh` or `fish`, and follow what it says.
"""


def main() -> None:
    parts = [HEAD]
    for name in cli.COMMANDS:
        text = cli.command_parser(name, cli.load(name)).format_help().rstrip()
        parts.append(f"## coassoc {name}\n\n```text\n{text}\n```\n")
    target = Path(__file__).with_name("command-line.md")
    temporary = target.with_suffix(".tmp")
    temporary.write_text("\n".join(parts))
    temporary.replace(target)


if __name__ == "__main__":
    main()
