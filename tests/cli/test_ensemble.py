"""`coassoc ensemble`: files in, files out, and what it says when something is wrong."""

import json

import numpy as np
import pandas as pd
import pytest

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble.io.reading import read_features

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")


ARGUMENTS = ["--id-column", "name", "--class-column", "kind", "-p", "4", "-k", "2:5", "--n-init", "2", "--quiet"]


@pytest.fixture
def table(tmp_path):
    X = np.repeat([[0.0], [3.0]], 20, axis=0) + np.random.default_rng(0).normal(0, 0.2, size=(40, 3))
    frame = pd.DataFrame(X, columns=list("abc"), index=pd.Index([f"item{i}" for i in range(40)], name="name"))
    frame.assign(kind=["k0"] * 20 + ["k1"] * 20).to_csv(tmp_path / "features.csv")
    return tmp_path / "features.csv", X


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_output_reads_back_as_what_make_ensemble_gives(table, tmp_path, suffix, capsys):
    path, X = table
    out = tmp_path / f"labels{suffix}"
    jobs = "2" if suffix == ".npz" else "1"
    assert main(["ensemble", str(path), "-o", str(out), *ARGUMENTS, "--seed", "3", "--jobs", jobs]) == 0
    expected = ca.make_ensemble(X, 4, (2, 5), n_init=2, random_state=3)
    found = ca.read_ensemble(out, class_column=None if suffix == ".npz" else "class")  # an archive knows its own
    assert found.n_partitions == 4 and "40 items, 4 clusterings" in capsys.readouterr().out
    assert [ca.nmi(found.partition(j), expected.partition(j)) for j in range(4)] == [1.0] * 4


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".tsv", ".csv.gz"])
def test_every_kind_of_features_gives_the_same_matrix(tmp_path, suffix):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 2)), columns=["a", "b"])
    path = tmp_path / f"f{suffix}"
    write = {".npy": lambda path: np.save(path, frame), ".parquet": frame.to_parquet}
    write.get(suffix, lambda path: frame.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False))(path)
    assert (frame.to_numpy() == read_features(path).X).all()


def test_missing_cells_are_refused_or_filled(tmp_path, capsys):
    path = tmp_path / "f.csv"
    path.write_text("a,b\n" + "\n".join(f"{i},{'' if i == 3 else i * i}" for i in range(12)))
    command = ["ensemble", str(path), "-o", str(tmp_path / "o.csv"), "-k", "2", "-p", "2", "--quiet"]
    assert main(command) == 2
    assert "NaN" in capsys.readouterr().err and not (tmp_path / "o.csv").exists()
    assert main([*command, "--fill-missing"]) == 0
    path.write_text("a,b\n" + "\n".join(f"{i}," for i in range(12)))
    assert main([*command, "--fill-missing", "--force"]) == 2
    assert "column b has no value at all" in capsys.readouterr().err


def test_mixed_clusterers_and_subsampling(table, tmp_path, capsys):
    path, _ = table
    out = tmp_path / "labels.csv"
    words = ["--clusterer", "kmeans", "average", "--sample-fraction", "0.5", "--scaling", "z"]
    assert main(["ensemble", str(path), "-o", str(out), *ARGUMENTS, *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == 4
    assert (ca.read_ensemble(out, class_column="class").observed().sum(axis=0) == 20).all()


def test_empty_cells_are_nan(tmp_path):
    table = pd.DataFrame({"a": [1, None, 3], "b": ["1.5", "NA", None]})
    table.to_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(read_features(tmp_path / "t.parquet").X, [[1, 1.5], [np.nan, np.nan], [3, np.nan]])
