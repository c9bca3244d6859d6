"""Labels must not change from version to version without a word.

``golden/labels.json`` holds the labels and losses of several settings on tables made by integer arithmetic alone (no
random generator). A difference is either a bug, or a change that every user will see: then regenerate with

    PYTHONPATH=src python tests/test_golden.py

and write an entry in CHANGELOG.md under *Changed* that says why the labels of a fixed seed are different now.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca

FILE = Path(__file__).parent / "golden" / "labels.json"


def table(n: int, p: int, k: int, missing: bool = False) -> np.ndarray:
    """Noisy copies of one partition, from a linear congruential generator written out here."""
    state, draws = 12345 + n + 31 * p + 977 * k, []
    for _ in range(2 * n * p):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        draws.append(state >> 33)
    noise, value = np.array(draws).reshape(2, n, p)
    truth = np.arange(n)[:, None] * 7 % n * k // n
    out = np.where(noise % 10 < 3, value % (k + 2), (truth + np.arange(p)) % (k + 2))
    return np.where(value % 11 == 0, -1, out) if missing else out


def settings() -> dict:
    plain, holes, many = table(120, 8, 4), table(120, 8, 4, missing=True), table(400, 5, 12)
    copies = np.arange(120) % 4
    weights = [1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.25, 1.0]
    km, tree = ca.KMeansConsensus, ca.BisectingConsensus
    return {
        "kmeans": (km(4, n_init=3, random_state=0), plain, None),
        "kmeans, one start": (km(6, n_init=1, random_state=7), plain, None),
        "kmeans, random rows": (km(4, n_init=2, init="random", random_state=1), plain, None),
        "kmeans, missing labels": (km(4, n_init=3, random_state=0), holes, None),
        "kmeans, copies": (km(4, n_init=3, random_state=0), holes, copies),
        "kmeans, weights": (km(4, n_init=3, partition_weights=weights, random_state=0), plain, None),
        "kmeans, many clusters": (km(25, n_init=2, random_state=3), many, None),
        "kmeans, a large seed": (km(4, n_init=1, random_state=2**90 + 1), plain, None),
        "bisecting": (tree(random_state=0), plain, None),
        "bisecting, loss": (tree(6, criterion="loss", random_state=0), plain, None),
        "bisecting, size": (tree(6, criterion="size", n_init=3, random_state=0), plain, None),
        "bisecting, missing labels": (tree(random_state=5), holes, None),
        "bisecting, copies and weights": (tree(random_state=5, partition_weights=weights), holes, copies),
        "bisecting, finished": (tree(12, refine="kmeans", random_state=0), many, None),
    }


def results(engine, every: int = 1) -> dict:
    """Labels and scores of every setting, or of every third and so on."""
    out = {}
    for name, (estimator, X, copies) in list(settings().items())[::every]:
        fitted = estimator.set_params(engine=engine).fit(X, sample_weight=copies)
        out[name] = {"labels": fitted.labels_.tolist(), "loss": fitted.loss_, "density": fitted.density_}
    return out


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads(FILE.read_text())


def test_every_setting_is_recorded_and_worth_guarding(golden):
    assert list(golden) == list(settings())
    for name, record in golden.items():
        assert len(set(record["labels"])) >= 4, name
        assert 0 < record["density"] < 1, name


def test_labels_are_those_of_earlier_versions(engine, golden):
    for name, record in results(engine, 4 if getattr(engine, "name", "") == "dask" else 1).items():
        assert record["labels"] == golden[name]["labels"], (
            f"{name}: labels changed; see the top of {Path(__file__).name}"
        )
        assert record["loss"] == pytest.approx(golden[name]["loss"], rel=1e-12)
        assert record["density"] == pytest.approx(golden[name]["density"], rel=1e-12)


if __name__ == "__main__":
    partial = FILE.with_suffix(".partial")
    lines = [f"{json.dumps(name)}: {json.dumps(record)}" for name, record in results("numpy").items()]
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    partial.replace(FILE)
