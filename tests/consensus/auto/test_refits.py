"""Stability is that of refits which share nothing: the same through the public interface."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coassoc as ca


def ensemble(seed):
    """Varied: 2 to 30 members, 100 to 3,000 items, little to much noise, some members coarser, some copies."""
    rng = np.random.default_rng([7, seed])
    n, p, k = int(rng.choice([100, 300, 1000, 3000])), int(rng.choice([2, 4, 8, 20, 30])), int(rng.integers(2, 13))
    truth, noise = rng.integers(0, k, n), rng.uniform(0.02, 0.6)
    members = [np.where(rng.random(n) < noise, rng.integers(0, k, n), truth) for _ in range(p)]
    if seed % 3 == 0:
        members = [labels // 2 if j % 3 == 2 else labels for j, labels in enumerate(members)]
    if seed % 4 == 0:
        members += members[: p // 2]
    return np.stack(members, axis=1)


def refitted(table, answer, n_splits=4):
    """Mean adjusted Rand index of fits to random halves of the different members, k and method as in the answer."""
    rng, scores = np.random.default_rng(0), []
    members = np.unique(table, axis=1)
    for _ in range(n_splits):
        halves = np.array_split(rng.permutation(members.shape[1]), 2)
        a, b = (ca.Consensus(answer.n_clusters_, answer.method_, random_state=int(rng.integers(1000))) for _ in "ab")
        scores.append(adjusted_rand_score(a.fit(members[:, halves[0]]).labels_, b.fit(members[:, halves[1]]).labels_))
    return float(np.mean(scores))


@pytest.mark.filterwarnings("ignore:n_clusters")
@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(40), marks=pytest.mark.slow)])
def test_stability_is_that_of_refits_through_the_public_interface(seeds):
    bias = []
    for seed in seeds:
        table = ensemble(seed)
        answer = ca.Consensus(random_state=0).fit(table)
        bias.append(answer.stability_ - refitted(table, answer))
    assert abs(np.mean(bias)) <= 0.03 + 0.1 / len(bias) and max(bias) <= 0.15, bias


@pytest.mark.parametrize("method", ["bisecting", "hbgf"])
def test_a_named_method_is_itself_refitted(method):
    table = ensemble(6)
    answer = ca.Consensus(4, method, random_state=0).fit(table)
    assert answer.stability_ == pytest.approx(refitted(table, answer, 8), abs=0.12)


def test_every_member_twice_is_no_more_stable():
    table = ensemble(2)
    once, twice = (ca.Consensus(4, random_state=0).fit(t).stability_ for t in (table, np.hstack([table, table])))
    assert once == twice
