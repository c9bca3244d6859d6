"""Pages are up to date: figures and tables are those of the results, code blocks run and print what is shown."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import coassoc

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
make_pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_pages)
PAGES = make_pages.all_pages()
WITH_BLOCKS = [page for page in PAGES if make_pages.blocks(page.read_text())]

# a number with a unit, outside of code and of generated text
TYPED = re.compile(r"\d ?(?:×(?! ?\d)|%|[mnµ]?s\b|seconds\b|[kMG]B\b|points?\b|times\b)")
NOT_PROSE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->.*?<!--/-->|`[^`\n]*`|^    .*?$", re.S | re.M)
# what looks like a measurement and is none: settings of an experiment, limits, constants, arithmetic
DEFINED = re.compile(
    "samples of 80 %|k = 3 on 80 %|30 % of the labels replaced|2 GB of codes|budget of 1 GB|95 % bootstrap|5 % of n / k"
    "|95 % interval|90 % quantile|cluster of 3 %|200 times the|more than 10 MB|limited to 512 MB|80 GB|22.3 GB"
    "|differ by 100 points|more than 1.5 points|within 3 points|less than 4 times"
)


def test_figures_and_tables_are_those_of_the_results():
    assert sum(len(make_pages.MARK.findall(page.read_text())) for page in PAGES) > 100
    for page in PAGES:
        text = page.read_text()
        assert not re.search(r"^\s*(- )?<!--fig", text, re.M), "a line that begins with a mark is raw HTML in Markdown"
        typed = TYPED.search(DEFINED.sub("", NOT_PROSE.sub("", text)))
        assert not typed, f"{page.name} {typed}: make it a figure (docs/results/README.md), or add it to DEFINED"
        if page.name == "command-line.md" and sys.version_info[:2] != (3, 11):
            continue  # argparse words its help differently from version to version
        assert make_pages.fill(text) == text, f"{page.name} is out of date: run python docs/make_pages.py"


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_as_written(page, tmp_path):
    text = page.read_text()
    assert make_pages.run_blocks(text, tmp_path) == text, "run python docs/make_pages.py --run"
    assert {"README.md", "tutorial.md", "index.md"} <= {page.name for page in WITH_BLOCKS}


def test_pages_for_users_have_at_most_900_words():
    contents = (ROOT / "docs" / "contents.inc").read_text(encoding="utf-8")
    shelves = dict(re.findall(r":caption: (\w+)\n\n(.*?)```", contents, re.S))
    assert list(shelves) == ["Start", "Tasks", "Reference", "Background"]
    pages = [name for shelf in ("Start", "Tasks") for name in shelves[shelf].split() if name != "gallery/index"]
    lengths = {name: len((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split()) for name in pages}
    assert not {name: words for name, words in lengths.items() if words > 900}


def test_links_between_files_of_the_repository_exist():
    notes = ROOT / "benchmarks"
    for page in [*PAGES, notes / "README.md", ROOT / "docs" / "results" / "README.md", ROOT / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([\w./-]+?)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"


def test_every_axiom_on_its_page_has_its_test():
    text = (ROOT / "tests" / "consensus" / "auto" / "test_axioms.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "axioms.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(test_\w+)`", page)) == set(re.findall(r"^def (test_\w+)", text, re.M))


def test_ci_runs_the_commands_of_the_readme():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    tests = [line for line in readme.splitlines() if line.startswith("python3 -m venv") and "pytest" in line]
    assert len(tests) == 1 and tests[0] in ci.splitlines()


@pytest.mark.parametrize("name", [name for name in coassoc.__all__ if name not in ("__version__", "engines")])
def test_public_names_are_in_the_reference_and_have_a_docstring(name):
    text = (ROOT / "docs" / "api.md").read_text()
    assert re.search(rf"^\s+{re.escape(name)}$", text, re.M), f"{name} is not in docs/api.md"
    assert (getattr(coassoc, name).__doc__ or "").strip()


def test_every_promise_of_the_security_page_names_its_test():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 20
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {test}"
    promises = [line for line in re.split(r"\n(?=- |#|\n)", text.partition("## Reading")[2]) if line.startswith("- ")]
    assert all("`tests/" in promise for promise in promises)
