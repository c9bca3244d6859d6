"""Exchange: proposals equal brute force, the application never lets the objective fall, engines agree bit for bit."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from coassoc.consensus.merge import exchange
from coassoc.core.moves import AgreementState, DensityState, fixed_bits, fixed_xlogx, may_move

STATES = (DensityState, AgreementState)


def score(kind, ens, labels, copies, v):
    """n·S or Σ v NMI by the metrics, which share no code with the exchange."""
    labels = labels if copies is None else np.where(copies == 0, -1, labels)
    if kind is DensityState:
        n = int((labels >= 0).sum()) if copies is None else int(copies.sum())
        return ca.density(ens, labels, sample_weight=copies, partition_weights=v, engine="numpy") * n
    return ca.ensemble_nmi(ens, labels, sample_weight=copies, partition_weights=v, engine="numpy") * ens.n_partitions


def case(seed, *, missing, weighted, repeated):
    rng = np.random.default_rng(seed)
    n, p, k = int(rng.integers(6, 26)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
    table = rng.integers(-1 if missing else 0, 4, size=(n, p))
    table[(table < 0).all(axis=1)] = 0
    copies = rng.integers(0, 4, size=n) if repeated else None
    if repeated:
        copies[:k] = 1
    labels = rng.integers(0, k, size=n).astype(np.int32)
    labels[:k] = np.arange(k)  # every cluster holds a row that takes part
    v = rng.random(p) + 0.1 if weighted else np.ones(p)
    return ca.Ensemble(table), copies, labels, k, v * (p / math.fsum(v.tolist()))


def gains_of(kind, ens, labels, i, copies, v, k):
    """What moving item i to each cluster adds to the score."""
    now, moved = score(kind, ens, labels, copies, v), np.repeat(labels[None], k, axis=0)
    moved[:, i] = np.arange(k)
    return np.array([score(kind, ens, given, copies, v) for given in moved]) - now


@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("missing, weighted, repeated", list(itertools.product((False, True), repeat=3)))
@pytest.mark.parametrize("seed", range(2))
def test_no_single_move_raises_the_objective_at_the_end(kind, seed, missing, weighted, repeated):
    ens, copies, start, k, v = case(seed, missing=missing, weighted=weighted, repeated=repeated)
    rows = ca.engines.Numpy().load(ens, copies)
    labelling = rows.labelling(k, start)
    climb = exchange(rows, labelling, kind(rows.counts(labelling), v), 100)
    labels = rows.labels(labelling)
    reached = score(kind, ens, labels, copies, v)
    assert climb.converged
    assert reached == pytest.approx(climb.objective, rel=1e-10)
    assert reached >= score(kind, ens, start, copies, v) - 1e-9
    assert (climb.counts.sizes > 0).all()
    for i in range(ens.n_samples):
        m = 1 if copies is None else copies[i]
        if m and climb.counts.sizes[labels[i]] > m:  # it takes part, and is not the last of its cluster
            assert gains_of(kind, ens, labels, i, copies, v, k).max() <= reached * 1e-10


@pytest.mark.parametrize("kind", STATES)
def test_proposals_are_the_best_moves_by_brute_force(kind):
    ens, copies, labels, k, v = case(11, missing=True, weighted=True, repeated=True)
    rows = ca.engines.Numpy().load(ens, copies)
    labelling = rows.labelling(k, labels)
    state = kind(rows.counts(labelling), v)
    moves = rows.propose_moves(labelling, state.table(), 0, 10**6)
    proposed = dict(zip(moves.indices.tolist(), moves.targets.tolist()))
    sizes = np.bincount(labels, weights=copies, minlength=k)
    for i in range(ens.n_samples):
        if copies[i] == 0 or sizes[labels[i]] == copies[i]:
            assert i not in proposed
            continue
        gains = gains_of(kind, ens, labels, i, copies, v, k)
        gains[labels[i]] = -np.inf
        if max(gains) > 1e-9:
            assert gains[proposed[i]] == pytest.approx(max(gains), abs=1e-9)
        elif max(gains) < -1e-9:
            assert i not in proposed


def test_sizes_rule_moves():
    assert may_move(3, 2, 1, 1) and may_move(5, 0, 2, 2)
    assert not may_move(1, 2, 1, 1)  # the last of a cluster stays
    assert not may_move(2, 5, 1, 2)  # would leave a single item
    assert not may_move(5, 0, 1, 2)  # would begin a single item


def test_the_search_makes_no_cluster_smaller_than_allowed():
    # three blocks that all partitions agree on, cut into twenty triples: uneven sizes agree better
    ens = ca.Ensemble(np.repeat(np.arange(3), [21, 21, 18])[:, None].repeat(6, axis=1))
    labels = np.repeat(np.arange(20), 3).astype(np.int32)
    rows = ca.engines.Numpy().load(ens)
    for least in (1, 2):
        labelling = rows.labelling(20, labels)
        climb = exchange(rows, labelling, AgreementState(rows.counts(labelling), np.ones(6), least), 100)
        assert climb.counts.sizes.min() == least


@settings(max_examples=100, deadline=None)
@given(x=st.integers(0, 3 * 10**9))
def test_fixed_point_x_log_x_is_close(x):
    bits = fixed_bits(3 * 10**9)
    scalar = int(fixed_xlogx(np.array([x]), bits)[0])
    exact = x * math.log(x) if x else 0.0
    assert scalar * 2.0**-bits == pytest.approx(exact, rel=4e-16, abs=2.0**-bits)
