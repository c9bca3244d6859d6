"""Whole passes in one call, counts handed down a tree, packed labels: each against arithmetic written out here."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from by_hand import WIDTHS, ByHand, flat, make_ensemble, natives
from coassoc.core.counts import Counts
from coassoc.core.tables import KMeansObjective, fix_table
from coassoc.engines import Numpy
from coassoc.engines.native import engine as _native
from coassoc.ensemble import Ensemble

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")


def given_counts(alpha, layout):
    """Counts for the library from those made by hand; sizes play no part in a table."""
    alpha = np.array(flat(alpha), np.int64)
    return Counts(alpha, np.ones(alpha.shape[1], np.int64), layout)


def check_passes(engine, hand, ensemble, copies, start, k, own, limit, before):
    rows = engine.load(ensemble, copies)
    alpha, _ = hand.counts(start, k)
    labelling = rows.labelling_of(np.array(start), k)
    moves, losses, labels, (wanted, sizes), tables = hand.passes(start, k, alpha, limit, before)
    centres = None if own else given_counts(alpha, rows.layout)
    found = rows.kmeans_passes(labelling, np.array(hand.v), centres, limit, before)
    assert found == (moves, losses, sizes.count(0)), engine
    assert rows.labels(labelling).tolist() == labels
    counts = rows.counts(labelling)
    assert counts.alpha.tolist() == flat(wanted) and counts.sizes.tolist() == sizes
    for earlier, (table, bits) in zip((False, True), tables[::-1]):
        kept = rows.last_table(labelling, earlier)
        assert kept.values.tolist() == flat(table) and kept.bits == bits
    return len(losses)


@st.composite
def small_cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.sampled_from([2, 9, 40, 130])), draw(st.sampled_from([1, 2, 5, 17]))
    missing = draw(st.sampled_from([0.0, 0.3]))
    width = draw(st.sampled_from(WIDTHS))
    ensemble = make_ensemble(rng, n, p, draw(st.sampled_from([2, 5, 70])), missing=missing, width=width)
    copies = None
    if draw(st.booleans()):
        copies = rng.integers(0, draw(st.sampled_from([3, 10**6])), size=n)
        copies[0] = 2
    weights = np.ones(p)
    if draw(st.booleans()):
        weights = rng.random(p) + 0.01
        weights[rng.random(p) < 0.2] = draw(st.sampled_from([0.0, 1.0]))
    k = draw(st.sampled_from([1, 2, 2, 3, 4, 8, 9, 13]))
    labels = rng.integers(k if draw(st.booleans()) else max(1, k - 2), size=n)
    return ensemble, copies, weights, k, labels.tolist()


@settings(max_examples=70)
@given(small_cases(), st.booleans(), st.sampled_from([1, 2, 3, 50]), st.booleans())
def test_passes_are_those_done_by_hand_in_fractions(case, own, limit, known):
    ensemble, copies, weights, k, labels = case
    hand = ByHand(ensemble, copies, weights)
    before = math.inf
    if known:  # a loss before the first pass: it must be beaten
        before = hand.loss(hand.counts(labels, k)[0])
    for engine in natives():
        check_passes(engine, hand, ensemble, copies, labels, k, own, limit, before)


def test_a_pass_that_must_beat_the_loss_before_it_stops_at_a_tie():
    ensemble = Ensemble(np.array([[0, 0], [0, 0], [1, 1], [1, 1]]))
    hand = ByHand(ensemble, None, [1.0, 1.0])
    labels = [1, 1, 0, 0]
    swapped = given_counts(hand.counts([0, 0, 1, 1], 2)[0], Numpy().load(ensemble).layout)
    for engine in natives((1,)):
        rows = engine.load(ensemble)
        for before, wanted in (
            (math.inf, ([4, 0], [0.0, 0.0], 0)),
            (0.0, ([4], [0.0], 0)),
            (1.0, ([4, 0], [0.0] * 2, 0)),
        ):
            labelling = rows.labelling_of(np.array(labels), 2)
            assert rows.kmeans_passes(labelling, np.ones(2), swapped, 9, before) == wanted


def test_passes_go_on_from_what_the_labelling_counts():
    """One call of many passes is many calls of one, whether the counts were looked at between or not."""
    rng = np.random.default_rng(4)
    for k in (2, 5):
        ensemble = make_ensemble(rng, 300, 6, 9, missing=0.1, noise=0.6)
        start = rng.integers(k, size=300)
        for engine in natives((3,)):
            rows = engine.load(ensemble)
            one = rows.labelling_of(start, k)
            moves, losses, _ = rows.kmeans_passes(one, np.ones(6), None, 50)
            assert len(moves) > 3
            for look in (False, True):
                other = rows.labelling_of(start, k)
                steps, before = [], math.inf
                for _ in moves:
                    (moved,), (loss,), _ = rows.kmeans_passes(other, np.ones(6), None, 1, before)
                    steps.append((moved, before := loss))
                    if look:
                        rows.relabel(other, np.arange(3), other.labels[:3])  # what was counted is forgotten
                assert steps == list(zip(moves, losses))
                assert np.array_equal(rows.labels(one), rows.labels(other))


def test_passes_of_a_relabelled_labelling_start_from_its_new_labels():
    rng = np.random.default_rng(9)
    ensemble = make_ensemble(rng, 200, 6, 7, noise=0.7)
    for engine in natives((3,)):
        rows = engine.load(ensemble)
        for k in (2, 4):
            labelling = rows.labelling_of(rng.integers(k, size=200), k)
            rows.kmeans_passes(labelling, np.ones(6), None, 2)
            rows.relabel(labelling, np.arange(150), rng.integers(k, size=150))
            fresh = rows.labelling_of(labelling.labels.copy(), k)
            found = rows.kmeans_passes(labelling, np.ones(6), None, 5)
            assert found == rows.kmeans_passes(fresh, np.ones(6), None, 5)
            assert np.array_equal(rows.labels(labelling), rows.labels(fresh))
            assert np.array_equal(rows.counts(labelling).alpha, rows.counts(fresh).alpha)


def two_rows(p):
    """Two rows that differ everywhere: in one cluster a partition of weight v costs 2 v − v."""
    return Ensemble(np.array([[0] * p, [1] * p]))


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from([1.0, 1.5, 1 + 2**-52, 2 - 2**-52, 3 - 2**-51]), st.integers(-120, 3)),
        min_size=2,
        max_size=6,
    )
)
def test_weighted_losses_are_rounded_once_also_half_way_between_numbers(parts):
    weights = np.array([math.ldexp(x, e) for x, e in parts])
    wanted = float(sum(map(Fraction, weights.tolist())))
    rows = _native.Native().load(two_rows(len(weights)))
    labelling = rows.labelling_of(np.zeros(2, int), 1)
    assert rows.kmeans_passes(labelling, weights, None, 1)[1] == [wanted]


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        ([1.0, 2.0**-53], 1.0),  # half way: to even
        ([1.0, 2.0**-53, 2.0**-110], 1 + 2.0**-52),  # a little more
        ([1.0, 3 * 2.0**-53], 1 + 2.0**-51),  # half way: to even
        ([1.0, 3 * 2.0**-53 - 2.0**-104], 1 + 2.0**-52),  # a little less
        ([1.0, 2.0**-52, 2.0**-53, 2.0**-110], 1 + 2.0**-51),
    ],
)
def test_sums_half_way_between_numbers(weights, wanted):
    for order in (weights, weights[::-1]):
        rows = _native.Native().load(two_rows(len(weights)))
        assert float(sum(map(Fraction, order))) == wanted
        assert rows.kmeans_passes(rows.labelling_of(np.zeros(2, int), 1), np.array(order), None, 1)[1] == [wanted]


@pytest.mark.parametrize("total", [2**31 - 1, 2**31 - 2, 2**31 - 3, 2**31, 2**30 + 1, 2**31 - 4])
@pytest.mark.parametrize("exponent", [-31, -60, 5])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_scale_of_a_table_is_the_largest_that_cannot_overflow(total, exponent, p):
    """Equal rows in one cluster score v, so the sum of the largest scores is chosen freely."""
    shares = [1] * (p - 1)
    weights = np.array([math.ldexp(x, exponent) for x in [*shares, total - sum(shares)]])
    ensemble = Ensemble(np.zeros((3, p), int))
    bits = max(b for b in range(-70, 100) if Fraction(total) * Fraction(2) ** (b + exponent) + p < 2**31)
    for engine in natives((1,)):
        rows = engine.load(ensemble)
        labelling = rows.labelling_of(np.zeros(3, int), 1)
        rows.kmeans_passes(labelling, weights, None, 1)
        found = rows.last_table(labelling)
        assert found.bits == bits
        assert found.values.ravel().tolist() == [round(Fraction(x) * Fraction(2) ** bits) for x in weights.tolist()]


def test_scores_half_way_between_table_entries_go_to_even():
    # 33 bits of weight on a table of 31: the rounding decides the last one
    for extra in (1, 2, 3, 5, 6, 7):
        weights = np.array([1.0, (2**30 + extra) / 2**31])
        ensemble = Ensemble(np.zeros((3, 2), int))
        hand = ByHand(ensemble, None, weights)
        for engine in natives((1,)):
            check_passes(engine, hand, ensemble, None, [0, 0, 0], 1, True, 1, math.inf)


@pytest.mark.parametrize("weight", [1.109765308460418, 0.7081263659272145, 1.4809266017373677, 0.550650116420869])
def test_penalties_are_divided_twice_as_numpy_does(weight):
    """Weights (found by search) for which Σα² / n² instead of Σα² / n / n would change a table entry."""
    ensemble = Ensemble(np.repeat([[0], [1]], [10, 3], axis=0))
    plain = Numpy().load(ensemble)
    counts = plain.counts(plain.labelling_of(np.zeros(13, int), 1))
    wanted = fix_table(KMeansObjective(np.array([weight])).table(counts), plain.layout)
    once = (10 * 10 + 3 * 3) / (13 * 13)
    assert [round(weight * (2.0 * x / 13 - once) * 2.0**wanted.bits) for x in (10, 3)] != wanted.values.ravel().tolist()
    hand = ByHand(ensemble, None, [weight])
    for engine in natives((1,)):
        check_passes(engine, hand, ensemble, None, [0] * 13, 1, True, 1, math.inf)


def test_losses_of_billions_of_copies_have_the_last_bit_right():
    rng = np.random.default_rng(11)
    for seed in range(30):
        n, k = 12, 1 + seed % 4
        ensemble = make_ensemble(rng, n, 3, 4, missing=0.2 * (seed % 2))
        copies = rng.integers(1, 2**31 // n, size=n)
        hand = ByHand(ensemble, copies, [1.0, 1.0, 1.0])
        labels = rng.integers(k, size=n).tolist()
        exact = Fraction(0)
        for part in hand.counts(labels, k)[0]:
            exact += sum(sum(c) - Fraction(sum(x * x for x in c), max(sum(c), 1)) for c in zip(*part))
        for engine in natives((1,)):
            check_passes(engine, hand, ensemble, copies, labels, k, True, 4, math.inf)
        assert abs(Fraction(hand.loss(hand.counts(labels, k)[0])) - exact) <= exact / 10**13 + Fraction(1, 10**6)


def test_passes_refuse_what_does_not_fit():
    rows = _native.Native().load(two_rows(3))
    labelling = rows.labelling(2)
    with pytest.raises(ValueError, match="centres are needed"):
        rows.kmeans_passes(labelling, np.ones(3), None, 1)
    with pytest.raises(ValueError, match="do not fit the rows"):
        rows.kmeans_passes(labelling, np.ones(2), None, 1)
    with pytest.raises(ValueError, match="a row per base cluster and a column per cluster"):
        rows.kmeans_passes(labelling, np.ones(3), Counts(np.ones((6, 3), np.int64), np.ones(3), rows.layout), 1)
    with pytest.raises(ValueError, match="no table"):
        rows.last_table(labelling)
    with pytest.raises(NotImplementedError, match="no k-means passes"):
        Numpy().load(two_rows(3)).kmeans_passes(labelling, np.ones(3), None, 1)


# -- seeding -------------------------------------------------------------------------------------------------


def distances(ensemble, weights, row):
    """Weights of the partitions that label both rows, differently."""
    codes, n_clusters = ensemble.codes.astype(np.int64), ensemble.n_clusters
    row = np.asarray(row, np.int64)
    differ = (codes != row) & (codes < n_clusters) & (row < n_clusters)
    return [sum(int(w) for w, d in zip(weights, line) if d) for line in differ]


@settings(max_examples=60)
@given(small_cases(), st.sampled_from(["ones", "small", "16 bits", "31 bits", "40 bits"]), st.integers(0, 10**6))
def test_choosing_is_locating_measuring_and_adding_by_hand(case, kind, seed):
    ensemble, copies, *_ = case
    rng = np.random.default_rng(seed)
    p = ensemble.n_partitions
    top = {"ones": 1, "small": max(1, 255 // p), "16 bits": 65535 // p, "31 bits": 2**31 // p, "40 bits": 2**40}[kind]
    weights = np.ones(p, np.int64) if kind == "ones" else rng.integers(0, top + 1, size=p)
    times = ByHand(ensemble, copies, np.ones(p)).copies
    assume(sum(times) * int(weights.sum()) < 2**62)
    loaded = [engine.load(ensemble, copies) for engine in natives()]
    loaded += [rows.split(rows.labelling_of(np.zeros(rows.n_rows, int), 1))[0] for rows in loaded[::4]]  # with ids
    seedings = [rows.seeding(weights) for rows in loaded]
    twins = [rows.seeding(weights) for rows in loaded]
    nearest, candidates = None, []
    for n_candidates in (1, 2, 1, 3, 8, 1, 9, 1, 5):
        terms = [t * (1 if nearest is None else d) for t, d in zip(times, nearest or times)]
        total = sum(terms)
        assert [s.total for s in seedings] == [total] * len(seedings)
        if total == 0:
            return
        targets = rng.integers(total, size=n_candidates)
        targets[0] = rng.choice([0, total - 1, targets[0]])
        running = np.array(terms, object).cumsum()
        again = [i for i, t in enumerate(terms) if t and any((ensemble.codes[i] == c).all() for c in candidates)]
        if n_candidates == 1 and again:  # one that was measured, and passed over, is taken after all
            targets[0] = running[again[0]] - 1
        candidates = [ensemble.codes[next(i for i, r in enumerate(running) if r > t)] for t in targets.tolist()]
        after = [distances(ensemble, weights, c) for c in candidates]
        if nearest is not None:
            after = [[min(a, b) for a, b in zip(one, nearest)] for one in after]
        left = [sum(t * d for t, d in zip(times, one)) for one in after]
        best = left.index(min(left))
        nearest = after[best]
        for seeding, twin in zip(seedings, twins):
            row = seeding.choose(targets)
            assert row.dtype == ensemble.codes.dtype and row.tolist() == candidates[best].tolist()
            located = twin.locate(targets)
            twin.add(located[int(np.argmin(twin.potentials(located))) if len(located) > 1 else 0])
            assert seeding.total == twin.total == left[best]
