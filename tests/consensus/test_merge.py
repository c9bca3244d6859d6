"""Merging clusters on their counts: what it costs, and that it equals a merge of the labels."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

import coassoc as ca
import oracle
from coassoc.consensus.merge import PairSums, merge_clusters, merged_counts


def blocks(seed, n):
    return ca.Ensemble(oracle.blocks(seed, n, 8, 6, 0.25)[0])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), missing=st.booleans())
def test_merge_losses_are_what_the_density_loses(seed, missing):
    rng = np.random.default_rng(seed)
    table = rng.integers(-1 if missing else 0, 3, size=(20, 3))
    table[(table < 0).all(axis=1)] = 0
    labels = rng.integers(0, 4, size=20)
    labels[:4] = np.arange(4)
    ens = ca.Ensemble(table)
    v = rng.random(3) + 0.1
    v *= 3 / v.sum()
    rows = ca.engines.Numpy().load(ens)
    counts = rows.counts(rows.labelling(4, labels.astype(np.int32)))
    losses = PairSums(counts, v).merge_losses()
    before = ca.density(ens, labels, partition_weights=v)
    for a, b in itertools.combinations(range(4), 2):
        after = ca.density(ens, np.where(labels == b, a, labels), partition_weights=v)
        assert losses[a, b] == pytest.approx(20 * (before - after), abs=1e-9)


def test_sums_follow_a_merge():
    ens = blocks(9, n=50)
    rows = ca.engines.Numpy().load(ens)
    counts = rows.counts(rows.labelling(5, (np.arange(50) % 5).astype(np.int32)))
    sums = PairSums(counts, np.ones(8))
    sums.merge(1, 3)
    fresh = PairSums(merged_counts(counts, np.array([0, 1, 2, 1, 3]), 4), np.ones(8))
    kept = [0, 1, 2, 4]
    assert sums.values()[kept] == pytest.approx(fresh.values())
    assert sums.merge_losses()[np.ix_(kept, kept)] == pytest.approx(fresh.merge_losses())
    assert sums.average_distances()[np.ix_(kept, kept)] == pytest.approx(fresh.average_distances())


def test_average_merging_equals_linkage_of_singletons():
    ens = ca.Ensemble(np.random.default_rng(6).integers(0, 4, size=(14, 7)))
    rows = ca.engines.Numpy().load(ens)
    counts = rows.counts(rows.labelling(14, np.arange(14, dtype=np.int32)))
    v = np.random.default_rng(7).random(7)  # random weights leave no ties
    v *= 7 / v.sum()
    together = sum(v[j] * (ens.codes[:, j, None] == ens.codes[:, j]) for j in range(7)) / 7
    distances = 1.0 - together
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average")
    assert np.diff(tree[:, 2]).min() > 1e-9
    group = merge_clusters(counts, v, 5, "average")
    assert ca.nmi(group, fcluster(tree, 5, "maxclust")) == 1.0


def test_merged_counts_are_counts_of_the_merged_labels():
    ens = blocks(7, n=60)
    labels = 1 + (np.arange(60) % 9).astype(np.int32)  # cluster 0 is empty
    rows = ca.engines.Numpy().load(ens)
    counts = rows.counts(rows.labelling(10, labels))
    group = merge_clusters(counts, np.ones(8), 4, "density")
    merged = merged_counts(counts, group, 4)
    direct = rows.counts(rows.labelling(4, group[labels]))
    assert (merged.alpha == direct.alpha).all() and (merged.sizes == direct.sizes).all()
