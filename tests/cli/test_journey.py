"""A new user's way, from the README alone: five clusterings in a CSV, the consensus column back, the report opened."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import make_blobs

import coassoc as ca

README = Path(__file__).parents[2] / "README.md"
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def readme_lines() -> list[list[str]]:
    """The `coassoc fit` and `coassoc report` lines a reader of the README would paste."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if re.match(r"coassoc (fit|report) ", line)]


@pytest.fixture
def folder(tmp_path):
    """A table as someone brings it: names, five clusterings by different means, one with noise, quotes and accents."""
    X, truth = make_blobs(300, centers=8, n_features=6, cluster_std=1.5, random_state=2)
    rng = np.random.default_rng(0)
    columns = [KMeans(k, n_init=1, random_state=k).fit_predict(X).tolist() for k in (6, 8, 11)]
    columns.append([f"Gruppe {'äöüß'[c % 4]}, {c}" for c in AgglomerativeClustering(8).fit_predict(X)])
    columns.append(np.where(rng.random(300) < 0.1, -1, truth).tolist())
    with open(tmp_path / "labels.csv", "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["id", "kmeans 6", "kmeans 8", "kmeans 11", "ward", "hdbscan"])
        writer.writerows([f"sample-{i}", *row] for i, row in enumerate(zip(*columns)))
    return tmp_path, truth


def test_the_lines_of_the_readme_do_what_they_say(folder):
    pytest.importorskip("jinja2")
    where, truth = folder
    before = (where / "labels.csv").read_bytes()
    made = []
    assert [words[1] for words in readme_lines()][:2] == ["fit", "report"]
    for words in readme_lines():
        done = subprocess.run([sys.executable, "-m", *words], cwd=where, capture_output=True, text=True, env=ENV)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        made.append(where / words[words.index("-o") + 1])
    assert (where / "labels.csv").read_bytes() == before
    table = next(path for path in made if path.suffix == ".csv")
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "kmeans 6", "kmeans 8", "kmeans 11", "ward", "hdbscan", "consensus"]
    assert [row["id"] for row in rows] == [f"sample-{i}" for i in range(300)]
    assert rows[0]["ward"].startswith("Gruppe ")
    assert ca.nmi(truth, [int(row["consensus"]) for row in rows]) > 0.75
    page = next(path for path in made if path.suffix == ".html")
    assert "Consensus of labels.csv" in page.read_text(encoding="utf-8")
