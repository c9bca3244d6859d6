"""The row store: whole rows only, earlier rows kept whatever happens."""

import os
import random

import pytest

from coassoc.experiments.store import RowStore, StoreError, only_writer, row_key


def make_row(repeat, method="KM", **more):
    row = {
        "dataset": "glass", "data": "abc", "scaling": "raw", "seed": 0, "n_partitions": 20, "n_init": 10,
        "n_clusters": 20, "repeat": repeat, "method": method, "spec": method, "nmi": 0.5 + repeat / 100,
        "density": 0.25,
    }  # fmt: skip
    return row | more


def test_rows_come_back_as_they_went_in(tmp_path):
    store = RowStore(tmp_path / "rows.jsonl")
    assert store.read() == []
    rows = [make_row(i) for i in range(5)]
    for row in rows:
        store.append(row)
    assert store.read() == rows and store.complaints == []


def test_half_a_last_line_is_reported_then_cut_off_by_mend(tmp_path):
    store = RowStore(tmp_path / "rows.jsonl")
    store.append(make_row(0))
    store.append(make_row(1))
    whole = store.path.read_bytes()
    for cut in random.Random(0).sample(range(1, len(whole) // 2), 10):
        store.path.write_bytes(whole[:-cut])
        assert store.read() == [make_row(0)]
        assert "cut short" in store.complaints[0]
        store.mend()
        store.append(make_row(2))
        assert store.read() == [make_row(0), make_row(2)] and store.complaints == []


@pytest.mark.parametrize("bad", ["not json", "[1, 2]", '{"dataset": "glass"}', "\x00\x00", '{"a": '])
def test_corrupt_line_is_named_and_the_others_are_kept(tmp_path, bad):
    store = RowStore(tmp_path / "rows.jsonl")
    store.append(make_row(0))
    with open(store.path, "a") as handle:
        handle.write(bad + "\n")
    store.append(make_row(1))
    before = store.path.read_bytes()
    assert store.read() == [make_row(0), make_row(1)]
    assert len(store.complaints) == 1 and "line 2" in store.complaints[0]
    assert store.path.read_bytes() == before


def test_first_row_of_a_key_wins_and_a_result_beats_a_failure(tmp_path):
    store = RowStore(tmp_path / "rows.jsonl")
    store.append(make_row(0, nmi=None, density=None, error="broken"))
    store.append(make_row(0, nmi=0.7))
    store.append(make_row(0, nmi=0.9))
    assert [row["nmi"] for row in store.read()] == [0.7]


def test_key_tells_runs_apart():
    assert row_key(make_row(0)) == row_key(make_row(0, nmi=0.1, seconds=3))
    for name, value in [
        ("repeat", 1),
        ("method", "SEC"),
        ("seed", 1),
        ("data", "x"),
        ("scaling", "z"),
        ("spec", "m:E"),
    ]:
        assert row_key(make_row(0)) != row_key(make_row(0) | {name: value})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_full_disk_is_told(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"cannot be written: No space left.*earlier rows are kept"):
        RowStore(path).append(make_row(0))


def test_short_write_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    store = RowStore(tmp_path / "rows.jsonl")
    store.append(make_row(0))
    before = store.path.read_bytes()
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:20]))
    with pytest.raises(StoreError, match="No space left"):
        store.append(make_row(1))
    monkeypatch.undo()
    assert store.path.read_bytes() == before


def test_unreadable_store_is_told(tmp_path):
    with pytest.raises(StoreError, match="cannot be read"):
        RowStore(tmp_path).read()
    with pytest.raises(StoreError, match="cannot be opened"):
        RowStore(tmp_path / "absent" / "rows.jsonl").append(make_row(0))


def test_second_writer_is_refused(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "rows.jsonl"
    with only_writer(path), pytest.raises(StoreError, match="another run is writing"), only_writer(path):
        pass
    with only_writer(path):
        pass


def test_nan_is_never_stored(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        RowStore(tmp_path / "rows.jsonl").append(make_row(0, nmi=float("nan")))
    assert not (tmp_path / "rows.jsonl").exists()
