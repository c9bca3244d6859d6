"""The native engine: every verb equals the NumPy engine, for every instruction set, thread count and chunking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coassoc.consensus.lloyd import TooFewRows, lloyd, seed_rows
from coassoc.core.counts import Counts, ScoreTable
from coassoc.core.tables import KMeansObjective, fix_table, seeding_weights
from coassoc.engines import Numpy
from coassoc.engines.native import engine as _native
from coassoc.ensemble import Ensemble

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")

LEVELS = _native.simd_levels()
# (threads, chunk_rows, blocked_copy); a chunk is at least one block of 64 rows
SETTINGS = [(1, None, True), (2, 64, True), (3, 1000, True), (2, 64, False), (1, None, False)]
WIDTHS = {"uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32}


def natives():
    return [
        _native.Native(n_threads=threads, chunk_rows=rows, simd=level, blocked_copy=copy)
        for level in LEVELS
        for threads, rows, copy in SETTINGS
    ]


def make_ensemble(rng, n, p, most, *, missing=0.0, width="uint8", groups=6):
    """Noisy copies of a few groups, so that clusters exist and ties are many."""
    n_clusters = rng.integers(1, most + 1, size=p)
    group = rng.integers(groups, size=n)
    codes = np.empty((n, p), WIDTHS[width])
    for j, k in enumerate(n_clusters):
        column = rng.integers(k, size=groups)[group]
        column = np.where(rng.random(n) < 0.3, rng.integers(k, size=n), column)
        codes[:, j] = np.where(rng.random(n) < missing, k, column)
    codes[0] = 0  # at least one row with every label
    return Ensemble.from_codes(codes, n_clusters)


def random_tables(rng, ensemble, k, how_many):
    """A walk of tables, some of them full of ties, one an old table again, with changing scales."""
    d, layout = ensemble.n_codes, Numpy().load(ensemble).layout
    scores = rng.integers(-2, 3, size=(d, k)).astype(float)
    tables = [fix_table(scores, layout)]
    for step in range(how_many):
        scores = scores + rng.normal(size=(d, k)) * rng.choice([1e-7, 1e-3, 0.05, 1.0])
        tables.append(fix_table(scores * 2.0 ** rng.integers(-3, 4), layout))
        if step == 1:
            tables.append(tables[0])
    return tables


@st.composite
def cases(draw):
    """Ensembles of every width with missing labels, multiplicities and any number of clusters."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.one_of(st.integers(1, 300), st.sampled_from([63, 64, 65, 128, 2048, 2049])))
    p = draw(st.sampled_from([1, 2, 3, 7, 20, 33]))
    width = draw(st.sampled_from(list(WIDTHS)))
    most = draw(st.sampled_from([1, 3, 40, 64, 100, 200, 255] + ([] if width == "uint8" else [700])))
    missing = draw(st.sampled_from([0.0, 0.0, 0.2]))
    ensemble = make_ensemble(rng, n, p, most, missing=missing, width=width)
    copies = rng.integers(0, 4, size=n) if draw(st.booleans()) else None
    if copies is not None:
        copies[0] = 1
    k = draw(st.sampled_from([1, 2, 3, 8, 9, 16, 20, 31, 33, 64, 65, 130, 300]))
    return rng, ensemble, copies, k


def same_counts(one, other):
    return np.array_equal(one.alpha, other.alpha) and np.array_equal(one.sizes, other.sizes)


@settings(max_examples=60)
@given(cases())
def test_assign_and_counts_equal_numpy_along_a_walk_of_tables(case):
    rng, ensemble, copies, k = case
    tables = random_tables(rng, ensemble, k, 4)
    oracle = Numpy().load(ensemble, copies)
    truth = []
    labelling = oracle.labelling(k)
    for table in tables:
        moved = oracle.assign(labelling, table)
        truth.append((moved, oracle.labels(labelling).copy(), oracle.counts(labelling)))
    for engine in natives():
        rows = engine.load(ensemble, copies)
        labelling = rows.labelling(k)
        for step, (table, (moved, labels, counts)) in enumerate(zip(tables, truth)):
            assert rows.assign(labelling, table) == moved, engine
            assert np.array_equal(rows.labels(labelling), labels), engine
            if step != 2:  # a pass without a look at the counts must not lose any
                assert same_counts(rows.counts(labelling), counts), engine


@settings(max_examples=40)
@given(cases())
def test_given_labels_are_counted_split_and_refilled_as_numpy_does(case):
    rng, ensemble, copies, k = case
    labels = rng.integers(k, size=ensemble.n_samples)
    table = random_tables(rng, ensemble, k, 1)[-1]
    oracle = Numpy().load(ensemble, copies)
    truth = oracle.labelling(k, labels)
    parts = oracle.split(truth)
    worst = [oracle.worst_rows(truth, table, m) for m in (1, 3, 50)]
    for engine in natives():
        rows = engine.load(ensemble, copies)
        mine = rows.labelling(k, labels)
        assert same_counts(rows.counts(mine), oracle.counts(truth)), engine
        for m, (codes, costs) in zip((1, 3, 50), worst):
            found, found_costs = rows.worst_rows(mine, table, m)
            assert np.array_equal(found, codes) and np.array_equal(found_costs, costs), engine
        children = rows.split(mine)
        for child, part in zip(children, parts, strict=True):
            assert (child.n_rows, child.n_copies) == (part.n_rows, part.n_copies)
            everything = np.arange(part.n_rows)
            assert np.array_equal(child.codes_at(everything), part.codes_at(everything)), engine
        assert np.array_equal(rows.scatter(children), oracle.scatter(parts))
        assert np.array_equal(rows.scatter(children), labels)


@settings(max_examples=40)
@given(cases(), st.sampled_from(["ones", "small", "16 bits", "31 bits", "40 bits"]))
def test_seeding_equals_numpy(case, kind):
    rng, ensemble, copies, _ = case
    p = ensemble.n_partitions
    top = {"ones": 1, "small": max(1, 255 // p), "16 bits": 65535 // p, "31 bits": 2**31 // p, "40 bits": 2**40}
    weights = np.ones(p, np.int64) if kind == "ones" else rng.integers(0, top[kind] + 1, size=p)
    oracle = Numpy().load(ensemble, copies).seeding(weights)
    mine = [engine.load(ensemble, copies).seeding(weights) for engine in natives()]
    for step in range(5):
        assert all(seeding.total == oracle.total for seeding in mine)
        if oracle.total == 0:
            return
        targets = np.append(rng.integers(oracle.total, size=1 + 3 * step), [0, oracle.total - 1])
        candidates = oracle.locate(targets)
        potentials = oracle.potentials(candidates)
        chosen = candidates[-1] if step % 2 else ensemble.codes[rng.integers(ensemble.n_samples)]
        oracle.add(chosen)
        for seeding in mine:
            assert np.array_equal(seeding.locate(targets), candidates)
            assert np.array_equal(seeding.potentials(candidates), potentials)
            seeding.add(chosen)


@settings(max_examples=30)
@given(cases())
def test_overlap_equals_numpy(case):
    rng, ensemble, copies, _ = case
    if ensemble.n_codes > 1500:
        return
    oracle = Numpy().load(ensemble, copies)
    weights = rng.random(ensemble.n_codes)
    weights[rng.random(ensemble.n_codes) < 0.2] = 0.0
    for engine in natives():
        rows = engine.load(ensemble, copies)
        assert np.array_equal(rows.overlap(), oracle.overlap()), engine
        assert np.array_equal(rows.weighted_overlap(weights), oracle.weighted_overlap(weights)), engine


def test_weighted_overlap_is_one_answer_over_many_parts():
    rng = np.random.default_rng(5)
    ensemble = make_ensemble(rng, 150_000, 3, 4)
    weights = rng.random(ensemble.n_codes)
    truth = Numpy(chunk_rows=1000).load(ensemble).weighted_overlap(weights)
    for threads in (1, 2, 3):
        rows = _native.Native(n_threads=threads, chunk_rows=640).load(ensemble)
        assert np.array_equal(rows.weighted_overlap(weights), truth)


def whole_fit(rows, k, weights, seed):
    """Everything a fit decides."""
    try:
        start = seed_rows(rows, k, seeding_weights(weights), np.random.default_rng(seed))
    except TooFewRows as error:
        return error.n_different
    fit = lloyd(rows, KMeansObjective(weights), Counts.of_rows(start, rows.layout), 100)
    labels = rows.labels(fit.labelling)
    return start.tolist(), labels.tolist(), fit.losses, fit.stop, fit.counts.alpha.tolist()


def check_whole_fit(seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(20, 700)), int(rng.integers(1, 25))
    width = list(WIDTHS)[seed % 3]
    ensemble = make_ensemble(rng, n, p, int(rng.choice([3, 20, 90, 200])), missing=0.1 * (seed % 4 == 1), width=width)
    copies = rng.integers(0, 3, size=n) if seed % 5 == 2 else None
    if copies is not None:
        copies[0] = 1
    weights = rng.random(p) + 0.1 if seed % 7 == 3 else np.ones(p)
    k = int(rng.choice([2, 3, 7, 20, 40]))
    truth = whole_fit(Numpy().load(ensemble, copies), k, weights, seed)
    threads, rows, copy = SETTINGS[seed % len(SETTINGS)]
    for level in LEVELS:
        engine = _native.Native(n_threads=threads, chunk_rows=rows, simd=level, blocked_copy=copy)
        assert whole_fit(engine.load(ensemble, copies), k, weights, seed) == truth, engine


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_whole_fits_equal_numpy_over_many_seeds(first):
    for seed in range(first, first + 20):
        check_whole_fit(seed)


@pytest.mark.slow
def test_whole_fits_equal_numpy_over_a_thousand_seeds():
    for seed in range(120, 1120):
        check_whole_fit(seed)


def test_fit_on_many_rows_equals_numpy_with_default_chunks():
    ensemble = make_ensemble(np.random.default_rng(3), 60_000, 12, 50, groups=30)
    weights = np.ones(12)
    truth = whole_fit(Numpy().load(ensemble), 15, weights, 0)
    for level in LEVELS:
        for threads in (1, 2, 3):
            rows = _native.Native(n_threads=threads, simd=level).load(ensemble)
            assert whole_fit(rows, 15, weights, 0) == truth


def test_table_beyond_the_caches_equals_numpy():
    # 850 clusters over 20 000 base clusters: private counts of all threads would be too large to be worth it
    rng = np.random.default_rng(8)
    codes = rng.integers(2000, size=(500, 10)).astype(np.uint16)
    ensemble = Ensemble.from_codes(codes, np.full(10, 2000))
    table = fix_table(rng.normal(size=(20_000, 850)), Numpy().load(ensemble).layout)
    oracle = Numpy().load(ensemble)
    truth = oracle.labelling(850)
    moved = oracle.assign(truth, table)
    for level in LEVELS:
        rows = _native.Native(n_threads=2, chunk_rows=64, simd=level).load(ensemble)
        mine = rows.labelling(850)
        assert rows.assign(mine, table) == moved
        assert np.array_equal(rows.labels(mine), oracle.labels(truth))
        assert same_counts(rows.counts(mine), oracle.counts(truth))
        assert rows.assign(mine, table) == 0
        assert same_counts(rows.counts(mine), oracle.counts(truth))


def test_ties_go_to_the_lowest_cluster():
    ensemble = Ensemble(np.zeros((200, 5), np.uint8))
    for level in LEVELS:
        for k in (2, 3, 20, 70, 200):
            rows = _native.Native(simd=level).load(ensemble)
            labelling = rows.labelling(k)
            values = np.zeros((5, k), np.int32)
            rows.assign(labelling, ScoreTable(values, 20))
            assert (rows.labels(labelling) == 0).all()
            values[0, k - 2 :] = 1  # two equal winners, one unit ahead
            assert rows.assign(labelling, ScoreTable(values, 20)) == (200 if k > 2 else 0)
            assert (rows.labels(labelling) == k - 2).all()


def test_largest_scores_do_not_overflow():
    # scores of almost ±2**31: best - second needs 32 bits
    ensemble = Ensemble.from_codes(np.array([[0], [1]] * 50, np.uint8), [2])
    top = 2**31 - 2
    values = np.array([[-top, top, -top], [top, -top, -top]], np.int32)
    for level in LEVELS:
        rows = _native.Native(simd=level).load(ensemble)
        labelling = rows.labelling(3)
        rows.assign(labelling, ScoreTable(values, 0))
        assert rows.labels(labelling).tolist() == [1, 0] * 50
        assert rows.assign(labelling, ScoreTable(-values, 0)) == 100
        assert rows.labels(labelling).tolist() == [0, 1] * 50


def test_rows_that_hardly_win_are_not_skipped():
    # a gap of one unit, then a table that takes two units away
    ensemble = Ensemble.from_codes(np.zeros((130, 2), np.uint8), [1, 1])
    for level in LEVELS:
        rows = _native.Native(simd=level).load(ensemble)
        labelling = rows.labelling(3)
        for values, winner in [([5, 6, 0], 1), ([6, 6, 0], 0), ([6, 7, 0], 1), ([6, 7, 8], 2), ([8, 7, 8], 0)]:
            both = np.array([values, [0, 0, 0]], np.int32)
            rows.assign(labelling, ScoreTable(both, 0))
            assert (rows.labels(labelling) == winner).all()


def test_read_only_codes_are_used_without_a_copy(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=(5000, 20)).astype(np.uint8)
    path = tmp_path / "codes.npy"
    np.save(path, codes)
    mapped = np.load(path, mmap_mode="r")
    rows = _native.Native(blocked_copy=False).load(Ensemble.from_codes(mapped, np.full(20, 5)))
    assert np.shares_memory(rows.codes, mapped)
    truth = whole_fit(Numpy().load(Ensemble.from_codes(codes, np.full(20, 5))), 6, np.ones(20), 1)
    assert whole_fit(rows, 6, np.ones(20), 1) == truth
    assert not rows.core.has_blocked


def test_column_major_codes_are_read_rightly():
    rng = np.random.default_rng(0)
    codes = np.asfortranarray(rng.integers(5, size=(300, 6)).astype(np.uint8))
    plain = Ensemble.from_codes(np.ascontiguousarray(codes), np.full(6, 5))
    truth = whole_fit(Numpy().load(plain), 4, np.ones(6), 1)
    assert whole_fit(_native.Native().load(Ensemble.from_codes(codes, np.full(6, 5))), 4, np.ones(6), 1) == truth


def test_copy_is_freed_after_a_split():
    ensemble = make_ensemble(np.random.default_rng(0), 500, 4, 5)
    rows = _native.Native().load(ensemble)
    rows.seeding(np.ones(4, np.int64))
    assert rows.core.has_blocked
    rows.split(rows.labelling(2, np.zeros(500, int)))
    assert not rows.core.has_blocked
