"""Counts, distances and splits of the native engine against brute force, and the memory it uses for codes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from by_hand import LEVELS, WIDTHS, brute_counts, counting_copies, make_ensemble, natives
from coassoc.core.counts import ScoreTable
from coassoc.engines import Native, Numpy
from coassoc.engines import native as _native
from coassoc.ensemble import Ensemble

pytestmark = pytest.mark.skipif(_native._kernels is None, reason="the kernels are not compiled")


def check(counts, wanted):
    for found, truth in zip((counts.alpha, counts.sizes, counts.cells, counts.squares), wanted, strict=True):
        assert found.dtype == np.int64 and np.array_equal(found, truth)


# -- counts ------------------------------------------------------------------------------------------------


@st.composite
def countings(draw):
    """1 to 9 partitions, some of which are too large for a small table, in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([1, 63, 64, 65, 127, 200, 1000, 2049]))
    k = draw(st.sampled_from([1, 2, 2, 2, 3, 8, 40, 300, 700]))
    edge = max(1, 2048 // k - 1)  # (size + 1) * k is at most 2048 up to here
    width = draw(st.sampled_from(WIDTHS))
    top = 254 if width == np.uint8 else 3000
    kinds = st.sampled_from([1, 2, 6, min(top, edge), min(top, edge + 1), min(top, 3 * edge)])
    sizes = np.array(draw(st.lists(kinds, min_size=1, max_size=9)))
    missing = draw(st.sampled_from([0.0, 0.3]))
    codes = np.where(rng.random((n, len(sizes))) < missing, sizes, rng.integers(sizes, size=(n, len(sizes))))
    ensemble = Ensemble.from_codes(codes.astype(width), sizes)
    copies = rng.integers(0, 5, size=n) if draw(st.booleans()) else None
    share = draw(st.sampled_from([0.0, 0.02, 0.5, 0.97, 1.0]))
    labels = rng.integers(k, size=(3, n))
    labels = np.where(rng.random((3, n)) < share, k - 1, 0 if k == 2 else labels)
    return rng, ensemble, copies, labels, k


@settings(max_examples=30)
@given(countings())
def test_counts_are_brute_force_from_labels_after_moves_and_in_parts(case):
    rng, ensemble, copies, labels, k = case
    d = ensemble.n_codes
    tables = [ScoreTable(rng.integers(-1000, 1000, size=(d, k)).astype(np.int32), 10) for _ in range(3)]
    wanted = [brute_counts(ensemble, own, copies, k) for own in labels]
    plain = Numpy().load(ensemble, copies)
    walk, labelling = [], plain.labelling(k)
    for table in tables:
        plain.assign(labelling, table)
        walk.append(brute_counts(ensemble, plain.labels(labelling), copies, k))
    for engine in natives((1, 3)):
        rows = engine.load(ensemble, copies)
        if rng.random() < 0.7:
            rows.seeding(np.ones(ensemble.n_partitions, np.int64))  # makes the column-wise copy
        for own, truth in zip(labels, wanted):
            check(rows.counts(rows.labelling(k, own)), truth)
        labelling = rows.labelling(k, labels[0])
        check(rows.counts(labelling), wanted[0])
        for table, truth in zip(tables, walk):  # from here on only what moved is counted
            rows.assign(labelling, table)
            check(rows.counts(labelling), truth)
        inside = np.flatnonzero(labels[0] == k - 1)
        part = rows.split(rows.labelling(k, labels[0]))[k - 1]
        own = Ensemble.from_codes(ensemble.codes[inside], ensemble.n_clusters) if len(inside) else None
        if own is not None:
            times = None if copies is None else copies[inside]
            check(part.counts(part.labelling(k, labels[1][inside])), brute_counts(own, labels[1][inside], times, k))


def test_counts_of_a_table_larger_than_the_caches():
    """850 clusters over 20 000 base clusters: private counts of all threads would be too large to be worth it."""
    rng = np.random.default_rng(8)
    ensemble = Ensemble.from_codes(rng.integers(2000, size=(130, 10)).astype(np.uint16), np.full(10, 2000))
    oracle = Numpy().load(ensemble)
    values = rng.integers(-1000, 1000, size=(20_000, 850), dtype=np.int32)
    table, truth = ScoreTable(values, 0), oracle.labelling(850)
    moved = oracle.assign(truth, table)
    wanted = brute_counts(ensemble, oracle.labels(truth), None, 850)
    for level in LEVELS[-1:]:
        rows = Native(n_threads=2, chunk_rows=64, simd=level).load(ensemble)
        mine = rows.labelling(850)
        for changed in (moved, 0):
            assert rows.assign(mine, table) == changed
            assert np.array_equal(rows.labels(mine), oracle.labels(truth))
            check(rows.counts(mine), wanted)


# -- distances ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "bits"), [(1, 0), (3, 0), (7, 6), (16, 8), (17, 40), (128, 0), (254, 31), (255, 0), (255, 6), (256, 6)]
)
def test_distances_are_brute_force(p, bits):
    """Unit weights, weights of 64, and weights whose sums need so many bits; but for the first with missing labels."""
    rng = np.random.default_rng([p, bits])
    for n in (1, 64, 65, 2047, 2048, 2049, 4160, 6145, 20_001) if p < 16 and not bits else (65, 2049):
        most = 1 + int(rng.choice([1, 3, 200]))
        ensemble = make_ensemble(rng, n, p, most, noise=0.8, missing=(0.0, 0.1, 0.9)[(bits > 0) + (bits == 6)])
        weights = rng.integers(0, max(1, 2**bits // p) + 1, size=p) if bits else np.ones(p, int)
        weights = np.full(p, 64) if bits == 6 else weights
        copies = rng.integers(0, 4, size=n) + (np.arange(n) == 0) if bits else None
        times = counting_copies(ensemble, copies)
        seedings = [
            Native(n_threads=t, chunk_rows=rows, simd=level, blocked_copy=copy).load(ensemble, copies).seeding(weights)
            for level in LEVELS
            for t, rows, copy in ((1, None, True), (3, 64, True), (1, None, False))
        ]
        codes, absent, now = ensemble.codes, np.asarray(ensemble.n_clusters), np.ones(n, np.int64)
        for step, m in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 9)):
            total = int((times * now).sum())
            assert all(s.total == total for s in seedings)
            if total == 0:
                break
            candidates = codes[rng.integers(n, size=m)]
            candidates[0] = rng.integers(ensemble.n_clusters)  # a row that need not be there
            costs = [np.where((codes < absent) == (row < absent), weights, weights // 64) for row in candidates]
            left = [((codes != row) * cost).sum(axis=1) for row, cost in zip(candidates, costs)]
            left = left if step == 0 else [np.minimum(now, some) for some in left]
            edges = np.cumsum(times * now)
            middle = edges[[n // 2]]
            targets = np.concatenate([rng.integers(total, size=5), [0, total - 1], middle - 1, middle % total])
            targets = np.maximum(targets, 0)
            where = np.searchsorted(edges, targets, side="right")
            now = left[step % m]
            for s in seedings:
                assert np.array_equal(s.locate(targets), codes[where])
                assert s.potentials(candidates).tolist() == [int((times * some).sum()) for some in left]
                s.add(candidates[step % m])


# -- split, scatter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(1, 1), (64, 3), (65, 2), (4097, 257), (70_001, 2)])
def test_split_and_scatter_over_threads(n, k):
    rng = np.random.default_rng(n + k)
    ensemble = make_ensemble(rng, n, 2, 3)
    copies = rng.integers(1, 3, size=n)
    shares = [np.zeros(n, int), rng.integers(k, size=n), np.full(n, k - 1), np.sort(rng.integers(k, size=n))]
    shares.append(np.where(np.arange(n) == n - 1, 0, k - 1))  # one side is all but empty in every task but the last
    for engine in (Native(n_threads=1), Native(n_threads=3), Native(n_threads=3, chunk_rows=64)):
        for times in (None, copies):
            for labels in shares:
                rows = engine.load(ensemble, times)
                parts = rows.split(rows.labelling(k, labels))
                for c, part in enumerate(parts):
                    assert np.array_equal(part.ids, np.flatnonzero(labels == c))
                    assert times is None or np.array_equal(part.copies, times[labels == c])
                assert np.array_equal(rows.scatter(parts), labels)
                again = parts[labels[0]]
                own = rng.integers(2, size=again.n_rows)
                zero, one = again.split(again.labelling(2, own))
                assert np.array_equal(zero.ids, again.ids[own == 0]) and np.array_equal(one.ids, again.ids[own == 1])


# -- memory of the codes -----------------------------------------------------------------------------------


def test_codes_of_any_order_are_read_rightly_and_mapped_ones_are_not_copied(tmp_path):
    codes = np.random.default_rng(0).integers(5, size=(5000, 20)).astype(np.uint8)
    np.save(tmp_path / "codes.npy", codes)
    mapped = Ensemble.from_codes(np.load(tmp_path / "codes.npy", mmap_mode="r"), np.full(20, 5))
    model = ca.KMeansConsensus(6, n_init=1, max_iter=5, random_state=1)
    truth = model.set_params(engine="numpy").fit(codes).labels_.tolist()
    lean = Native(blocked_copy=False)
    assert np.shares_memory(lean.load(mapped).codes, mapped.codes)
    for table, engine in ((mapped, lean), (Ensemble.from_codes(np.asfortranarray(codes), np.full(20, 5)), Native())):
        assert model.set_params(engine=engine).fit(table).labels_.tolist() == truth
    rows = [engine.load(mapped) for engine in (lean, Native())]
    for some in rows:
        some.seeding(np.ones(20, np.int64))
    assert [some.core.has_blocked for some in rows] == [False, True]
    rows[1].split(rows[1].labelling(2, np.zeros(5000, int)))  # frees the copy
    assert not rows[1].core.has_blocked


def test_a_copy_that_is_being_read_is_not_freed():
    """One thread makes passes while another frees the copy and builds other ones."""
    rng = np.random.default_rng(7)
    n, p = 60_000, 16
    ensemble = make_ensemble(rng, n, p, 60, noise=0.9)
    rows = Native(n_threads=1).load(ensemble)
    tables = [ScoreTable(rng.integers(-1000, 1000, size=(ensemble.n_codes, 16)).astype(np.int32), 0) for _ in range(2)]
    oracle = Numpy().load(ensemble)
    truth = []
    for table in tables:
        labelling = oracle.labelling(16)
        oracle.assign(labelling, table)
        truth.append(np.array(oracle.labels(labelling)))
    parts = rows.split(rows.labelling(2, (np.arange(n) % 3 == 0).astype(int)))
    over = threading.Event()

    def disturb():
        while not over.is_set():
            rows.core.free_blocked()
            for part in parts:
                part.seeding(np.ones(p, np.int64))
                part.core.free_blocked()

    other = threading.Thread(target=disturb)
    other.start()
    try:
        labelling = rows.labelling(16)
        for turn in range(15):
            rows.seeding(np.ones(p, np.int64))  # builds the copy
            rows.assign(labelling, tables[turn % 2])
            assert np.array_equal(rows.labels(labelling), truth[turn % 2])
    finally:
        over.set()
        other.join()
