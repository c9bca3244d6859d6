"""Passes, counts and distances of the native engine against brute force, and the memory it uses for codes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import coassoc as ca
from coassoc.core.counts import ScoreTable
from coassoc.engines import Native, Numpy
from coassoc.ensemble import Ensemble
from twins.cases import LEVELS, WIDTHS, brute_counts, make_ensemble, natives, needs_kernels

pytestmark = needs_kernels

# -- bounds and 7-bit tables: along any walk of tables, labels are the argmax of exact sums -----------------

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


def random_walk(seed):
    """An ensemble, multiplicities, and tables of which each is made from the one before."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.choice([1, 63, 64, 65, 130, 333, 1000, 2500])), int(rng.integers(1, 10)) * int(rng.choice([1, 5]))
    sizes = rng.choice([1, 2, 5, 63, 64, 65, 127, 128, 129, 254, 255], size=p)
    width = WIDTHS[max(0, int(rng.integers(-2, 3)))]
    ensemble = random_ensemble(rng, n, sizes, rng.choice([0.0, 0.0, 0.2]), width)
    copies = rng.integers(0, 4, size=n) if seed % 2 else None
    top, d, k = MOST // p, ensemble.n_codes, int(rng.choice([2, 2, 3, 9, 20, 33, 70, 130, 300]))
    values, bits = fresh(rng, rng.choice(KINDS), d, top, k), int(rng.integers(-3, 30))
    tables = []
    for step in rng.choice(STEPS, size=7):
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


@pytest.mark.parametrize("seed", range(30))
def test_labels_are_the_argmax_along_a_walk_of_tables(seed):
    walk(*random_walk(seed))


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


def check(counts, wanted):
    for found, truth in zip((counts.alpha, counts.sizes, counts.cells, counts.squares), wanted, strict=True):
        assert found.dtype == np.int64 and np.array_equal(found, truth)


# -- counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_counts_are_brute_force_from_labels_after_moves_and_in_parts(seed):
    """1 to 9 partitions, some of which are too large for a small table, in any order."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.choice([1, 63, 64, 65, 127, 200, 1000, 2049])), int(rng.choice([1, 2, 2, 2, 3, 8, 40, 300, 700]))
    edge = max(1, 2048 // k - 1)  # (size + 1) * k is at most 2048 up to here
    width = WIDTHS[seed % 3]
    top = 254 if width == np.uint8 else 3000
    sizes = rng.choice([1, 2, 6, min(top, edge), min(top, edge + 1), min(top, 3 * edge)], size=rng.integers(1, 10))
    ensemble = random_ensemble(rng, n, sizes, rng.choice([0.0, 0.3]), width)
    copies = rng.integers(0, 5, size=n) if rng.random() < 0.5 else None
    labels = np.where(rng.random((3, n)) < rng.choice([0.0, 0.02, 0.5, 0.97, 1.0]), k - 1, rng.integers(k, size=(3, n)))
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
    values = rng.integers(-1000, 1000, size=(20_000, 850))
    walk(ensemble, None, as_tables([values] * 3, 0), [Native(n_threads=2, chunk_rows=64)])


# -- distances ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "bits"), [(1, 0), (3, 0), (7, 6), (16, 8), (17, 40), (128, 0), (254, 31), (255, 0), (255, 6), (256, 6)]
)
def test_distances_are_those_of_numpy(p, bits):
    """Unit weights, weights of 64, and weights whose sums need so many bits; but for the first with missing labels."""
    rng = np.random.default_rng([p, bits])
    for n in (1, 64, 65, 2047, 2048, 2049, 4160, 6145, 20_001) if p < 16 and not bits else (65, 2049):
        most = 1 + int(rng.choice([1, 3, 200]))
        ensemble = make_ensemble(rng, n, p, most, noise=0.8, missing=(0.0, 0.1, 0.9)[(bits > 0) + (bits == 6)])
        weights = rng.integers(0, max(1, 2**bits // p) + 1, size=p) if bits else np.ones(p, int)
        weights = np.full(p, 64) if bits == 6 else weights
        copies = rng.integers(0, 4, size=n) + (np.arange(n) == 0) if bits else None
        engines = [
            Native(n_threads=t, chunk_rows=rows, simd=level, blocked_copy=copy)
            for level in LEVELS
            for t, rows, copy in ((1, None, True), (3, 64, True), (1, None, False))
        ]
        truth, *seedings = (engine.load(ensemble, copies).seeding(weights) for engine in (Numpy(), *engines))
        for m in range(1, 10):
            assert all(s.total == truth.total for s in seedings)
            if truth.total == 0:
                break
            candidates = ensemble.codes[rng.integers(n, size=m)]
            candidates[0] = rng.integers(ensemble.n_clusters)  # a row that need not be there
            targets = np.append(rng.integers(truth.total, size=6), [0, truth.total - 1])
            found, totals = truth.locate(targets), truth.potentials(candidates).tolist()
            truth.add(candidates[m // 2])
            for s in seedings:
                assert np.array_equal(s.locate(targets), found)
                assert s.potentials(candidates).tolist() == totals
                s.add(candidates[m // 2])


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
