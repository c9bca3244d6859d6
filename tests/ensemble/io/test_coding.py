"""Pieces of a text file, read alone as on a cluster, give the codes of the whole."""

from __future__ import annotations

import pickle

import pytest

import coassoc as ca
from coassoc.ensemble import StoredEnsemble


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_pieces_of_text_are_cut_between_rows(tmp_path, monkeypatch, eol):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("coassoc.ensemble.io.text._BLOCK_BYTES", 500)
    rows = [f'"x{eol}{i}";{i % 3};w{i % 4}' for i in range(300)]
    (tmp_path / "t.csv").write_bytes(eol.join(["id;a;b", *rows, "", ""]).encode())
    expected, stored = ca.read_ensemble(tmp_path / "t.csv"), StoredEnsemble(tmp_path / "t.csv")
    blocks = pickle.loads(pickle.dumps(stored.source.blocks))
    assert len(blocks) > 5 and sum(block.rows for block in blocks) == 300
    sizes, _ = stored.source.tally(blocks, stored.names, "negative")
    assert sizes == [block.rows for block in blocks]
    assert (stored.scan().codes_of_blocks(blocks) == expected.codes).all()
    assert stored.item_ids.tolist() == expected.item_ids.tolist() == [f"x{eol}{i}" for i in range(300)]
