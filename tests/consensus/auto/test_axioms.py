"""What the default answer promises whatever the data: unanimity, copies, names, order, weights, the k asked for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
from coassoc.consensus.registry import METHODS, make_method

# methods that cut a graph into parts of equal size, and those that only approach their optimum, promise no unanimity
PROMISE_NOTHING = ("features", "graph", "mcla", "cspa", "ecc", "sec", "agreement", "density")
UNANIMOUS = [name for name in METHODS if name not in PROMISE_NOTHING]


def fit(table, n_clusters="auto", **settings):
    return ca.Consensus(n_clusters, random_state=0, **settings).fit(table)


def partition(rng, k, n=600, unequal=True):
    """A partition with k clusters, none of them empty."""
    labels = np.concatenate([np.arange(k), rng.choice(k, n - k, p=rng.dirichlet(np.full(k, 2.0 if unequal else 1e4)))])
    return rng.permutation(labels)


def noisy(rng, labels, share):
    k = labels.max() + 1
    return rng.permutation(k)[np.where(rng.random(len(labels)) < share, rng.integers(0, k, len(labels)), labels)]


def random_ensemble(seed):
    """Members of a planted partition: coarse, fine and noisy ones."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 9))
    truth = partition(rng, k, n=int(rng.integers(150, 500)))
    members = [noisy(rng, truth, rng.uniform(0.02, 0.3)) for _ in range(int(rng.integers(5, 13)))]
    members += [truth // 2, 2 * truth + rng.integers(0, 2, len(truth))]
    return np.stack(members, axis=1)


def weak_ensemble(seed):
    """Members of two independent partitions, with noise up to nothing in common, and labels missing in every other."""
    rng = np.random.default_rng([2, seed])
    k, n = int(rng.integers(2, 20)), int(rng.integers(60, 400))
    truths = rng.integers(0, k, (2, n))
    members = [noisy(rng, truths[j % 2], rng.uniform(0, 0.9)) for j in range(int(rng.integers(2, 9)))]
    table = np.stack(members, axis=1).astype(float)
    if seed % 2:
        table[rng.random(table.shape) < 0.3] = np.nan
    return table


WEAK_SEEDS = pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.slow)])


def unanimous_cases(seeds):
    for seed in seeds:
        rng = np.random.default_rng([1, seed])
        k, copies = int(rng.integers(2, 101)), int(rng.integers(2, 11))
        yield partition(rng, k, n=int(rng.integers(3 * k, 1200)), unequal=bool(seed % 2)), k, copies, rng


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 200), marks=pytest.mark.slow)])
def test_identical_clusterings_come_back_as_they_are(seeds):
    for labels, k, copies, rng in unanimous_cases(seeds):
        answer = fit(np.stack([rng.permutation(k)[labels] for _ in range(copies)], axis=1))
        assert answer.n_clusters_ == k and adjusted_rand_score(labels, answer.labels_) == 1
        assert answer.supported_ is None and "are the same" in answer.verdict_
        assert not answer.confidence_.any() and np.isnan(answer.stability_)


@pytest.mark.parametrize("name", UNANIMOUS)
def test_methods_return_identical_clusterings_at_their_k(name):
    rng = np.random.default_rng(0)
    labels = partition(rng, 12, unequal=False)
    model = make_method(name, n_clusters=12, random_state=0)
    model.fit(np.stack([rng.permutation(12)[labels] for _ in range(4)], axis=1))
    assert adjusted_rand_score(labels, model.labels_) == 1


@pytest.mark.parametrize("k", [3, 20, 40])
def test_near_copies_come_back_nearly(k):
    rng = np.random.default_rng(k)
    labels = partition(rng, k, n=1000)
    answer = fit(np.stack([noisy(rng, labels, 0.03) for _ in range(5)], axis=1))
    assert abs(answer.n_clusters_ - k) <= 0.05 * k and adjusted_rand_score(labels, answer.labels_) > 0.95
    assert answer.supported_


@WEAK_SEEDS
def test_copies_of_members_change_nothing(seeds):
    for seed in seeds:
        for table in (random_ensemble(seed), weak_ensemble(seed)):
            extra = table[:, np.random.default_rng(seed).integers(0, table.shape[1], 5)]
            a, b = fit(table), fit(np.hstack([table, extra]))
            assert (a.labels_ == b.labels_).all() and (a.confidence_ == b.confidence_).all()
            assert np.array_equal(a.stability_, b.stability_, equal_nan=True)
            assert "5 repeat another" in b.verdict_ or not a.supported_
            assert b.partition_weights_.sum() == pytest.approx(a.partition_weights_.sum())


@WEAK_SEEDS
def test_order_of_columns_and_names_change_nothing(seeds):
    for seed in seeds:
        for table in (random_ensemble(seed).astype(float), weak_ensemble(seed)):
            rng = np.random.default_rng(seed)
            order, renamed = rng.permutation(table.shape[1]), np.empty_like(table)
            for column, member in zip(renamed.T, table.T[order]):
                column[:] = np.append(rng.permutation(99), np.nan)[np.nan_to_num(member, nan=99).astype(int)]
            a, b = fit(table), fit(renamed)
            assert adjusted_rand_score(a.labels_, b.labels_) == 1 and a.verdict_ == b.verdict_
            assert (a.confidence_ == b.confidence_).all() and a.agreement_ == b.agreement_
            assert np.array_equal(a.stability_, b.stability_, equal_nan=True)
            assert (a.partition_weights_[order] == b.partition_weights_).all()


def mean_likeness(seeds):
    """Mean adjusted Rand index with the answer for shuffled rows, and for another seed."""
    rows, restarts = [], []
    for seed in seeds:
        table = random_ensemble(seed)
        order = np.random.default_rng(seed).permutation(len(table))
        labels = fit(table).labels_
        rows.append(adjusted_rand_score(labels[order], fit(table[order]).labels_))
        restarts.append(adjusted_rand_score(labels, ca.Consensus(random_state=1).fit(table).labels_))
    return np.mean(rows), np.mean(restarts)


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(30), marks=pytest.mark.slow)])
def test_order_of_rows_and_seed_change_nearly_nothing(seeds):
    assert min(mean_likeness(seeds)) >= 0.97


@WEAK_SEEDS
def test_rows_repeated_are_weights(seeds):
    for seed in seeds:
        rng, coarse = np.random.default_rng(seed), random_ensemble(seed)
        fine = 8 * coarse + rng.integers(0, 8, coarse.shape)  # some clusters lose all their items
        for table in (coarse, fine, weak_ensemble(seed)):
            weight = rng.integers(0, 4, len(table))
            weighted = ca.Consensus(random_state=0).fit(table, sample_weight=weight)
            repeated = fit(np.repeat(table, weight, axis=0))
            assert (np.repeat(weighted.labels_, weight) == repeated.labels_).all()
            assert weighted.verdict_ == repeated.verdict_


@pytest.mark.parametrize("seed", range(3))
def test_the_number_asked_for_is_given(seed):
    table = random_ensemble(seed)
    for k in (1, 2, 7, 15):
        answer = fit(table, k)
        assert answer.n_clusters_ == len(np.unique(answer.labels_)) == k
    assert fit(table, [5, 6]).n_clusters_ in (5, 6)


@pytest.mark.parametrize("seed", range(3))
def test_the_number_chosen_and_asked_for_give_the_same_labels(seed):
    table = random_ensemble(seed)
    chosen = fit(table)
    asked = fit(table, chosen.n_clusters_)
    assert (chosen.labels_ == asked.labels_).all() and chosen.stability_ == asked.stability_


def test_the_number_chosen_is_in_the_range_of_the_members_or_the_verdict_says_so():
    for seed in range(6):
        table = random_ensemble(seed)
        answer = fit(table)
        own = [len(np.unique(member)) for member in table.T]
        assert min(own) <= answer.n_clusters_ <= max(own) or "has more clusters" in answer.verdict_


def test_an_unsupported_answer_keeps_its_labels():
    table = np.random.default_rng(0).integers(0, 4, (300, 8))
    answer = fit(table)
    assert answer.supported_ is False and answer.n_clusters_ == len(np.unique(answer.labels_)) > 1
    assert answer.verdict_.startswith("No consensus") and not answer.confidence_.any()
    assert not answer.cluster_confidence_.any()


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 60), marks=pytest.mark.slow)])
def test_groups_that_no_clustering_joins_are_never_one_cluster(seeds):
    for seed in seeds:
        rng = np.random.default_rng([3, seed])
        group = partition(rng, int(rng.integers(2, 7)), n=int(rng.integers(200, 500)), unequal=False)
        parts = rng.integers(1, 7, (8, group.max() + 1))  # pieces into which a clustering cuts each group, at random
        members = [6 * group + rng.integers(0, own[group]) for own in parts]
        answer = fit(np.stack(members, axis=1))
        assert all(len(np.unique(group[answer.labels_ == c])) == 1 for c in range(answer.n_clusters_))


def test_small_groups_that_no_clustering_joins_are_not_one_for_the_sake_of_even_sizes():
    """Two groups of 400 and two of 60, in pieces along a line; three clusters would be of more even size."""
    rng = np.random.default_rng(0)
    sizes = (400, 400, 60, 60)
    place, group = np.concatenate([np.arange(n) / n for n in sizes]), np.repeat(np.arange(4), sizes)
    members = []
    for _ in range(20):
        cuts = [np.sort(rng.random(int(rng.integers(2, 9)))) for _ in range(4)]
        members.append([10 * g + np.searchsorted(cuts[g], x) for g, x in zip(group, place)])
    answer = fit(np.array(members).T)
    assert all(len(np.unique(group[answer.labels_ == c])) == 1 for c in range(answer.n_clusters_))


@pytest.mark.parametrize(("k", "labelled", "noise"), [(5, 3, 0.0), (5, 4, 0.05), (8, 6, 0.02)])
def test_groups_that_no_clustering_joins_stay_apart_where_each_labels_some_of_them(k, labelled, noise):
    rng = np.random.default_rng(0)
    group, table = np.repeat(np.arange(k), 60), np.full((60 * k, 20), np.nan)
    for j in range(20):
        seen = np.isin(group, rng.permutation(k)[:labelled])
        table[seen, j] = noisy(rng, group, noise)[seen]
    answer = fit(table)
    assert answer.n_clusters_ == k and adjusted_rand_score(group, answer.labels_) == 1
    assert answer.supported_ is (None if noise == 0 else True)


def test_clusterings_that_divide_no_items_in_common_are_not_called_chance():
    table = np.full((90, 3), np.nan)
    for j in range(3):
        table[30 * j : 30 * (j + 1), j] = np.arange(30) % 3
    answer = fit(table)
    assert answer.supported_ is None and "No two clusterings divide items that both label" in answer.verdict_
