"""`coassoc predict`: the labels of the library, columns by name, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

import coassoc as ca
from coassoc.cli import main
from twins.cases import noisy_table


@pytest.fixture
def labels_model(tmp_path):
    frame = pd.DataFrame(noisy_table(0, 60, p=4), columns=["run1", "run2", "run3", "run4"])
    frame.to_csv(tmp_path / "labels.csv", index=False)
    saved = str(tmp_path / "model.skops")
    words = ["-k", "3", "-m", "kmeans", "--order", "method", "--save", saved]
    assert main(["fit", str(tmp_path / "labels.csv"), *words]) == 0
    return frame, saved, tmp_path


def test_labels_are_those_of_the_library(labels_model, capsys):
    frame, saved, folder = labels_model
    new = frame[["run4", "run2", "run1", "run3"]].iloc[:20].assign(other=range(20))
    new.to_csv(folder / "new.csv", index=False)
    capsys.readouterr()
    assert main(["predict", saved, str(folder / "new.csv"), "-o", str(folder / "out.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    written = pd.read_csv(folder / "out.csv")
    expected = ca.load(saved).predict(frame.iloc[:20].to_numpy())
    assert written["consensus"].tolist() == expected.tolist()
    assert written.drop(columns="consensus").equals(new.reset_index(drop=True))
    assert told["rows"] == 20 and sum(told["sizes"].values()) == 20 - told["unlabelled"]


def test_features_are_matched_by_name(tmp_path, capsys):
    X, _ = make_blobs(80, centers=3, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = ca.ConsensusClustering(3, n_partitions=5, method="kmeans", random_state=0).fit(frame)
    model.save(tmp_path / "model.skops")
    frame[["b", "a"]].assign(name="someone").to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", str(tmp_path / "model.skops"), str(tmp_path / "new.csv"), "--name", "segment"]
    assert main([*words, "-o", str(tmp_path / "out.csv")]) == 0
    assert "80 rows in clusters" in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "out.csv")["segment"].tolist() == model.predict(frame).tolist()
    np.save(tmp_path / "new.npy", X)
    ca.ConsensusClustering(3, n_partitions=5, method="kmeans", random_state=0).fit(X).save(tmp_path / "plain.skops")
    words = ["predict", str(tmp_path / "plain.skops"), str(tmp_path / "new.npy"), "-o", str(tmp_path / "out.npy")]
    assert main(words) == 0
    assert np.load(tmp_path / "out.npy").tolist() == model.labels_.tolist()


def test_lacking_columns_and_models_without_predict_are_named(labels_model, capsys):
    frame, saved, folder = labels_model
    frame.drop(columns=["run2", "run4"]).to_csv(folder / "new.csv", index=False)
    words = ["predict", saved, str(folder / "new.csv"), "-o", str(folder / "out.csv")]
    assert main(words) == 2
    assert "lacks columns that the model was fitted with: run2, run4; it has run1, run3" in capsys.readouterr().err
    ca.EAC(3).fit(frame).save(folder / "eac.skops")
    words[1] = str(folder / "eac.skops")
    assert main(words) == 2
    assert "holds a EAC, which cannot label new rows" in capsys.readouterr().err
    assert not (folder / "out.csv").exists()
