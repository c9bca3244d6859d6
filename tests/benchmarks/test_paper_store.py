"""The stored rows: whole rows only, earlier rows kept whatever happens."""

import gzip

import pytest

from benchmarks.paper.store import append_row, known_rows, read_rows


def make_row(repeat, **more):
    row = {
        "dataset": "glass", "data": "abc", "scaling": "raw", "seed": 0, "n_partitions": 20, "n_init": 10,
        "n_clusters": 20, "repeat": repeat, "method": "KM", "spec": "KM", "nmi": 0.5 + repeat / 100, "density": 0.25,
    }  # fmt: skip
    return row | more


def test_rows_come_back_as_they_went_in_also_compressed(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [make_row(i) for i in range(5)]
    for row in rows:
        append_row(path, row)
    assert read_rows(path) == (rows, [])
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read_rows(tmp_path / "rows.jsonl.gz") == (rows, [])


def test_half_a_last_line_is_reported_then_cut_off(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_row(path, make_row(0))
    append_row(path, make_row(1))
    path.write_bytes(path.read_bytes()[:-7])
    with known_rows(path) as (rows, problems):
        assert rows == [make_row(0)] and "cut short" in problems[0]
        append_row(path, make_row(2))
    assert read_rows(path) == ([make_row(0), make_row(2)], [])


@pytest.mark.parametrize("bad", ["not json", "[1, 2]", '{"dataset": "glass"}'])
def test_corrupt_line_is_named_and_the_others_are_kept(tmp_path, bad):
    path = tmp_path / "rows.jsonl"
    append_row(path, make_row(0))
    with open(path, "a") as handle:
        handle.write(bad + "\n")
    append_row(path, make_row(1))
    rows, problems = read_rows(path)
    assert rows == [make_row(0), make_row(1)] and len(problems) == 1 and "line 2" in problems[0]


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
