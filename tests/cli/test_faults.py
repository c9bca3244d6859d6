"""Commands that are stopped: by kill -9, SIGTERM, SIGINT, closed or full streams. Outputs are whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and streams of POSIX")
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 3, size=(40, 1))
TABLE = np.where(RNG.random((40, 4)) < 0.1, RNG.integers(0, 3, size=(40, 4)), TRUTH)  # not all the same: no warning
# the n-th fsync, which a written file must pass before it counts, says so and never returns
HANG = """
import os, sys, time
from coassoc.cli import main
calls = 0
def fsync(number, real=os.fsync):
    global calls
    calls += 1
    if calls == int(sys.argv[1]):
        print("IN FLIGHT", flush=True)
        while True:
            time.sleep(60)
    real(number)
os.fsync = fsync
sys.exit(main(sys.argv[2:]))
"""
FIT = "fit labels.csv -k 2 --engine numpy -o out.parquet --force --save model.skops"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ca.write_ensemble("labels.csv", ca.Ensemble(TABLE))
    return tmp_path


def stopped_in_flight(words: str, number: int, how: int) -> subprocess.CompletedProcess:
    """Run a command up to its `number`-th fsync, then send it a signal."""
    command = [sys.executable, "-c", HANG, str(number), *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "IN FLIGHT\n"
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def partial_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(".coassoc-")]


def test_kill_in_flight_leaves_the_old_file_and_a_rerun_works(folder):
    pytest.importorskip("pyarrow")
    target = Path("out.parquet")
    target.write_text("old")
    done = stopped_in_flight(FIT, 1, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    left = partial_files(folder)
    assert len(left) == 1 and left[0].stat().st_size > 0  # the new file was being written
    assert target.read_text() == "old"
    assert main(FIT.split()) == 0
    assert target.stat().st_size > 100 and partial_files(folder) == left
    assert ca.load("model.skops").labels_.shape == (40,)
    os.mkdir("data")  # what was left behind is never read as data
    left[0].rename(Path("data", left[0].name))
    os.rename("out.parquet", "data/part.parquet")
    assert ca.Ensemble("data").n_samples == 40


@pytest.mark.parametrize(
    ("how", "code", "said"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_signals_remove_partial_files(folder, how, code, said):
    Path("out.parquet").write_text("old")
    done = stopped_in_flight(FIT, 2, how)  # the labels are written, the model is being written
    assert done.returncode == code and f"coassoc: {said}; nothing was left half written." in done.stderr
    assert "Traceback" not in done.stderr
    assert partial_files(folder) == [] and not Path("model.skops").exists()


@pytest.mark.parametrize(
    ("redirect", "said"),
    [(">&-", "standard output is closed"), ("<&-", "standard input is closed"), (">/dev/full", "standard output"),
     ("2>&-", ""), (">&- 2>&- <&-", "")],
)  # fmt: skip
def test_closed_and_full_streams_are_one_line(folder, redirect, said):
    if "/dev/full" in redirect and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    source = "-" if redirect == "<&-" else "labels.csv"
    command = f'"{sys.executable}" -m coassoc fit {source} -k 2 --engine numpy -o out.csv {redirect}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == (0 if redirect == "2>&-" else 2)
    assert said in done.stderr and done.stderr.count("\n") == bool(said)
    if Path("out.csv").exists():  # whatever was printed, none of it went into the file
        assert Path("out.csv").read_text().count("\n") == 41


# -- a Dask cluster that fails ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # distributed's sockets at shutdown
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_cluster_that_fails_in_flight(folder, monkeypatch, capsys):
    distributed = pytest.importorskip("distributed")
    timeouts = pytest.importorskip("dask").config.config["distributed"]["comm"]["timeouts"]
    monkeypatch.setitem(timeouts, "connect", "5s")
    np.save("labels.npy", TABLE)
    words = ["fit", "labels.npy", "-k", "2", "-o", "out.npy", "--force"]
    assert main(words) == 0
    expected = Path("out.npy").read_bytes()
    settings = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **settings) as cluster:
        real, faults = distributed.Client.gather, []

        def gather(self, *args, **kwargs):  # tasks of the fit are under way: now
            if not faults:
                faults.append("close")
                cluster.sync(cluster.scheduler.close)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(distributed.Client, "gather", gather)
        capsys.readouterr()
        code = main([*words, "--dask", cluster.scheduler_address])
    told = capsys.readouterr().err
    assert faults and code == 2 and told.count("\n") == 1
    assert "coassoc: the Dask cluster failed" in told and "scheduler-connection-lost" in told
    assert Path("out.npy").read_bytes() == expected
