"""NPY and NPZ files."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from coassoc.ensemble import StoredEnsemble
from oracle import label_rows as rows

pytestmark = pytest.mark.usefixtures("here")


def test_archives_that_contradict_themselves_are_refused(tmp_path):
    good = {"codes": np.array([[0, 0], [1, 0], [1, 1]], np.uint8), "n_clusters": np.array([2, 2])}
    path = tmp_path / "t.npz"
    np.savez(path, **good, names=["a", "b"], item_ids=["x", "y", "z"])
    assert ca.read_ensemble(path).item_ids.tolist() == ["x", "y", "z"]
    for extra, message in (
        ({"names": ["a", "a"]}, "different names"),
        ({"names": ["a"]}, "different names"),
        ({"item_ids": ["x", "y"]}, "different lengths"),
        ({"classes": ["x", "y"]}, "different lengths"),
        ({"labels": np.array(["5"])}, "without a label"),
    ):
        np.savez(path, **good, **extra)
        for read in (ca.read_ensemble, lambda p: ca.Ensemble(p).codes):
            with pytest.raises(ValueError, match=message):
                read(path)


def test_npz_of_named_vectors_is_one_partition_each(tmp_path):
    np.savez(tmp_path / "v.npz", first=[0, 0, 1], second=["x", "y", "y"])
    assert rows(ca.read_ensemble(tmp_path / "v.npz")) == [(0, "x"), (0, "y"), (1, "y")]


def test_a_column_of_an_npy_file_may_hold_ids(tmp_path):
    pytest.importorskip("pyarrow")
    np.save(tmp_path / "t.npy", np.array([[7, 0, 1], [8, 0, 1], [9, 1, 0]]))
    for read in (ca.read_ensemble, StoredEnsemble):
        found = read(tmp_path / "t.npy", id_column="0", class_column="2")
        assert found.item_ids.tolist() == [7, 8, 9] and found.classes.tolist() == [1, 1, 0]
        assert rows(found) == [(0,), (0,), (1,)]
