"""Names of clusters: the best matching by brute force, sizes in order, the partition itself untouched."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import coassoc as ca
import oracle
from coassoc.metrics.labels import count_labels, ranks_by_size


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25))
def test_no_other_renaming_overlaps_more(pairs):
    reference, labels = map(list, zip(*pairs))
    renamed = ca.align_labels(reference, labels).tolist()
    assert oracle.same_partition(renamed, labels)
    mine = sorted({*labels})
    names = [*{*reference}, *range(-len(mine), 0)]
    best = max(
        sum(dict(zip(mine, chosen))[x] == r for x, r in zip(labels, reference))
        for chosen in itertools.permutations(names, len(mine))
    )
    assert sum(a == r for a, r in zip(renamed, reference)) == best


def test_unmatched_clusters_get_new_names_and_missing_labels_stay_missing():
    assert ca.align_labels([3, 3, 3, 3], [0, 0, 1, 2]).tolist() == [3, 3, 4, 5]
    assert ca.align_labels(["a", "a", "b"], [1, 1, 1]).tolist() == ["a", "a", "a"]
    assert ca.align_labels(["a", "a", "a"], [1, 1, 2]).tolist() == ["a", "a", "new 0"]
    assert ca.align_labels([0, 0, 1, -1], [7, -1, 8, 8]).tolist() == [0, -1, 1, 1]


@given(st.lists(st.integers(-1, 5), min_size=1, max_size=40).filter(lambda x: max(x) >= 0))
def test_sizes_fall_and_ties_go_to_the_first_seen(labels):
    ordered = ca.metrics.order_by_size(labels)
    array, cut = np.array(labels), len(labels) // 3
    counted = [count_labels(part, 6) for part in (array[:cut], array[cut:])]
    assert (ranks_by_size(counted, 6)[array] == ordered).all()
    kept = [x for x in labels if x >= 0]
    new = ordered[ordered >= 0]
    assert [x < 0 for x in labels] == (ordered < 0).tolist()
    assert oracle.same_partition(kept, new.tolist())
    sizes = np.bincount(new)
    assert (np.diff(sizes) <= 0).all()
    first = [new.tolist().index(c) for c in range(len(sizes))]
    assert all(a < b for (a, s), (b, t) in itertools.pairwise(zip(first, sizes)) if s == t)
