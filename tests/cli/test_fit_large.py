"""`coassoc fit` with --memory, --workers and --dask: the labels of the command in memory."""

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


def test_streaming_writes_the_same_labels(labels, capsys):
    expected = consensus(labels)
    assert consensus(labels, "--memory", "100kB") == expected
    assert "peak memory" in capsys.readouterr().out


def test_a_large_file_is_streamed_without_being_asked(labels, capsys, monkeypatch):
    expected = consensus(labels)
    monkeypatch.setattr("coassoc.engines.memory.available_bytes", lambda: 50_000)
    assert consensus(labels) == expected
    assert "Stream(" in capsys.readouterr().out


def test_npy_output_and_json(labels, capsys):
    expected = consensus(labels)
    capsys.readouterr()
    out = labels / "out.npy"
    arguments = ["fit", str(labels / "labels.parquet"), "-k", "5", "--columns", "p*", "--memory", "1MB"]
    assert main([*arguments, "-o", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["items"] == 2000 and result["partitions"] == 4
    assert np.load(out).tolist() == expected
    assert np.bincount(np.load(out)).tolist() == result["cluster_sizes"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # distributed's sockets at shutdown
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_clusters_write_the_same_labels(labels):
    distributed = pytest.importorskip("distributed")
    expected = consensus(labels)
    settings = {
        "processes": False,
        "protocol": "tcp://",
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": 50,
    }
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **settings) as cluster:
        assert consensus(labels, "--dask", cluster.scheduler_address) == expected


def test_what_does_not_go_together_is_said(labels, capsys):
    path = str(labels / "labels.parquet")
    assert main(["fit", path, "-k", "5", "--memory", "1GB", "--workers", "2"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert main(["fit", path, path, "-k", "5", "--memory", "1GB"]) == 2
    assert "one file or folder" in capsys.readouterr().err
