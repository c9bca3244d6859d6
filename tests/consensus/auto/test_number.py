"""The number of clusters is right where members are near the truth, far finer, many, few, or find a rare group."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
from coassoc.consensus.auto.number import Neighbours, _choose, own_range
from coassoc.core.counts import Counts, Layout


def kmeans(X, ks, seed=0):
    return np.stack([KMeans(int(k), n_init=1, random_state=seed + i).fit_predict(X) for i, k in enumerate(ks)], axis=1)


def blobs(rng, sizes, apart, dim=6):
    truth = np.repeat(np.arange(len(sizes)), sizes)
    return apart * rng.normal(size=(len(sizes), dim))[truth] + rng.normal(size=(len(truth), dim)), truth


def test_six_segments_from_clusterings_of_four_six_and_eight():
    X, truth = blobs(np.random.default_rng(1), [300, 250, 200, 150, 100, 80], 2.5)
    answer = ca.Consensus(random_state=0).fit(kmeans(X, [4, 6, 8] * 5))
    assert answer.n_clusters_ == 6 and adjusted_rand_score(truth, answer.labels_) > 0.9


@pytest.mark.parametrize("k", [40, pytest.param(60, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.slow)])
def test_many_clear_clusters_are_all_counted(k):
    X, truth = blobs(np.random.default_rng(k), [30] * k, 9.0)
    answer = ca.Consensus(random_state=0).fit(kmeans(X, np.linspace(0.9 * k, 1.1 * k, 10)))
    assert abs(answer.n_clusters_ - k) <= 0.05 * k and adjusted_rand_score(truth, answer.labels_) >= 0.95


@pytest.mark.parametrize("ks", [np.arange(30) % 21 + 10, [12] * 20, [25] * 20, [*range(10, 30), 2]])
def test_fine_members_on_moons_give_two(ks):
    """Of many numbers or of one, and with one coarse member among them."""
    X, truth = make_moons(500, noise=0.05, random_state=0)
    answer = ca.Consensus(random_state=0).fit(kmeans(X, ks))
    assert answer.n_clusters_ == 2 and adjusted_rand_score(truth, answer.labels_) > 0.95
    assert min(ks) == 2 or "Each of them has more clusters" in answer.verdict_


def test_one_number_in_all_members_is_kept_where_two_of_its_groups_are_close():
    """Three groups and a fourth beside the third: cuts into three are more stable, and the members say four."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 150)
    members = []
    for _ in range(12):
        labels = np.where(rng.random(600) < 0.02, rng.integers(0, 4, 600), truth)
        close = truth >= 2
        members.append(np.where(close & (rng.random(600) < 0.32), rng.integers(2, 4, 600), labels))
    answer = ca.Consensus(random_state=0).fit(np.stack(members, axis=1))
    assert answer.n_clusters_ == 4 and adjusted_rand_score(truth, answer.labels_) > 0.9


def test_the_number_of_all_members_is_named_where_their_groups_make_two():
    """Eight groups in two families, 40 % of the labels drawn anew within the family."""
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(8), 50)
    members = [np.where(rng.random(400) < 0.4, truth // 4 * 4 + rng.integers(0, 4, 400), truth) for _ in range(15)]
    answer = ca.Consensus(random_state=0).fit(np.stack(members, axis=1))
    assert answer.n_clusters_ == 2 and "of such numbers, 8 fits best" in answer.verdict_
    (eight,) = (other for other in answer.alternatives_ if other.n_clusters == 8)
    assert adjusted_rand_score(truth, eight.labels) > 0.95


@pytest.mark.parametrize("n_each", [4, 8])
def test_both_levels_of_nested_clusterings_are_named(n_each):
    """Four groups in two pairs: some members have the pairs, as many the groups."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 100)
    members = []
    for level, k in [(truth, 4), (truth // 2, 2)] * n_each:
        members.append(np.where(rng.random(400) < 0.1, rng.integers(0, k, 400), level))
    answer = ca.Consensus(random_state=0).fit(np.stack(members, axis=1))
    assert {answer.n_clusters_, *answer.runners_up_} == {2, 4} and "Nearly as good: 4." in answer.verdict_
    (four,) = (other for other in answer.alternatives_ if other.n_clusters == 4 and other.method == answer.method_)
    assert adjusted_rand_score(truth, four.labels) > 0.95


def test_the_number_of_clusters_is_no_runner_up_of_itself():
    """Four groups would be chosen; the smallest joins another one, and three were nearly as good."""
    rng, truth = np.random.default_rng(13), np.repeat(np.arange(4), [12, 12, 4, 2])
    members = [
        np.where(rng.random(30) < 0.05, rng.integers(0, 4, 30), truth) if j % 2 else np.minimum(truth, 2)
        for j in range(6)
    ]
    with pytest.warns(ConvergenceWarning, match="groups of at least min_cluster_size=3 items, 3"):
        answer = ca.Consensus(range(2, 6), random_state=0, min_cluster_size=3).fit(np.stack(members, axis=1))
    assert answer.n_clusters_ == 3 not in answer.runners_up_ and "Nearly as good: 3" not in answer.verdict_


def test_runners_up_have_a_high_score_or_a_large_gap_and_a_number_below_the_range_keeps_its_place():
    ks = np.arange(2, 10)
    flat = np.zeros(len(ks))
    gap = np.array([0.3, 0, 0, 0.1, 0.5, 0.4, 0.41, 0.4])  # at 2 to 9
    curves = {"agreement": flat, "stability": flat, "balance": flat, "eigengap": gap}

    def runners_up(**changed):
        found = _choose(ks, curves | changed, (5, 9), np.full(len(ks), True))
        assert found.k == 6
        return found.runners_up

    assert runners_up() == [8, 7, 2]  # of 2, the score with the weights below the range is nearly as high
    below = np.where(ks == 2, -1.0, 0.0)
    assert runners_up(stability=below) == [8, 7, 9]
    assert runners_up(stability=below, eigengap=gap - 0.01 * (ks == 9)) == [8, 7]  # 0.39 is less than 0.8 * 0.5
    assert runners_up(stability=np.where(ks == 6, 1.0, 0.0), eigengap=0.22 * gap) == []  # no gap is as large as 0.1


def test_few_labels_at_random_are_no_clusters():
    """Four groups; a fifth of the labels is drawn from six, so every member has two small clusters of no meaning."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 400)
    table = np.stack([np.where(rng.random(400) < 0.8, truth, rng.integers(0, 6, 400)) for _ in range(9)], axis=1)
    for weights in (None, np.full(400, 2), np.full(400, 3)):
        assert ca.Consensus(random_state=0).fit(table, sample_weight=weights).n_clusters_ == 4


def test_two_members_of_five_clusters_give_no_more_than_five():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 400)
    table = np.stack([np.where(rng.random(400) < 0.2, rng.integers(0, 5, 400), truth) for _ in range(2)], axis=1)
    assert ca.Consensus(random_state=0).fit(table).n_clusters_ <= 5


def test_a_rare_group_that_most_fine_members_find_is_kept():
    """25 of 2,000 items, apart in every member but the coarse ones."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(7), [500, 450, 400, 300, 200, 125, 25])
    members = []
    for j in range(15):
        labels = np.where(rng.random(2000) < 0.05, rng.integers(0, 6, 2000), truth)
        labels[truth == 6] = 5 if j < 4 else 6
        members.append(labels)
    table = np.stack(members, axis=1)
    for n_clusters in ("auto", 7):
        answer = ca.Consensus(n_clusters, random_state=0).fit(table)
        rare = answer.labels_[truth == 6]
        assert answer.n_clusters_ == 7 and (rare == rare[0]).all() and (answer.labels_ == rare[0]).sum() < 40
    large = ca.Consensus(random_state=0, min_cluster_size=60).fit(table)
    assert min(large.cluster_sizes_) >= 60
    with pytest.warns(ConvergenceWarning, match="groups of at least min_cluster_size=60 items, 6; 6 clusters"):
        assert ca.Consensus(7, "average", random_state=0, min_cluster_size=60).fit(table).n_clusters_ == 6


def test_neighbours_vote_on_the_number():
    """Members of 2 and of 4 clusters are equally many; the features have four groups."""
    rng = np.random.default_rng(0)
    X, truth = blobs(rng, [100] * 4, 8.0, 2)
    table = np.stack([truth // 2 if j % 2 else truth for j in range(8)], axis=1)
    table = np.where(rng.random(table.shape) < 0.02, rng.integers(0, 4, table.shape), table)
    plain = ca.Consensus(random_state=0).fit(table)
    voted = ca.Consensus(random_state=0).fit(table, features=X)
    assert "neighbours" in voted.k_curves_ and "neighbours" not in plain.k_curves_
    votes = voted.k_curves_["neighbours"]
    assert votes.max() <= 1 and voted.n_clusters_ in (2, 4)
    with pytest.raises(ValueError, match="features must have a row for each of the 400 items"):
        ca.Consensus().fit(table, features=X[:-1])


def test_the_lower_end_of_the_range_counts_clusters_by_the_entropy_of_their_sizes():
    # four clusters of 70 and two of about 10: exp(entropy) is 4.9; six clusters of 50 or 51: nearly 6
    odd, even = [70, 70, 70, 70, 11, 10], [50, 50, 50, 50, 50, 51]
    layout = Layout.of_sizes(np.array([6, 6]))
    for sizes, expected in (((odd, odd), (5, 6)), ((odd, even), (5, 6)), ((even, even), (6, 6))):
        assert own_range(Counts(np.concatenate(sizes)[:, None], np.array([301]), layout)) == expected


def test_neighbours_are_counted_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    neighbours = Neighbours(np.arange(6), np.array([[1, 2], [0, 2], [1, 0], [4, 5], [3, 5], [4, 3]]))
    assert neighbours.together(np.array([0, 0, 0, 1, 1, 1])) == 1.0
    assert neighbours.together(np.zeros(6, int)) == 0.0
    # 7 of 12 neighbours share the cluster of their item; by chance 20 / 36 would
    assert neighbours.together(np.array([0, 0, 1, 1, 1, 1])) == pytest.approx((8 / 12 - 20 / 36) / (16 / 36))
    made = Neighbours.of(np.repeat(X, 3, axis=0), np.repeat(np.arange(6), 3), np.random.default_rng(0))
    assert made.nearest.shape == (18, 10)
