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
    assert (model.labels_[10:] == plain.labels_[10:]).all() and (plain.labels_ >= 0).all()
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
