"""Item consensus, cluster recovery and agreement: against the co-association matrix written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from coassoc.metrics import membership


def case(seed, missing=0.0, n=30, p=5, k=4):
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((n, p)) < missing, -1, rng.integers(0, 4, size=(n, p)))
    table[(table < 0).all(axis=1), 0] = 0
    labels = rng.integers(0, k, size=n)
    labels[:k] = np.arange(k)
    return ca.Ensemble(table), labels


def pooled(ens, i, others, v):
    """Mean co-association of item i with other items: weights of partitions together over observed together."""
    own, codes = ens.codes[i], ens.codes[others]
    seen = (own != ens.n_clusters) & (codes != ens.n_clusters)
    observed = (v * seen).sum()
    return (v * (seen & (codes == own))).sum() / observed if observed else 0.0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), missing=st.sampled_from([0.0, 0.4]), weighted=st.booleans())
def test_own_and_best_other_equal_means_over_pairs(seed, missing, weighted):
    ens, labels = case(seed, missing)
    v = np.random.default_rng(seed).random(5) + 0.1 if weighted else np.ones(5)
    v *= 5 / v.sum()
    found = ca.item_consensus(ens, labels, partition_weights=v)
    items = np.arange(30)
    for i in items:
        means = [pooled(ens, i, items[(labels == c) & (items != i)], v) for c in range(4)]
        assert found.own[i] == pytest.approx(means[labels[i]], abs=1e-9)
        means[labels[i]] = -1.0
        assert found.other[i] == pytest.approx(max(means), abs=1e-9)
        assert means[found.nearest[i]] == pytest.approx(max(means), abs=1e-9)
    assert (found.margin == found.own - found.other).all()
    if not missing and not weighted:  # the mean of own over a cluster is its density
        density = [found.own[labels == c].mean() for c in range(4)]
        assert density == pytest.approx(ca.cluster_density(ens, labels))


def test_roles_of_items():
    # two clear clusters, one item between them, one that belongs nowhere
    table = np.array([[0] * 8] * 5 + [[1] * 8] * 5 + [[0] * 4 + [1] * 4, [2, 3, 4, 5, 2, 3, 4, 5]])
    labels = [0] * 5 + [1] * 5 + [0, 1]
    found = ca.item_consensus(table, labels)
    assert found.role.tolist() == [0] * 10 + [1, 2]
    # an outlier is one whose leaving raises the density of what stays
    with_it = 6 * ca.cluster_density(table, labels)[1]
    without = 5 * ca.cluster_density(table, [0] * 5 + [1] * 5 + [0, -1])[1]
    assert without > with_it
    assert "10 core, 1 boundary, 1 outliers" in repr(found)


def test_singletons_and_unlabelled_items_are_outliers():
    found = ca.item_consensus([[0, 0], [0, 0], [1, 1], [2, 2]], [0, 0, 1, -1])
    assert found.role.tolist() == [0, 0, 2, 2]
    assert found.own.tolist() == [1.0, 1.0, 0.0, 0.0]


def test_multiplicity_counts_the_other_copies():
    ens, labels = case(2, n=10, k=3)
    copies = np.random.default_rng(0).integers(1, 4, size=10)
    without, once = copies.copy(), copies.copy()
    without[4], once[4] = 0, 1  # an item is not compared with itself, whether it counts or not
    own = [ca.item_consensus(ens, labels, sample_weight=given).own[4] for given in (without, once)]
    assert own[0] == pytest.approx(own[1])
    weighted = ca.item_consensus(ens, labels, sample_weight=copies)
    repeated = ca.item_consensus(ens.take(np.repeat(np.arange(10), copies)), np.repeat(labels, copies))
    first = np.concatenate([[0], np.cumsum(copies)[:-1]])
    assert weighted.own == pytest.approx(repeated.own[first])
    assert weighted.other == pytest.approx(repeated.other[first])


def test_chunks_do_not_matter(monkeypatch):
    ens, labels = case(3)
    whole = ca.item_consensus(ens, labels)
    monkeypatch.setattr(membership, "_CHUNK_CELLS", 12)
    for name in ("own", "other", "nearest", "role"):
        assert getattr(ca.item_consensus(ens, labels), name).tolist() == getattr(whole, name).tolist()


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_cluster_recovery_is_the_mean_best_jaccard(missing):
    ens, labels = case(4, missing)
    found = ca.cluster_recovery(ens, labels)
    for c in range(4):
        best = []
        for base in map(ens.partition, range(ens.n_partitions)):
            mine = (labels == c) & (base >= 0)
            if mine.any():
                best.append(max((mine & (base == f)).sum() / (mine | (base == f)).sum() for f in range(4)))
        assert found[c] == pytest.approx(np.mean(best))


@pytest.mark.parametrize("method", ["KMeansConsensus", "HBGF"])
def test_transform_is_the_mean_coassociation_with_each_cluster(method):
    ens, _ = case(8)
    model = getattr(ca, method)(3, random_state=0).fit(ens)
    strengths = model.transform(ens)
    matrix = ens.coassociation("all")
    expected = np.stack([matrix[:, model.labels_ == c].mean(axis=1) for c in range(3)], axis=1)
    assert strengths == pytest.approx(expected)
    assert model.transform(np.full((2, 5), 99)).tolist() == [[0.0] * 3] * 2
