"""NMI, ensemble NMI and zero-effort scores against definitions and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

import coassoc as ca
import oracle
from coassoc.metrics import scores
from coassoc.metrics.scores import member_scores


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


def test_ensemble_nmi_is_the_weighted_mean_over_observed_items():
    rng = np.random.default_rng(4)
    for _ in range(100):
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
def test_zero_effort_is_the_same_without_the_overlap_matrix(metric, monkeypatch):
    rng = np.random.default_rng(6)
    cases = [oracle.random_case(rng, weights=False) for _ in range(30)]
    by_overlap = [member_scores(c.table, metric, sample_weight=c.copies).tolist() for c in cases]
    monkeypatch.setattr(scores, "_OVERLAP_BYTES", 0)
    assert by_overlap == [member_scores(c.table, metric, sample_weight=c.copies).tolist() for c in cases]


def test_zero_effort_leaves_itself_out_for_nmi_and_counts_itself_for_density(engine):
    rng = np.random.default_rng(7)
    for _ in range(30 if isinstance(engine, ca.engines.Numpy) else 4):
        case = oracle.random_case(rng, weights=False)
        settings = {"sample_weight": case.copies, "engine": engine}
        for metric in ("nmi", "density"):
            wanted = member_truth(case, metric)
            found = member_scores(case.table, metric, **settings)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
            effort = ca.zero_effort(case.table, metric, **settings)
            assert effort == pytest.approx((np.mean(wanted), np.max(wanted)), abs=1e-9)
        plain = ca.ensemble_nmi(case.table, case.labels, sample_weight=case.copies, engine="numpy")
        assert plain == ca.ensemble_nmi(case.table, case.labels, **settings)
