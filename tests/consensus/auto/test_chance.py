"""Support: a joint test that sees weak agreement, is not fooled by sizes, and says when it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
from benchmarks.truth_families import noise_ensemble
from coassoc.consensus.auto.chance import support_and_scores


def weak(seed, n, share, p=30, k=4):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    members = [np.where(rng.random(n) < share, rng.integers(0, k, n), truth) for _ in range(p)]
    return np.stack(members, axis=1), truth


def supported(table):
    return support_and_scores(ca.Ensemble(table))[0].supported


def test_weak_but_clear_agreement_is_seen_and_used():
    table, truth = weak(0, 100, 0.6)
    answer = ca.Consensus(random_state=0).fit(table)
    assert answer.supported_ and answer.n_clusters_ == 4 and adjusted_rand_score(truth, answer.labels_) > 0.85
    assert sum(supported(weak(seed, 1000, 0.8)[0]) for seed in range(10)) >= 9


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 100), marks=pytest.mark.slow)])
def test_noise_is_not_supported(seeds):
    assert not any(supported(noise_ensemble(seed).table) for seed in seeds)


def test_unbalanced_sizes_are_no_support():
    rng = np.random.default_rng(0)

    def giant(n):
        labels = np.zeros(n, int)
        labels[rng.integers(n)] = 1
        return labels

    assert not any(supported(np.stack([giant(20_000), giant(20_000)], axis=1)) for _ in range(20))
    shares = 1.0 / np.arange(1.0, 16.0) ** 2
    draw = [rng.choice(15, (200, 4), p=shares / shares.sum()) for _ in range(200)]
    assert sum(map(supported, draw)) <= 2


def test_too_few_items_and_one_clustering_cannot_be_told():
    toy = [[1, 2, 1, 1], [1, 2, 1, 2], [1, 2, 2, None], [2, 3, 2, 1], [2, 3, 3, 2], [3, 1, 3, None], [3, 1, 3, None]]
    answer = ca.Consensus(random_state=0).fit(toy)
    assert answer.supported_ is None and "only 7 items" in answer.verdict_ and answer.n_clusters_ > 1
    equal = ca.Consensus(random_state=0).fit(np.repeat(np.arange(10)[:, None] % 3, 4, axis=1))
    assert equal.supported_ is None and equal.n_clusters_ == 3
    single = ca.Consensus(random_state=0).fit(np.arange(50)[:, None] % 5)
    assert single.supported_ is None and single.n_clusters_ == 5 and "one clustering" in single.verdict_


def test_clusterings_that_do_not_differ_confirm_nothing_and_the_verdict_says_why():
    rng = np.random.default_rng(0)
    labels, trivial = rng.integers(0, 4, 200), np.zeros(200)
    holes = np.where(rng.random((200, 4)) < 0.2, np.nan, labels[:, None])
    for table, k, words in (
        (holes, 4, "All 4 clusterings are the same where they label the same items"),
        (np.stack([labels, trivial, trivial], axis=1), 4, "Only one clustering has more than one cluster"),
        (np.stack([labels, labels, trivial], axis=1), 4, "The 2 clusterings of more than one cluster are the same"),
        (np.where(np.isnan(holes), np.nan, 0.0), 1, "No clustering has more than one cluster"),
    ):
        answer = ca.Consensus(random_state=0).fit(table)
        assert answer.supported_ is None and np.isnan(answer.stability_) and not answer.confidence_.any()
        assert answer.verdict_.startswith(f"{words}, and the answer has {k} cluster")


def test_members_that_agree_with_no_other_are_left_out_and_not_counted():
    table, truth = weak(1, 600, 0.2, p=8)
    rng = np.random.default_rng(0)
    bad = np.stack([rng.permutation(member) for member in table.T], axis=1)
    answer = ca.Consensus(4, random_state=0).fit(np.hstack([bad, table]))
    assert answer.partition_weights_.tolist() == [0.0] * 8 + [1.0] * 8
    assert "from 8 of 16 clusterings (8 agree with no other)" in answer.verdict_
    assert adjusted_rand_score(truth, answer.labels_) > 0.95
    without = ca.Consensus(4, random_state=0).fit(table)
    assert adjusted_rand_score(without.labels_, answer.labels_) > 0.97


def test_fine_members_on_few_items_are_told_from_random_ones():
    """Expected mutual information is exact: 100 clusters on 1,000 items agree by chance, and that is taken off."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 100, 1000)
    good = [np.where(rng.random(1000) < 0.2, rng.integers(0, 100, 1000), truth) for _ in range(5)]
    bad = [rng.integers(0, 100, 1000) for _ in range(5)]
    found = support_and_scores(ca.Ensemble(np.stack(good + bad, axis=1)))[0]
    assert found.supported and found.used.tolist() == [True] * 5 + [False] * 5


def test_copies_with_other_labels_missing_are_no_support():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 6, (300, 8)).astype(float)
    table[:, 4:] = table[:, :1]
    table[rng.random(table.shape) < 0.2] = np.nan
    assert not supported(table)
    answer = ca.Consensus(3, random_state=0).fit(table)
    assert (answer.labels_ >= 0).all()  # all of them are used: each labels other items
