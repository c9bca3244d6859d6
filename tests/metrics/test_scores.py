"""Densities, losses and NMI against brute force over all pairs, definitions and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

import coassoc as ca
import oracle
from coassoc.metrics import scores as _scores

NAMES = ("density", "cluster_density", "inter_density", "kmeans_loss", "ensemble_nmi")


def scores(case, engine):
    return {name: getattr(ca, name)(case.table, case.labels, engine=engine, **case.kwargs()) for name in NAMES}


def truth(case):
    """All scores by brute force on the repeated rows."""
    table, labels = case.repeated()
    present = sorted({int(c) for c in case.labels if c >= 0})
    inter = np.zeros((len(present), len(present)))
    # a cluster whose copies are all 0 keeps its place
    kept = [present.index(c) for c in oracle.clusters_of(table, labels)]
    inter[np.ix_(kept, kept)] = oracle.inter_densities(table, labels, case.v)
    return {
        "density": oracle.density(table, labels, case.v),
        "cluster_density": np.diagonal(inter),
        "inter_density": inter,
        "kmeans_loss": oracle.loss(table, labels, case.v),
        "ensemble_nmi": np.mean([v * oracle.nmi(labels, table[:, j]) for j, v in enumerate(case.v)]),
    }


def test_every_score_is_brute_force_and_the_same_on_every_engine(engine):
    rng = np.random.default_rng(5)
    for _ in range(100 if isinstance(engine, ca.engines.Numpy) else 5):
        case = oracle.random_case(rng)
        found, plain, wanted = scores(case, engine), scores(case, "numpy"), truth(case)
        for name in NAMES:
            np.testing.assert_allclose(found[name], wanted[name], err_msg=name, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(found[name], plain[name], err_msg=name)


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
        if not (labels >= 0).any() or (table < 0).all(axis=0).any():
            continue  # as a table of its own that would be refused
        for score in (ca.density, ca.kmeans_loss):
            once = score(case.table, case.labels, engine=engine, **case.kwargs())
            assert once == score(table, labels, partition_weights=case.weights, engine=engine)


def test_names_and_order_change_no_bit():
    rng = np.random.default_rng(7)
    for _ in range(60):
        case = oracle.random_case(rng)
        order = rng.permutation(case.table.shape[1])
        names = rng.permutation(60)
        renamed = np.where(case.table < 0, -1, names[case.table])[:, order]
        weights = None if case.weights is None else np.asarray(case.weights)[order]
        labels = np.where(case.labels < 0, -1, names[case.labels])
        settings = {"sample_weight": case.copies, "partition_weights": weights}
        for score in (ca.density, ca.kmeans_loss):
            assert score(case.table, case.labels, **case.kwargs()) == score(renamed, labels, **settings)


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


def test_nmi_is_its_definition_and_scikit_learns():
    rng = np.random.default_rng(0)
    for i in range(120):
        case = oracle.random_case(rng, most_partitions=1)
        table, labels = case.repeated()
        found = ca.nmi(case.table[:, 0], case.labels, sample_weight=case.copies)
        assert found == pytest.approx(oracle.nmi(table[:, 0], labels), abs=1e-9)
        assert 0.0 <= found <= 1.0
        if i % 6 == 0:  # without copies and missing labels
            a, b = np.abs(case.table[:, 0]), np.abs(case.labels)
            names = rng.permutation(60)
            assert ca.nmi(a, b) == pytest.approx(normalized_mutual_info_score(a, b), abs=1e-9)
            assert ca.nmi(a, b) == ca.nmi(b, a) == ca.nmi(names[a], b)


def member_truth(case, metric):
    table, _ = case.repeated()
    p = table.shape[1]
    if metric == "density":
        return [oracle.density(table, table[:, j], [1.0] * p) for j in range(p)]
    if p == 1:
        return [1.0]
    return [np.mean([oracle.nmi(table[:, j], table[:, g]) for g in range(p) if g != j]) for j in range(p)]


@pytest.mark.parametrize("metric", ["nmi", "density"])
def test_zero_effort_leaves_itself_out_for_nmi_and_counts_itself_for_density(metric, engine, monkeypatch):
    rng = np.random.default_rng(7)
    for _ in range(30 if isinstance(engine, ca.engines.Numpy) else 4):
        case = oracle.random_case(rng, weights=False)
        settings = {"sample_weight": case.copies, "engine": engine}
        wanted = member_truth(case, metric)
        effort = ca.zero_effort(case.table, metric, **settings)
        assert effort == pytest.approx((np.mean(wanted), np.max(wanted)), abs=1e-9)
        with monkeypatch.context() as patch:  # a pass for each partition instead of the overlap matrix
            patch.setattr(_scores, "_OVERLAP_BYTES", 0)
            assert effort == ca.zero_effort(case.table, metric, **settings)


def test_zero_effort_is_of_nmi_or_density():
    with pytest.raises(ValueError, match="metric must be 'nmi' or 'density', got 'ari'"):
        ca.zero_effort([[0, 1], [1, 0]], "ari")


def test_partition_nmi_with_and_without_labels():
    rng = np.random.default_rng(5)
    ens, labels = ca.Ensemble(rng.integers(0, 4, size=(30, 5))), rng.integers(0, 4, size=30)
    members = [ens.partition(j) for j in range(5)]
    assert ca.partition_nmi(ens, labels) == pytest.approx([ca.nmi(member, labels) for member in members])
    pairs = ca.metrics.pairwise_nmi(ens)
    assert pairs == pytest.approx(np.array([[ca.nmi(a, b) for a in members] for b in members]))
    assert ca.partition_nmi(ens) == pytest.approx((pairs.sum(axis=1) - 1) / 4)
