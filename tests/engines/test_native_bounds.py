"""Bounds and 7-bit tables of the native engine: along any walk of tables, labels are the argmax of exact sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_hand import LEVELS, WIDTHS, brute_counts, natives
from coassoc.core.counts import ScoreTable
from coassoc.engines import Native
from coassoc.engines import native as _native
from coassoc.ensemble import Ensemble

pytestmark = pytest.mark.skipif(_native._kernels is None, reason="the kernels are not compiled")

MOST = 2**31 - 1


def random_ensemble(rng, n, sizes, missing=0.0, width=np.uint8):
    sizes = np.asarray(sizes)
    codes = np.column_stack([rng.integers(m, size=n) for m in sizes])
    codes = np.where(rng.random(codes.shape) < missing, sizes, codes)
    codes[0] = 0
    return Ensemble.from_codes(codes.astype(width), sizes)


def brute_sums(ensemble, values):
    """Sums of the columns (n, k) in 64 bits; a missing label adds nothing."""
    sums = np.zeros((ensemble.n_samples, values.shape[1]), np.int64)
    for j, size in enumerate(ensemble.n_clusters):
        start = ensemble.offsets[j]
        part = np.vstack([values[start : start + size], np.zeros((1, values.shape[1]), np.int32)]).astype(np.int64)
        sums += part[ensemble.codes[:, j]]
    return sums


def walk(ensemble, copies, tables, engines=None, counted=True):
    """Labels, moved rows and counts after each table are those of brute force, on every engine."""
    truth, before = [], np.full(ensemble.n_samples, -1)
    for table in tables:
        sums = brute_sums(ensemble, table.values)
        assert np.abs(sums).max() <= MOST
        labels = sums.argmax(axis=1)
        k = sums.shape[1]
        truth.append((labels, int((labels != before).sum()), brute_counts(ensemble, labels, copies, k)[0]))
        before = labels
    for engine in engines or natives():
        rows = engine.load(ensemble, copies)
        labelling = rows.labelling(k)
        for step, (table, (labels, moved, alpha)) in enumerate(zip(tables, truth)):
            assert rows.assign(labelling, table) == moved, (engine, step)
            assert np.array_equal(rows.labels(labelling), labels), (engine, step)
            if counted and step != 1:  # one pass goes by without a look at the counts
                assert np.array_equal(rows.counts(labelling).alpha, alpha), (engine, step)


def as_tables(many, bits):
    return [ScoreTable(np.ascontiguousarray(values, np.int32), bits) for values in many]


def fresh(rng, kind, d, top, k=2):
    """A table none of whose sums leaves 32 bits."""
    if kind == "small":
        return rng.integers(-2, 3, size=(d, k))
    if kind == "extreme":
        return rng.choice([-top, top, 1 - top, top - 1, -1, 0, 1], size=(d, k))
    if kind == "wide":
        return rng.integers(-top, top + 1, size=(d, k))
    if kind == "flat":  # all differences equal, odd or even or none
        return rng.integers(-top // 2, top // 2 + 1, size=(d, 1)) + rng.integers(-2, 3, size=k)
    if kind == "far":  # one entry is much larger, the others decide its ties
        values = rng.integers(-3, 4, size=(d, k))
        values[rng.integers(d)] = rng.choice([-top, top], size=k)
        return values
    raise ValueError(kind)


KINDS = ["small", "extreme", "wide", "flat", "far"]


@st.composite
def walks(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([1, 63, 64, 65, 130, 333, 1000, 2500]))
    missing = draw(st.sampled_from([0.0, 0.0, 0.2]))
    sizes = draw(st.lists(st.sampled_from([1, 2, 5, 63, 64, 65, 127, 128, 129, 254, 255]), min_size=1, max_size=9))
    if draw(st.booleans()):
        sizes = sizes * 5
    width = draw(st.sampled_from([np.uint8, np.uint8, np.uint8, *WIDTHS]))
    ensemble = random_ensemble(rng, n, sizes, missing, width)
    copies = rng.integers(0, 4, size=n) if draw(st.booleans()) else None
    top, d = (2**31 - 1) // len(sizes), ensemble.n_codes
    k = draw(st.sampled_from([2, 2, 3, 9, 20, 33, 70, 130, 300]))
    values, bits = fresh(rng, draw(st.sampled_from(KINDS)), d, top, k), int(rng.integers(-3, 30))
    tables = []
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=5, max_size=8)):
        tables += as_tables([values], bits)
        values, bits = moved_on(rng, step, values, bits, top)
    return ensemble, copies, tables


STEPS = ["few", "one", "all", "part", "halve", "double", "bits", "same", "swap", "negate", *KINDS]


def moved_on(rng, step, values, bits, top):
    values = values.astype(np.int64)
    if step in KINDS:
        return fresh(rng, step, *values.shape[:1], top, values.shape[1]), bits
    if step == "few":  # a unit here and there
        values = values + rng.integers(-1, 2, size=values.shape) * (rng.random(values.shape) < 0.1)
    elif step == "one":
        values[rng.integers(len(values)), rng.integers(values.shape[1])] += rng.integers(-5, 6)
    elif step == "all":  # one column rises as a whole
        values[:, rng.integers(values.shape[1])] += rng.integers(-2000, 2000)
    elif step == "part":
        values = values + (rng.normal(size=values.shape) * np.abs(values) * 10.0 ** -rng.integers(1, 8)).astype(int)
    elif step == "halve":
        values, bits = values >> 1, bits - 1
    elif step == "double":
        values, bits = values * 2, bits + 1
    elif step == "bits":  # the same numbers mean something else
        bits += int(rng.integers(-6, 7))
    elif step == "swap":
        values = values[:, ::-1]
    elif step == "negate":
        values = -values
    return np.clip(values, -top, top), bits


@settings(max_examples=30)
@given(walks())
def test_labels_are_the_argmax_along_a_walk_of_tables(case):
    walk(*case)


def test_settled_rows_are_skipped_and_open_ones_are_not():
    """That bounds are used at all, and that of rows on either side only those near the middle are scored again."""
    codes = np.repeat(np.arange(4, dtype=np.uint8), 1000)[:, None]
    ensemble = Ensemble.from_codes(codes, [4])
    values = np.array([[1 << 28, 0], [0, 1 << 28], [50, 0], [0, 50]])
    for level in LEVELS:
        for engine in (Native(n_threads=1, simd=level), Native(n_threads=1, simd=level, chunk_rows=64)):
            rows = engine.load(ensemble)
            labelling = rows.labelling(2)
            for change in ([0, 0], [100, 0], [0, 100], [0, 0]):
                moved = values + np.array(change)
                rows.assign(labelling, ScoreTable(moved.astype(np.int32), 0))
                sums = brute_sums(ensemble, moved)
                assert np.array_equal(rows.labels(labelling), sums[:, 1] > sums[:, 0])
                if change != [0, 0] or labelling.core.evaluated < 4000:
                    assert 2000 <= labelling.core.evaluated < 2100
            assert labelling.core.evaluated < 2100


def test_many_partitions_sum_in_sixteen_bits():
    """Levels of hundreds of partitions: their sums must not run over."""
    rng = np.random.default_rng(1)
    for p in (255, 516, 1100):
        ensemble = random_ensemble(rng, 130, rng.integers(1, 4, size=p))
        top = MOST // p
        high = np.tile([0, top], (ensemble.n_codes, 1))
        others = [fresh(rng, kind, ensemble.n_codes, top) for kind in ("wide", "extreme")]
        walk(ensemble, None, as_tables([high, high[:, ::-1], *others, high - 1], 3), counted=False)
