"""Excel workbooks, and Feather files written by pandas."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble import StoredEnsemble

RNG = np.random.default_rng(0)
TRUTH = RNG.integers(1, 5, size=120)
POOL = np.column_stack([np.where(RNG.random(120) < 0.8, TRUTH, RNG.integers(1, 7, 120)) for _ in range(8)])


@pytest.mark.parametrize("suffix", ["xlsx", "feather"])
def test_frames_written_by_pandas(tmp_path, suffix, capsys):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl" if suffix == "xlsx" else "pyarrow")
    frame = pd.DataFrame(POOL, columns=[f"run {j}" for j in range(8)])
    frame.insert(0, "id", [f"c{i}" for i in range(120)])
    frame["run 7"] = np.where(TRUTH == 1, None, [f"g{t}" for t in TRUTH])
    frame["age"], frame["truth"] = RNG.normal(40, 9, size=120), TRUTH
    path = tmp_path / f"t.{suffix}"
    frame.to_excel(path, index=False) if suffix == "xlsx" else frame.to_feather(path)
    expected = ca.Ensemble(frame[[f"run {j}" for j in range(8)]])
    for read in (ca.read_ensemble, StoredEnsemble):
        with pytest.warns(UserWarning, match=r"left out 'age' \(measurements\)"):
            found = read(path)
        assert (found.codes == expected.codes).all() and found.names == expected.names
        assert found.item_ids.tolist() == frame["id"].tolist() and found.classes.tolist() == TRUTH.tolist()
    out = tmp_path / f"out.{suffix}"
    assert main(["fit", str(path), "--columns", "run*", "-k", "4", "-o", str(out), "--confidence"]) == 0
    written = pd.read_excel(out) if suffix == "xlsx" else pd.read_feather(out)
    assert written["id"].tolist() == frame["id"].tolist() and {"consensus", "consensus_confidence"} <= set(written)


def test_workbooks_and_archives_are_told_apart(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], [0, "x"], [1, "NA"], [0, None], [1, "x"]):
        book.active.append(row)
    book.create_sheet("more")
    book.save(tmp_path / "t.bin")
    with pytest.warns(UserWarning, match="2 sheets; 'Sheet', the first, is read"):
        found = ca.read_ensemble(tmp_path / "t.bin")
    assert found.partition(0).tolist() == [0, 1, 0, 1] and found.partition(1).tolist() == [0, -1, -1, 0]
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("a.txt", "0")
    with pytest.raises(ValueError, match="holds something else"):
        ca.read_ensemble(tmp_path / "t.xlsx")
