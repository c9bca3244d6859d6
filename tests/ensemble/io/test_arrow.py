"""Parquet, Arrow and Feather files."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from oracle import label_rows as rows


def test_parquet_dictionaries_and_row_groups(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    words = ["b", "a", None, "c", "a", "b"]
    table = pa.table({"w": pa.array(words).dictionary_encode(), "n": pa.array([1, None, -1, 2, 2, 1])})
    pq.write_table(table, tmp_path / "g.parquet", row_group_size=2)
    read = ca.read_ensemble(tmp_path / "g.parquet")
    assert rows(read) == list(zip(words, [1, None, None, 2, 2, 1]))
    ca.write_labels(tmp_path / "out.parquet", np.arange(6), source=tmp_path / "g.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column("consensus").to_pylist() == list(range(6))
    assert out.column("w").to_pylist() == words
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups == 3


def test_texts_of_many_batches_of_a_row_group(tmp_path, monkeypatch):
    """pyarrow gives each batch the texts of all earlier ones too."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("coassoc.ensemble.io.arrow._BATCH_CELLS", 1)
    ids = [f"i{i}" for i in range(5000)]
    words = [None if i % 7 == 0 else f"w{i % 700}" for i in range(5000)]
    pq.write_table(pa.table({"id": ids, "a": words}), tmp_path / "t.parquet")
    read = ca.read_ensemble(tmp_path / "t.parquet", trusted=True)
    assert read.item_ids.tolist() == ids
    assert [row[0] for row in rows(read)] == words
