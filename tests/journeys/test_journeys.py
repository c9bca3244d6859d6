"""Two new users, one with a file that another tool wrote and one in R, from it to an answer they can use."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import make_blobs

import coassoc as ca
from coassoc.cli import main

pd = pytest.importorskip("pandas")


R_PROBE = """
found <- requireNamespace("reticulate") && requireNamespace("ConsensusClusterPlus") &&
  is.numeric(reticulate::py_eval("__import__('numpy').arange(3)"))
q(status = !found)
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a line of the documentation in a folder of its own; its output, or its JSON, and its notes."""
    monkeypatch.chdir(tmp_path)

    def line(text: str):
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            assert main(shlex.split(text.removeprefix("coassoc "))) == 0, capsys.readouterr().err
        said = capsys.readouterr()
        return (json.loads(said.out) if "--json" in text else said.out), " ".join(str(one.message) for one in notes)

    return line


def test_a_data_scientist_with_six_label_columns(run):
    X, segment = make_blobs(400, centers=5, n_features=4, random_state=3)
    rng = np.random.default_rng(0)
    customers = pd.DataFrame({"customer": rng.permutation(10_000)[:400], "age": rng.integers(18, 90, size=400)})
    customers["income"] = rng.normal(4e4, 9e3, size=400).round(2)
    for k in (4, 5, 6):
        customers[f"kmeans_{k}"] = KMeans(k, n_init=2, random_state=k).fit_predict(X)
        customers[f"ward_{k}"] = [f"group {c}" for c in AgglomerativeClustering(k).fit_predict(X)]
    customers["class"] = segment
    customers.to_csv("customers.csv")  # with the index, as people do
    told, note = run("coassoc fit customers.csv --confidence -o with-consensus.csv --json")
    assert told["columns"] == [f"{m}_{k}" for k in (4, 5, 6) for m in ("kmeans", "ward")]
    for name in ("customer", "age", "income", "--columns"):
        assert name in note
    assert told["clusters"] == 5 and told["supported"] and told["scores"]["class_nmi"] > 0.95
    found = pd.read_csv("with-consensus.csv", index_col=0)
    assert list(found) == [*customers, "consensus", "consensus_confidence"]
    pd.testing.assert_frame_equal(found[list(customers)], customers, check_dtype=False)
    pytest.importorskip("jinja2")
    run("coassoc report with-consensus.csv --labels consensus --columns 'kmeans_*' 'ward_*' -o page.html")
    # the same in Python
    frame = customers.set_index("customer")
    model = ca.Consensus(random_state=0).fit(frame[told["columns"]])
    joined = frame.assign(consensus=model.labels_, confidence=model.confidence_)
    assert joined.groupby("consensus")["age"].mean().shape == (5,) and joined["confidence"].between(0, 1).all()
    assert (ca.metrics.order_by_size(model.labels_) == found["consensus"].to_numpy()).all()
    best = ca.compare(frame[told["columns"]], 5, ["kmeans", "sec"]).to_frame().sort_values("density")
    assert best.index[-1] in ("kmeans", "sec")


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_an_r_user_runs_the_page_for_r(tmp_path):  # R leaves Rplots.pdf where it runs
    def rscript(code: str) -> subprocess.CompletedProcess:
        path = os.pathsep.join(p for p in sys.path if "src" in p)
        env = {"RETICULATE_PYTHON": sys.executable, **os.environ, "PYTHONPATH": path}
        return subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, env=env, cwd=tmp_path)

    if rscript(R_PROBE).returncode:
        pytest.skip("R lacks ConsensusClusterPlus, or a reticulate that understands the NumPy of RETICULATE_PYTHON")
    page = (Path(__file__).parents[2] / "docs" / "from-r.md").read_text()
    done = rscript("\n".join(re.findall(r"^```r\n(.*?)^```", page, re.DOTALL | re.MULTILINE)))
    assert done.returncode == 0, done.stderr
    assert "partitions agree beyond chance" in done.stdout and "flower" in done.stdout
    assert float(re.search(r"agreement \(NMI\): ([0-9.]+)", done.stdout)[1]) > 0.8
