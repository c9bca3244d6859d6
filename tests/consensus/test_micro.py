"""Micro-clusters: none empty, their counts those of their items, and no order of columns or names in them."""

import numpy as np
import pytest

import coassoc as ca
import oracle
from coassoc.consensus import micro
from coassoc.consensus.micro import MICRO_PASSES, different_in_sample, micro_clusters, sampled_codes
from twins.cases import brute_counts


def reduced(table, n_micro=12, seed=0, copies=None):
    ensemble, engine = ca.Ensemble(table), ca.engines.Numpy()
    rows = engine.load(ensemble, copies)
    leaves = micro_clusters(rows, engine, n_micro, MICRO_PASSES, seed)
    return ensemble, rows, leaves, rows.labels(leaves.labelling)


def test_counts_are_those_of_the_items(monkeypatch):
    table = oracle.blocks(0, 300, 6, 4, 0.3)[0]
    for sampled in (False, True):
        if sampled:
            monkeypatch.setattr(micro, "SAMPLED_ABOVE", 100)
            monkeypatch.setattr(micro, "SAMPLE_ITEMS", 80)
        ensemble, rows, leaves, labels = reduced(table)
        assert (leaves.sizes > 0).all() and leaves.sizes.tolist() == np.bincount(labels).tolist()
        alpha = brute_counts(ensemble, labels, None, leaves.n_leaves)[0]
        assert (leaves.in_given_order(leaves.counts, rows.layout).alpha == alpha).all()
        again = rows.labelling(leaves.n_leaves)
        rows.assign(again, leaves.table)
        assert (rows.labels(again) == labels).all()


def test_order_of_columns_and_names_of_clusters_do_not_matter():
    rng = np.random.default_rng(2)
    table = oracle.blocks(1, 200, 6, 4, 0.3)[0]
    order = rng.permutation(6)
    renamed = (table.max() - table)[:, order]
    plain, other = reduced(table), reduced(renamed)
    assert oracle.same_partition(plain[3], other[3])
    first = [np.flatnonzero(plain[3] == leaf)[0] for leaf in range(plain[2].n_leaves)]
    assert (plain[2].counts.alpha == other[2].counts.alpha[:, other[3][first]]).all()
    assert (order[other[2].partitions] == plain[2].partitions).all()


def test_few_different_rows_are_the_micro_clusters():
    table = np.repeat([[0, 0], [0, 1], [1, 1]], 5, axis=0)
    _, _, leaves, labels = reduced(table, 12)
    assert leaves.few_rows and leaves.n_leaves == 3
    assert oracle.same_partition(labels, np.repeat([0, 1, 2], 5))
    assert not reduced(table, 3)[2].few_rows


@pytest.mark.parametrize("n_items", [1, 7, 30, 99])
def test_a_sample_has_an_item_from_each_stretch(n_items):
    table = np.arange(40)[:, None].repeat(2, axis=1)
    copies = np.tile([1, 2, 0, 1], 10)
    rows = ca.engines.Numpy().load(ca.Ensemble(table), copies)
    items = np.repeat(np.arange(40), copies)
    drawn = sampled_codes(rows, n_items, np.random.default_rng(0))[:, 0]
    if n_items >= len(items):
        assert (drawn == items).all()
    else:
        edges = np.arange(n_items + 1) * len(items) // n_items
        assert all(item in items[a:b] for item, a, b in zip(drawn, edges, edges[1:]))


def test_different_rows_are_counted_on_a_sample_of_many_items(monkeypatch):
    rows = ca.engines.Numpy().load(ca.Ensemble(np.arange(60)[:, None] % [6, 3]))
    assert different_in_sample(rows, 0) is None
    monkeypatch.setattr(micro, "SAMPLED_ABOVE", 50)
    monkeypatch.setattr(micro, "SAMPLE_ITEMS", 40)
    assert len(different_in_sample(rows, 0)) == 6
