"""Profiles of clusters, against the formulas written out per cluster and feature."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import coassoc as ca


def cohen(a, b):
    pooled = np.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / (len(a) + len(b) - 2))
    return (a.mean() - b.mean()) / pooled


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, size=90)
    X = rng.normal(size=(90, 7)) + 1e6 * (np.arange(7) == 3)
    X[:, 2] += 3 * (labels == 1)
    return labels, X


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, sparse.csr_matrix])
def test_means_and_effects_as_written_out(case, form):
    labels, X = case
    X[:, 3] -= 1e6 if form is sparse.csr_matrix else 0  # a sparse matrix has zeros, not offsets
    table = ca.profile(labels, form(X), list("abcdefg"), n_features=None)
    assert len(table["cluster"]) == 21
    for cluster, size, name, inside, rest, difference, effect in zip(*table.values()):
        j = "abcdefg".index(name)
        a, b = X[labels == cluster, j], X[(labels != cluster) & (labels >= 0), j]
        assert size == len(a)
        assert np.allclose([inside, rest, effect], [a.mean(), b.mean(), cohen(a, b)], rtol=1e-9, atol=1e-9)
        assert np.isclose(difference, a.mean() - b.mean(), atol=1e-8)


def test_the_five_largest_effects_come_first(case):
    labels, X = case
    table = ca.profile(labels, X)
    assert table["cluster"].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert table["feature"][5] == "x2" and table["effect"][5] > 1
    assert (np.diff(np.abs(table["effect"]).reshape(3, 5), axis=1) <= 0).all()


def test_categories_are_shares_and_missing_values_are_left_out():
    frame = pd.DataFrame(
        {
            "town": pd.Categorical(["a", "a", None, "b", "b", "a"]),
            "paid": [True, True, True, False, False, False],
            "age": [1.0, np.nan, 3.0, 4.0, 5.0, 6.0],
            "same": [7] * 6,
        }
    )
    table = ca.profile(["x"] * 3 + ["y"] * 3, frame, n_features=None)
    found = {(c, f): (i, r) for c, f, i, r in zip(*(table[n] for n in ("cluster", "feature", "inside", "rest")))}
    assert found["x", "town=a"] == (1, pytest.approx(1 / 3)) and found["y", "town=b"] == (pytest.approx(2 / 3), 0)
    assert found["x", "paid=True"] == (1, 0) and found["x", "age"] == (2, 5) and found["x", "same"] == (7, 7)
    effects = dict(zip(zip(table["cluster"], table["feature"]), table["effect"]))
    assert effects["x", "paid=True"] == np.inf and effects["x", "same"] == 0
    assert table.to_frame().loc["x", "size"].tolist() == [3] * 6


def test_names_of_items_are_left_out():
    frame = pd.DataFrame({"id": [f"item {i}" for i in range(60)], "age": range(60)})
    with pytest.warns(UserWarning, match="more than 50 different values are left out: id"):
        assert set(ca.profile([0, 1] * 30, frame)["feature"]) == {"age"}


def test_polars_and_anndata():
    pl, anndata = pytest.importorskip("polars"), pytest.importorskip("anndata")
    pytest.importorskip("pyarrow")
    table = ca.profile([0, 0, 1, 1], pl.DataFrame({"a": [1, 2, 3, 4], "s": ["u", "u", "v", "v"]}))
    assert set(table["feature"]) == {"a", "s=u", "s=v"}
    adata = anndata.AnnData(sparse.csr_matrix(np.eye(4, 3, dtype=np.float32)))
    adata.var_names = ["g1", "g2", "g3"]
    assert ca.profile([0, 0, 1, 1], adata, n_features=None)["inside"].tolist()[:1] == [0.5]


def test_estimators_have_it():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 20, axis=0) + rng.normal(size=(60, 2))
    model = ca.ConsensusClustering(3, n_partitions=5, random_state=0).fit(X)
    for fitted in (model, model.consensus_):
        table = fitted.profile(X, ["a", "b"])
        assert (table["inside"] == ca.profile(fitted.labels_, X, ["a", "b"])["inside"]).all()


@pytest.mark.parametrize(
    ("X", "names", "error", "words"),
    [
        (np.zeros(4), None, ValueError, r"shape \(n_samples, n_features\), got \(4,\)"),
        (np.full((4, 2), "a"), None, TypeError, "pass categories in a data frame"),
        (np.zeros((4, 2)), ["a"], ValueError, r"one entry per feature \(2\), got 1"),
        (pd.DataFrame({"a": [1] * 4}), ["a", "b"], ValueError, "one entry per feature"),
        (np.zeros((3, 2)), None, ValueError, "a row for each of the 4 items, got 3"),
        (pd.DataFrame(index=range(4)), None, ValueError, "at least one column"),
    ],
)
def test_bad_features_are_refused(X, names, error, words):
    with pytest.raises(error, match=words):
        ca.profile([0, 0, 1, 1], X, names)
