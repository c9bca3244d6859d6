"""Consensus(noise=...): items that most clusterings leave out get −1."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca


@pytest.fixture(scope="module")
def table():
    """Three groups in eight clusterings; the first 10 items are noise in six of them, the next 10 in two."""
    rng = np.random.default_rng(0)
    groups = np.arange(150) % 3
    found = np.where(rng.random((150, 8)) < 0.05, rng.integers(3, size=(150, 8)), groups[:, None])
    found[:10, :6] = -1
    found[10:20, :2] = -1
    return found


def test_items_that_most_leave_out_have_no_cluster(table):
    plain = ca.Consensus(random_state=0).fit(table)
    model = ca.Consensus(noise=0.5, random_state=0).fit(table)
    assert (model.labels_[:10] == -1).all() and (model.confidence_[:10] == 0).all()
    assert ca.nmi(model.labels_[10:], plain.labels_[10:]) == 1 and (plain.labels_ >= 0).all()
    assert (model.cluster_sizes_ == np.bincount(model.labels_[10:])).all()
    sure = (model.confidence_[10:] >= 0.85).mean()
    assert "10 items are noise, and in no cluster." in model.verdict_
    assert f"{int(100 * sure)} % of the items with a cluster are placed surely" in model.verdict_
    assert (ca.Consensus(noise=0.2, random_state=0).fit(table).labels_[:20] == -1).all()
    assert (ca.Consensus(noise=0.75, random_state=0).fit(table).labels_ >= 0).all()  # more than the share


@pytest.mark.parametrize("value", [1, -0.1, "most", True])
def test_a_share_is_asked_for(table, value):
    with pytest.raises(ValueError, match="noise must be None or a share from 0 to below 1"):
        ca.Consensus(noise=value).fit(table)


@pytest.mark.parametrize("settings", [{}, {"method": "kmeans", "n_clusters": 3}, {"n_clusters": 4}])
def test_noise_takes_no_part(table, settings):
    """The answer is that of a table without these rows, and no cluster is empty."""
    strays = np.full((12, 8), -1)
    strays[np.arange(12), np.arange(12) % 8] = 3 + np.arange(12) % 2  # clusters of noise in single runs
    table = np.vstack([table, strays])
    noisy = (table < 0).mean(axis=1) > 0.5
    model = ca.Consensus(noise=0.5, random_state=0, **settings).fit(table)
    alone = ca.Consensus(random_state=0, **settings).fit(table[~noisy])
    assert (model.labels_[~noisy] == alone.labels_).all() and (model.labels_[noisy] == -1).all()
    assert (model.confidence_[~noisy] == alone.confidence_).all() and (model.confidence_[noisy] == 0).all()
    assert model.n_clusters_ == alone.n_clusters_ and (model.cluster_sizes_ > 0).all()
    assert all((other.labels[noisy] == -1).all() for other in model.alternatives_)
    assert model.verdict_.replace(" 22 items are noise, and in no cluster.", "").replace(" with a cluster", "") == (
        alone.verdict_
    )


def test_nothing_but_noise_is_refused():
    table = np.full((32, 4), -1)
    table[np.arange(32), np.arange(32) % 4] = np.arange(32) % 3
    with pytest.raises(ValueError, match=r"noise=0\.5 leaves no item"):
        ca.Consensus(noise=0.5).fit(table)
