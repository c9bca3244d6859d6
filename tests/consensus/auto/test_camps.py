"""Camps: clusterings that agree within groups and not across are named, and each group has its answer."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coassoc as ca


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
