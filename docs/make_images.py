"""The pictures of README and docs that need more than one call.

python docs/make_images.py runs       # docs/images/runs.png: twelve runs, their consensus, its confidence
python docs/make_images.py report     # docs/images/report.png: the page of coassoc report, in headless Chromium
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from PIL import Image
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score

import coassoc as ca

IMAGES = Path(__file__).parent / "images"


def runs() -> Path:
    """The example of the README, drawn."""
    X, group = make_blobs(600, random_state=170)
    X = X @ [[0.6, -0.6], [-0.4, 0.8]]
    ensemble = ca.make_ensemble(X, n_partitions=12, n_clusters=(5, 12), n_init=1, random_state=0)
    answer = ca.Consensus(random_state=0).fit(ensemble)
    scores = [adjusted_rand_score(group, ensemble.partition(j)) for j in range(12)]
    figure = plt.figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=[4.2, 3.2, 3.8])
    left.suptitle(f"twelve k-means runs: ARI at most {max(scores):.2f}", fontsize=12)
    for ax, j in zip(left.subplots(3, 4).flat, range(12)):
        ax.scatter(*X.T, c=ensemble.partition(j), cmap="tab10", s=1.2)
        ax.set(xticks=[], yticks=[])
    found = adjusted_rand_score(group, answer.labels_)
    middle.suptitle(f"their consensus: {answer.n_clusters_} clusters, ARI {found:.2f}", fontsize=12)
    middle.subplots().scatter(*X.T, c=answer.labels_, cmap="tab10", s=8)
    right.suptitle("confidence of each item", fontsize=12)
    ax = right.subplots()
    points = ax.scatter(*X.T, c=answer.confidence_, cmap="viridis", s=8)
    right.colorbar(points, ax=ax)
    for ax in (*middle.axes, right.axes[0]):
        ax.set(xticks=[], yticks=[])
    figure.savefig(target := IMAGES / "runs.png", dpi=100)
    return target


def report() -> Path:
    X, digits = load_digits(return_X_y=True)
    ensemble = ca.make_ensemble(X, 20, (5, 20), n_init=1, random_state=0)
    ensemble.classes = digits
    target = IMAGES / "report.png"
    browser = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder:
        settings = {"title": "Handwritten digits", "random_state": 0}
        page = ca.report.write_report(ensemble, path=Path(folder) / "report.html", **settings)
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000"]
        flags += ["--window-size=1200,1385", f"--user-data-dir={folder}", f"--screenshot={target}"]
        subprocess.run([browser, *flags, str(page)], check=True, capture_output=True, timeout=120)
    return target


def main() -> None:
    for name in sys.argv[1:] or ["runs", "report"]:
        target = {"runs": runs, "report": report}[name]()
        Image.open(target).convert("RGB").quantize(128).save(target, optimize=True)
        print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
