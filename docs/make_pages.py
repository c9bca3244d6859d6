"""Write what is generated in README.md and docs/: figures, tables, and the output of code blocks.

    python docs/make_pages.py              # figures and tables
    python docs/make_pages.py --run        # also the ```output blocks: runs every code block of every page

In a page, <!--fig:KEY-->...<!--/--> holds a figure, computed by docs/figures.py if there is a dot in its key, else
taken from docs/results/figures.json. <!--table:NAME-->...<!--/--> holds one of the tables below. To add a figure that
was measured once, add it to the JSON file with its unit, its command and its date.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "docs")]

import figures as computed  # noqa: E402  (docs/figures.py)

import coassoc  # noqa: E402
from benchmarks import answers, communities, json_lines, sizes  # noqa: E402
from benchmarks.paper.claims import claims_markdown  # noqa: E402
from benchmarks.paper.store import read_rows  # noqa: E402
from benchmarks.paper.tables import gaps_markdown  # noqa: E402
from benchmarks.speed import table as speed_table  # noqa: E402
from coassoc import cli  # noqa: E402

RESULTS = ROOT / "docs" / "results"
MARK = re.compile(r"<!--(fig|table):([^>]+?)-->(.*?)<!--/-->", re.S)
BLOCK = re.compile(r"^```(python|sh|output)\n(.*?)^```$", re.S | re.M)
SET_UP = ("python3 -m venv", "pip install", "git clone")  # commands that CI runs itself
BY_JOURNEYS = "from bertopic"  # pages with a package that only tests/journeys use
WIDTH = {"COLUMNS": "100"}
TIMES = re.compile(r"\d[\d.,]* (ms|s)\b|─+|\s+")  # what may differ between two runs of a block


def all_pages() -> list[Path]:
    """The README and the pages written by hand."""
    found = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks" / "notes").glob("*.md")]
    made = ("_build", "gallery", "generated", "results")
    return [ROOT / "README.md", *sorted(page for page in found if not set(made) & set(page.parts))]


# -- figures and tables --------------------------------------------------------------------------------------------


def fill(text: str) -> str:
    """`text` with its figures and tables as the results have them."""
    return MARK.sub(lambda mark: f"<!--{mark[1]}:{mark[2]}-->{_generated(mark[1], mark[2])}<!--/-->", text)


def _generated(kind: str, name: str) -> str:
    if kind == "fig" and "." in name:
        source, *words = name.split(".")
        return computed.FIGURES[source](*words)
    if kind == "fig":
        return computed.measured(name)
    return f"\n{_table(name)}\n"


def _table(name: str) -> str:
    if name == "commands":
        with mock.patch.dict(os.environ, WIDTH):
            helps = {name: cli.command_parser(name).format_help() for name in cli.COMMANDS}
        return "\n".join(f"## coassoc {name}\n\n```text\n{text.rstrip()}\n```\n" for name, text in helps.items())
    if name in ("gaps", "claims"):
        text = {"gaps": gaps_markdown, "claims": claims_markdown}[name](read_rows(RESULTS / "rows.jsonl.gz")[0])
        return text.split("\n\n", 1)[1]  # without its heading
    if name == "answers":
        return _answers()
    if name == "communities":
        return communities.table(json_lines.read(RESULTS / "communities.jsonl")) + "\n"
    if name in ("sizes", "reduced"):
        return getattr(sizes, f"{name}_table")(json_lines.read(RESULTS / "sizes.jsonl"))
    if name.startswith("speed"):
        text = speed_table(_read(name)).split("\n", 2)[2]
        return re.sub(r"^## n = (\d+)$", lambda m: f"**{int(m[1]):,} items**", text, flags=re.M).replace("## ", "#### ")
    file, _, part = name.partition("-")  # figures-speed, gpu-fits
    if file in computed.TABLES:
        return computed.TABLES[file](part)
    group = _read(file)[part]
    if file == "figures":
        cells = [(of["what"], computed.with_unit(of)) for of in group["figures"].values()]
        source = f"`{group['command']}`, {group['machine']}, {group['date']}."
        return f"{computed.markdown(('measured', 'figure'), cells)}\n{source}\n"
    return computed.markdown(group["columns"], group["rows"])


def _read(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _answers() -> str:
    """Mean of each score over the data sets, and on how many sets a method comes first."""
    rows = json_lines.read(RESULTS / "answers.jsonl.gz")
    rows += answers.read_paper_rows(RESULTS / "rows.jsonl.gz", rows)
    columns = {}
    for score, against in (("density", "ensemble"), ("nmi", "ensemble"), ("classes", "classes")):
        found = answers.by_set([row for row in rows if row["against"] == against], score)
        means = {s: {m: np.mean(list(runs.values())) for m, runs in of.items()} for s, of in found.items()}
        first = [max(of, key=of.get) for of in means.values()]
        every = {m for of in means.values() for m in of}
        columns[score] = {m: (np.mean([of[m] for of in means.values() if m in of]), first.count(m)) for m in every}
    cells = [
        [m, *("" if m not in of else f"{of[m][0]:.1f} ({of[m][1]})" for of in columns.values())]
        for m in answers.METHODS
        if m in columns["density"]
    ]
    return computed.markdown(("method", "density", "agreement with the ensemble", "agreement with true classes"), cells)


# -- code blocks ---------------------------------------------------------------------------------------------------


def blocks(text: str) -> list[tuple[str, str]]:
    """Kind and text of the blocks that are run with the pages."""
    if BY_JOURNEYS in text:
        return []
    return [(kind, body) for kind, body in BLOCK.findall(text) if not any(word in body for word in SET_UP)]


def run_blocks(text: str, folder: Path) -> str:
    """`text` after its blocks were run in `folder`, in their order, with what they print in the ```output blocks."""
    names: dict = {"__name__": "__page__"}
    printed = ""

    def run(block: re.Match) -> str:
        nonlocal printed
        kind, body = block.groups()
        if kind == "output":
            same = TIMES.sub("", printed) == TIMES.sub("", body)
            return block[0] if same else f"```output\n{printed.strip(chr(10))}\n```"
        if not any(word in body for word in SET_UP):
            printed = _run_python(body, names) if kind == "python" else _run_shell(body)
        return block[0]

    with contextlib.chdir(folder):
        _write_labels()
        return BLOCK.sub(run, text)


def _run_python(body: str, names: dict) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(body, "page", "exec"), names)
    return out.getvalue()


def _run_shell(body: str) -> str:
    commands = [words for line in body.splitlines() if (words := shlex.split(line, comments=True))]
    if all(words[0] == "coassoc" and not set(words) & {"|", ">", "<", "&&", "\\"} for words in commands):
        with contextlib.redirect_stdout(io.StringIO()) as out, mock.patch.dict(os.environ, WIDTH):
            assert all(cli.main(words[1:]) == 0 for words in commands), body  # no shell, no second interpreter
        return out.getvalue()
    source = str(Path(coassoc.__file__).resolve().parents[1])
    script = f'coassoc() {{ "{sys.executable}" -m coassoc "$@"; }}\nset -e\n{body}'
    environment = {**os.environ, **WIDTH, "PYTHONPATH": source, "MPLBACKEND": "Agg"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _write_labels() -> None:
    """The labels.csv that pages take for granted: five clusterings of 200 items, with an id column."""
    rng = np.random.default_rng(0)
    truth = rng.integers(8, size=200)
    columns = [np.where(rng.random(200) < 0.9, truth, rng.integers(8, size=200)) for _ in range(5)]
    lines = ["item,a,b,c,d,e"] + [f"item{i}," + ",".join(map(str, row)) for i, row in enumerate(zip(*columns))]
    Path("labels.csv").write_text("\n".join(lines) + "\n")


def main() -> None:
    for page in all_pages():
        text = fill(page.read_text(encoding="utf-8"))
        if "--run" in sys.argv[1:] and blocks(text):
            with tempfile.TemporaryDirectory() as folder:
                text = run_blocks(text, Path(folder))
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print("wrote", page.relative_to(ROOT))


if __name__ == "__main__":
    main()
