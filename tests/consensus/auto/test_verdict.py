"""Sentences of the verdict beside the answer."""

from __future__ import annotations

import re

import numpy as np
import pytest

import coassoc as ca
from coassoc.consensus.auto.verdict import either


def test_numbers_are_listed_as_in_a_sentence():
    assert [either(numbers) for numbers in ([4], [4, 6], [4, 6, 5])] == ["4", "4 or 6", "4, 6 or 5"]


@pytest.mark.parametrize("seed", range(3))
def test_the_verdict_names_a_rare_type_that_two_thirds_of_the_clusterings_find(seed):
    rng = np.random.default_rng(seed)
    kind = np.sort(rng.integers(8, size=3000))
    rare = rng.choice(np.flatnonzero(kind == 0), 25, replace=False)
    columns = []
    for j in range(20):
        own = kind.copy()
        own[rare] = 8 if j < 14 else 0
        strays = rng.random(3000) < 0.05
        own[strays] = rng.integers(own.max() + 1, size=strays.sum())
        columns.append(own)
    table = np.column_stack(columns)
    answer = ca.Consensus(random_state=0).fit(table)
    told = re.search(r"(\d+) items of cluster (\d) are a cluster of their own in (\d+) of 14 finer", answer.verdict_)
    assert told and 30 <= int(told[1]) <= 55 and int(told[2]) == np.bincount(answer.labels_[rare]).argmax()
    renamed = table[:, rng.permutation(20)]
    assert ca.Consensus(random_state=0).fit(renamed).verdict_ == answer.verdict_
    assert "of their own" not in ca.Consensus(9, random_state=0).fit(table).verdict_
    assert "of their own" not in ca.Consensus(min_cluster_size=100, random_state=0).fit(table).verdict_


def test_many_copies_of_a_clustering_unlike_the_answer_are_named():
    """Copies count once, so the verdict says when a clustering that is often repeated is not the answer."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(3, size=400), rng.integers(3, size=400)
    others = [np.where(rng.random(400) < 0.1, rng.integers(3, size=400), first) for _ in range(9)]
    copies = [rng.permutation(3)[second] for _ in range(4)]
    answer = ca.Consensus(random_state=0).fit(np.column_stack([*others, *copies]))
    assert ca.nmi(answer.labels_, first) > 0.9
    assert "4 of the 13 clusterings are the same one (9), which counts once and differs from this" in answer.verdict_
    assert "the same one" not in ca.Consensus(random_state=0).fit(np.column_stack([*others, *copies[:2]])).verdict_
    assert "the same one" not in ca.Consensus(random_state=0).fit(np.column_stack([*others, *[first] * 4])).verdict_
    constant = np.zeros((400, 5), int)
    assert "the same one" not in ca.Consensus(random_state=0).fit(np.column_stack([*others, constant])).verdict_


def test_of_equals_the_one_named_does_not_follow_the_columns():
    rng = np.random.default_rng(3)
    kind = np.repeat(np.arange(3), 200)
    noisy = [np.where(rng.random(600) < 0.05, rng.integers(3, size=600), kind) for _ in range(6)]
    one, other = rng.integers(3, size=600), np.where(rng.random(600) < 0.4, rng.integers(3, size=600), kind)
    table = np.column_stack([*noisy, *[one, other] * 3])
    rare = np.column_stack([*noisy, kind])
    for start in (0, 200):  # two rare groups of ten, in different clusters
        rare[start : start + 10, 2:6] = 3 + start // 200
    renamed = np.where(rare > 2, 7 - rare, rare)
    for first, second, words in (
        (table, table[:, ::-1], "3 of the 12 clusterings are the same one"),
        (rare, renamed[:, ::-1], "a cluster of their own in 4 of 4"),
    ):
        told = [ca.Consensus(3, random_state=0).fit(members).verdict_ for members in (first, second)]
        assert words in told[0] and len({re.sub(r"same one \(\d+\)", "", verdict) for verdict in told}) == 1
