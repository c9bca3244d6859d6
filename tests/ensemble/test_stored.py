"""Ensembles in files and collections: the codes, sizes and labels of the same table in memory."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import coassoc as ca
from coassoc.ensemble import StoredEnsemble

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def mixed_frame(n=900, seed=0):
    rng = np.random.default_rng(seed)
    c = np.where(rng.random(n) < 0.2, np.nan, rng.integers(9, size=n))
    return pd.DataFrame(
        {
            "a": rng.integers(-1, 6, size=n),
            "b": rng.choice(list("xyzq"), size=n),
            "c": c,
            "d": rng.integers(300, size=n),  # needs two bytes
            "e": pd.array(np.where(rng.random(n) < 0.1, None, rng.integers(3, size=n)), dtype="Int64"),
        }
    )


def assert_same_ensemble(found, expected):
    assert found.codes.dtype == expected.codes.dtype
    assert (found.codes == expected.codes).all()
    assert (found.n_clusters == expected.n_clusters).all() and (found.offsets == expected.offsets).all()
    assert (found.sizes == expected.sizes).all() and found.names == expected.names
    assert found.has_missing == expected.has_missing
    assert [c.tolist() for c in found.categories] == [c.tolist() for c in expected.categories]
    assert (found.n_samples, found.n_partitions) == (expected.n_samples, expected.n_partitions)


@pytest.fixture
def folder(tmp_path):
    """A table in three Parquet files of several row groups."""
    frame = mixed_frame()
    for i in range(3):
        frame.iloc[300 * i : 300 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet", row_group_size=70, index=False)
    return tmp_path


@pytest.mark.parametrize("missing", ["negative", "nan", "cluster"])
def test_parquet_folder_gives_the_codes_of_the_table(folder, missing):
    stored = ca.Ensemble(folder, missing=missing)
    assert isinstance(stored, StoredEnsemble) and "900 items" in repr(stored)
    assert_same_ensemble(stored, ca.Ensemble(mixed_frame(), missing=missing))
    assert isinstance(stored.codes, np.memmap)
    assert ca.Ensemble(stored).codes is stored.codes
    chosen = StoredEnsemble(folder, columns=["d", "b"], missing=missing)
    assert_same_ensemble(chosen, ca.Ensemble(mixed_frame()[["d", "b"]], missing=missing))


@pytest.mark.parametrize("make", [np.ascontiguousarray, np.asfortranarray])
def test_npy_of_any_labels(tmp_path, make):
    table = np.random.default_rng(1).integers(-1, 5, size=(500, 4)) * 7
    table[[3, 77]] = -7
    np.save(tmp_path / "t.npy", make(table))
    stored = ca.Ensemble(tmp_path / "t.npy")
    assert_same_ensemble(stored, ca.Ensemble(table))
    assert stored.unlabelled().tolist() == ca.Ensemble(table).unlabelled().tolist()
    assert {3, 77} <= set(stored.unlabelled().tolist())


def test_npy_of_codes_is_mapped_as_it_is(tmp_path):
    table = np.random.default_rng(1).integers(5, size=(500, 4)).astype(np.uint8)
    np.save(tmp_path / "t.npy", table)
    stored = ca.Ensemble(tmp_path / "t.npy")
    assert_same_ensemble(stored, ca.Ensemble(table))
    assert str(stored.codes.filename).endswith("t.npy")
    assert isinstance(ca.read_ensemble(tmp_path / "t.npy").codes, np.memmap)
    assert (ca.Ensemble(tmp_path / "t.npy", columns=["2", "0"]).codes == table[:, [2, 0]]).all()


def test_fits_and_predictions_are_those_of_the_table(folder):
    km = ca.KMeansConsensus(4, n_init=2, random_state=0)
    expected = km.fit(mixed_frame())
    labels, new = expected.labels_.tolist(), expected.predict(mixed_frame(50, seed=9)).tolist()
    found = ca.KMeansConsensus(4, n_init=2, random_state=0).fit(folder)
    assert found.labels_.tolist() == labels
    assert found.predict(ca.Ensemble(mixed_frame(50, seed=9))).tolist() == new


def test_large_files_are_streamed_by_default(folder, monkeypatch):
    stored = ca.Ensemble(folder)
    assert ca.engines.resolve("auto", stored).name in ("native", "numpy")
    monkeypatch.setattr("coassoc.ensemble.stored.available_bytes", lambda: 1000)
    assert ca.engines.resolve("auto", stored).name == "stream"


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        ca.Ensemble(tmp_path / "absent.parquet")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match="no rows"):
        ca.Ensemble(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="folder without label files"):
        ca.Ensemble(tmp_path)
    pd.DataFrame({"a": [0, 1]}).to_parquet(tmp_path / "0.parquet")
    with pytest.raises(ValueError, match="singletons"):
        ca.Ensemble(tmp_path / "0.parquet", missing="singletons")
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(ca.Ensemble(tmp_path / "0.parquet"))
    pd.DataFrame({"b": [0, 1]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1.parquet has columns \['b'\]"):
        ca.Ensemble(tmp_path)
    pd.DataFrame({"a": ["u", "0"]}).to_parquet(tmp_path / "1.parquet")
    assert ca.Ensemble(tmp_path).categories[0].tolist() == [0, 1, "0", "u"]
    assert ca.Ensemble(tmp_path).codes.ravel().tolist() == ca.read_ensemble(tmp_path).codes.ravel().tolist()
    pd.DataFrame({"a": [-1, -1]}).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match="has no label at all"):
        ca.Ensemble(tmp_path / "2.parquet").codes  # noqa: B018


def test_unknown_arguments_are_refused_by_name(tmp_path):
    np.save(tmp_path / "codes.npy", np.zeros((4, 2), np.uint8))
    for table in (tmp_path / "codes.npy", ca.Ensemble(tmp_path / "codes.npy")):
        with pytest.raises(TypeError, match="StoredEnsemble has no argument 'exclud'"):
            StoredEnsemble(table, exclud="a")


def test_bytes_whose_text_sorts_otherwise_keep_their_codes(tmp_path):
    labels = np.array([[b"\xa8"], [b"E\xc7"], [b"\x02"], [b"E\xc7"], [b"E"]])
    np.save(tmp_path / "labels.npy", labels)
    for found in (ca.Ensemble(labels), ca.Ensemble(tmp_path / "labels.npy")):
        shown = found.categories[0][np.asarray(found.codes)[:, 0]]
        assert shown.tolist() == [str(label) for label in labels[:, 0].tolist()]


def test_empty_blocks_of_a_dask_array_are_left_out():
    da = pytest.importorskip("dask.array")
    table = np.array([[9, 9], [9, 9], [0, 3], [1, 3], [1, 4]])
    given = da.from_array(table, chunks=(2, 2))[da.from_array(table[:, 0] < 9, chunks=2)]  # of unknown sizes
    assert (ca.Ensemble(given).codes == ca.Ensemble(table[2:]).codes).all()
