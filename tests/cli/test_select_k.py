"""`coassoc select-k`: label files and features in, a verdict out."""

import json

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main


@pytest.fixture
def labels_file(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    table = np.stack([np.where(rng.random(90) < 0.1, rng.integers(0, 3, 90), truth) for _ in range(6)], axis=1)
    ca.write_ensemble(tmp_path / "labels.csv", ca.Ensemble(table))
    return tmp_path / "labels.csv"


def test_labels_are_compared_with_permuted_ones(labels_file, tmp_path, capsys):
    words = ["select-k", str(labels_file), "--max-k", "5", "--references", "6"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "agree more than chance" in text and "reference: permuted" in text
    target = tmp_path / "k.png"
    pytest.importorskip("matplotlib")
    assert main([*words, "--json", "--plot", str(target)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["k"] == 3 and found["structure"] is True
    assert len(found["density"]) == len(found["ks"]) == len(found["z"])
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("ending", ["csv", "npy"])
def test_features_are_compared_with_gaussian_data(tmp_path, capsys, ending):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2)) + 20 * (np.arange(60) % 2)[:, None]
    path = tmp_path / f"features.{ending}"
    if ending == "csv":
        np.savetxt(path, X, delimiter=",", header="x,y", comments="")
    else:
        np.save(path, X)
    assert main(["select-k", "--features", str(path), "--max-k", "3", "--references", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reference"] == "gaussian" and found["k"] == 2
