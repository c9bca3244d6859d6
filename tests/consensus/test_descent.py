"""Passes in one call, verb by verb and on NumPy are one descent; and one tree grows, however it is looked ahead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
import oracle
from coassoc.consensus import bisecting as _bisecting
from coassoc.consensus.descent import Descent, FusedDescent, descent_on
from coassoc.consensus.lloyd import TooFewRows, lloyd, seed_rows
from coassoc.core.counts import Counts
from coassoc.core.tables import ECCObjective, KMeansObjective, fix_table
from coassoc.engines import Numpy
from coassoc.engines.native import engine as _native

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")

LEVELS = _native.simd_levels()
WIDTHS = [np.uint8, np.uint16, np.uint32]


def natives(threads=(1, 3)):
    return [
        _native.Native(n_threads=t, chunk_rows=rows, simd=level)
        for level in LEVELS
        for t in threads
        for rows in (None, 64)
    ]


def make_ensemble(rng, n, p, most, *, missing, width, noise):
    n_clusters = rng.integers(1, most + 1, size=p)
    group = rng.integers(6, size=n)
    codes = np.empty((n, p), width)
    for j, k in enumerate(n_clusters):
        column = np.where(rng.random(n) < noise, rng.integers(k, size=n), rng.integers(k, size=6)[group])
        codes[:, j] = np.where(rng.random(n) < missing, k, column)
    codes[0] = 0
    return ca.Ensemble.from_codes(codes, n_clusters)


def starts(rng, ensemble, copies, k, kind):
    """Counts of the centres to start from."""
    rows = Numpy().load(ensemble, copies)
    n = ensemble.n_samples
    if kind == "seeds":
        try:
            return Counts.of_rows(seed_rows(rows, k, np.ones(ensemble.n_partitions, np.int64), rng), rows.layout)
        except TooFewRows:
            kind = "labels"
    if kind == "equal":  # all centres but one on one row
        codes = np.repeat(ensemble.codes[:1], k, axis=0)
        codes[-1] = ensemble.codes[n // 2]
        return Counts.of_rows(codes, rows.layout)
    few = k if kind == "labels" else max(1, k // 2)
    return rows.counts(rows.labelling_of(rng.integers(few, size=n), k))


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([1, 7, 64, 65, 150, 300, 700]))
    p = draw(st.sampled_from([1, 2, 5, 16, 21]))
    most = draw(st.sampled_from([2, 5, 40, 200]))
    ensemble = make_ensemble(
        rng,
        n,
        p,
        most,
        missing=draw(st.sampled_from([0.0, 0.0, 0.2])),
        width=draw(st.sampled_from(WIDTHS)),
        noise=draw(st.sampled_from([0.2, 0.6])),
    )
    copies = None
    if draw(st.booleans()):
        copies = rng.integers(0, draw(st.sampled_from([2, 4, 10**5])), size=n)
        copies[0] = 1
    weights = np.ones(p) if draw(st.booleans()) else rng.random(p) + 0.1
    k = draw(st.sampled_from([1, 2, 2, 3, 8, 9, 20, 65, 130]))
    start = starts(rng, ensemble, copies, k, draw(st.sampled_from(["seeds", "labels", "few", "equal"])))
    return ensemble, copies, weights, start, draw(st.sampled_from([1, 2, 3, 10, 300]))


def outcome(rows, weights, start, max_iter, labelling=None):
    """Everything that a descent leaves."""
    seen = []
    fit = lloyd(
        rows,
        KMeansObjective(weights),
        Counts(start.alpha, start.sizes, rows.layout),
        max_iter,
        labelling,
        lambda *line: seen.append(line),
    )
    return (
        fit.losses,
        fit.stop,
        np.asarray(rows.labels(fit.labelling)).tolist(),
        fit.table.values.tolist(),
        fit.table.bits,
        fit.counts.alpha.tolist(),
        fit.counts.sizes.tolist(),
        seen,
    )


def verb_by_verb(rows):
    rows.fuses_kmeans = False
    return rows


@settings(max_examples=120)
@given(cases())
def test_one_call_verb_by_verb_and_numpy_are_one_descent(case):
    ensemble, copies, weights, start, max_iter = case
    truth = outcome(Numpy().load(ensemble, copies), weights, start, max_iter)
    for engine in natives():
        rows = engine.load(ensemble, copies)
        assert outcome(rows, weights, start, max_iter) == truth, engine
        if engine.n_threads == 1:
            assert outcome(verb_by_verb(rows), weights, start, max_iter) == truth, engine


@settings(max_examples=30)
@given(cases(), cases())
def test_a_labelling_used_before_changes_nothing(case, other):
    ensemble, copies, weights, start, max_iter = case
    k = start.n_clusters
    rng = np.random.default_rng(other[4])
    before = starts(rng, ensemble, copies, k, "labels")
    plain = Numpy().load(ensemble, copies)
    truth = outcome(plain, weights, start, max_iter)
    ways = [engine.load(ensemble, copies) for engine in natives((3,))]
    for rows in [*ways, verb_by_verb(natives()[-1].load(ensemble, copies)), plain]:
        labelling = rows.labelling(k)
        outcome(rows, weights[::-1].copy(), before, other[4], labelling)
        assert outcome(rows, weights, start, max_iter, labelling) == truth
        assert outcome(rows, weights, start, max_iter, labelling) == truth  # and where it already ended
        table = fix_table(KMeansObjective(weights).table(Counts(start.alpha, start.sizes, rows.layout)), rows.layout)
        rows.assign(labelling, table)  # the first pass moves nothing
        assert outcome(rows, weights, start, max_iter, labelling) == truth


@pytest.mark.parametrize("k", [2, 3, 20])
def test_many_rows_with_default_chunks_and_threads(k):
    rng = np.random.default_rng(k)
    ensemble = make_ensemble(rng, 110_000, 12, 9, missing=0.02, width=np.uint8, noise=0.4)
    weights = np.ones(12)
    start = starts(rng, ensemble, None, k, "seeds")
    truth = outcome(Numpy().load(ensemble), weights, start, 6)
    for level in LEVELS:
        rows = _native.Native(n_threads=3, simd=level).load(ensemble)
        assert outcome(rows, weights, start, 6) == truth, level


# -- every end -------------------------------------------------------------------------------------------------


@pytest.fixture
def ends(monkeypatch):
    """What take_back said, by class."""
    seen: dict[str, list] = {"Descent": [], "FusedDescent": []}

    def watch(cls):
        real = cls.take_back

        def take_back(self):
            out = real(self)
            seen[cls.__name__].append(out)
            return out

        monkeypatch.setattr(cls, "take_back", take_back)

    watch(Descent)
    watch(FusedDescent)
    return seen


def all_ways(ensemble, copies, weights, start, max_iter, engines):
    truth = outcome(Numpy().load(ensemble, copies), weights, start, max_iter)
    for engine in engines:
        rows = engine.load(ensemble, copies)
        assert outcome(rows, weights, start, max_iter) == truth, engine
        assert outcome(verb_by_verb(rows), weights, start, max_iter) == truth, engine
    return truth


def test_a_pass_without_gain_is_taken_back_whole(ends):
    """Rows that count once between clusters of many millions: passes move some, the rounded loss stands or rises."""
    stops = set()
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        n, p = int(rng.integers(6, 11)), int(rng.integers(2, 4))
        table = rng.integers(0, 3, size=(n, p))
        copies = rng.integers(1, 3, size=n)
        heavy = rng.random(n) < 0.4
        copies[heavy] = 300_000_000 * rng.integers(1, 4, size=heavy.sum()) + rng.integers(0, 2, size=heavy.sum())
        if copies.sum() > 3 * 10**9:
            continue
        ensemble = ca.Ensemble(table)
        k = 2
        rows = Numpy().load(ensemble, copies)
        start = rows.counts(rows.labelling_of(rng.integers(k, size=n), k))
        weights = np.ones(p) if seed % 2 else rng.random(p) + 0.1
        fit = lloyd(rows, KMeansObjective(weights), start, 300)
        if fit.stop != "no_gain":
            continue
        engines = natives((1,)) if len(stops) < 10 else natives((1,))[-1:]
        truth = all_ways(ensemble, copies, weights, start, 300, engines)
        stops.add(seed)
        # what is left is the state before the pass: its labels are its table's, its loss is its counts'
        labels, values = np.array(truth[2]), np.array(truth[3])
        dense = oracle.Dense(table, weights, copies)
        assert ((dense.H @ values).argmax(axis=1) == labels).all()
        assert (dense.counts(labels, k) == np.array(truth[5])).all()
        assert (dense.step(labels, k) != labels).any()
    assert len(stops) > 5
    assert True in ends["FusedDescent"] and True in ends["Descent"]


def test_a_pass_that_moves_rows_but_no_count_is_a_fixed_point(ends):
    """Rows that count 0 times follow the table; the counts, and so the next table, stay."""
    found = 0
    engines = natives((1,))
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n = 40
        ensemble = ca.Ensemble(oracle.planted(rng, n=n, p=4, noise=0.6))
        copies = (rng.random(n) < 0.3).astype(np.int64)
        copies[:3] = 1
        rows = Numpy().load(ensemble, copies)
        k = 2 + seed % 3
        start = rows.counts(rows.labelling_of(rng.integers(k, size=n), k))
        ends["Descent"].clear()
        stop = lloyd(rows, KMeansObjective(np.ones(4)), start, 300).stop
        if ends["Descent"] != [False]:
            continue
        found += 1
        assert stop == "fixed_point"
        ends["FusedDescent"].clear()
        some = engines if found < 6 else engines[-1:]
        truth = all_ways(ensemble, copies, np.ones(4), start, 300, some)
        assert truth[1] == "fixed_point"
        assert ends["FusedDescent"] == [False] * len(some)
        # nothing was taken back: one more pass from the counts gives the very table that is there
        counts = Counts(np.array(truth[5]), np.array(truth[6]), rows.layout)
        again = fix_table(KMeansObjective(np.ones(4)).table(counts), rows.layout)
        assert again.bits == truth[4] and again.values.tolist() == truth[3]
    assert found > 8


def test_every_stop_and_refills_occur(monkeypatch):
    from coassoc.consensus import lloyd as _lloyd

    refills, stops = [], set()
    real = _lloyd._refilled

    def spy(rows, labelling, counts, objective):
        refills.append(type(rows).__name__)
        return real(rows, labelling, counts, objective)

    monkeypatch.setattr(_lloyd, "_refilled", spy)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ensemble = make_ensemble(rng, 120, 4, 4, missing=0.1 * (seed % 2), width=np.uint8, noise=0.5)
        copies = rng.integers(0, 3, size=120) if seed % 3 == 0 else None
        if copies is not None:
            copies[0] = 1
        k = (2, 3, 8, 20)[seed % 4]
        start = starts(rng, ensemble, copies, k, ("equal", "few")[seed % 2])
        truth = all_ways(ensemble, copies, np.ones(4), start, (1, 2, 300)[seed % 3], natives((3,))[-1:])
        stops.add(truth[1])
    assert {"fixed_point", "max_iter"} <= stops
    assert refills.count("NativeRows") == 2 * refills.count("NumpyRows") > 20


def test_max_iter_ends_between_passes_of_one_call():
    rng = np.random.default_rng(2)
    ensemble = make_ensemble(rng, 400, 6, 6, missing=0.0, width=np.uint8, noise=0.8)
    start = starts(rng, ensemble, None, 5, "labels")
    whole = outcome(Numpy().load(ensemble), np.ones(6), start, 300)
    n = len(whole[0])
    assert n > 5 and whole[1] == "fixed_point"
    for max_iter in range(1, n + 3):
        truth = all_ways(ensemble, None, np.ones(6), start, max_iter, natives((1,))[-2:])
        assert truth[0] == whole[0][:max_iter]
        assert truth[1] == ("max_iter" if max_iter <= n else "fixed_point")


def test_a_call_after_a_refill_is_told_the_loss_to_beat():
    rng = np.random.default_rng(3)
    ensemble = make_ensemble(rng, 120, 4, 4, missing=0.0, width=np.uint8, noise=0.5)
    rows = _native.Native().load(ensemble)
    start = starts(rng, ensemble, None, 8, "equal")
    asked, given = [], []
    real = rows.kmeans_passes

    def spy(labelling, weights, centres, limit, before):
        asked.append((limit, before))
        given.append(real(labelling, weights, centres, limit, before))
        return given[-1]

    rows.kmeans_passes = spy
    fit = lloyd(rows, KMeansObjective(np.ones(4)), Counts(start.alpha, start.sizes, rows.layout), 50)
    assert len(asked) > 1
    losses = []
    for (limit, before), (_, found, _) in zip(asked, given):
        assert (limit, before) == (50 - len(losses), losses[-1] if losses else np.inf)
        losses += found
    assert losses[: len(fit.losses)] == fit.losses


def test_only_plain_k_means_goes_in_one_call():
    class Other(KMeansObjective):
        pass

    rows = _native.Native().load(ca.Ensemble([[0, 1], [1, 0]]))
    labelling = rows.labelling(2)
    weights = np.ones(2)
    assert type(descent_on(rows, KMeansObjective(weights), labelling)) is FusedDescent
    assert type(descent_on(rows, Other(weights), labelling)) is Descent
    assert type(descent_on(rows, ECCObjective(weights, 0.5), labelling)) is Descent
    plain = Numpy().load(ca.Ensemble([[0, 1], [1, 0]]))
    assert type(descent_on(plain, KMeansObjective(weights), plain.labelling(2))) is Descent


# -- one tree ----------------------------------------------------------------------------------------------------


def facts(model):
    columns = {name: np.asarray(column).tolist() for name, column in model.tree_.table().items()}
    gain = [None if x != x else x for x in map(float, columns.pop("gain"))]
    tables = {node: (np.asarray(t.values).tolist(), t.bits) for node, t in model._split_tables.items()}
    return (
        model.labels_.tolist(),
        columns,
        gain,
        model.linkage_.tolist(),
        (model.density_, model.loss_, model.n_leaves_, model.cluster_sizes_.tolist()),
        [model.cut(k).tolist() for k in range(1, model.n_leaves_ + 1)],
        tables,
    )


def fitted(table, engine, copies=None, **options):
    return ca.BisectingConsensus(random_state=0, engine=engine, **options).fit(table, sample_weight=copies)


def trees(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 160))
    table = oracle.planted(rng, n=n, p=5, k=5, noise=0.4, most=6)
    if seed % 2:
        table[rng.random(table.shape) < 0.1] = -1
        table[3] = -1
    copies = rng.integers(0, 3, size=n) + (np.arange(n) < 8) if seed % 3 == 0 else None
    return table, {
        "copies": copies,
        "partition_weights": rng.random(5) + 0.1 if seed % 4 == 0 else None,
        "max_leaves": int(rng.integers(2, 15)),
        "n_init": 1 + seed % 2,
        "max_iter": (300, 2)[seed % 5 == 0],
        "refine": "kmeans" if seed % 3 == 1 else None,
    }


@pytest.mark.parametrize("criterion", ["gain", "loss", "size"])
def test_looking_ahead_changes_no_tree(criterion, monkeypatch):
    together = []
    real = _bisecting._Grower._try

    def watch(self, leaves):
        together.append(sum(not leaf.tried for leaf in leaves))
        return real(self, leaves)

    monkeypatch.setattr(_bisecting._Grower, "_try", watch)
    for seed in range(14):
        table, options = trees(seed)
        options["criterion"] = criterion
        first = fitted(table, "numpy", **options)
        truth = facts(first)
        case = oracle.Case(table, first.labels_, options["copies"], options["partition_weights"])
        assert first.loss_ == pytest.approx(oracle.loss(*case.repeated(), case.v))  # from the counts of the leaves
        together.clear()
        assert facts(fitted(table, _native.Native(n_threads=1), **options)) == truth
        assert max(together) <= 2  # alone there is nothing to gain by looking ahead
        for threads in (2, 5):
            assert facts(fitted(table, _native.Native(n_threads=threads), **options)) == truth, (seed, threads)
        if options["max_leaves"] > 9:
            assert max(together) > 2
        assert facts(fitted(table, _native.Native(n_threads=5, chunk_rows=64), **options)) == truth


@pytest.mark.parametrize("criterion", ["gain", "loss", "size"])
@pytest.mark.parametrize("large", [1, 20, 60])
def test_where_rows_become_large_changes_no_tree(criterion, large, monkeypatch):
    for seed in range(5):
        table, options = trees(seed)
        options["criterion"] = criterion
        truth = facts(fitted(table, "numpy", **options))
        with monkeypatch.context() as patched:
            patched.setattr(_native.Native, "large_rows", large)
            for threads in (2, 5):
                assert facts(fitted(table, _native.Native(n_threads=threads), **options)) == truth


@pytest.mark.parametrize("criterion", ["gain", "loss", "size"])
def test_passes_counted_are_those_of_the_splits_made(criterion, monkeypatch):
    """How many splits are tried depends on the threads; `n_iter_` does not."""
    took = {}
    real = _bisecting._Grower._two_means

    def watch(self, leaves):
        found = real(self, leaves)
        took.update((leaf.path, 0 if out is None else out[3]) for leaf, out in zip(leaves, found))
        return found

    monkeypatch.setattr(_bisecting._Grower, "_two_means", watch)
    for seed in (6, 16, 25, 30):  # here a split that is only tried takes the most passes
        table = oracle.planted(np.random.default_rng(seed), n=300, p=5, k=8, noise=0.5, most=6)
        for most in (4, 7):
            for engine in ("numpy", *(_native.Native(n_threads=threads) for threads in (1, 2, 5))):
                took.clear()
                model = ca.BisectingConsensus(max_leaves=most, criterion=criterion, random_state=seed, engine=engine)
                tree = model.fit(table).tree_
                paths = {0: ()}
                for node in range(tree.n_nodes):
                    if tree.rank[node]:
                        paths[tree.left[node]], paths[tree.right[node]] = (*paths[node], 0), (*paths[node], 1)
                assert model.n_iter_ == max(took[paths[node]] for node in paths if tree.rank[node])


def test_no_more_splits_than_wanted_are_tried_ahead(monkeypatch):
    """With two splits to come or fewer, only what one thread would try is tried."""
    tried = []
    real = _bisecting._Grower._two_means

    def watch(self, leaves):
        tried.extend(leaf.path for leaf in leaves)
        return real(self, leaves)

    monkeypatch.setattr(_bisecting._Grower, "_two_means", watch)
    for seed in range(8):
        table, _ = trees(seed)
        for most in (1, 2, 3, 4, 5):
            found = []
            for threads in (1, 5):
                tried.clear()
                fitted(table, _native.Native(n_threads=threads), criterion="gain", max_leaves=most)
                assert len(tried) == len(set(tried))
                found.append(set(tried))
            assert found[0] == found[1] and len(found[0]) == max(0, 2 * most - 3)


@pytest.mark.parametrize("criterion", ["gain", "loss", "size"])
def test_of_equal_leaves_the_first_is_split_first(criterion):
    """Two halves that are copies of one another but for the names."""
    table = np.repeat([[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 2], [1, 1, 1, 3]], 10, axis=0)
    for engine in (Numpy(), *(_native.Native(n_threads=threads) for threads in (1, 2, 5))):
        tree = fitted(table, engine, criterion=criterion, max_leaves=4).tree_
        assert tree.size[1] == tree.size[2] == 20
        assert list(tree.rank[:3]) == [1, 2, 3]


def test_a_larger_tree_is_numpys_with_large_and_small_nodes(monkeypatch):
    rng = np.random.default_rng(0)
    table = oracle.planted(rng, n=6000, p=8, k=9, noise=0.3, most=12)
    truth = facts(fitted(table, "numpy", max_leaves=24))
    monkeypatch.setattr(_native.Native, "large_rows", 1500)
    for level in LEVELS:
        for chunk in (None, 64):
            engine = _native.Native(n_threads=3, simd=level, chunk_rows=chunk)
            assert facts(fitted(table, engine, max_leaves=24)) == truth, engine
