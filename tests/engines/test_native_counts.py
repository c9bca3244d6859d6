"""Counts, distances and splits of the native engine against brute force."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_hand import LEVELS, WIDTHS, make_ensemble, natives
from coassoc.core.counts import Counts, ScoreTable
from coassoc.core.densities import cluster_densities, gain_of_split
from coassoc.engines import Native, Numpy
from coassoc.engines.native import engine as _native
from coassoc.ensemble import Ensemble
from coassoc.metrics.densities import split_gain_from_counts

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")


def brute_counts(ensemble, labels, copies, k):
    """α, sizes, and its sums over partitions."""
    times = np.ones(ensemble.n_samples, np.int64) if copies is None else copies
    alpha = np.zeros((ensemble.n_codes, k), np.int64)
    sums = np.zeros((2, ensemble.n_partitions, k), np.int64)
    for j, size in enumerate(ensemble.n_clusters):
        seen = ensemble.codes[:, j] < size
        np.add.at(alpha, (ensemble.offsets[j] + ensemble.codes[seen, j].astype(int), labels[seen]), times[seen])
        part = alpha[ensemble.offsets[j] : ensemble.offsets[j + 1]]
        sums[:, j] = part.sum(axis=0), (part**2).sum(axis=0)
    sizes = np.bincount(labels, times, minlength=k).astype(np.int64)
    return alpha, sizes, *sums


def check(counts, wanted):
    for found, truth in zip((counts.alpha, counts.sizes, counts.cells, counts.squares), wanted, strict=True):
        assert found.dtype == np.int64 and np.array_equal(found, truth)


def without_bare(ensemble, copies):
    """Rows without any label count 0 times."""
    bare = (ensemble.codes == ensemble.n_clusters).all(axis=1)
    if not bare.any():
        return copies
    return np.where(bare, 0, 1 if copies is None else copies)


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
    return rng, ensemble, without_bare(ensemble, copies), labels, k


@settings(max_examples=80)
@given(countings())
def test_counts_are_brute_force_from_labels_and_after_moves(case):
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


def test_halves_of_halves_are_counted():
    """Blocks full, half full and without a row of one cluster."""
    rng = np.random.default_rng(1)
    n = 64 * 9 + 17
    ensemble = make_ensemble(rng, n, 7, 30, missing=0.1)
    for copies in (None, rng.integers(1, 4, size=n)):
        copies = without_bare(ensemble, copies)
        for engine in natives((1, 3)):
            rows, ids = engine.load(ensemble, copies), np.arange(n)
            for share in (0.3, 0.8, 0.5):
                labels = (rng.random(len(ids)) < share).astype(int)
                labels[64:128] = 0
                labels[128:192] = 1
                own = Ensemble.from_codes(ensemble.codes[ids], ensemble.n_clusters)
                rows.seeding(np.ones(7, np.int64))
                labelling = rows.labelling(2, labels)
                check(rows.counts(labelling), brute_counts(own, labels, None if copies is None else copies[ids], 2))
                both = rows.split(labelling)
                side = int(len(both[1].ids) > len(both[0].ids))
                rows, ids = both[side], ids[labels == side]
                assert np.array_equal(rows.ids, ids)


# -- distances ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3, 15, 16, 17, 127, 128, 254, 255, 256])
def test_distances_are_brute_force(p):
    rng = np.random.default_rng(p)
    for n in (1, 63, 64, 65, 2047, 2048, 2049, 4096, 4160, 6145, 20_001) if p < 16 else (65, 2049):  # one task or many
        most = 1 + int(rng.choice([1, 3, 200]))
        ensemble = make_ensemble(rng, n, p, most, noise=0.8)
        seedings = [
            Native(n_threads=t, chunk_rows=rows, simd=level, blocked_copy=copy).load(ensemble).seeding(np.ones(p, int))
            for level in LEVELS
            for t, rows, copy in ((1, None, True), (3, 64, True), (1, None, False))
        ]
        codes, now = ensemble.codes, np.ones(n, np.int64)
        for step, m in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 9)):
            total = int(now.sum())
            assert all(s.total == total for s in seedings)
            if total == 0:
                break
            candidates = codes[rng.integers(n, size=m)]
            candidates[0] = rng.integers(ensemble.n_clusters)  # a row that need not be there
            left = [(codes != row).sum(axis=1) for row in candidates]
            left = left if step == 0 else [np.minimum(now, some) for some in left]
            edges = np.cumsum(now)
            targets = np.concatenate(
                [rng.integers(total, size=5), [0, total - 1], edges[[n // 2]] - 1, edges[[n // 2]] % total]
            )
            targets = np.maximum(targets, 0)
            where = np.searchsorted(edges, targets, side="right")
            now = left[step % m]
            for s in seedings:
                assert np.array_equal(s.locate(targets), codes[where])
                assert s.potentials(candidates).tolist() == [int(some.sum()) for some in left]
                s.add(candidates[step % m])
                assert s.total == now.sum()


# -- split, scatter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 64, 65, 4097, 70_001])
@pytest.mark.parametrize("k", [1, 2, 3, 257])
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


def test_scatter_refuses_rows_that_are_not_there():
    labels = np.empty(70_000, np.int32)
    for wrong in (70_000, 2**32 - 1):
        with pytest.raises(ValueError, match="not there"):
            _native._kernels.scatter([np.arange(70_000, dtype=np.uint32), np.array([5, wrong], np.uint32)], labels, 3)


def test_one_cluster_of_counts_and_the_gain_of_a_split():
    rng = np.random.default_rng(0)
    ensemble = make_ensemble(rng, 300, 4, 6, missing=0.1)
    v = np.array([1.0, 0.5, 2.0, 1.5])
    labels = rng.integers(3, size=300)
    copies = without_bare(ensemble, None)
    times = np.ones(300, int) if copies is None else copies
    rows = Native().load(ensemble)
    counts = rows.counts(rows.labelling(3, labels))
    for known in (False, True):
        if known:
            assert counts.cells is not None
        for c in range(3):
            one = counts.of_cluster(c)
            alone = brute_counts(ensemble, np.zeros(300, int), np.where(labels == c, times, 0), 1)
            check(one, alone)
            one.alpha[:] = -1  # a copy
            one.sizes[:] = -1
            check(counts, brute_counts(ensemble, labels, copies, 3))
    whole = brute_counts(ensemble, np.zeros(300, int), copies, 1)
    before = cluster_densities(Counts(whole[0], whole[1], rows.layout), v)
    gain = gain_of_split(counts.sizes, cluster_densities(counts, v), float(before[0]))
    assert gain == split_gain_from_counts(counts, v)
    assert gain == pytest.approx(float((counts.sizes * cluster_densities(counts, v)).sum() - whole[1][0] * before[0]))


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
        for turn in range(40):
            rows.seeding(np.ones(p, np.int64))  # builds the copy
            rows.assign(labelling, tables[turn % 2])
            assert np.array_equal(rows.labels(labelling), truth[turn % 2])
    finally:
        over.set()
        other.join()


def test_a_split_needs_labels():
    rows = Native().load(Ensemble.from_codes(np.zeros((5, 2), np.uint8), [1, 1]))
    with pytest.raises(ValueError, match="the rows must be labelled first"):
        rows.split(rows.labelling(2))
