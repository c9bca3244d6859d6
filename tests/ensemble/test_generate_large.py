"""Base ensembles at scale: the labels of `make_ensemble` with a sample, from files to a file."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble.io import table as _table

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")


@pytest.fixture
def features(tmp_path, monkeypatch):
    monkeypatch.setattr(_table, "BLOCK_ROWS", 128)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5)) + 4 * rng.integers(3, size=(700, 1))
    np.save(tmp_path / "X.npy", X)
    pq.write_table(pa.table({f"f{j}": X[:, j] for j in range(5)}), tmp_path / "X.parquet", row_group_size=200)
    return X, tmp_path


class Given(BaseEstimator):
    """Labels that are given, whatever the rows are."""

    def __init__(self, labels=None):
        self.labels = labels

    def fit(self, X):
        self.labels_ = np.asarray(self.labels)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


SETTINGS = {"n_partitions": 5, "n_clusters": (2, 9), "fit_sample": 150, "n_init": 2, "random_state": 3}


@pytest.mark.parametrize("name", ["X.npy", "X.parquet"])
@pytest.mark.parametrize("extra", [{}, {"feature_fraction": 0.5}, {"fit_sample": 10_000}])
def test_labels_are_those_of_make_ensemble(features, name, extra):
    X, folder = features
    expected = ca.make_ensemble(X, **{**SETTINGS, **extra})
    seen = []
    found = ca.make_ensemble_large(
        folder / name, folder / "out.parquet", **{**SETTINGS, **extra}, progress=lambda done, n: seen.append((done, n))
    )
    assert (found.codes == expected.codes).all()
    assert (found.n_clusters == expected.n_clusters).all()
    assert seen[-1][0] == seen[-1][1] == len(seen) > 1
    assert sorted(p.name for p in folder.iterdir()) == ["X.npy", "X.parquet", "out.parquet"]


def test_outputs_are_not_overwritten_unless_asked(features):
    _, folder = features
    (folder / "out.parquet").write_text("mine")
    with pytest.raises(FileExistsError, match="already exists"):
        ca.make_ensemble_large(folder / "X.npy", folder / "out.parquet", **SETTINGS)
    assert (folder / "out.parquet").read_text() == "mine"
    assert ca.make_ensemble_large(folder / "X.npy", folder / "out.parquet", **SETTINGS, force=True).n_samples == 700


@pytest.mark.parametrize("given", [[5, -1, 2, 5, 9], [10**12, 7, 10**12, -3, -300]])
def test_gaps_in_labels_are_closed_and_negative_ones_missing(given):
    ens = ca.make_ensemble(np.eye(5), 2, 2, clusterer=Given(given))
    assert (ens.partition(0) == ca.Ensemble(np.array(given)[:, None]).partition(0)).all()
    assert ens.codes.dtype == np.uint8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_partitions": 0}, "n_partitions must be at least 1"),
        ({"clusterer": Given(np.full(150, -1))}, "labels no row at all"),
        ({"clusterer": Given(np.zeros(7, int))}, "one integer label per row"),
        ({"clusterer": Given(np.zeros(150))}, "one integer label per row"),
    ],
)
def test_what_make_ensemble_refuses_is_refused(features, change, message):
    X, folder = features
    for make, data in ((ca.make_ensemble, (X,)), (ca.make_ensemble_large, (folder / "X.npy", folder / "out.parquet"))):
        with pytest.raises(ValueError, match=message):
            make(*data, **{**SETTINGS, **change})
    assert not list(folder.glob("*out*"))


def test_bad_features_leave_no_file(features):
    X, folder = features
    X[600, 2] = np.nan
    np.save(folder / "bad.npy", X)
    with pytest.raises(ValueError, match="NaN or infinity: row 600, column 2 is nan"):
        ca.make_ensemble_large(folder / "bad.npy", folder / "out.parquet", **SETTINGS)
    assert not list(folder.glob("*out*"))


def test_the_command_writes_the_same_labels(features, capsys):
    X, folder = features
    command = ["ensemble", str(folder / "X.parquet"), "-p", "5", "-k", "2:9", "--fit-sample", "150", "--n-init", "2"]
    command += ["--seed", "3", "--quiet", "--large", "-o", str(folder / "labels.parquet")]
    assert main(command) == 0
    assert (ca.Ensemble(folder / "labels.parquet").codes == ca.make_ensemble(X, **SETTINGS).codes).all()
    assert main([*command, "--force", "--scaling", "z"]) == 2
    assert "--scaling needs the features in memory" in capsys.readouterr().err
