"""LWEA: average linkage of the weighted co-association, written out. Micro-clusters: test_eac.py."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import average, fcluster
from scipy.spatial.distance import squareform
from scipy.special import xlogy

import coassoc as ca
import oracle


@pytest.mark.parametrize("seed", range(5))
def test_exact_linkage_equals_scipy_on_the_weighted_matrix_written_out(seed):
    table = oracle.blocks(seed, n=30, p=9, k=6, noise=0.5)[0]
    onehot = ca.Ensemble(table).one_hot().toarray()
    overlap = onehot.T @ onehot
    share = overlap / np.diagonal(overlap)[:, None]
    theta = (0.1, 0.4)[seed % 2]
    weights = np.exp(xlogy(share, share).sum(axis=1) / np.log(2) / (theta * 9))
    assert ca.metrics.cluster_uncertainty(table, theta=theta) == pytest.approx(weights)
    distance = 1.0 - (onehot * weights) @ onehot.T / 9
    np.fill_diagonal(distance, 0.0)
    model = ca.LWEA(4, micro_clusters=None, theta=theta).fit(table)
    assert model.cluster_weights_ == pytest.approx(weights)
    assert model.n_leaves_ == 30 and model.n_ties_ == 0
    expected = fcluster(average(squareform(distance, checks=False)), 4, "maxclust")
    assert oracle.same_partition(model.labels_, expected)
