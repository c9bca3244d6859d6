"""Pairs of clusterings and micro-clusters, against plain computations that share no code with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaincc
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

import coassoc as ca
from coassoc.consensus import micro
from coassoc.consensus.auto.members import agreement, compare_members
from coassoc.consensus.auto.refits import rand_index
from coassoc.metrics.scores import member_tables


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
        return compare_members(member_tables(ensemble, rows, range(table.shape[1])), rows.layout)


def distance_from_chance(a, b):
    """Σ (n_ab − n_a n_b / n)², cell by cell."""
    return sum(
        (((a == i) & (b == j)).sum() - (a == i).sum() * (b == j).sum() / len(a)) ** 2
        for i in np.unique(a)
        for j in np.unique(b)
    )


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n", [12, 120, 3000])
def test_agreement_is_that_of_scikit_learn(n, missing):
    table = table_of(n=n, missing=missing)
    pairs = pairs_of(table)
    for i in range(table.shape[1]):
        for j in range(i + 1, table.shape[1]):
            a, b = table[(table[:, [i, j]] >= 0).all(axis=1)][:, [i, j]].T
            assert pairs.ami[i, j] == pairs.ami[j, i] == pytest.approx(adjusted_mutual_info_score(a, b), abs=1e-6)
            assert pairs.statistic[i, j] == pytest.approx(distance_from_chance(a, b))


def test_fine_clusterings_agree_as_scikit_learn_says():
    rng = np.random.default_rng(0)
    table = rng.choice(100, (1000, 2), p=rng.dirichlet(np.ones(100)))
    assert pairs_of(table).ami[0, 1] == pytest.approx(adjusted_mutual_info_score(*table.T), abs=1e-6)


def test_moments_and_tail_are_those_of_permutations():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, 60), rng.choice(3, 60, p=[0.6, 0.3, 0.1])
    drawn = np.array([distance_from_chance(a, rng.permutation(b)) for _ in range(3000)])
    pairs = pairs_of(np.stack([a, b], axis=1))
    mean, variance = pairs.mean[0, 1], pairs.variance[0, 1]
    assert mean == pytest.approx(drawn.mean(), rel=0.03) and variance == pytest.approx(drawn.var(), rel=0.15)
    at = np.quantile(drawn, 0.95)
    assert gammaincc(mean**2 / variance, at * mean / variance) == pytest.approx(0.05, abs=0.02)


def test_copies_are_found_whatever_their_names():
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 4, (100, 9))
    table = np.column_stack([noise, noise[:, 0], (noise[:, 0] + 1) % 4])
    assert pairs_of(table).copy_of.tolist() == [0, *range(1, 9), 0, 0]
    table[3, 10] = -1  # labels other items, so it is no copy
    assert pairs_of(table).copy_of.tolist() == [0, *range(1, 9), 0, 10]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_micro_clusters_have_the_counts_of_their_items(missing):
    table = table_of(missing=missing)
    ensemble, engine = ca.Ensemble(table), ca.engines.Numpy()
    with engine.load(ensemble) as rows:
        leaves = micro.micro_clusters(rows, engine, 40, 30, 0)
        leaf = rows.labels(leaves.labelling)
    assert (np.bincount(leaf) == leaves.sizes).all()
    one_hot = ensemble.one_hot().toarray().astype(int)
    for c in range(leaves.n_leaves):
        assert (one_hot[leaf == c].sum(axis=0)[leaves.codes] == leaves.counts.alpha[:, c]).all()
    of_leaf = np.arange(leaves.n_leaves) % 4
    labels = of_leaf[leaf]
    expected = [adjusted_mutual_info_score(table[seen, j], labels[seen])
                for j in leaves.partitions for seen in [table[:, j] >= 0]]  # fmt: skip
    assert agreement([leaves.merged(of_leaf, 4).alpha], leaves.layout)[0] == pytest.approx(expected, abs=1e-6)


def test_rand_index_is_that_of_scikit_learn():
    a, b = np.random.default_rng(0).integers(0, 4, (2, 100))
    table = np.zeros((4, 4), int)
    np.add.at(table, (a, b), 1)
    assert rand_index(table) == pytest.approx(adjusted_rand_score(a, b))
    assert rand_index(np.array([[7]])) == 1.0


# -- camps: clusterings that agree within groups and not across are named, and each group has its answer --------------


def two_camps(first, second, n=500):
    """Members (count, noise) of two independent partitions of the same items."""
    rng = np.random.default_rng(0)
    truths = rng.integers(0, 4, (2, n))
    members = [
        np.where(rng.random(n) < noise, rng.integers(0, 4, n), truth)
        for truth, (count, noise) in zip(truths, (first, second))
        for _ in range(count)
    ]
    return np.stack(members, axis=1), truths


@pytest.mark.parametrize(
    "first, second, words", [((5, 0.1), (5, 0.1), "two camps of 5"), ((6, 0.3), (4, 0.05), "two camps of 6 and 4")]
)
def test_two_camps_are_named_and_answered(first, second, words):
    table, truths = two_camps(first, second)
    answer = ca.Consensus(random_state=0).fit(table)
    split = first[0]
    assert [camp.tolist() for camp in answer.camps_] == [list(range(split)), list(range(split, 10))]
    assert answer.verdict_.startswith(f"Your 10 clusterings are {words}")
    assert (answer.partition_weights_ == 1).all()
    for i, truth in enumerate(truths):
        own = next(other for other in answer.alternatives_ if other.camp == i)
        assert adjusted_rand_score(truth, own.labels) > 0.9 and own.stability > 0.5
    assert answer.disputed_.mean() > 0.9


def test_copies_belong_to_the_camp_of_their_original():
    table, _ = two_camps((5, 0.1), (5, 0.1))
    answer = ca.Consensus(random_state=0).fit(np.hstack([table, table[:, 7:8]]))
    assert [camp.tolist() for camp in answer.camps_] == [[5, 6, 7, 8, 9, 10], [0, 1, 2, 3, 4]]


def test_coarse_and_fine_members_are_no_camps():
    rng = np.random.default_rng(1)
    fine = rng.integers(0, 24, 600)
    members = [np.where(rng.random(600) < 0.1, rng.integers(0, 24, 600), fine) // size for size in (1, 1, 1, 6, 6, 12)]
    answer = ca.Consensus(random_state=0).fit(np.stack(members, axis=1))
    assert len(answer.camps_) == 1 and "camps" not in answer.verdict_ and not answer.disputed_.any()
