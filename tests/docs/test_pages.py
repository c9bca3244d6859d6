"""Pages are up to date: figures and tables are those of the results, code blocks run and print what is shown."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
make_pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_pages)
PAGES = make_pages.all_pages()
WITH_BLOCKS = [page for page in PAGES if make_pages.blocks(page.read_text())]


def test_figures_and_tables_are_those_of_the_results():
    assert sum(len(make_pages.MARK.findall(page.read_text())) for page in PAGES) > 10
    for page in PAGES:
        if page.name == "command-line.md" and sys.version_info[:2] != (3, 11):
            continue  # argparse words its help differently from version to version
        text = page.read_text()
        assert make_pages.fill(text) == text, f"{page.name} is out of date: run python docs/make_pages.py"


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_as_written(page, tmp_path):
    text = page.read_text()
    assert make_pages.run_blocks(text, tmp_path) == text, "run python docs/make_pages.py --run"


def test_the_first_pages_have_blocks():
    assert {"README.md", "tutorial.md", "index.md"} <= {page.name for page in WITH_BLOCKS}
