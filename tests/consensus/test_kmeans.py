"""KMeansConsensus: one seed one answer, exact symmetries, and never below the exhaustive minimum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
import oracle


def fit(table, k=3, *, copies=None, **options):
    options = {"n_init": 2, "random_state": 0, "engine": "numpy"} | options
    return ca.KMeansConsensus(k, **options).fit(table, sample_weight=copies)


def fit_any(*arguments, **options):
    """A fit that may find fewer clusters than asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*arguments, **options)


def test_scores_and_attributes_are_those_of_the_labels():
    """That the passes are k-means passes is tested with the loop."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        case = oracle.random_case(rng, most_items=40, most_partitions=6)
        options = {"random_state": seed, "partition_weights": case.weights, "max_iter": int(rng.choice([1, 2, 300]))}
        km = fit_any(case.table, int(rng.integers(1, 4)), copies=case.copies, **options)
        assert km.converged_ == (km.stop_reason_ == "fixed_point")
        assert km.loss_ == km.losses_[-1] and km.n_iter_ == len(km.losses_) <= options["max_iter"]
        times = 1 if case.copies is None else case.copies
        table, labels = np.repeat(case.table, times, axis=0), np.repeat(km.labels_, times)
        assert km.loss_ == pytest.approx(oracle.loss(table, labels, case.v), abs=1e-9)
        assert km.density_ == pytest.approx(oracle.density(table, labels, case.v), abs=1e-9)
        k = len(km.cluster_sizes_)
        assert km.n_clusters_ == len(set(labels[labels >= 0].tolist())) <= k
        assert km.cluster_sizes_.tolist() == [labels.tolist().count(c) for c in range(k)]
        named = dict(zip(oracle.clusters_of(table, labels), oracle.densities(table, labels, case.v)))
        assert km.cluster_density_.tolist() == pytest.approx([named.get(c, 0.0) for c in range(k)], abs=1e-9)
        assert ((km.labels_ == -1) == (case.table < 0).all(axis=1)).all()


def test_the_best_of_fifty_starts_is_nearly_always_the_exhaustive_minimum():
    rng = np.random.default_rng(0)
    reached = cases = 0
    while cases < 100:
        n, p, k = int(rng.integers(4, 8)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
        table = rng.integers(0, 3, size=(n, p))
        if rng.random() < 0.3:
            hole = rng.random((n, p)) < 0.15
            hole[0] = False
            table[hole] = -1
        if len({tuple(row) for row in table.tolist()}) < k:
            continue
        km = fit_any(table, k, n_init=50, random_state=cases)
        if km.n_clusters_ < k:  # with missing labels, different rows may be at no distance
            continue
        minimum = min(oracle.exact_loss(table, labels) for labels in oracle.set_partitions(n, k))
        mine = oracle.exact_loss(table, np.where((table < 0).all(axis=1), 0, km.labels_))
        assert mine >= minimum
        assert km.loss_ == pytest.approx(float(mine), abs=1e-9)
        cases += 1
        reached += mine == minimum
    assert reached >= 95


# -- missing labels ------------------------------------------------------------------------------------------


def test_nested_clusterings_with_missing_labels_keep_the_finer_one():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        fine = rng.integers(6, size=int(rng.integers(60, 600)))
        table = np.column_stack([fine // 2, fine])
        hidden = rng.random(len(fine)) < rng.uniform(0.01, 0.4)
        table[hidden, 1] = -1
        km = fit(table, 6, random_state=seed)
        assert km.n_clusters_ == 6
        assert adjusted_rand_score(fine[~hidden], km.labels_[~hidden]) >= 0.95


def test_clusters_that_only_missing_labels_could_tell_apart_are_warned_of():
    for seed in range(10):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            km = fit([[0, 0]] * 3 + [[0, 1]] * 3 + [[0, np.nan]], 3, random_state=seed, n_init=1)
        assert [w.category for w in caught] == [ConvergenceWarning] * (3 - km.n_clusters_)


def test_items_that_take_no_part_change_no_seed():
    """Rows of weight 0, and rows without any label, hold the only missing labels."""
    table = oracle.table_with_holes(np.random.default_rng(3), holes=False)
    more = np.vstack([table, [[-1] * table.shape[1], [0, -1, *table[0, 2:]]]])
    weight = np.append(np.ones(len(table) + 1, int), 0)
    for seed in range(10):
        plain, padded = fit(table, 4, random_state=seed, n_init=1), ca.KMeansConsensus(4, random_state=seed, n_init=1)
        assert (padded.fit(more, sample_weight=weight).labels_[: len(table)] == plain.labels_).all()
