"""NMI, ensemble NMI and zero-effort scores against definitions and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

import coassoc as ca
import oracle
from coassoc.metrics import counting


def test_nmi_is_its_definition():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        case = oracle.random_case(rng, most_partitions=1)
        table, labels = case.repeated()
        found = ca.nmi(case.table[:, 0], case.labels, sample_weight=case.copies)
        assert found == pytest.approx(oracle.nmi(table[:, 0], labels), abs=1e-9)
        assert 0.0 <= found <= 1.0


def test_nmi_is_scikit_learns():
    rng = np.random.default_rng(1)
    for _ in range(500):
        case = oracle.random_case(rng, missing=False, copies=False, most_partitions=1)
        a, b = case.table[:, 0], np.abs(case.labels)
        assert ca.nmi(a, b) == pytest.approx(normalized_mutual_info_score(a, b), abs=1e-9)


def test_nmi_limits():
    assert ca.nmi([0, 0, 0], [5, 5, 5]) == 1.0
    assert ca.nmi([0, 0, 0], [1, 2, 3]) == 0.0
    assert ca.nmi([0, 1, 2], [2, 0, 1]) == 1.0
    assert ca.nmi([0, 0, 1, 1], [0, 1, 0, 1]) == 0.0
    assert ca.nmi([0, 1], [1, 0]) == ca.nmi(["x", "y"], [True, False]) == 1.0


def test_nmi_is_symmetric_and_blind_to_names():
    rng = np.random.default_rng(3)
    for _ in range(200):
        a, b = rng.integers(5, size=30), rng.integers(4, size=30)
        names = rng.permutation(9)
        assert ca.nmi(a, b) == ca.nmi(b, a) == ca.nmi(names[a], b)


def test_ensemble_nmi_is_the_weighted_mean_over_observed_items():
    rng = np.random.default_rng(4)
    for _ in range(1000):
        case = oracle.random_case(rng)
        table, labels = case.repeated()
        wanted = sum(v * oracle.nmi(labels, table[:, j]) for j, v in enumerate(case.v)) / len(case.v)
        assert ca.ensemble_nmi(case.table, case.labels, engine="numpy", **case.kwargs()) == pytest.approx(
            wanted, abs=1e-9
        )


def member_truth(case, metric):
    table, _ = case.repeated()
    p = table.shape[1]
    if metric == "density":
        return [oracle.density(table, table[:, j], [1.0] * p) for j in range(p)]
    if p == 1:
        return [1.0]
    return [np.mean([oracle.nmi(table[:, j], table[:, g]) for g in range(p) if g != j]) for j in range(p)]


@pytest.mark.parametrize("metric", ["nmi", "density"])
def test_zero_effort_leaves_itself_out_for_nmi_and_counts_itself_for_density(metric):
    rng = np.random.default_rng(5)
    for _ in range(600):
        case = oracle.random_case(rng, weights=False)
        wanted = member_truth(case, metric)
        found = ca.metrics.member_scores(case.table, metric, sample_weight=case.copies)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
        mean, best = ca.zero_effort(case.table, metric, sample_weight=case.copies)
        assert (mean, best) == pytest.approx((np.mean(wanted), np.max(wanted)), abs=1e-9)


@pytest.mark.parametrize("metric", ["nmi", "density"])
def test_zero_effort_is_the_same_without_the_overlap_matrix(metric, monkeypatch):
    rng = np.random.default_rng(6)
    cases = [oracle.random_case(rng, weights=False) for _ in range(100)]
    by_overlap = [ca.metrics.member_scores(c.table, metric, sample_weight=c.copies).tolist() for c in cases]
    monkeypatch.setattr(counting, "_OVERLAP_BYTES", 0)
    assert by_overlap == [ca.metrics.member_scores(c.table, metric, sample_weight=c.copies).tolist() for c in cases]


def test_agreement_on_every_engine(engine):
    rng = np.random.default_rng(7)
    for _ in range(20):
        case = oracle.random_case(rng, weights=False)
        for metric in ("nmi", "density"):
            found = ca.metrics.member_scores(case.table, metric, sample_weight=case.copies, engine=engine)
            np.testing.assert_allclose(found, member_truth(case, metric), rtol=1e-9, atol=1e-9)
        plain = ca.ensemble_nmi(case.table, case.labels, sample_weight=case.copies, engine="numpy")
        assert plain == ca.ensemble_nmi(case.table, case.labels, sample_weight=case.copies, engine=engine)


def test_pairwise_nmi_is_every_pair():
    rng = np.random.default_rng(8)
    for _ in range(100):
        case = oracle.random_case(rng, weights=False)
        found = ca.metrics.pairwise_nmi(case.table, sample_weight=case.copies)
        table, _ = case.repeated()
        for j, g in itertools.product(range(table.shape[1]), repeat=2):
            assert found[j, g] == pytest.approx(oracle.nmi(table[:, j], table[:, g]), abs=1e-9)
        assert (np.diagonal(found) == 1.0).all()


def test_a_metric_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"metric must be 'nmi' or 'density', got 'ari'"):
        ca.zero_effort([[0], [1]], metric="ari")
