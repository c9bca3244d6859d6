"""Every public name and every command is documented."""

import re
from pathlib import Path

import pytest

import coassoc
from coassoc import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", [name for name in coassoc.__all__ if name not in ("__version__", "engines")])
def test_public_names_are_in_the_reference_and_have_a_docstring(name):
    assert re.search(rf"^\s+{re.escape(name)}$", (DOCS / "api.md").read_text(), re.M), f"{name} is not in docs/api.md"
    assert (getattr(coassoc, name).__doc__ or "").strip()


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_commands_and_their_options_are_documented_with_an_example(command):
    page = (DOCS / "command-line.md").read_text()
    assert f"## coassoc {command}" in page
    section = page.split(f"## coassoc {command}\n")[1].split("\n## ")[0]
    parser = cli.command_parser(command, cli.load(command))
    options = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    missing = [option for option in options if option not in section and option not in ("--help", "--debug")]
    assert not missing, f"docs/command-line.md does not mention {missing} of coassoc {command}"
    assert f"coassoc {command}" in (parser.epilog or ""), "the help has no example"
