"""Starts of k-means side by side in one compiled call: seeds, passes, labellings used again, too few rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from by_hand import LEVELS, WIDTHS, ByHand, flat, make_ensemble
from coassoc.consensus.lloyd import Fit, TooFewRows, seeded_fits
from coassoc.core.counts import Counts, ScoreTable
from coassoc.core.tables import KMeansObjective, fix_table, seeding_weights
from coassoc.engines import Native, Numpy
from coassoc.engines.native import engine as _native
from coassoc.ensemble import Ensemble

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")


def natives():
    return [
        Native(n_threads=threads, chunk_rows=rows, simd=level, blocked_copy=copy)
        for level in LEVELS
        for threads, rows, copy in ((1, None, True), (3, 64, True), (2, None, False))
    ]


# -- the same in plain NumPy -------------------------------------------------------------------------------


def brute_seeds(ensemble, copies, weights, k, m, rng):
    """Greedy k-means++ from all distances at once."""
    codes, absent = ensemble.codes.astype(np.int64), np.asarray(ensemble.n_clusters)
    times = np.array(ByHand(ensemble, copies, weights).copies)
    now, chosen = np.ones(len(codes), np.int64), []

    def after(row):
        apart = (codes != codes[row]) & (codes < absent) & (codes[row] < absent)
        return apart @ weights if not chosen else np.minimum(now, apart @ weights)

    while len(chosen) < k and (total := int((times * now).sum())) > 0:
        targets = rng.integers(total, size=m if chosen else 1)
        drawn = np.searchsorted(np.cumsum(times * now), targets, side="right")
        left = [after(row) for row in drawn]
        best = min(range(len(left)), key=lambda i: int((times * left[i]).sum()))
        now = left[best]
        chosen.append(drawn[best])
    return ensemble.codes[chosen]


def numpy_passes(ensemble, copies, v, seeds, limit):
    """Passes from rows by the verbs of the NumPy engine: moves, losses, empty clusters, labels, counts, tables."""
    rows, objective = Numpy().load(ensemble, copies), KMeansObjective(v)
    labelling, counts = rows.labelling(len(seeds)), Counts.of_rows(seeds, rows.layout)
    moves, losses, tables = [], [], []
    while len(losses) < limit:
        tables.append(fix_table(objective.table(counts), rows.layout))
        moves.append(rows.assign(labelling, tables[-1]))
        counts = rows.counts(labelling)
        losses.append(objective.loss(counts))
        empty = int((counts.sizes == 0).sum())
        if empty or (len(losses) > 1 and not (moves[-1] and losses[-1] < losses[-2])):
            break
    return moves, losses, empty, rows.labels(labelling).tolist(), counts, tables


def check_start(rows, start, seeds, passes, k):
    assert start.seeds.tolist() == seeds.tolist()
    if passes is None:
        assert len(start.seeds) < k and start.passes == ([], [], 0)
        return
    moves, losses, empty, labels, counts, tables = passes
    assert start.passes == (moves, losses, empty)
    assert rows.labels(start.labelling).tolist() == labels
    for table, earlier in zip(tables[:-3:-1], (False, True)):
        found = rows.last_table(start.labelling, earlier)
        assert found.bits == table.bits and np.array_equal(found.values, table.values)
    for found in (rows.counts(start.labelling), rows.ended(start.labelling)[1], rows.counts(start.labelling)):
        assert np.array_equal(found.alpha, counts.alpha) and np.array_equal(found.sizes, counts.sizes)
        assert np.array_equal(found.cells, counts.cells) and np.array_equal(found.squares, counts.squares)


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p = draw(st.sampled_from([1, 2, 3, 4, 5, 9, 20]))
    width = draw(st.sampled_from(WIDTHS))
    missing = draw(st.sampled_from([0.0, 0.0, 0.15]))
    most = draw(st.sampled_from([3, 30, 64, 140]))
    sizes = draw(st.lists(st.sampled_from([1, 2, 63, 64, 65, 200, 700, 2049, 4200]), min_size=1, max_size=4))
    n_clusters = rng.integers(1, most + 1, size=p)
    data = []
    for n in sizes:
        codes = np.minimum(make_ensemble(rng, n, p, most, width=width).codes, (n_clusters - 1).astype(width))
        if missing:
            codes = np.where(rng.random(codes.shape) < missing, n_clusters, codes).astype(width)
            codes[0] = 0
        copies = rng.integers(0, 4, size=n) if draw(st.booleans()) else None
        data.append((Ensemble.from_codes(codes, n_clusters), copies))
    v = draw(st.sampled_from(["ones", "equal", "unequal"]))
    v = {"ones": np.ones(p), "equal": np.full(p, 0.3), "unequal": rng.random(p) + 0.05}[v]
    k = draw(st.sampled_from([2, 2, 3, 20, 60]))
    limit = draw(st.sampled_from([1, 2, 30]))
    return data, v, k, limit, draw(st.integers(1, 9)), draw(st.integers(0, 10**6))


@settings(max_examples=100)
@given(cases())
def test_starts_are_those_of_numpy_task_by_task(case):
    data, v, k, limit, m, seed = case
    weights = seeding_weights(v)
    truth = []
    for at, (ensemble, copies) in enumerate([*data, data[0]]):  # the first rows twice, with draws of their own
        seeds = brute_seeds(ensemble, copies, weights, k, m, np.random.default_rng([seed, at]))
        truth.append((seeds, numpy_passes(ensemble, copies, v, seeds, limit) if len(seeds) == k else None))
    for engine in natives():
        loaded = [engine.load(*one) for one in data]
        loaded.append(loaded[0])
        tasks = [(rows, np.random.default_rng([seed, at])) for at, rows in enumerate(loaded)]
        starts = engine.kmeans_starts(tasks, k, m, weights, v, limit)
        for rows, start, (seeds, passes) in zip(loaded, starts, truth, strict=True):
            check_start(rows, start, seeds, passes, k)


@pytest.mark.parametrize("k", [2, 3, 20, 255, 256, 257, 300])
@pytest.mark.parametrize("missing", [0.0, 0.02])
@pytest.mark.parametrize("v", ["equal", "unequal"])
def test_starts_are_the_verbs_one_by_one_for_any_number_of_clusters(k, missing, v):
    rng = np.random.default_rng(k)
    p = 7
    ensembles = [make_ensemble(rng, n, p, 12, missing=missing, noise=0.7) for n in (3000, 400, 1100)]
    v = np.full(p, 2.0) if v == "equal" else rng.random(p) + 0.2
    weights = seeding_weights(v)
    for engine in natives():
        loaded = [engine.load(ensemble) for ensemble in ensembles]
        tasks = [(rows, np.random.default_rng(at)) for at, rows in enumerate(loaded)]
        starts = engine.kmeans_starts(tasks, k, 3, weights, v, 8)
        for at, (rows, start) in enumerate(zip(loaded, starts, strict=True)):
            rng_here = np.random.default_rng(at)
            seeds = rows.seeding(weights).choose_all(k, 3, rng_here)
            assert start.seeds.tolist() == seeds.tolist() and len(seeds) == k
            assert tasks[at][1].integers(1 << 60) == rng_here.integers(1 << 60), "as many draws"
            labelling = rows.labelling(k)
            assert start.passes == rows.kmeans_passes(labelling, v, Counts.of_rows(seeds, rows.layout), 8)
            assert np.array_equal(rows.labels(start.labelling), rows.labels(labelling))
            one, other = rows.last_table(start.labelling), rows.last_table(labelling)
            assert one.bits == other.bits and np.array_equal(one.values, other.values)
            assert np.array_equal(rows.counts(start.labelling).alpha, rows.counts(labelling).alpha)


@pytest.mark.parametrize("with_copies", [False, True])
@pytest.mark.parametrize("p", [1, 2, 6])
def test_first_pass_gives_ties_to_the_first_seed(p, with_copies):
    """Few clusters in few partitions: most rows are equally far from several seeds."""
    rng = np.random.default_rng(p)
    ensemble = Ensemble.from_codes(rng.integers(4, size=(3000, p)).astype(np.uint8), np.full(p, 4))
    copies = rng.integers(0, 3, size=3000) if with_copies else None
    for engine in natives():
        rows = engine.load(ensemble, copies)
        for seed in range(3):
            (start,) = engine.kmeans_starts([(rows, np.random.default_rng(seed))], 4, 2, np.ones(p, int), np.ones(p), 1)
            apart = (ensemble.codes[:, None, :] != start.seeds[None]).sum(axis=2)
            assert (np.sort(apart, axis=1)[:, 0] == np.sort(apart, axis=1)[:, 1]).mean() > 0.2 or p == 1
            assert np.array_equal(rows.labels(start.labelling), apart.argmin(axis=1))


@pytest.mark.parametrize("p", [254, 255, 256, 300])
def test_distances_beyond_a_byte_are_not_followed_in_one(p):
    rng = np.random.default_rng(p)
    ensemble = Ensemble.from_codes(rng.integers(200, size=(150, p)).astype(np.uint8), np.full(p, 200))
    for engine in natives():
        rows = engine.load(ensemble)
        (start,) = engine.kmeans_starts([(rows, np.random.default_rng(1))], 5, 3, np.ones(p, int), np.ones(p), 1)
        apart = (ensemble.codes[:, None, :] != start.seeds[None]).sum(axis=2)
        assert np.array_equal(rows.labels(start.labelling), apart.argmin(axis=1))


def test_first_pass_by_hand_with_unequal_weights():
    """Seeds by whole weights, labels by those of the table: neither stands for the other."""
    rng = np.random.default_rng(4)
    ensemble = make_ensemble(rng, 150, 5, 4, noise=0.6)
    v = np.array([1.0, 0.4, 0.3, 0.2, 0.1])
    hand = ByHand(ensemble, None, v)
    for engine in natives():
        rows = engine.load(ensemble)
        for weights in (np.ones(5, int), seeding_weights(v)):
            (start,) = engine.kmeans_starts([(rows, np.random.default_rng(0))], 4, 2, weights, v, 1)
            alpha, _ = hand.counts([0] * 150, 4)
            for part, line in enumerate(start.seeds.T):
                alpha[part] = [[int(x == code) for x in line] for code in range(hand.sizes[part])]
            moves, losses, labels, (counts, _), _ = hand.passes([-1] * 150, 4, alpha, 1)
            assert start.passes[:2] == (moves, losses)
            assert rows.labels(start.labelling).tolist() == labels
            assert rows.counts(start.labelling).alpha.tolist() == flat(counts)


def test_reused_labelling_is_as_good_as_a_new_one():
    rng = np.random.default_rng(6)
    ensemble = make_ensemble(rng, 900, 6, 9, noise=0.6)
    ones = np.ones(6, int)
    for engine in natives():
        rows = engine.load(ensemble)
        for k in (2, 5):
            used = rows.labelling(k)
            for seed, dirt in enumerate(("new", "passes", "ended", "assigned", "relabelled")):
                if dirt == "ended":
                    rows.ended(used)
                elif dirt == "assigned":
                    values = rng.integers(-1000, 1000, size=(ensemble.n_codes, k)).astype(np.int32)
                    rows.assign(used, ScoreTable(values, 3))
                elif dirt == "relabelled":
                    rows.relabel(used, np.arange(300), np.zeros(300, np.int32))
                for limit in (1, 20):
                    task = [(rows, np.random.default_rng(seed))]
                    (again,) = engine.kmeans_starts(task, k, 3, ones, np.ones(6), limit, used)
                    task = [(rows, np.random.default_rng(seed))]
                    (fresh,) = engine.kmeans_starts(task, k, 3, ones, np.ones(6), limit)
                    assert again.labelling is used and np.array_equal(again.seeds, fresh.seeds)
                    assert again.passes[1:] == fresh.passes[1:] and again.passes[0][1:] == fresh.passes[0][1:]
                    assert np.array_equal(rows.labels(used), rows.labels(fresh.labelling))
                    assert np.array_equal(rows.counts(used).alpha, rows.counts(fresh.labelling).alpha)


def test_reused_labelling_forgets_how_far_its_rows_were_from_other_clusters():
    """Centres hardly move from their seeds, and yet one row, as far from both, must change in the second pass."""
    codes = np.zeros((2101, 4), np.uint8)
    codes[:1000] = 1
    codes[2000:2100, 0] = 2  # blurs the first centre
    codes[2100] = [0, 0, 1, 1]
    ensemble = Ensemble.from_codes(codes, [3, 3, 3, 3])
    sure = np.tile([1 << 28, -(1 << 28)], (12, 1)).astype(np.int32)  # every row far on one side
    changed = 0
    for engine in natives():
        rows = engine.load(ensemble)
        for seed in range(6):
            used = rows.labelling(2)
            rows.assign(used, ScoreTable(sure, 28))
            found = []
            for labelling in (used, None):
                task = [(rows, np.random.default_rng(seed))]
                (start,) = engine.kmeans_starts(task, 2, 2, np.ones(4, int), np.ones(4), 20, labelling)
                found.append((rows.labels(start.labelling).tolist(), start.passes[1:], start.passes[0][1:]))
            assert found[0] == found[1]
            changed += 1 in found[0][2]
    assert changed


def test_no_task_and_no_pass():
    for engine in natives():
        assert engine.kmeans_starts([], 2, 2, np.ones(3, int), np.ones(3), 5) == []
        assert seeded_fits(engine, [], KMeansObjective(np.ones(3)), 2, np.ones(3, int), 5) == []


# -- too few rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("different", [1, 2, 5])
def test_too_few_different_rows_are_named_and_spoil_no_other_task(different):
    rng = np.random.default_rng(different)
    some = np.arange(different)[:, None] * np.ones(3, int)
    few = Ensemble.from_codes(some[rng.integers(different, size=500)].astype(np.uint8), np.full(3, 6))
    enough = make_ensemble(rng, 300, 3, 9, noise=0.9)
    enough = Ensemble.from_codes(np.minimum(enough.codes, 5), np.full(3, 6))
    objective, ones = KMeansObjective(np.ones(3)), np.ones(3, int)
    for engine in [Numpy(), *natives()]:
        tasks = [(engine.load(e), np.random.default_rng(7)) for e in (few, enough, few)]
        fits = seeded_fits(engine, tasks, objective, 6, ones, 50)
        for short in (fits[0], fits[2]):
            assert isinstance(short, TooFewRows) and short.n_different == different
            assert f"n_clusters=6 is larger than the number of different label rows, {different};" in str(short)
        assert isinstance(fits[1], Fit) and (fits[1].counts.sizes > 0).all()
        with pytest.raises(TooFewRows, match=f"label rows, {different}; ask for at most {different} clusters"):
            ca.KMeansConsensus(n_clusters=6, n_init=3, random_state=0, engine=engine).fit(few)


def test_rows_that_do_not_count_are_no_seeds():
    codes = np.array([[0, 0]] * 70 + [[1, 1]] * 70 + [[2, 2]] * 3, np.uint8)
    copies = np.where(np.arange(143) < 140, 1, 0)
    for engine in natives():
        rows = engine.load(Ensemble.from_codes(codes, [3, 3]), copies)
        task = [(rows, np.random.default_rng(0))]
        (start,) = engine.kmeans_starts(task, 3, 2, np.ones(2, int), np.ones(2), 5)
        assert sorted(start.seeds.tolist()) == [[0, 0], [1, 1]] and start.passes == ([], [], 0)


def test_what_does_not_fit_is_refused():
    rows = Native().load(Ensemble.from_codes(np.eye(3, dtype=np.uint8), [2, 2, 2]))
    other = Native().load(Ensemble.from_codes(np.eye(4, dtype=np.uint8)[:, :3].copy(), [2, 2, 2]))
    engine, rng = Native(n_threads=2), np.random.default_rng(0)
    ones, v = np.ones(3, int), np.ones(3)
    for call in (
        lambda: engine.kmeans_starts([(rows, rng)], 2, 2, ones[:2], v, 5),
        lambda: engine.kmeans_starts([(rows, rng)], 2, 2, ones, v[:2], 5),
        lambda: engine.kmeans_starts([(rows, rng)], 2, 0, ones, v, 5),
        lambda: engine.kmeans_starts([(rows, rng)], 2, 2, ones, v, 5, other.labelling(2)),
        lambda: engine.kmeans_starts([(rows, rng)], 2, 2, ones, v, 5, rows.labelling(3)),
    ):
        with pytest.raises(ValueError, match="do not fit the rows"):
            call()
    with pytest.raises(ValueError, match="negative"):
        engine.kmeans_starts([(rows, rng), (other, np.random.default_rng(1))], 2, 2, -ones, v, 5)
    at_rest = rows.labelling_of(np.array([0, 1, 0]), 2)
    rows.rest(at_rest)
    with pytest.raises(ValueError, match="rests"):
        engine.kmeans_starts([(rows, rng)], 2, 2, ones, v, 5, at_rest)
    with pytest.raises(ValueError, match="one task, got 2"):
        engine.kmeans_starts([(rows, rng), (rows, rng)], 2, 2, ones, v, 5, rows.labelling(2))
