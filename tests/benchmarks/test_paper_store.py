"""The stored rows: one for each run, and one writer. What a damaged file gives: test_paper_runner.py."""

import pytest

from benchmarks.paper.store import append_row, known_rows, read_rows


def make_row(repeat, **more):
    row = {
        "dataset": "glass", "data": "abc", "scaling": "raw", "seed": 0, "n_partitions": 20, "n_init": 10,
        "n_clusters": 20, "repeat": repeat, "method": "KM", "spec": "KM", "nmi": 0.5 + repeat / 100, "density": 0.25,
    }  # fmt: skip
    return row | more


def test_one_row_per_run_and_a_result_beats_a_failure(tmp_path):
    path = tmp_path / "rows.jsonl"
    same = [make_row(0, nmi=None, density=None, error="broken"), make_row(0, nmi=0.7), make_row(0, nmi=0.9, seconds=3)]
    others = [make_row(0) | change for change in ({"repeat": 1}, {"method": "SEC"}, {"data": "x"})]
    for row in same + others:
        append_row(path, row)
    assert read_rows(path) == ([same[1], *others], [])


def test_second_writer_is_refused(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "rows.jsonl"
    with known_rows(path), pytest.raises(ValueError, match="another run is writing"), known_rows(path):
        pass
    with known_rows(path):
        pass
