"""NPY, NPZ and MATLAB files; the last of versions 5 and 7.3, written by SciPy and h5py."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.io import savemat

import coassoc as ca
from coassoc.ensemble import StoredEnsemble
from coassoc.ensemble.io.reading import LabelFile
from oracle import label_rows as rows


def test_npz_holds_a_table_or_named_vectors_beside_ids_and_classes(tmp_path):
    path, aside = tmp_path / "v.npz", {"item_ids": ["x", "y", "007"], "classes": ["p", "1", "p"]}
    for arrays, names in (({"first": [0, 0, -1], "second": ["x", "", "1"]}, ["first", "second"]),
                          ({"any": np.array([["0", "x"], ["0", "NA"], ["", "1"]])}, ["0", "1"])):  # fmt: skip
        np.savez(path, **arrays, **aside)
        for found in (ca.read_ensemble(path), StoredEnsemble(path)):
            assert found.names == names and rows(found) == [(0, "x"), (0, None), (None, 1)]
            assert found.item_ids.tolist() == ["x", "y", "007"] and found.classes.tolist() == ["p", 1, "p"]
    for name in aside:
        np.savez(path, labels=[0, 0, 1], **{name: ["x", "y"]})
        with pytest.raises(ValueError, match="different lengths"):
            ca.read_ensemble(path)


def test_every_clustering_that_was_written_to_an_npz_file_is_read(tmp_path):
    """In other files, and in archives of others, a column in which hardly any value repeats is left out."""
    path, columns = tmp_path / "t.npz", {"single": np.arange(60), "three": np.arange(60) % 3}
    ca.write_ensemble(path, ca.Ensemble.from_partitions(columns))
    for found in (ca.read_ensemble(path), ca.read_ensemble(path, trusted=True), StoredEnsemble(path)):
        assert found.names == ["single", "three"]
    np.savez(path, **columns)
    with pytest.warns(UserWarning, match="left out 'single'"):
        assert ca.read_ensemble(path).names == ["three"]


def test_text_in_an_npz_file_is_written_and_read_one_column_at_a_time(tmp_path):
    path, labels = tmp_path / "t.npz", np.array([f"{k}{'x' * 60}" for k in range(9)])
    ensemble = ca.Ensemble(labels[np.random.default_rng(0).integers(9, size=(5000, 20))])
    for work in (lambda: ca.write_ensemble(path, ensemble), lambda: ca.read_ensemble(path)):
        tracemalloc.start()
        work()
        assert tracemalloc.get_traced_memory()[1] < 5000 * 20 * 4 * 61 / 3  # what the text takes in NumPy
        tracemalloc.stop()
    assert rows(ca.read_ensemble(path)) == rows(ensemble)


def test_a_column_of_an_npy_file_may_hold_ids(tmp_path):
    pytest.importorskip("pyarrow")
    np.save(tmp_path / "t.npy", np.array([[7, 0, 1], [8, 0, 1], [9, 1, 0]]))
    for read in (ca.read_ensemble, StoredEnsemble):
        found = read(tmp_path / "t.npy", id_column="0", class_column="2")
        assert found.item_ids.tolist() == [7, 8, 9] and found.classes.tolist() == [1, 1, 0]
        assert rows(found) == [(0,), (0,), (1,)]


# -- MATLAB ----------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
TRUTH = RNG.integers(1, 5, size=120)
POOL = np.column_stack([np.where(RNG.random(120) < 0.8, TRUTH, RNG.integers(1, 7, 120)) for _ in range(8)])
FEATURES = RNG.normal(size=(120, 30))


def save_v5(path, **arrays):
    savemat(path, arrays, do_compression=True)


def save_v73(path, **arrays):
    """As MATLAB does: HDF5 behind a block of 512 bytes, matrices transposed, the class in an attribute."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            stored = np.atleast_2d(np.asarray(array)).T
            dataset = file.create_dataset(name, data=stored, compression="gzip")
            dataset.attrs["MATLAB_class"] = np.bytes_("double" if stored.dtype.kind == "f" else str(stored.dtype))
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


@pytest.fixture(params=[save_v5, save_v73])
def save(request):
    return request.param


@pytest.mark.parametrize(("read", "name"), [(ca.read_ensemble, "members"), (StoredEnsemble, "baseCls")])
def test_a_pool_is_found_by_its_name_and_the_truth_beside_it(tmp_path, save, read, name):
    path = tmp_path / "pool.mat"
    save(path, fea=FEATURES, **{name: POOL.astype(float)}, gt=TRUTH[:, None].astype(float))
    found = read(path)
    assert (found.codes == ca.Ensemble(POOL).codes).all() and found.names[0] == f"{name}_0"
    assert found.classes.tolist() == TRUTH.tolist()
    # items on the other side: the classes tell, else the longer side
    save(path, **{name: POOL.T.astype(np.int16)})
    assert (read(path).codes == ca.Ensemble(POOL).codes).all() and read(path).classes is None
    save(path, **{name: POOL[:5].astype(np.int16)}, y=TRUTH[:5])
    assert read(path).codes.shape == (5, 8)


def test_a_pool_of_another_name_is_the_largest_matrix_of_whole_numbers(tmp_path, save):
    path = tmp_path / "pool.mat"
    save(path, fea=np.round(9 * FEATURES), mine=POOL.astype(float), other=POOL[:, :3].astype(float), gnd=TRUTH)
    with pytest.warns(UserWarning, match=r"took the matrix 'mine' .*'fea_\*'"):
        assert (ca.read_ensemble(path).codes == ca.Ensemble(POOL).codes).all()
    with pytest.warns(UserWarning, match="took the matrix"):
        chosen = ca.read_ensemble(path, columns="other_*", class_column="gnd")
    assert chosen.names == ["other_0", "other_1", "other_2"] and chosen.classes.tolist() == TRUTH.tolist()


def test_what_is_no_pool_is_said(tmp_path, save):
    path = tmp_path / "pool.mat"
    save(path, fea=FEATURES)
    with pytest.raises(ValueError, match=r"pool\.mat: no matrix of whole numbers, only fea"):
        ca.read_ensemble(path)
    with pytest.raises(ValueError, match=r"mat files are read, not written.*\.csv"):
        ca.write_labels(tmp_path / "out.mat", TRUTH)


def test_cells_and_structures_are_left_alone(tmp_path):
    odd = np.empty((3, 4), dtype=object)
    odd[:] = [[1, "a", [2], 3.5]] * 3
    savemat(tmp_path / "pool.mat", {"members": odd, "E": POOL, "opts": {"k": 3}, "name": "iris"})
    assert ca.read_ensemble(tmp_path / "pool.mat").names[0] == "E_0"


def test_a_mapped_array_needs_no_open_file(tmp_path):
    np.save(tmp_path / "codes.npy", np.zeros((3, 2), np.uint8))
    assert LabelFile(tmp_path / "codes.npy").table.file.closed
