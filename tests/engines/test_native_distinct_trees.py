"""Trees grown on the different rows among many: where their halves stood, and the trees of the NumPy engine."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from by_hand import LEVELS
from coassoc.engines import Native, Numpy
from coassoc.engines.native import engine as _native
from coassoc.engines.native import rows as _native_rows

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")

SECOND = 1 << 31


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 100, 65_536, 131_072, 131_073, 300_000])
def test_places_are_divided_in_their_order(n, n_threads):
    rng = np.random.default_rng(n)
    n_rows = 57
    places = rng.integers(n_rows, size=n).astype(np.uint32)
    for up in (rng.random(n_rows) < 0.3, np.zeros(n_rows, bool), np.ones(n_rows, bool)):
        number = np.where(up, np.cumsum(up) - 1, np.cumsum(~up) - 1).astype(np.uint32)
        sides = [[int(number[u]) for u in places.tolist() if up[u] == side] for side in (False, True)]
        found = [np.empty(len(side), np.uint32) for side in sides]
        _native._kernels.split_places(places, number | np.where(up, SECOND, 0).astype(np.uint32), *found, n_threads)
        assert [part.tolist() for part in found] == sides


def test_places_that_do_not_fit_are_refused():
    places, number = np.array([0, 1, 1, 2], np.uint32), np.array([0, SECOND, 1], np.uint32)
    split = _native._kernels.split_places
    for sizes in ((1, 2), (2, 1), (3, 1), (1, 3), (0, 0), (2, 3), (3, 2)):
        with pytest.raises(ValueError, match="room"):
            split(places, number, *(np.empty(size, np.uint32) for size in sizes), 2)
    for wrong in (np.array([0, 1, 1, 3], np.uint32), np.array([2**32 - 1, 1, 1, 2], np.uint32)):
        with pytest.raises(ValueError, match="room"):
            split(wrong, number, np.empty(2, np.uint32), np.empty(2, np.uint32), 2)
    with pytest.raises(ValueError, match="one of the rows"):
        split(places, number[:0], np.empty(2, np.uint32), np.empty(2, np.uint32), 2)
    with pytest.raises(TypeError):  # it would be filled in a copy
        split(places, number, np.empty(2, np.int64), np.empty(2, np.uint32), 2)
    first, second = np.empty((2, 2), np.uint32)
    split(places, number, first, second, 2)
    assert first.tolist() == [0, 1] and second.tolist() == [0, 0]


@pytest.fixture
def made(monkeypatch):
    """Equal rows are looked for however few there are; lists the rows that were made of them, and of their halves."""
    made = []

    class Spy(_native_rows.DistinctRows):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    for name in ("_FEW_ROWS", "_ALIKE", "_ALIKE_ONCE"):
        monkeypatch.setattr(_native_rows, name, 1)
    monkeypatch.setattr(_native_rows, "DistinctRows", Spy)
    return made


def alike(seed, n, *, missing=0.0, most=5):
    """Items of a few kinds with some noise: most rows occur several times, in no order."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 6))
    kinds = rng.integers(most, size=(6, p))
    table = np.where(rng.random((n, p)) < 0.15, rng.integers(most, size=(n, p)), kinds[rng.integers(6, size=n)])
    table[rng.random((n, p)) < missing] = -1
    table[:, 0] = np.maximum(table[:, 0], 0)  # every item has a label: one without takes the plain way
    return table


def described(tree, table):
    shape = (tree.to_newick(), tree.linkage_.tolist(), tree.n_leaves_, tree.n_iter_)
    labels = (tree.labels_.tolist(), tree.cut(2).tolist(), tree.predict(table).tolist())
    return shape, labels, tree.loss_, tree.density_


TREES = [
    {"max_leaves": 12},
    {"n_clusters": 3, "max_leaves": 9, "n_init": 3, "criterion": "loss", "refine": "kmeans"},
    {"n_clusters": 4, "criterion": "size"},
    {"n_clusters": 5, "max_iter": 2},
    {},  # as many leaves as the root of the number of items
]


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("how", TREES, ids=str)
def test_trees_are_those_of_numpy_on_all_items(how, missing, made):
    for seed in range(6):
        table = alike(seed, 90 + 300 * seed, missing=missing)
        truth = described(ca.BisectingConsensus(random_state=seed, engine=Numpy(), **how).fit(table), table)
        for n_threads in (1, 3):
            made.clear()
            engine = Native(n_threads=n_threads)
            tree = ca.BisectingConsensus(random_state=seed, engine=engine, **how).fit(table)
            assert described(tree, table) == truth
            assert made and made[0].n_rows == len(np.unique(table, axis=0))
            assert all(part.n_copies == len(part.places) for part in made) and len(made) > 2


@pytest.mark.parametrize("settings", [*({"simd": level} for level in LEVELS), {"blocked_copy": False}], ids=str)
def test_trees_are_the_same_with_every_kernel(settings, made):
    table = alike(11, 2000, most=300)  # codes of two bytes
    weights = np.linspace(0.5, 2.0, table.shape[1])
    found = [
        described(ca.BisectingConsensus(6, partition_weights=weights, random_state=3, engine=e).fit(table), table)
        for e in (Numpy(), Native(n_threads=2, **settings))
    ]
    assert found[0] == found[1] and bool(made) == settings.get("blocked_copy", True)


def test_halves_hold_the_places_of_their_rows(made):
    table = alike(4, 500)
    rows = Native(n_threads=1).load(ca.Ensemble(table)).distinct(1)
    side = np.random.default_rng(0).integers(2, size=rows.n_rows)
    halves = rows.split(rows.labelling_of(side, 2))
    for number, half in enumerate(halves):
        items = np.flatnonzero(side[rows.places] == number)
        assert np.array_equal(half.codes_at(half.places), rows.codes_at(rows.places[items]))
        assert half.copies.tolist() == np.bincount(half.places, minlength=half.n_rows).tolist()
    assert rows.scatter(halves).tolist() == side[rows.places].tolist()
    with pytest.raises(NotImplementedError, match="got 3 parts"):
        rows.split(rows.labelling_of(np.arange(rows.n_rows) % 3, 3))


@pytest.mark.parametrize("n_init", [1, 10])
def test_looked_for_where_it_pays(n_init, monkeypatch):
    made = []
    whole = _native_rows.NativeRows.distinct

    def spied(self, n_starts):
        found = whole(self, n_starts)
        made.append(found is not self)
        return found

    monkeypatch.setattr(_native_rows.NativeRows, "distinct", spied)
    table = alike(3, 40_000)
    trees = [
        ca.BisectingConsensus(4, n_init=n_init, random_state=0, engine=engine).fit(table)
        for engine in (Numpy(), Native())
    ]
    assert described(trees[0], table) == described(trees[1], table) and made == [True]
    ca.BisectingConsensus(4, random_state=0, engine=Native(), verbose=1).fit(table)  # counts items as they come
    assert len(made) == 1
