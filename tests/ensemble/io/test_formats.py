"""A format is one module and one line (CONTRIBUTING.md, Adding a file format): everything else finds it there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble import StoredEnsemble
from coassoc.ensemble.io import formats
from ensemble.io import plugin


@pytest.fixture
def added(tmp_path, monkeypatch):
    plugin.install(monkeypatch, tmp_path / "site")
    yield tmp_path
    monkeypatch.undo()
    plugin.forget()


def test_a_new_format_is_seen_everywhere(added, capsys):
    rng = np.random.default_rng(0)
    table = rng.integers(3, size=(60, 4))
    ensemble = ca.Ensemble.from_partitions(list(table.T), names=list("abcd"))
    ensemble.item_ids = np.array([f"i{i}" for i in range(60)], dtype=object)
    path = added / "labels.jt"
    ca.write_ensemble(path, ensemble)
    assert json.loads(path.read_bytes()[4:])["a"] == table[:, 0].tolist()
    assert formats.table_format(path).name == "jsontable" and formats.format_names()[-1] == "jsontable"
    renamed = path.rename(added / "labels")  # known by its first bytes
    for found in (ca.Ensemble(renamed), ca.read_ensemble(renamed, format="jsontable")):
        assert (found.codes == ensemble.codes).all()
        assert found.item_ids.tolist() == ensemble.item_ids.tolist()
    assert isinstance(ca.Ensemble(renamed), StoredEnsemble)
    ca.write_labels(added / "alone.jt", [0, 1], ids=["x", "y"])
    assert ca.read_ensemble(added / "alone.jt").item_ids.tolist() == ["x", "y"]

    renamed.rename(path)
    labels = []
    for extra in (["--format", "jsontable"], ["--memory", "1MB"]):
        out = added / "out.jt"
        assert main(["fit", str(path), "-k", "3", "-m", "kmeans", "-o", str(out), "--force", *extra]) == 0
        labels.append(json.loads(out.read_bytes()[4:])["consensus"])
        assert json.loads(out.read_bytes()[4:])["id"] == ensemble.item_ids.tolist()
    assert labels[0] == labels[1]
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    assert "jsontable" in capsys.readouterr().out

    folder = added / "parts"
    folder.mkdir()
    for name in ("0.jt", "1.jt"):
        ca.write_ensemble(folder / name, ensemble)
    assert ca.Ensemble(folder).n_samples == 120


def test_every_format_is_on_the_page_about_files():
    page = Path(__file__).parents[3] / "docs" / "files.md"
    if not page.exists():
        pytest.skip("the documentation is not beside the tests")
    text = page.read_text()
    for known in formats.formats():
        assert all(f"`{suffix}`" in text for suffix in known.suffixes), known.name


def test_an_unknown_format_is_refused_with_the_list(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n0,1\n")
    with pytest.raises(ValueError, match=r"format must be one of \('csv', 'tsv', 'parquet', 'arrow', .*\), got 'ods'"):
        ca.read_ensemble(tmp_path / "x.csv", format="ods")
