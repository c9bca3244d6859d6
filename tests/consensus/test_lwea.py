"""LWEA: EAC with weights of base clusters, under its own name."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import average, fcluster
from scipy.spatial.distance import squareform
from sklearn.base import clone

import coassoc as ca
from coassoc.consensus import embedding


def noisy(seed, n=120, p=6, k=4, noise=0.3, missing=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, size=n)
    drawn = rng.integers(0, 2 * k, size=(n, p))
    table = np.where(rng.random((n, p)) < noise, drawn, 2 * truth[:, None] + rng.integers(0, 2, size=(n, p)))
    return np.where(rng.random((n, p)) < missing, -1, table), truth


@pytest.mark.parametrize("seed", range(5))
def test_exact_linkage_equals_scipy_on_the_weighted_matrix_written_out(seed):
    table, _ = noisy(seed, n=40)
    onehot = ca.Ensemble(table).one_hot().toarray()
    overlap = onehot.T @ onehot
    entropy = np.zeros(len(overlap))
    for f in range(len(overlap)):
        for g in range(len(overlap)):
            q = overlap[f, g] / overlap[f, f]
            entropy[f] -= q * np.log2(q) if q > 0 else 0.0
    weights = np.exp(-entropy / (0.4 * table.shape[1]))
    similar = (onehot * weights) @ onehot.T / table.shape[1]
    distance = 1.0 - similar
    np.fill_diagonal(distance, 0.0)
    model = ca.LWEA(4, micro_clusters=None).fit(table)
    assert model.cluster_weights_ == pytest.approx(weights)
    if model.n_leaves_ == 40 and model.n_ties_ == 0:
        expected = fcluster(average(squareform(distance, checks=False)), 4, "maxclust")
        assert ca.nmi(model.labels_, expected) == pytest.approx(1.0)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_it_is_eac_with_uncertainty_weights(missing):
    for micro in (None, 30, "auto"):
        table, _ = noisy(1, n=300, missing=missing)
        one = ca.LWEA(5, micro_clusters=micro, random_state=3).fit(table)
        two = ca.EAC(5, cluster_weights="uncertainty", micro_clusters=micro, random_state=3).fit(table)
        assert one.labels_.tolist() == two.labels_.tolist()
        assert one.linkage_.tolist() == two.linkage_.tolist()


def test_same_labels_on_every_engine(engine):
    table, truth = noisy(2, n=400)
    copies = np.random.default_rng(0).integers(0, 3, size=400)
    expected = ca.LWEA(4, micro_clusters=25, random_state=0, engine="numpy").fit(table, sample_weight=copies)
    found = ca.LWEA(4, micro_clusters=25, random_state=0, engine=engine).fit(table, sample_weight=copies)
    assert found.labels_.tolist() == expected.labels_.tolist()
    assert ca.nmi(found.labels_[copies > 0], truth[copies > 0]) > 0.8


def test_many_base_clusters_and_settings(monkeypatch):
    table, _ = noisy(0)
    expected = ca.LWEA(4, theta=0.7, random_state=0).fit(table)
    monkeypatch.setattr(embedding, "MOST_CODES", 0)
    found = clone(expected).fit(table)
    assert found.cluster_weights_ == pytest.approx(expected.cluster_weights_)
    with pytest.raises(ValueError, match="theta must be a positive number"):
        ca.LWEA(4, theta=-1.0).fit(table)
    assert "lwea" in ca.consensus.METHODS
