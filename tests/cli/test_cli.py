"""The command line as a program: help, exit codes, one-sentence errors."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coassoc.cli import COMMANDS, command_parser, load, main, printable, say, say_json, sentence


def coassoc(*words: str, **settings):
    return subprocess.run([sys.executable, "-m", "coassoc", *words], capture_output=True, text=True, **settings)


def test_help_lists_every_command_and_imports_nothing_heavy():
    done = coassoc("--help")
    assert done.returncode == 0
    for name, text in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", done.stdout, re.MULTILINE)
    script = "import atexit, sys, coassoc.cli as c; atexit.register(lambda: print(*sys.modules)); c.main(['--help'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "coassoc.cli" in loaded and not {"numpy", "scipy", "sklearn", "pandas", "matplotlib"} & {*loaded}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_documents_itself_with_examples_that_parse(name, capsys):
    parser = command_parser(name)
    for action in parser._actions:
        assert action.help, f"coassoc {name}: {action.option_strings or action.dest} has no help"
    lines = re.findall(rf"^  (?:.*\| )?coassoc {name}\b(.*)$", load(name).__doc__, re.MULTILINE)
    assert lines, "an example to copy and paste"
    for line in lines:
        parser.parse_args(shlex.split(line.split(" > ")[0], comments=True))
    for words in ([name, "--help"], ["help", name]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("example", "--json", "--debug"))


def test_no_command_is_a_usage_error_with_help(capsys):
    assert main([]) == 2
    assert "commands (each has --help" in capsys.readouterr().err
    for option in ("-V", "--version"):
        with pytest.raises(SystemExit) as stop:
            main([option])
        assert stop.value.code == 0
        assert re.match(r"coassoc \S+\n", capsys.readouterr().out)


def test_errors_have_a_traceback_only_with_debug(tmp_path, capsys):
    assert main(["fit", str(tmp_path / "no.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(FileNotFoundError):
        main(["fit", str(tmp_path / "no.csv"), "--debug"])


def test_a_fault_of_ours_says_so(monkeypatch, capsys):
    def broken(args):
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr(load("compare"), "run", broken)
    assert main(["compare", "labels.csv"]) == 1
    said = capsys.readouterr().err
    assert "internal error, ZeroDivisionError: oh no" in said
    assert "--debug" in said


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(60_000)))
    command = f'"{sys.executable}" -m coassoc fit "{path}" -k 3 --engine numpy --n-init 1 -o - | head -1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == "a,b,consensus\n"
    assert "Traceback" not in done.stderr


def test_sentences_are_one_line():
    assert sentence(ValueError("two\n lines")) == "two lines"
    assert sentence(MemoryError()).startswith("not enough memory")
    assert "no permission" in sentence(PermissionError(13, "x", "a.csv"))
    assert sentence(OSError(28, "No space left on device", "a.csv")) == "'a.csv': No space left on device."
    assert sentence(OSError(22, "Invalid argument")).endswith("read or written: Invalid argument.")


def test_names_from_files_reach_the_terminal_escaped(tmp_path, capsys):
    """Escape sequences of 7 and of 8 bits, a bell, a change of direction, a line separator."""
    hostile = "\x1b[31mred\x9b31m\x07\u202e\u2028\x7f"
    assert printable(f"Zürich – {hostile}\n") == ("Zürich – \\u001b[31mred\\u009b31m\\u0007\\u202e\\u2028\\u007f\n")
    path = tmp_path / "labels.csv"
    rows = [f"{i % 3},{i % 3},{i % 2}" for i in range(30)]
    path.write_text("\n".join([f"{hostile},b,c".replace("\u2028", ""), *rows]) + "\n", newline="")
    for words in (["--columns", "zzz"], ["-k", "2", "--json"], ["-m", hostile], ["-o", "no\x1bwhere/x.csv"]):
        main(["fit", str(path), *words])
    main(["score", str(path), "--labels", "b"])
    main([hostile])
    told = capsys.readouterr()
    assert not set(told.out + told.err) & set("\x1b\x9b\x07\u202e\x7f")
    assert "no\\u001bwhere/x.csv cannot be written" in told.err
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    say("a – b", file=stream)
    assert stream.buffer.getvalue() == b"a \\u2013 b\n"


def test_json_has_no_nan(capsys):
    say_json({"a": np.float64("nan"), "b": [np.arange(2), np.float32(0.5)], "c": Path("x")}, indent=None)
    assert capsys.readouterr().out == '{"a": null, "b": [[0, 1], 0.5], "c": "x"}\n'
