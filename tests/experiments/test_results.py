"""The committed results: the tables are those of the committed rows, and they say what the report says."""

from pathlib import Path

import pytest

from coassoc.experiments.claims import claims_markdown
from coassoc.experiments.methods import PAPER_METHODS
from coassoc.experiments.protocol import PAPER_SETS
from coassoc.experiments.store import read_rows
from coassoc.experiments.tables import gaps, gaps_markdown, make_tables, to_csv, to_latex, to_markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"
RESULTS = DOCS / "results"
pytestmark = pytest.mark.skipif(not (RESULTS / "rows.jsonl.gz").is_file(), reason="no results in this installation")


@pytest.fixture(scope="module")
def rows():
    return read_rows(RESULTS / "rows.jsonl.gz")[0]


def test_full_protocol_was_run_on_the_sets_at_hand(rows):
    found, ensembles = {}, {}
    for row in rows:
        assert not row.get("error")
        found.setdefault((row["dataset"], row["method"]), set()).add(row["repeat"])
        ensembles.setdefault((row["dataset"], row["repeat"]), set()).add(row["ensemble"])
    assert all(len(of) == 1 for of in ensembles.values())  # each served every method
    for dataset in PAPER_SETS:
        for method in ("Max", "Mean", *PAPER_METHODS):
            assert found[dataset, method] == set(range(20)), (dataset, method)


def test_tables_are_those_of_the_rows(rows):
    tables = make_tables(rows)
    assert (RESULTS / "tables.csv").read_text() == to_csv(tables)
    assert (RESULTS / "tables.tex").read_text() == "\n".join(map(to_latex, tables))
    text = (RESULTS / "tables.md").read_text()
    for part in (*map(to_markdown, tables), gaps_markdown(rows), claims_markdown(rows)):
        assert part in text


def test_gaps_to_the_paper_are_within_one_and_a_half_points(rows):
    for gap in gaps(rows, "nmi", ["Max", "Mean", "KM", "H-KM", "R-AL", "E-AL", "CSPA", "SEC"]):
        assert gap.mean_absolute <= 1.5, gap
