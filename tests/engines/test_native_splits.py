"""Splits on the native engine: counts of all rows and of the smaller half, labellings at rest, memory handed down."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from by_hand import LEVELS, WIDTHS, ByHand, make_ensemble, natives
from coassoc.core.counts import ScoreTable
from coassoc.engines import Numpy
from coassoc.engines.native import engine as _native
from coassoc.ensemble import Ensemble

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")

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
                for counted in (True, False):
                    labelling = node.labelling_of(labels, 2)
                    if counted:
                        node.counts(labelling)
                    parts = node.split(labelling)
                    for side, part in enumerate(parts):
                        kept = ids[labels == side]
                        assert np.array_equal(part.codes_at(np.arange(part.n_rows)), ensemble.codes[kept])
                        wanted = brute_counts(ensemble.codes[kept], layout, times[kept], np.zeros(len(kept), int), 1)
                        check_counts(part.whole_counts(), wanted)
                        if counted and not break_off:
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


def test_a_split_needs_labels():
    rows = _native.Native().load(Ensemble.from_codes(np.zeros((5, 2), np.uint8), [1, 1]))
    with pytest.raises(ValueError, match="a split needs a label for every row"):
        rows.split(rows.labelling(2))
