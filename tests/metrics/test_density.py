"""Densities and losses against brute force over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
import oracle

TIGHT = {"rtol": 1e-9, "atol": 1e-9}
NAMES = ("density", "cluster_density", "inter_density", "kmeans_loss")


def scores(case, engine="numpy"):
    return {name: getattr(ca.metrics, name)(case.table, case.labels, engine=engine, **case.kwargs()) for name in NAMES}


def truth(case):
    """All scores by brute force on the repeated rows."""
    table, labels = case.repeated()
    present = sorted({int(c) for c in case.labels if c >= 0})
    inter = np.zeros((len(present), len(present)))
    members = oracle.clusters_of(table, labels)
    kept = [present.index(c) for c in members]  # a cluster whose copies are all 0 keeps its place
    inter[np.ix_(kept, kept)] = oracle.inter_densities(table, labels, case.v)
    return {
        "density": oracle.density(table, labels, case.v),
        "cluster_density": np.diagonal(inter),
        "inter_density": inter,
        "kmeans_loss": oracle.loss(table, labels, case.v),
    }


def check(case, engine="numpy"):
    found, wanted = scores(case, engine), truth(case)
    for name in NAMES:
        np.testing.assert_allclose(found[name], wanted[name], err_msg=name, **TIGHT)


def test_every_score_is_brute_force_over_all_pairs_on_every_engine(engine):
    rng = np.random.default_rng(5)
    for _ in range(100 if isinstance(engine, ca.engines.Numpy) else 5):
        check(oracle.random_case(rng), engine)


def test_six_rows_worked_on_paper():
    table = [[0, 0], [0, 0], [0, 1], [1, 1], [1, None], [1, 1]]
    labels = [0, 0, 0, 1, 1, 1]
    # cluster 0: pairs 01 -> 2/2, 02 -> 1/2, 12 -> 1/2; cluster 1: 34 -> 1/1, 35 -> 2/2, 45 -> 1/1
    assert ca.cluster_density(table, labels).tolist() == [4 / 6, 1.0]
    assert ca.density(table, labels) == pytest.approx((3 * 4 / 6 + 3) / 6)
    # between: rows 2 and {3, 5} share partition 1; 9 pairs in partition 0, 6 in partition 1
    assert ca.inter_density(table, labels)[0, 1] == pytest.approx(2 / 15)
    # partition 1 of cluster 0 holds 0, 0, 1: 3 − 5/3
    assert ca.kmeans_loss(table, labels) == pytest.approx(4 / 3)
    # two items never observed together are no pair, nor is one item
    assert ca.cluster_density([[0, None], [None, 0], [0, 0]], [0, 0, 1]).tolist() == [0.0, 0.0]


def test_copies_are_repetition_exactly(engine):
    rng = np.random.default_rng(6)
    for _ in range(5):
        case = oracle.random_case(rng, copies=True)
        table, labels = case.repeated()
        if not (labels >= 0).any() or (table < 0).all():
            continue
        if any((table[:, j] < 0).all() for j in range(table.shape[1])):
            continue  # as a table of its own that would be refused
        for name in ("density", "kmeans_loss"):
            function = getattr(ca.metrics, name)
            once = function(case.table, case.labels, engine=engine, **case.kwargs())
            assert once == function(table, labels, partition_weights=case.weights, engine=engine)


def test_names_and_order_change_no_bit():
    rng = np.random.default_rng(7)
    for _ in range(60):
        case = oracle.random_case(rng)
        order = rng.permutation(case.table.shape[1])
        names = rng.permutation(60)
        renamed = np.where(case.table < 0, -1, names[case.table])[:, order]
        weights = None if case.weights is None else np.asarray(case.weights)[order]
        labels = np.where(case.labels < 0, -1, names[case.labels])
        for name in ("density", "kmeans_loss"):
            function = getattr(ca.metrics, name)
            assert function(case.table, case.labels, **case.kwargs()) == function(
                renamed, labels, sample_weight=case.copies, partition_weights=weights
            )


def test_labels_may_be_strings_and_lack_entries():
    table = [[0, 0], [0, 0], [1, 1], [1, 0]]
    assert ca.density(table, ["a", "a", "b", None]) == ca.density(table, [0, 0, 1, -1])
    assert ca.density(table, np.array([0.0, 0.0, 1.0, np.nan])) == ca.density(table, [0, 0, 1, -1])
    assert ca.cluster_density(table, ["b", "b", "a", "a"]).tolist() == [0.5, 1.0]


def test_big_counts_do_not_overflow():
    """2.8e9 copies: squares near 2**63."""
    copies = [1_400_000_000, 1_400_000_000]
    assert ca.density([[0], [0]], [0, 0], sample_weight=copies) == 1.0
    assert ca.kmeans_loss([[0], [1]], [0, 0], sample_weight=copies) == 1.4e9
    half = ca.density([[0], [1]], [0, 0], sample_weight=copies)
    assert half == pytest.approx((1.4e9 - 1) / (2.8e9 - 1), rel=1e-12)
