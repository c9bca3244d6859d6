"""`coassoc fit` with --memory, --jobs and --dask: the labels of the command in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble.io.writing import write_parts

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


def test_the_output_keeps_the_rows_it_came_from(labels):
    """As in memory. A file of the same kind keeps its columns, another gets the ids; a folder of parts is one table."""
    path, before = labels / "labels.parquet", pd.read_parquet(labels / "labels.parquet")
    parts = labels / "parts"
    parts.mkdir()
    before[:900].to_parquet(parts / "0.parquet", index=False)
    before[900:].to_parquet(parts / "1.parquet", index=False)
    scale = ["--memory", "1MB", "--engine", "numpy"]
    for name, read in (("out.parquet", pd.read_parquet), ("out.csv", pd.read_csv)):
        written = []
        for source, extra in ((path, []), (path, scale), (parts, scale)):
            options = ["-k", "5", "-m", "kmeans", "-o", str(labels / name), "--force", *extra]
            assert main(["fit", str(source), *options]) == 0
            written.append(read(labels / name))
            pd.testing.assert_frame_equal(written[0], written[-1])
        assert (written[0]["id"] == before["id"]).all()
    assert list(pd.read_parquet(labels / "out.parquet").columns) == [*before.columns, "consensus"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # distributed's sockets at shutdown
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_workers_write_a_folder_and_no_label_reaches_the_client(labels, monkeypatch, capsys):
    """One file per part, with ids; equal to the single file; an existing folder stays as it is."""
    distributed = pytest.importorskip("distributed")
    path, out, empty = str(labels / "labels.parquet"), labels / "out", labels / "empty"
    options = ["-m", "kmeans", "--n-init", "1"]
    shared = ["fit", path, "-k", "5", "--columns", "p*", *options]
    expected = consensus(labels, *options)
    gather, received = distributed.Client.gather, []

    def counted(self, *args, **kwargs):
        result = gather(self, *args, **kwargs)
        received.append(max((len(array) for array in arrays_in(result)), default=0))
        return result

    monkeypatch.setattr(distributed.Client, "gather", counted)
    monkeypatch.setattr("coassoc.engines.dask._LEAST_ROWS", 900)  # several parts
    empty.mkdir()
    settings = {"processes": False, "protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0",
                "silence_logs": 50}  # fmt: skip
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, **settings) as cluster:
        to = ["--dask", cluster.scheduler_address]
        assert consensus(labels, *options, *to) == expected
        received.clear()
        for folder in (f"{out}/", str(empty)):
            assert main([*shared, "-o", folder, *to]) == 0
            written = pd.read_parquet(folder)
            assert written["consensus"].tolist() == expected and (written["id"] == np.arange(2000)).all()
        assert len(list(out.iterdir())) > 1 and max(received) < 100
        # text is coded by one process; the workers write parts all the same
        pd.read_parquet(path).to_csv(labels / "labels.csv", index=False)
        inputs = {"labels.parquet", "labels.csv"}
        text = ["fit", str(labels / "labels.csv"), *shared[2:]]
        assert main([*text, "-o", f"{labels}/text/", *to]) == 0
        written = pd.read_parquet(labels / "text")
        assert written["consensus"].tolist() == expected and written["id"].tolist() == [str(i) for i in range(2000)]
        assert len(list((labels / "text").iterdir())) > 1
        before = {file.name: file.read_bytes() for file in out.iterdir()}
        capsys.readouterr()
        assert main([*shared, "-o", str(out), "--force", *to]) == 2
        assert "is not empty" in capsys.readouterr().err

        def fail(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pyarrow.parquet.write_table", fail)
        assert main([*shared, "-o", f"{labels}/new/", *to]) == 2
        assert "No space left" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert {entry.name for entry in labels.iterdir()} == {*inputs, "out.parquet", "out", "empty", "text"}


def arrays_in(result):
    if isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from arrays_in(part)


def test_fractions_are_a_column_of_the_parts(labels):
    """The confidence is rounded as in a single file; a column in this process is cut like those on the workers."""
    da = pytest.importorskip("dask.array")
    clusters, confidence = np.arange(2000) % 5, np.linspace(0, 1, 2000)
    columns = {"consensus": clusters, "confidence": da.from_array(confidence, chunks=600)}
    write_parts(labels / "out", columns, ca.Ensemble(labels / "labels.parquet"))
    written = pd.read_parquet(labels / "out")
    assert len(list((labels / "out").iterdir())) == 4 and (written["id"] == np.arange(2000)).all()
    assert (written["consensus"] == clusters).all() and (written["confidence"] == confidence.round(4)).all()
