"""Every shell and Python block of the README and the docs runs as written, page by page, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.S | re.M)
# commands that set up an environment: CI runs these itself
SET_UP = ("python3 -m venv", "pip install", "git clone")


def _pages():
    yield ROOT / "README.md"
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if "_build" not in page.parts and "results" not in page.parts:
            yield page


def _blocks(page):
    for kind, text in BLOCK.findall(page.read_text()):
        if not any(word in text for word in SET_UP):
            yield kind, text


PAGES = [page for page in _pages() if list(_blocks(page))]


def test_there_are_pages_with_blocks():
    assert {"README.md", "tutorial.md", "index.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_as_written(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _some_labels(tmp_path)
    names: dict = {"__name__": "__page__"}
    for kind, text in _blocks(page):
        if kind == "python":
            exec(compile(text, f"{page.name}", "exec"), names)
        else:
            script = f'coassoc() {{ "{sys.executable}" -m coassoc "$@"; }}\nset -e\n{text}'
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=_environment())
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert names


def _environment():
    import coassoc

    source = str(Path(coassoc.__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": source, "MPLBACKEND": "Agg"}


def _some_labels(folder):
    """The labels.csv that pages take for granted: five clusterings of 200 items, with an id column."""
    rng = np.random.default_rng(0)
    truth = rng.integers(8, size=200)
    columns = [np.where(rng.random(200) < 0.9, truth, rng.integers(8, size=200)) for _ in range(5)]
    lines = ["item,a,b,c,d,e"] + [f"item{i}," + ",".join(map(str, row)) for i, row in enumerate(zip(*columns))]
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
