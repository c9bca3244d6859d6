"""Tables and their rounding against H written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coassoc as ca
import oracle
from coassoc.core.counts import Counts, Layout
from coassoc.core.objectives import KMeansObjective, fix_table, seeding_weights
from coassoc.engines import Numpy


def test_counts_scores_distances_and_loss_are_those_of_the_written_out_matrix():
    rng = np.random.default_rng(0)
    for _ in range(100):
        case = oracle.random_case(rng, most_items=20)
        k = int(rng.integers(1, 5))
        labels = rng.integers(k, size=len(case.table))
        rows = Numpy().load(ca.Ensemble(case.table), case.copies)
        counts = rows.counts(rows.labelling(k, labels))
        dense = oracle.Dense(case.table, case.v, case.copies)
        assert (counts.alpha == dense.counts(labels, k)).all() and counts.alpha.dtype == np.int64
        assert counts.sizes.tolist() == [int(dense.copies[labels == c].sum()) for c in range(k)]
        for j in range(case.table.shape[1]):
            block = dense.owner == j
            assert (counts.cells[j] == counts.alpha[block].sum(axis=0)).all()
            assert (counts.squares[j] == (counts.alpha[block] ** 2).sum(axis=0)).all()
        objective = KMeansObjective(np.array(case.v))
        scores = objective.table(counts)
        np.testing.assert_allclose(scores, dense.scores(counts.alpha), atol=1e-12)
        fixed = fix_table(scores, counts.layout)
        wanted, bits = dense.rounded(scores)
        assert (fixed.bits, fixed.values.dtype) == (bits, np.int32)
        assert (fixed.values == wanted).all()
        # Σ_j over observed v_j − score = squared distance, whatever is missing; the loss is their sum
        distances = dense.distances(labels, k)
        np.testing.assert_allclose(dense.H @ objective.cost_table(counts), distances, atol=1e-9)
        own = distances[np.arange(len(labels)), labels]
        assert objective.loss(counts) == pytest.approx((dense.copies * own).sum(), abs=1e-9)


def test_no_sum_of_scores_can_leave_int32():
    rng = np.random.default_rng(4)
    for _ in range(200):
        p = int(rng.integers(1, 50))
        clusters = rng.integers(1, 5, size=p)
        layout = Layout.of_sizes(clusters)
        scores = rng.normal(size=(layout.n_codes, 3)) * 10.0 ** rng.integers(-6, 7)
        fixed = fix_table(scores, layout)
        parts = [slice(a, b) for a, b in zip(layout.offsets[:-1], layout.offsets[1:])]
        highest = sum(int(np.abs(fixed.values[part]).astype(np.int64).max()) for part in parts)
        assert highest < 2**31
        twice = math.fsum(float(np.abs(scores[part]).max()) for part in parts) * 2.0 ** (fixed.bits + 1)
        assert twice + p >= 2**31  # one more bit would not fit
    assert fix_table(np.zeros((layout.n_codes, 3)), layout).bits == 0


def test_seeding_weights_are_small_whole_numbers():
    rng = np.random.default_rng(5)
    for p in (2, 20, 3000, 20_000):
        whole, holed = (Counts(np.full((p, 1), 9), np.array([n]), Layout.of_sizes(np.ones(p, int))) for n in (9, 10))
        assert seeding_weights(np.full(p, 0.7), whole).tolist() == [1] * p
        assert seeding_weights(np.full(p, 0.7), holed).tolist() == [64] * p
        v = rng.random(p) + 0.01
        v *= p / v.sum()
        for counts, unit in ((whole, 1), (holed, 64)):
            weights = seeding_weights(v, counts)
            assert weights.dtype == np.int64 and not (weights % unit).any()
            assert weights.sum() < (2**16 * unit if p < 2**14 else 2**31)
            np.testing.assert_allclose(weights / weights.sum(), v / v.sum(), atol=min(p / 2**15, 1e-4 * p))


def test_missing_labels_of_partitions_without_weight_change_no_seeding_weight():
    layout = Layout.of_sizes(np.ones(3, int))
    whole, holed = (Counts(np.array([[9], [9], [seen]]), np.array([9]), layout) for seen in (9, 5))
    v = np.array([1.0, 2.0, 0.0])
    assert seeding_weights(v, holed).tolist() == seeding_weights(v, whole).tolist()
