"""Write docs/command-line.md from the parsers themselves. Run: python docs/make_command_line.py"""

import os
from pathlib import Path

os.environ["COLUMNS"] = "100"

from coassoc import cli

HEAD = """# Command line

`coassoc COMMAND --help` prints what stands here. Every command takes `--json` for programs and `--debug` for
tracebacks; exit codes are 0 (done), 2 (bad input or usage, said in one sentence) and 130 (Ctrl-C). Files are written
under a temporary name and renamed, and never overwritten without `--force`.

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
