"""Agreement beyond chance, weights and micro-clusters, against plain computations that share no code with them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, mutual_info_score, normalized_mutual_info_score

import coassoc as ca
from coassoc.consensus import choosing, micro, support
from coassoc.metrics.counting import member_tables


def table_of(seed=0, n=120, missing=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    columns = [np.where(rng.random(n) < 0.3, rng.integers(0, 2 + j % 4, n), truth % (2 + j % 3)) for j in range(6)]
    table = np.stack([*columns, rng.integers(0, 5, n)], axis=1)
    table[rng.random(table.shape) < missing] = -1
    return table


def pairs_of(table):
    ensemble = ca.Ensemble(table)
    with ca.engines.Numpy().load(ensemble) as rows:
        return support.compare_members(member_tables(ensemble, rows, range(table.shape[1])), rows.layout)


def chi_square(a, b):
    n = len(a)
    total = 0.0
    for i in np.unique(a):
        for j in np.unique(b):
            expected = (a == i).sum() * (b == j).sum() / n
            total += (((a == i) & (b == j)).sum() - expected) ** 2 / expected
    return total


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_agreement_is_mutual_information_beyond_chance(missing):
    table = table_of(missing=missing)
    pairs = pairs_of(table)
    for i in range(table.shape[1]):
        for j in range(i + 1, table.shape[1]):
            both = (table[:, [i, j]] >= 0).all(axis=1)
            a, b = table[both, i], table[both, j]
            chance = (len(set(a)) - 1) * (len(set(b)) - 1) / (2 * len(a))
            scale = np.sqrt(mutual_info_score(a, a) * mutual_info_score(b, b))
            expected = max(mutual_info_score(a, b) - chance, 0) / scale
            assert pairs.agreement[i, j] == pairs.agreement[j, i] == pytest.approx(expected, abs=1e-12)


def test_p_values_are_those_of_permutations():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, 60), rng.choice(3, 60, p=[0.6, 0.3, 0.1])
    b = np.where(rng.random(60) < 0.12, a % 3, b)
    drawn = np.array([chi_square(a, rng.permutation(b)) for _ in range(2000)])
    expected = (drawn >= chi_square(a, b)).mean()
    assert pairs_of(np.stack([a, b], axis=1)).p_values[0, 1] == pytest.approx(expected, abs=0.03)


def test_copies_count_once():
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 4, (100, 9))
    some = np.column_stack([noise, noise[:, 0], (noise[:, 0] + 1) % 4])  # three alike of eleven
    assert pairs_of(some).copy_of.tolist() == [0, *range(1, 9), 0, 0]
    assert not support.find_support(pairs_of(some)).supported
    most = np.column_stack([noise[:, :2], *[noise[:, 0]] * 4])  # five alike of six
    found = support.find_support(pairs_of(most))
    assert found.supported and found.core.tolist() == [True, False, True, True, True, True]
    assert found.warning is None and "no more than chance" in support.find_support(pairs_of(noise)).warning


def test_members_that_agree_with_none_are_left_out():
    central = support.centrality(pairs_of(table_of()).agreement)
    assert central[-1] < support.LEAST_CENTRALITY < central[:3].min()
    assert (support.centrality(np.zeros((3, 3))) == 1).all()


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_micro_clusters_have_the_counts_of_their_items(missing):
    table = table_of(missing=missing)
    ensemble = ca.Ensemble(table)
    engine = ca.engines.Numpy()
    with engine.load(ensemble) as rows:
        found = micro.micro_clusters(rows, engine, 40, 30, 0, ensemble=ensemble)
        leaf = rows.labels(found.labelling)
    assert (np.bincount(leaf) == found.sizes).all()
    one_hot = ensemble.one_hot().toarray().astype(int)
    for c in range(found.n_leaves):
        assert (one_hot[leaf == c].sum(axis=0)[found.codes] == found.counts.alpha[:, c]).all()
    of_leaf = np.arange(found.n_leaves) % 4
    labels = of_leaf[leaf]
    expected = [normalized_mutual_info_score(table[seen, j], labels[seen])
                for j in found.partitions for seen in [table[:, j] >= 0]]  # fmt: skip
    assert choosing.member_nmi(found, of_leaf) == pytest.approx(expected, abs=1e-12)
    other = np.arange(found.n_leaves) // 7
    assert choosing.rand_index(of_leaf, other, found.sizes) == pytest.approx(adjusted_rand_score(labels, other[leaf]))
