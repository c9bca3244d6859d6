"""LWEA: EAC with weights of base clusters, against the weighted matrix written out."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import average, fcluster
from scipy.spatial.distance import squareform

import coassoc as ca


def noisy(seed, n=120, p=6, k=4, noise=0.3, missing=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, size=n)
    drawn = rng.integers(0, 2 * k, size=(n, p))
    table = np.where(rng.random((n, p)) < noise, drawn, 2 * truth[:, None] + rng.integers(0, 2, size=(n, p)))
    return np.where(rng.random((n, p)) < missing, -1, table)


@pytest.mark.parametrize("seed", range(5))
def test_exact_linkage_equals_scipy_on_the_weighted_matrix_written_out(seed):
    table = noisy(seed, n=40)
    onehot = ca.Ensemble(table).one_hot().toarray()
    overlap = onehot.T @ onehot
    entropy = np.zeros(len(overlap))
    for f in range(len(overlap)):
        for g in range(len(overlap)):
            q = overlap[f, g] / overlap[f, f]
            entropy[f] -= q * np.log2(q) if q > 0 else 0.0
    theta = (0.1, 0.4)[seed % 2]
    weights = np.exp(-entropy / (theta * table.shape[1]))
    assert ca.metrics.cluster_uncertainty(table, theta=theta) == pytest.approx(weights)
    similar = (onehot * weights) @ onehot.T / table.shape[1]
    distance = 1.0 - similar
    np.fill_diagonal(distance, 0.0)
    model = ca.LWEA(4, micro_clusters=None, theta=theta).fit(table)
    assert model.cluster_weights_ == pytest.approx(weights)
    if model.n_leaves_ == 40 and model.n_ties_ == 0:
        expected = fcluster(average(squareform(distance, checks=False)), 4, "maxclust")
        assert ca.nmi(model.labels_, expected) == pytest.approx(1.0)
