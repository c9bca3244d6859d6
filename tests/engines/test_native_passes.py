"""Whole passes in one call, counts handed down a tree, packed labels: each against arithmetic written out here."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coassoc.consensus._objectives import KMeansObjective, fix_table
from coassoc.engines import Counts, Numpy, ScoreTable, _native
from coassoc.ensemble import Ensemble

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")

LEVELS = _native.simd_levels()
WIDTHS = [np.uint8, np.uint16, np.uint32]


def natives(threads=(1, 3)):
    """Every instruction set, by threads, with default chunks and with chunks of one block."""
    return [
        _native.Native(n_threads=t, chunk_rows=rows, simd=level, blocked_copy=level != "baseline" or rows is None)
        for level in LEVELS
        for t in threads
        for rows in (None, 64)
    ]


def make_ensemble(rng, n, p, most, *, missing=0.0, width=np.uint8, groups=4, noise=0.3):
    n_clusters = rng.integers(1, most + 1, size=p)
    group = rng.integers(groups, size=n)
    codes = np.empty((n, p), width)
    for j, k in enumerate(n_clusters):
        column = np.where(rng.random(n) < noise, rng.integers(k, size=n), rng.integers(k, size=groups)[group])
        codes[:, j] = np.where(rng.random(n) < missing, k, column)
    codes[0] = 0
    return Ensemble.from_codes(codes, n_clusters)


class ByHand:
    """k-means on rows of codes in Python numbers: the counts whole, the sums fractions, nothing of the library."""

    def __init__(self, ensemble, copies, v):
        self.rows = [[int(x) for x in row] for row in ensemble.codes]
        self.sizes = [int(x) for x in ensemble.n_clusters]
        labelled = [any(x < k for x, k in zip(row, self.sizes)) for row in self.rows]
        times = [1] * len(self.rows) if copies is None else [int(x) for x in copies]
        self.copies = [t if some else 0 for t, some in zip(times, labelled)]
        self.v = [float(x) for x in v]

    def counts(self, labels, k):
        """α as (partition, code, cluster), and sizes."""
        alpha = [[[0] * k for _ in range(size)] for size in self.sizes]
        for row, times, c in zip(self.rows, self.copies, labels):
            for j, x in enumerate(row):
                if x < self.sizes[j]:
                    alpha[j][x][c] += times
        sizes = [sum(t for t, own in zip(self.copies, labels) if own == c) for c in range(k)]
        return alpha, sizes

    def table(self, alpha):
        """Scores in double precision, then whole numbers at the largest scale whose sums stay below 2**31."""
        scores = []
        for part, weight in zip(alpha, self.v):
            columns = list(zip(*part))
            cells = [max(sum(column), 1) for column in columns]
            penalty = [sum(x * x for x in column) / n / n for column, n in zip(columns, cells)]
            scores.append([[weight * (2.0 * x / n - q) for x, n, q in zip(line, cells, penalty)] for line in part])
        tops = [Fraction(max(abs(x) for line in part for x in line)) for part in scores]
        total, p = Fraction(float(sum(tops))), len(self.v)
        bits = 0
        if total:
            bits = max(b for b in range(-80, 120) if total * Fraction(2) ** b + p < 2**31)
        scale = Fraction(2) ** bits
        return [[[round(Fraction(x) * scale) for x in line] for line in part] for part in scores], bits

    def assigned(self, table, k):
        out = []
        for row in self.rows:
            seen = [table[j][x] for j, x in enumerate(row) if x < self.sizes[j]]
            sums = [sum(line[c] for line in seen) for c in range(k)]
            out.append(sums.index(max(sums)))
        return out

    def loss(self, alpha):
        """The exact sum of the rounded terms, rounded once."""
        total = Fraction(0)
        for part, weight in zip(alpha, self.v):
            for column in zip(*part):
                cells = sum(column)
                total += Fraction(weight * float(cells))
                total -= Fraction(weight * (float(sum(x * x for x in column)) / float(max(cells, 1))))
        return float(total)

    def passes(self, labels, k, alpha, limit, before=math.inf):
        """Moved rows, losses, labels, counts and the last two tables."""
        moves, losses, tables = [], [], []
        while len(losses) < limit:
            table = self.table(alpha)
            after = self.assigned(table[0], k)
            moves.append(sum(a != b for a, b in zip(after, labels)))
            labels = after
            alpha, sizes = self.counts(labels, k)
            losses.append(self.loss(alpha))
            tables = [*tables, table][-2:]
            better = math.isinf(before) or (moves[-1] > 0 and losses[-1] < before)
            before = losses[-1]
            if not better or 0 in sizes:
                break
        return moves, losses, labels, (alpha, sizes), tables


def flat(alpha):
    return [line for part in alpha for line in part]


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


# -- counts of all rows, and of the smaller half ----------------------------------------------------------------


def brute_counts(codes, layout, copies, labels, k):
    alpha, sizes = np.zeros((layout.n_codes, k), np.int64), np.zeros(k, np.int64)
    for row, times, c in zip(codes.astype(np.int64), copies, labels):
        sizes[c] += times
        for j, x in enumerate(row):
            if x < layout.n_clusters[j]:
                alpha[layout.offsets[j] + x, c] += times
    return alpha, sizes


def check_counts(counts, wanted):
    assert np.array_equal(counts.alpha, wanted[0]) and np.array_equal(counts.sizes, wanted[1])


def halves(rng, n):
    """Labellings with either side smaller, empty or the same."""
    yield np.zeros(n, int)
    yield np.ones(n, int)
    yield (rng.random(n) < 0.1).astype(int)
    yield (rng.random(n) < 0.9).astype(int)
    yield np.arange(n) % 2
    yield (np.arange(n) >= n // 2).astype(int)


@pytest.mark.parametrize("with_copies", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("width", WIDTHS)
def test_whole_counts_and_halves_are_brute_force_down_a_tree(with_copies, missing, width):
    rng = np.random.default_rng(1)
    n = 203
    ensemble = make_ensemble(rng, n, 4, 5, missing=missing, width=width)
    if missing:
        codes = ensemble.codes.copy()
        codes[5] = ensemble.n_clusters  # a row without labels counts 0 times
        ensemble = Ensemble.from_codes(codes, ensemble.n_clusters)
    copies = rng.integers(0, 3, size=n) if with_copies else None
    times = np.array(ByHand(ensemble, copies, np.ones(4)).copies)
    layout = Numpy().load(ensemble).layout
    for engine in natives():
        rows = engine.load(ensemble, copies)

        def check(node, ids, depth, layout=layout, engine=engine):
            codes, own = ensemble.codes[ids], times[ids]
            check_counts(node.whole_counts(), brute_counts(codes, layout, own, np.zeros(len(ids), int), 1))
            assert (node.n_rows, node.n_copies) == (len(ids), own.sum())
            for labels in halves(rng, len(ids)):
                wanted = brute_counts(codes, layout, own, labels, 2)
                check_counts(node.counts(node.labelling_of(labels, 2)), wanted)
                if depth == 0 or len(ids) == 0:
                    continue
                break_off = labels[: len(ids) // 2].all() or depth == 1
                for counted, resting in ((True, True), (False, False), (True, False), (False, True)):
                    labelling = node.labelling_of(labels, 2)
                    if counted:
                        node.counts(labelling)
                    if resting:
                        node.rest(labelling)
                    parts = node.split(labelling)
                    for side, part in enumerate(parts):
                        kept = ids[labels == side]
                        assert np.array_equal(part.codes_at(np.arange(part.n_rows)), ensemble.codes[kept])
                        wanted = brute_counts(ensemble.codes[kept], layout, times[kept], np.zeros(len(kept), int), 1)
                        check_counts(part.whole_counts(), wanted)
                        if counted and resting and not break_off:
                            check(part, kept, depth - 1)

        check(rows, np.arange(n), 2 if engine.n_threads == 3 and engine.chunk_rows else 1)


def test_counts_of_a_relabelled_labelling_are_not_handed_down():
    rng = np.random.default_rng(5)
    ensemble = make_ensemble(rng, 90, 4, 5)
    layout = Numpy().load(ensemble).layout
    labels = rng.integers(2, size=90)
    for engine in natives((1,)):
        rows = engine.load(ensemble)
        labelling = rows.labelling_of(labels, 2)
        rows.counts(labelling)
        rows.relabel(labelling, np.arange(40), 1 - labels[:40])
        now = np.append(1 - labels[:40], labels[40:])
        for side, part in enumerate(rows.split(labelling)):
            ids = np.flatnonzero(now == side)
            assert np.array_equal(part.ids, ids)
            wanted = brute_counts(ensemble.codes[ids], layout, np.ones(len(ids), int), np.zeros(len(ids), int), 1)
            check_counts(part.whole_counts(), wanted)


def test_whole_counts_of_many_rows_on_three_threads():
    rng = np.random.default_rng(2)
    ensemble = make_ensemble(rng, 150_000, 12, 9, missing=0.05)
    codes = ensemble.codes
    copies = rng.integers(1, 4, size=150_000)
    for times in (None, copies):
        weights = np.ones(150_000, int) if times is None else times
        for level in LEVELS:
            rows = _native.Native(n_threads=3, simd=level).load(ensemble, times)
            rows.whole_counts()
            for share in (0.2, 0.7):
                labels = (rng.random(150_000) < share).astype(int)
                found = rows.counts(rows.labelling_of(labels, 2))
                for j in range(12):
                    size, start = ensemble.n_clusters[j], rows.layout.offsets[j]
                    for c in (0, 1):
                        line = np.bincount(codes[labels == c, j], weights[labels == c], minlength=size + 1)[:size]
                        assert np.array_equal(found.alpha[start : start + size, c], line)


@pytest.mark.parametrize("with_copies", [False, True])
def test_passes_on_the_halves_of_a_split_are_those_of_rows_loaded_alone(with_copies):
    rng = np.random.default_rng(3)
    n = 400
    ensemble = make_ensemble(rng, n, 7, 6, missing=0.1, noise=0.5)
    copies = rng.integers(0, 3, size=n) + (np.arange(n) < 2) if with_copies else None
    split = (rng.random(n) < 0.35).astype(int)
    for engine in natives((3,)):
        rows = engine.load(ensemble, copies)
        labelling = rows.labelling_of(split, 2)
        rows.kmeans_passes(labelling, np.ones(7), None, 2)
        split = rows.labels(labelling).copy()
        rows.rest(labelling)
        for side, child in enumerate(rows.split(labelling)):
            ids = np.flatnonzero(split == side)
            alone = engine.load(
                Ensemble.from_codes(ensemble.codes[ids], ensemble.n_clusters), None if copies is None else copies[ids]
            )
            for k in (1, 2, 3):
                start = rng.integers(k, size=len(ids))
                one, other = child.labelling_of(start, k), alone.labelling_of(start, k)
                found = child.kmeans_passes(one, np.ones(7), None, 20)
                assert found == alone.kmeans_passes(other, np.ones(7), None, 20)
                assert np.array_equal(child.labels(one), alone.labels(other))
                assert np.array_equal(child.counts(one).alpha, alone.counts(other).alpha)
                hand = ByHand(
                    Ensemble.from_codes(ensemble.codes[ids], ensemble.n_clusters),
                    None if copies is None else copies[ids],
                    np.ones(7),
                )
                if engine.chunk_rows is None:
                    assert found[:2] == hand.passes(start.tolist(), k, hand.counts(start, k)[0], 20)[:2]


# -- labellings at rest, memory handed down ----------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 130, 255, 256, 257, 300])
@pytest.mark.parametrize("with_copies", [False, True])
def test_a_labelling_at_rest_splits_rightly_and_nothing_else(k, with_copies):
    rng = np.random.default_rng(k)
    n = 1500
    ensemble = make_ensemble(rng, n, 5, 9)
    copies = rng.integers(0, 3, size=n) if with_copies else None
    labels = np.append(rng.integers(k, size=n - k), np.arange(k))
    labels[labels == k // 3] = k - 1  # one cluster is empty, unless it is the only one
    for engine in natives((2,)):
        rows = engine.load(ensemble, copies)
        for counted in (True, False):
            labelling = rows.labelling_of(labels, k)
            before = rows.counts(labelling) if counted else None
            rows.rest(labelling)
            if counted:
                check_counts(rows.counts(labelling), (before.alpha, before.sizes))
            if k <= 256:
                with pytest.raises(ValueError, match="rests: nothing but a split"):
                    rows.assign(labelling, ScoreTable(np.zeros((ensemble.n_codes, k), np.int32), 0))
                with pytest.raises(ValueError, match="rests: nothing but a split"):
                    rows.kmeans_passes(labelling, np.ones(5), None, 1)
                with pytest.raises(ValueError, match="rests: nothing but a split"):
                    rows.worst_rows(labelling, ScoreTable(np.zeros((ensemble.n_codes, k), np.int32), 0), 1)
                if not counted:
                    with pytest.raises(ValueError, match="rests: nothing but a split"):
                        rows.counts(labelling)
            with pytest.raises(ValueError, match="no table"):
                rows.last_table(labelling)
            if k > 256:  # not packed, so passes are still possible, if without what sped them up
                table = fix_table(rng.normal(size=(ensemble.n_codes, k)), rows.layout)
                twin = rows.labelling_of(labels, k)
                rows.kmeans_passes(twin, np.ones(5), None, 1)
                rows.rest(twin)
                plain = Numpy().load(ensemble, copies)
                truth = plain.labelling(k)
                plain.assign(truth, table)
                rows.assign(twin, table)
                assert np.array_equal(rows.counts(twin).alpha, plain.counts(truth).alpha)
                assert rows.assign(twin, table) == 0
            parts = rows.split(labelling)
            assert len(parts) == k
            for c, part in enumerate(parts):
                ids = np.flatnonzero(labels == c)
                own = np.arange(n) if part.ids is None else part.ids
                assert np.array_equal(own, ids)
                assert part.n_copies == (len(ids) if copies is None else copies[ids].sum())
            assert np.array_equal(rows.scatter(parts), labels)


def test_memory_of_a_parent_serves_its_children():
    """Large rows (their copy is mapped), split twice; the kin take the memory over and still see their own rows."""
    rng = np.random.default_rng(6)
    n, p = 300_000, 12
    ensemble = make_ensemble(rng, n, p, 9, noise=0.5)
    weights = np.ones(p)
    for level in LEVELS:
        rows = _native.Native(n_threads=2, simd=level).load(ensemble)
        waiting = [(rows, np.arange(n))]
        for turn in range(4):
            node, ids = waiting.pop(turn % len(waiting))
            node.seeding(np.ones(p, np.int64))
            assert node.core.has_blocked
            start = (rng.random(len(ids)) < (0.3, 0.5, 0.15, 0.6)[turn]).astype(int)
            labelling = node.labelling_of(start, 2)
            found = node.kmeans_passes(labelling, weights, None, 3)
            alone = Numpy().load(Ensemble.from_codes(ensemble.codes[ids], ensemble.n_clusters))
            truth = alone.labelling_of(start, 2)
            for moved, loss in zip(*found[:2]):
                moved_there, loss_there = numpy_pass(alone, truth, weights)
                assert (moved, loss) == (moved_there, loss_there)
            labels = node.labels(labelling).copy()
            assert np.array_equal(labels, alone.labels(truth))
            if turn % 2:
                node.rest(labelling)
                assert not node.core.has_blocked
            waiting += [(part, ids[labels == side]) for side, part in enumerate(node.split(labelling))]
            assert not node.core.has_blocked


def test_memory_too_small_for_kin_is_left_alone():
    """A half that is done leaves its memory to a whole that needs more, over and over."""
    rng = np.random.default_rng(8)
    n, p = 60_000, 16
    ensemble = make_ensemble(rng, n, p, 60, noise=0.9)
    rows = _native.Native(n_threads=1, simd=LEVELS[-1]).load(ensemble)
    labels = (rng.random(n) < 0.35).astype(int)
    most, some = rows.split(rows.labelling_of(labels, 2))
    ones = np.ones(p, np.int64)
    for _ in range(3):
        rows.core.free_spare()
        some.seeding(ones)
        some.core.free_blocked()  # spare from now on
        kept, total = [], []
        for part, side in ((most, 0), (some, 1)):  # too small for the first, right for the second
            part.seeding(ones)
            kept.append(part)
            seeding = part.seeding(ones)
            seeding.choose(np.array([5]))
            total.append(seeding.total)
            own = ensemble.codes[labels == side]
            assert total[-1] == (own != own[5]).sum()
        for part in kept:
            part.core.free_blocked()


def numpy_pass(rows, labelling, weights):
    objective = KMeansObjective(weights)
    moved = rows.assign(labelling, fix_table(objective.table(rows.counts(labelling)), rows.layout))
    return moved, objective.loss(rows.counts(labelling))


def test_memory_that_is_being_read_is_not_handed_on():
    """One thread makes passes while another drops the copy and lets kin fill whatever is spare with other codes."""
    rng = np.random.default_rng(7)
    n, p = 60_000, 16
    ensemble = make_ensemble(rng, n, p, 60, noise=0.9)
    rows = _native.Native(n_threads=1).load(ensemble)
    tables = [ScoreTable(rng.integers(-1000, 1000, size=(ensemble.n_codes, 16)).astype(np.int32), 0) for _ in range(2)]
    oracle = Numpy().load(ensemble)
    truth = []
    for table in tables:
        labelling = oracle.labelling(16)
        oracle.assign(labelling, table)
        truth.append(np.array(oracle.labels(labelling)))
    # kin of the same memory, but with rows of their own
    kin = rows.split(rows.labelling_of((np.arange(n) % 3 == 0).astype(int), 2))
    over = threading.Event()

    def disturb():
        while not over.is_set():
            rows.core.free_blocked()
            for part in kin:
                part.seeding(np.ones(p, np.int64))
                part.core.free_blocked()

    other = threading.Thread(target=disturb)
    other.start()
    try:
        labelling = rows.labelling(16)
        for turn in range(60):
            rows.seeding(np.ones(p, np.int64))  # builds the copy
            rows.assign(labelling, tables[turn % 2])
            assert np.array_equal(rows.labels(labelling), truth[turn % 2])
    finally:
        over.set()
        other.join()


# -- tasks side by side ----------------------------------------------------------------------------------------


def fit_once(rows, seed):
    labelling = rows.labelling_of(np.random.default_rng(seed).integers(4, size=rows.n_rows), 4)
    found = rows.kmeans_passes(labelling, np.ones(rows.layout.n_partitions), None, 8)
    return found, rows.labels(labelling).tolist()


@pytest.fixture
def some_rows():
    return _native.Native(n_threads=3).load(make_ensemble(np.random.default_rng(0), 3000, 8, 9, noise=0.7))


def test_tasks_give_results_in_order_and_the_first_error(some_rows):
    engine = _native.Native(n_threads=3)
    truth = [fit_once(some_rows, seed) for seed in range(12)]
    for n in (0, 1, 2, 12):
        assert engine.side_by_side(lambda seed: fit_once(some_rows, seed), range(n)) == truth[:n]

    def slow_to_fast(task):
        time.sleep(0.02 * (3 - task))
        if task > 0:
            raise KeyError(task)
        return task

    with pytest.raises(KeyError, match="1"):
        engine.side_by_side(slow_to_fast, [0, 1, 2])
    assert engine.side_by_side(lambda seed: fit_once(some_rows, seed), range(3)) == truth[:3]  # nothing is left over


def test_tasks_really_run_at_the_same_time_on_threads_that_stay():
    engine = _native.Native(n_threads=3)
    meeting = threading.Barrier(3, timeout=30)

    def meet(_):
        meeting.wait()
        return threading.get_ident()

    first = set(engine.side_by_side(meet, range(3)))
    assert len(first) == 3 and threading.get_ident() not in first
    assert set(engine.side_by_side(meet, range(3))) == first


def test_tasks_within_a_task_run_in_its_own_thread():
    engine, other = _native.Native(n_threads=2), _native.Native(n_threads=3)

    def outer(task):
        inner = [e.side_by_side(lambda x: (x, threading.get_ident()), range(4)) for e in (engine, other)]
        return threading.get_ident(), inner

    for ident, inner in engine.side_by_side(outer, range(5)):
        assert ident != threading.get_ident()
        assert inner == [[(x, ident) for x in range(4)]] * 2
    # and afterwards the main thread shares out again
    assert threading.get_ident() not in engine.side_by_side(lambda _: threading.get_ident(), range(2))


def test_an_interrupt_cancels_what_runs_and_what_waits(some_rows):
    engine = _native.Native(n_threads=2)
    table = [ScoreTable(np.full((some_rows.layout.n_codes, 4), x, np.int32), 0) for x in (0, 1)]
    running, ends, started = threading.Event(), [], []

    def task(name):
        started.append(name)
        if name == 0:
            running.wait(30)
            raise KeyboardInterrupt
        if name > 1:
            time.sleep(0.2)  # so that whatever still starts is seen
            return
        labelling = some_rows.labelling(4)
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                some_rows.assign(labelling, table[0])
                running.set()
                some_rows.assign(labelling, table[1])
            ends.append("never stopped")
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    with pytest.raises(KeyboardInterrupt):
        engine.side_by_side(task, range(12))
    assert ends == ["Stopped"]
    assert set(started) < set(range(12))
    truth = [fit_once(some_rows, seed) for seed in range(4)]
    assert engine.side_by_side(lambda seed: fit_once(some_rows, seed), range(4)) == truth


def test_an_interrupt_while_tasks_are_handed_out_stops_those_under_way(some_rows, monkeypatch):
    engine = _native.Native(n_threads=2)
    running, ends = threading.Event(), []
    real = _native._threads

    class Interrupted:
        @staticmethod
        def submit(call, task):
            if task == 1:
                running.wait(30)
                raise KeyboardInterrupt
            return real(2).submit(call, task)

    def work(_):
        labelling = some_rows.labelling(4)
        deadline = time.monotonic() + 30
        try:
            while time.monotonic() < deadline:
                some_rows.assign(labelling, ScoreTable(np.zeros((some_rows.layout.n_codes, 4), np.int32), 0))
                running.set()
        except _native._kernels.Stopped:
            ends.append("stopped")
            raise

    monkeypatch.setattr(_native, "_threads", lambda n: Interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.side_by_side(work, range(3))
    assert ends == ["stopped"]


def test_a_stopped_pass_leaves_a_labelling_that_can_be_used(some_rows):
    """Passes that a token stops raise, and the labelling counts anew what it holds."""
    start = np.random.default_rng(1).integers(2, size=some_rows.n_rows)
    for counted in (False, True):
        labelling = some_rows.labelling_of(start, 2)
        if counted:
            some_rows.counts(labelling)
        token = _native._kernels.Token()
        token.cancel()
        _native._kernels.use_token(token)
        try:
            with pytest.raises(_native._kernels.Stopped):
                some_rows.kmeans_passes(labelling, np.ones(8), None, 5)
        finally:
            _native._kernels.use_token(None)
        labelling.labels[:] = start
        other = some_rows.labelling_of(start, 2)
        assert np.array_equal(some_rows.counts(labelling).alpha, some_rows.counts(other).alpha)
        found = some_rows.kmeans_passes(labelling, np.ones(8), None, 5)
        assert found == some_rows.kmeans_passes(other, np.ones(8), None, 5)


def test_user_threads_share_out_tasks_at_once(some_rows):
    engine = _native.Native(n_threads=2)
    truth = [fit_once(some_rows, seed) for seed in range(6)]
    found: dict[int, list] = {}

    def use(name):
        for _ in range(5):
            found[name] = engine.side_by_side(lambda seed: fit_once(some_rows, seed), range(6))

    users = [threading.Thread(target=use, args=(name,)) for name in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert found == dict.fromkeys(range(4), truth)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_shares_out_tasks_on_threads_of_its_own(some_rows):
    engine = _native.Native(n_threads=3)

    def fits():
        return engine.side_by_side(lambda seed: fit_once(some_rows, seed), range(6))

    truth = fits()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if fits() == truth else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the forked child hangs")
    assert fits() == truth


def test_a_split_needs_labels():
    rows = _native.Native().load(Ensemble.from_codes(np.zeros((5, 2), np.uint8), [1, 1]))
    with pytest.raises(ValueError, match="a split needs a label for every row"):
        rows.split(rows.labelling(2))
