"""Small clusters that most finer clusterings share and the answer lacks, against sets of items."""

import numpy as np
import pytest

import coassoc as ca
from coassoc.consensus.hidden import hidden_clusters


def by_sets(table: np.ndarray, labels: np.ndarray) -> list[tuple[int, int, int]]:
    """(clustering, cluster, number of finer clusterings that have it), before those alike are named once."""

    def sets(column):
        return [set(np.flatnonzero(column == c).tolist()) for c in range(column.max() + 1)]

    def same(a, b):
        return 2 * len(a & b) >= len(a) and 2 * len(a & b) >= len(b)

    k = labels.max() + 1
    finer = [j for j in range(table.shape[1]) if k < table[:, j].max() + 1 <= 2.5 * k]
    found = []
    for j in finer:
        for c, items in enumerate(sets(table[:, j])):
            n_found = sum(any(same(items, other) for other in sets(table[:, i])) for i in finer)
            small = 5 <= len(items) < len(labels) * min(0.25 / k, 0.5 / (table[:, j].max() + 1))
            if small and 2 * n_found > len(finer) > 1 and not any(same(items, one) for one in sets(labels)):
                found.append((j, c, n_found))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_they_are_those_of_a_search_over_sets(seed):
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(3, size=240))
    fine = labels.copy()
    for c, size in enumerate((12, 7, 16)):
        fine[rng.choice(np.flatnonzero(labels == c), size, replace=False)] = 3 + c
    noisy = [np.where(rng.random(240) < 0.02, rng.integers(6, size=240), fine) for _ in range(5)]
    table = np.column_stack([labels, *noisy])
    found, wanted = hidden_clusters(table, labels, engine="numpy"), by_sets(table, labels)
    assert {(one.partition, one.code, one.n_found) for one in found} <= set(wanted)
    assert found == sorted(found, key=lambda one: -one.n_found)
    # each of those wanted is named, by itself or by one like it
    for j, c, _ in wanted:
        items = table[:, j] == c
        mine = [table[:, one.partition] == one.code for one in found]
        assert any(2 * (items & other).sum() >= max(items.sum(), other.sum()) for other in mine)
    for one in found:
        items = table[:, one.partition] == one.code
        assert one.size == items.sum() and one.inside == np.bincount(labels[items]).argmax() and one.n_finer == 5


def test_an_answer_that_has_them_hides_none():
    rng = np.random.default_rng(0)
    kind = np.repeat(np.arange(4), [100, 80, 60, 10])
    table = np.column_stack([np.where(rng.random(250) < 0.02, 0, kind) for _ in range(5)] + [np.arange(250) % 6] * 2)
    assert hidden_clusters(table, kind) == []
    (one,) = hidden_clusters(np.column_stack([table[:, :5], np.minimum(kind, 2)]), np.minimum(kind, 2))
    assert one.size in (9, 10) and one.inside == 2 and "of the 5 finer clusterings" in str(one)
    assert hidden_clusters(np.full((20, 2), 1), np.zeros(20, int)) == []
    ensemble = ca.Ensemble(np.where(rng.random(table.shape) < 0.1, -1, table))
    assert hidden_clusters(ensemble, np.where(kind == 1, -1, kind)) is not None  # labels may be missing


def test_clusterings_far_finer_than_the_answer_say_nothing_about_small_clusters():
    rng = np.random.default_rng(1)
    fine = np.arange(600) // 20  # thirty equal groups, in each of six clusterings
    table = np.column_stack([np.where(rng.random(600) < 0.02, rng.integers(30, size=600), fine) for _ in range(6)])
    assert hidden_clusters(table, fine // 15) == []
