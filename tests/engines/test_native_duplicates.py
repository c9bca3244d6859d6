"""Equal rows on the native engine: finding them, draws among all items, fits and trees that label each row once."""

from __future__ import annotations

import bisect
import itertools

import numpy as np
import pytest

import coassoc as ca
from coassoc.engines import Native, Numpy
from coassoc.engines import native as _native
from coassoc.ensemble import Ensemble
from coassoc.ensemble import ensemble as _ensemble
from twins.cases import LEVELS, WIDTHS, make_ensemble, natives, needs_kernels, noisy_table

pytestmark = needs_kernels

kernels = _native._kernels


def by_dict(codes):
    """Index of each different row, how often it occurs, and for each row its like: a dict of bytes."""
    codes, numbers = np.ascontiguousarray(codes), {}
    rows = codes.view(f"V{codes.shape[1] * codes.itemsize}").ravel().tolist()
    inverse = [numbers.setdefault(row, len(numbers)) for row in rows]
    _, first, counts = np.unique(inverse, return_index=True, return_counts=True)
    return first.tolist(), counts.tolist(), inverse


def equal_groups(groups, truth):
    dtypes = [None if groups is None else part.dtype for part in groups or ()]
    return dtypes == [np.int64, np.int64, np.uint32] and all(np.array_equal(*pair) for pair in zip(groups, truth))


def check(codes, threads=(1, 2, 3, 5)):
    truth = by_dict(codes)
    for n_threads in threads:
        assert equal_groups(kernels.distinct_rows(codes, len(codes), n_threads), truth)
    return truth


def written(numbers, p=3, width=np.uint8):
    """Rows that are equal where the numbers are, those below 2**16 in different bytes."""
    out = np.zeros((len(numbers), p), width)
    out[:, 0], out[:, -1] = numbers % 256, numbers // 256
    return out


# -- which rows are equal ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_every_bit_of_a_row_counts_at_every_length(width):
    """Rows that differ in one bit from another, and copies of them: rows of 1 to 40 bytes."""
    rng = np.random.default_rng(0)
    for size in range(np.dtype(width).itemsize, 41, np.dtype(width).itemsize):
        base = rng.integers(256, size=size, dtype=np.uint8)
        flips = np.zeros((8 * size + 1, size), np.uint8)
        flips[np.arange(8 * size), np.arange(8 * size) // 8] = 1 << (np.arange(8 * size) % 8)
        rows = (base ^ flips)[np.concatenate([rng.permutation(8 * size + 1) for _ in range(3)])]
        first, counts, _ = check(np.ascontiguousarray(rows).view(width), threads=(1,))
        assert len(first) == 8 * size + 1 and set(counts) == {3}


@pytest.mark.parametrize("n", [1, 512, 513, 9000, 262_147])
def test_rows_are_those_of_a_dict(n):
    """Up to parts of more than one step of 2**17, parts that are not of one length, all equal and all different."""
    rng = np.random.default_rng(n)
    numbers = rng.integers(50, size=n)
    numbers[-3:] = 60  # met only at the end
    for width in WIDTHS if n < 10_000 else WIDTHS[:1]:
        check(written(numbers, width=width))
    different = rng.permutation(n).astype(np.uint32) * np.uint32(2654435761)
    again = np.concatenate([different, different[-1:], rng.permutation(different)])  # after the table has grown
    assert len(check(np.column_stack([np.zeros(len(again), np.uint32), again]))[0]) == n
    assert check(written(np.full(n, 7)))[1] == [n]


def test_more_rows_than_the_limit_are_never_given():
    """Rows side by side at the end of each half, which a look here and there does not tell, nor one half of them."""
    n = 300_000
    numbers = np.zeros(n, int)
    numbers[n // 2 - 40 : n // 2], numbers[n - 40 :] = np.arange(40), np.arange(40, 80)
    codes = written(numbers)
    for n_threads in (1, 4):
        assert all(kernels.distinct_rows(codes, limit, n_threads) is None for limit in (-1, 0, 40, 79))
        assert equal_groups(kernels.distinct_rows(codes, 80, n_threads), by_dict(codes))


def test_rows_of_an_ensemble_in_any_order_of_memory(monkeypatch):
    rng = np.random.default_rng(2)
    for width, n, p in itertools.product(WIDTHS, (1, 300, 5000), (1, 4)):
        codes = rng.integers(30, size=(n, p)).astype(width)
        for table in (codes, np.asfortranarray(codes), codes[::2, ::-1]):
            assert [part.tolist() for part in _ensemble.distinct_rows(table)] == list(by_dict(table))
            with monkeypatch.context() as patch:
                patch.setattr(_native, "distinct_rows", lambda codes: None)  # without kernels
                assert [part.tolist() for part in _ensemble.distinct_rows(table)] == list(by_dict(table))


def test_empty_and_wrong_tables_are_no_crash():
    for shape in ((0, 0), (0, 1), (0, 9)):
        assert equal_groups(kernels.distinct_rows(np.zeros(shape, np.uint8), 0, 3), ([], [], []))
    table = np.arange(24, dtype=np.uint8).reshape(6, 4)
    for n_threads in (-1, 0, 1, 1000):
        assert equal_groups(kernels.distinct_rows(table, 6, n_threads), by_dict(table))
    for codes in (table[:, ::2], table.T, table[0], table.tolist(), None, table.astype(object), table.astype(">u4")):
        with pytest.raises(TypeError):
            kernels.distinct_rows(codes, 6, 1)


# -- draws among all items ---------------------------------------------------------------------------------


@pytest.fixture
def always(monkeypatch):
    """Equal rows are looked for however few there are; lists the rows that were made of them."""
    for name in ("_LEAST_ROWS", "_LEAST_COPIES", "_LEAST_COPIES_ONCE"):
        monkeypatch.setattr(_native, name, 1)
    return spied(monkeypatch)


def spied(monkeypatch):
    made, make = [], _native.NativeRows.__init__

    def spy(rows, *arguments):
        make(rows, *arguments)
        if rows.number is not None:
            made.append(rows)

    monkeypatch.setattr(_native.NativeRows, "__init__", spy)
    return made


def repeated(rng, n, different, p, most, *, missing=0.0, width=np.uint8):
    """Items that carry one of so many rows, each row at least once."""
    some = make_ensemble(rng, 4 * different, p, most, missing=missing, width=width, noise=0.6)
    rows = np.unique(some.codes[(some.codes < some.n_clusters).any(axis=1)], axis=0)
    rows = rng.permutation(rows)[:different]
    at = rng.permutation(np.concatenate([np.arange(len(rows)), rng.integers(len(rows), size=max(0, n - len(rows)))]))
    return Ensemble.from_codes(rows[at].astype(width), some.n_clusters)


@pytest.mark.parametrize(  # weights whose sums need 1, 2, 4 and 8 bytes
    ("top", "n", "different"), [(1, 1, 1), (50, 100, 50), (10_000, 3000, 200), (1 << 29, 70_001, 3), (1 << 40, 9, 9)]
)
def test_draws_are_those_among_all_items(top, n, different, always):
    rng = np.random.default_rng([n, different])
    p = 5
    ensemble = repeated(rng, n, different, p, 6, missing=0.1)
    codes, absent = ensemble.codes, np.asarray(ensemble.n_clusters)
    rows = Native(n_threads=3).load(ensemble).distinct(10)
    assert rows is always[-1] and rows.n_rows == len(np.unique(codes, axis=0)) and rows.n_copies == n
    weights = np.array([top, 1, top // 3 + 1, 2, top // 2 + 1])
    seeding, now = rows.seeding(weights), np.ones(n, np.int64)
    for added in range(4):
        steps = np.cumsum(now).tolist()
        assert seeding.total == steps[-1]
        targets = sorted({t for step in steps for t in (step - 1, step) if 0 <= t < steps[-1]})  # both sides of each
        items = [bisect.bisect_right(steps, t) for t in targets]
        assert np.array_equal(seeding.locate(np.array(targets)), codes[items])
        for t in (-1, steps[-1]):
            with pytest.raises(ValueError, match="targets must lie below the total"):
                seeding.locate(np.array([0, t]))
        seed = codes[int(rng.choice(np.flatnonzero(now)))]
        apart = ((codes != seed) * np.where((codes < absent) == (seed < absent), weights, weights // 64)).sum(axis=1)
        seeding.add(seed)
        now = np.minimum(now, apart) if added else apart
        if not now.any():
            break
    assert seeding.total == now.sum()


# -- whole fits --------------------------------------------------------------------------------------------


def state(model, ensemble):
    names = "labels_", "losses_", "n_iter_", "stop_reason_", "density_", "cluster_density_", "_alpha"
    found = [np.asarray(getattr(model, name, None)).tolist() for name in names]
    return [*found, model.predict(ensemble).tolist()]


FITS = [  # estimator, its arguments, and the kind of ensemble
    (ca.KMeansConsensus, {}, "missing"),
    (ca.KMeansConsensus, {}, "uint16"),
    (ca.KMeansConsensus, {"n_init": 1}, "plain"),
    (ca.KMeansConsensus, {"init": "random"}, "missing"),
    (ca.KMeansConsensus, {"n_clusters": 1}, "uint16"),
    (ca.KMeansConsensus, {"n_clusters": 25}, "all different"),
    (ca.KMeansConsensus, {"n_init": 4, "max_iter": 2}, "plain"),
    (ca.KMeansConsensus, {"partition_weights": [0.2, 1.7, 1.0, 0.3, 2.0, 0.8]}, "missing"),
    (ca.KMeansConsensus, {"partition_weights": "agreement"}, "all different"),
    (ca.SEC, {}, "missing"),
    (ca.ECC, {}, "uint16"),
    (ca.DensityConsensus, {}, "plain"),
]


@pytest.mark.parametrize(("kind", "arguments", "data"), FITS, ids=str)
def test_fits_are_those_of_numpy_on_all_items(kind, arguments, data, always):
    wide = {"most": 500, "width": np.uint16} if data == "uint16" else {"most": 7}
    n, missing = 90 if data == "all different" else 500, 0.15 * (data == "missing")
    ensemble = repeated(np.random.default_rng(5), n, 90, 6, missing=missing, **wide)
    assert data != "uint16" or max(ensemble.n_clusters) > 256
    arguments = {"n_clusters": 5, "n_init": 3, "random_state": 0} | arguments
    truth = state(kind(engine=Numpy(), **arguments).fit(ensemble), ensemble)
    assert not always
    for engine in natives((3,)):
        assert state(kind(engine=engine, **arguments).fit(ensemble), ensemble) == truth, engine
        once = [(90, n)] if engine.blocked_copy else []  # without the copy, to save memory, all rows are kept
        assert [(rows.n_rows, rows.n_copies) for rows in always] == once
        always.clear()


def test_what_is_not_one_item_per_row_keeps_its_rows(always):
    rng = np.random.default_rng(9)
    ensemble = repeated(rng, 300, 20, 4, 5)
    codes = ensemble.codes.copy()
    codes[17] = ensemble.n_clusters
    unlabelled = Ensemble.from_codes(codes, ensemble.n_clusters)
    given_labels = rng.integers(3, size=300)
    for table, copies, more in (
        (ensemble, rng.integers(0, 4, size=300), {}),
        (unlabelled, None, {}),
        (ensemble, None, {"init": given_labels}),
    ):
        found = []
        for engine in (Numpy(), Native(n_threads=2)):
            model = ca.KMeansConsensus(3, n_init=3, random_state=0, engine=engine, **more)
            found.append(state(model.fit(table, sample_weight=copies), table))
        assert found[0] == found[1] and not always


# -- trees -------------------------------------------------------------------------------------------------


def described(tree, table):
    shape = (tree.to_newick(), tree.linkage_.tolist(), tree.n_leaves_, tree.n_iter_)
    labels = (tree.labels_.tolist(), tree.cut(2).tolist(), tree.predict(table).tolist())
    return shape, labels, tree.loss_, tree.density_


TREES = [
    {"max_leaves": 12},
    {"n_clusters": 3, "max_leaves": 9, "n_init": 3, "criterion": "loss", "refine": "kmeans"},
    {"n_clusters": 4, "criterion": "size", "max_iter": 2},
    {},  # as many leaves as the root of the number of items
]


@pytest.mark.parametrize("how", TREES, ids=str)
def test_trees_are_those_of_numpy_on_all_items(how, always):
    for seed in (0, 2, 5):
        # 300: two bytes a code
        table = noisy_table(seed, 90 + 300 * seed, p=6, k=300 if seed == 5 else 3, missing=0.1 * (seed == 2))
        truth = described(ca.BisectingConsensus(random_state=seed, engine=Numpy(), **how).fit(table), table)
        for engine in (Native(n_threads=1), Native(n_threads=3, simd=LEVELS[seed % len(LEVELS)])):
            always.clear()
            tree = ca.BisectingConsensus(random_state=seed, engine=engine, **how).fit(table)
            assert described(tree, table) == truth
            assert always and always[0].n_rows == len(np.unique(table, axis=0))
            assert all(part.n_copies == len(part.number) for part in always) and len(always) > 2


# -- when it pays ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "different", "n_init", "taken"),
    [
        (40_000, 40, 1, True),
        (40_000, 700, 10, True),  # more than a 64th of the items
        (40_000, 700, 1, False),
        (40_000, 30_000, 10, False),  # mostly noise
        (32_767, 40, 10, False),
    ],
)
def test_looked_for_where_it_pays(n, different, n_init, taken, monkeypatch):
    made = spied(monkeypatch)
    ensemble = repeated(np.random.default_rng(2), n, different, 8, 12)
    results = []
    for engine in (Numpy(), Native(n_threads=2)):
        model = ca.KMeansConsensus(3, n_init=n_init, max_iter=2, random_state=1, engine=engine).fit(ensemble)
        results.append((model.labels_.tolist(), model.losses_, model.stop_reason_, model.density_))
    assert results[0] == results[1]
    assert [rows.n_rows for rows in made] == [different] * taken
