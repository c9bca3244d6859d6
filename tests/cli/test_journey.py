"""A new user's way, from the README alone: five clusterings in a CSV, the consensus column back, the report opened."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
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
CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)


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


def test_the_readme_shows_both_steps():
    assert [words[1] for words in readme_lines()][:2] == ["fit", "report"]


def test_the_lines_of_the_readme_do_what_they_say(folder):
    pytest.importorskip("jinja2")
    where, truth = folder
    before = (where / "labels.csv").read_bytes()
    made = []
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


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)")
def test_the_report_opens_from_the_disk(folder, tmp_path_factory):
    where, _ = folder
    command = [sys.executable, "-m", "coassoc", "report", "labels.csv", "-k", "8", "-o", "report.html", "--no-compare"]
    subprocess.run(command, cwd=where, env=ENV, check=True, capture_output=True)
    shot = where / "shot.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
    profile = tmp_path_factory.mktemp("profile")
    address = (where / "report.html").as_uri()
    subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={profile}", "--window-size=1000,1400", f"--screenshot={shot}", address],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    image = pytest.importorskip("matplotlib.image").imread(shot)
    colours = {tuple(pixel) for pixel in (image[::7, ::7, :3] * 255).astype(int).reshape(-1, 3)}
    assert image.shape[:2] == (1400, 1000)
    assert len(colours) > 50  # something is drawn
