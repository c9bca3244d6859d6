"""Weighted overlaps in integers: against fractions added by hand, at the largest sizes, and in any chunks."""

from fractions import Fraction

import numpy as np
import pytest

import coassoc as ca
import oracle
from coassoc.core.counts import MAX_COPIES, RowShares


def brute_force(table, weights, copies):
    """Σ_i copies_i h_i h_iᵀ / Σ_{f∈i} u_f in exact fractions."""
    total = np.full((len(weights),) * 2, Fraction(0))
    for row, times in zip(oracle.Dense(table).H, copies.tolist()):
        labels = np.flatnonzero(row)
        if len(labels) and times:
            total[np.ix_(labels, labels)] += Fraction(times) / sum(map(Fraction, weights[labels].tolist()))
    return total.astype(np.float64)


@pytest.mark.parametrize("seed", (1, 2, 3))
def test_weighted_overlap_equals_fractions(engine, seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(1, 60)), int(rng.integers(1, 7))
    table = rng.integers(-1 if seed % 2 else 0, int(rng.integers(1, 6)), size=(n, p))
    table[0] = 0
    ensemble = ca.Ensemble(table)
    weights = rng.random(ensemble.n_codes) ** 3 + 0.01
    copies = rng.integers(0, 4, size=n) if seed % 3 else np.ones(n, dtype=np.int64)
    found = engine.load(ensemble, copies).weighted_overlap(weights)
    assert found == pytest.approx(brute_force(table, weights, copies), rel=1e-6, abs=1e-12)
    assert (found == found.T).all()


@pytest.mark.parametrize("n_copies", [1, 10**6, 10**9, MAX_COPIES])
@pytest.mark.parametrize("n_partitions", [1, 20, 2000])
def test_sums_of_shares_cannot_overflow_and_keep_their_precision(n_copies, n_partitions):
    rng = np.random.default_rng(0)
    weights = np.concatenate([rng.random(100) * 1e-9, [1.0]])
    shares = RowShares.of(weights, n_partitions, n_copies)
    sums = np.array([shares.units.min(), shares.units.max(), n_partitions * shares.units.max()])
    counted = shares.of_sums(sums)
    assert all(int(c) * n_copies < 2**63 for c in counted)
    assert int(sums[-1]) < 2**34
    # a row whose labels weigh what the largest weighs, one or all of them
    for value, total, real in zip(counted[1:], sums[1:], (1.0, n_partitions)):
        if total >= 2**26:
            assert value * shares.scale == pytest.approx(1.0 / real, rel=1e-4)
    assert shares.of_sums(np.array([0])).tolist() == [0]
