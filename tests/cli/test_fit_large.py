"""`coassoc fit` with --memory, --jobs and --dask: the labels of the command in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

from coassoc.cli import main

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture
def labels(tmp_path):
    rng = np.random.default_rng(0)
    group = rng.integers(5, size=2000)
    columns = {f"p{j}": np.where(rng.random(2000) < 0.6, group, rng.integers(7, size=2000)) for j in range(4)}
    frame = pd.DataFrame({"id": np.arange(2000), **columns, "truth": group})
    frame.to_parquet(tmp_path / "labels.parquet", row_group_size=300, index=False)
    return tmp_path


def consensus(folder, *options):
    out = folder / "out.parquet"
    arguments = ["fit", str(folder / "labels.parquet"), "-k", "5", "--columns", "p*", "-o", str(out), "--force"]
    assert main([*arguments, *options]) == 0
    return pd.read_parquet(out)["consensus"].tolist()


def test_a_large_file_is_streamed_without_being_asked(labels, capsys, monkeypatch):
    expected = consensus(labels)
    monkeypatch.setattr("coassoc.cli.fit.available_bytes", lambda: 50_000)
    assert consensus(labels) == expected
    assert "Read in pieces with Stream(" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["auto", "kmeans"])
def test_npy_output_and_json(labels, capsys, method):
    """The same labels and the same scores as in memory."""
    out = labels / "out.npy"
    arguments = ["fit", str(labels / "labels.parquet"), "-k", "5", "-m", method, "--columns", "p*", "--json"]
    runs = []
    for more in ([], ["--memory", "1MB"]):
        assert main([*arguments, "-o", str(out), "--force", *more]) == 0
        result = json.loads(capsys.readouterr().out)
        assert np.bincount(np.load(out)).tolist() == result["cluster_sizes"] and result["items"] == 2000
        facts = {key: value for key, value in result.items() if key not in ("seconds", "engine", "parameters")}
        runs.append((np.load(out).tolist(), facts))
    assert runs[0] == runs[1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # distributed's sockets at shutdown
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_clusters_write_the_same_labels(labels):
    distributed = pytest.importorskip("distributed")
    expected = consensus(labels)
    settings = {"processes": False, "protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0",
                "silence_logs": 50}  # fmt: skip
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **settings) as cluster:
        assert consensus(labels, "--dask", cluster.scheduler_address) == expected


def test_what_does_not_go_together_is_said(labels, capsys):
    path = str(labels / "labels.parquet")
    assert main(["fit", path, path, "-k", "5", "--memory", "1GB"]) == 2
    assert "one file or folder" in capsys.readouterr().err
    assert main(["fit", path, "-k", "5", "--memory", "1GB", "--engine", "cuda"]) == 2
    assert "--engine with --memory must be one of auto, native, numpy, stream" in capsys.readouterr().err


def test_the_output_keeps_the_rows_it_came_from(labels):
    """As in memory: a file of the same kind keeps its columns, another one gets the ids."""
    path, before = labels / "labels.parquet", pd.read_parquet(labels / "labels.parquet")
    for name, read in (("out.parquet", pd.read_parquet), ("out.csv", pd.read_csv)):
        written = []
        for extra in ([], ["--memory", "1MB", "--engine", "numpy"]):
            options = ["-k", "5", "-m", "kmeans", "-o", str(labels / name), "--force", *extra]
            assert main(["fit", str(path), *options]) == 0
            written.append(read(labels / name))
        pd.testing.assert_frame_equal(*written)
        assert (written[0]["id"] == before["id"]).all()
    assert list(pd.read_parquet(labels / "out.parquet").columns) == [*before.columns, "consensus"]


def test_a_folder_of_parts_is_one_table(labels):
    before = pd.read_parquet(labels / "labels.parquet")
    parts = labels / "parts"
    parts.mkdir()
    before[:900].to_parquet(parts / "0.parquet", index=False)
    before[900:].to_parquet(parts / "1.parquet", index=False)
    options = ["-k", "5", "-m", "kmeans", "--columns", "p*", "--memory", "1MB", "-o", str(labels / "all.parquet")]
    assert main(["fit", str(parts), *options]) == 0
    found = pd.read_parquet(labels / "all.parquet")
    assert found["consensus"].tolist() == consensus(labels, "-m", "kmeans")
    assert (found["id"] == before["id"]).all()
