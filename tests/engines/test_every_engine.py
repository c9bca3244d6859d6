"""Every engine gives the results of the plain NumPy one, with ==: each verb, each default, each estimator.

The `engine` fixture includes the toy of `twins/toy.py`, which implements the mandatory verbs alone and shares no code
with the others, and the CUDA engine, on its NumPy twin anywhere and on a GPU where there is one.
"""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import coassoc as ca
from coassoc.consensus.lloyd import lloyd, random_rows, seed_rows
from coassoc.consensus.registry import method_names
from coassoc.core.counts import Counts, ScoreTable
from coassoc.core.moves import AgreementState, DensityState
from coassoc.core.objectives import KMeansObjective, fix_table, seeding_weights
from coassoc.engines import Engine, Numpy, Rows, Seeding
from conftest import ENGINES
from twins import toy
from twins.cases import noisy_table, planted
from twins.fixtures import Twin

equal = np.testing.assert_array_equal
FAST = ("native", "cuda")


def seeds(engine, most=6):
    """More on the fast engines; a round on a cluster takes milliseconds."""
    return range(2 if engine.name == "dask" else most if engine.name in FAST else most // 2)


def size(engine):
    """Rows of a case; None: as the seed says, up to 9000. The twin of a GPU is as slow as NumPy."""
    return None if engine.name in FAST and not isinstance(engine, Twin) else 300


def case(seed, engine, **settings):
    """The same rows in the oracle and in `engine`, with the ensemble and a generator."""
    ensemble, copies = planted(seed, **{"n": size(engine), **settings})
    return Numpy().load(ensemble, copies), engine.load(ensemble, copies), ensemble, np.random.default_rng(seed)


def labelled(theirs, ours, k, rng):
    labels = rng.integers(k, size=theirs.n_rows)
    return theirs.labelling(k, labels), ours.labelling(k, labels), labels


# -- the contract itself -----------------------------------------------------------------------------------------------


def test_the_contract_is_small():
    assert len(Rows.__abstractmethods__) <= 12
    assert Seeding.__abstractmethods__ == {"locate", "potentials", "add"}
    assert Engine.__abstractmethods__ == {"load"}


def test_the_toy_implements_the_mandatory_verbs_alone():
    for kind, contract in ((toy.Toy, Engine), (toy.ToyRows, Rows), (toy.ToySeeding, Seeding)):
        inherited = {name for name, _ in inspect.getmembers(contract, inspect.isfunction)} - {"__init__"}
        assert inherited & set(vars(kind)) == contract.__abstractmethods__
    assert len(Path(toy.__file__).read_text(encoding="utf-8").splitlines()) <= 150


# -- verbs -------------------------------------------------------------------------------------------------------------


def test_passes_over_random_tables_give_labels_counts_and_scores(engine):
    for seed in seeds(engine):
        theirs, ours, _, rng = case(seed, engine)
        assert (ours.n_rows, ours.n_copies) == (theirs.n_rows, theirs.n_copies)
        d, k = theirs.layout.n_codes, int(rng.choice([2, 5, 40, 300]))
        yours, mine, _ = labelled(theirs, ours, k, rng)
        if seed % 2:
            yours, mine = theirs.labelling(k), ours.labelling(k)
        base = rng.normal(size=(d, k))
        for scale in (1.0, 1.0, 0.1, 0.01, 0.0, 1.0):
            base += scale * rng.normal(size=(d, k))
            table = fix_table(base * rng.choice([0.4, 1.0]), theirs.layout)
            assert ours.assign(mine, table) == theirs.assign(yours, table)
            equal(ours.counts(mine).alpha, theirs.counts(yours).alpha)
            equal(ours.counts(mine).sizes, theirs.counts(yours).sizes)
            equal(ours.labels(mine), theirs.labels(yours))
        equal(ours.whole_counts().alpha, theirs.whole_counts().alpha)
        expected = theirs.own_scores(yours, table)
        equal(ours.own_scores(mine, table), expected)
        start, stop = sorted(rng.integers(theirs.n_rows + 1, size=2).tolist())
        equal(ours.own_scores(mine, table, start, stop), expected[start:stop])


def test_tables_may_change_by_more_than_int32_holds(engine):
    """With one partition a score may be ±2**30, and change by 2**31, which int32 takes for -2**31."""
    rows = engine.load(ca.Ensemble(np.arange(40)[:, None] % 2))
    labelling = rows.labelling(2)
    for sign in (1, -1, 1):
        values = np.array([[0, -1], [0, 1]], np.int32) * np.int32(sign << 30)
        rows.assign(labelling, ScoreTable(values, 30))
        equal(rows.labels(labelling), (np.arange(40) + (sign < 0)) % 2)


def test_ties_go_to_the_lowest_cluster(engine):
    _, rows, ensemble, _ = case(5, engine, n=333, p=4, width=np.uint8, missing=0.0)
    for k in (2, 3, 20, 33, 500):
        labelling = rows.labelling(k)
        values = np.zeros((ensemble.n_codes, k), np.int32)
        values[:, k // 2 :] = 123_456_789 // ensemble.n_partitions
        assert rows.assign(labelling, ScoreTable(values, 20)) == rows.n_rows
        equal(rows.labels(labelling), k // 2)
        values[:, -1] += 1  # less than a step of a narrow table
        rows.assign(labelling, ScoreTable(values, 20))
        equal(rows.labels(labelling), k - 1)


def test_pairs_are_counted_as_by_hand(engine):
    """Also 256 clusters, which leave uint8 no code for a missing label, and more partitions than a byte counts."""
    rng = np.random.default_rng(0)
    codes = np.column_stack([np.arange(300) % 256, rng.integers(2, size=300), np.zeros((300, 600))]).astype(np.uint8)
    wide = ca.Ensemble.from_codes(codes, [256] + [1] * 601)
    for ensemble in (*(planted(seed, n=size(engine))[0] for seed in seeds(engine)), wide):
        pairs = rng.integers(ensemble.n_samples, size=(50, 2))
        pairs[:2] = [0, ensemble.n_samples - 1], [7, 7]
        together, observed = engine.load(ensemble).pair_counts(pairs)
        labels = np.column_stack([ensemble.partition(j) for j in range(ensemble.n_partitions)])
        left, right = labels[pairs[:, 0]], labels[pairs[:, 1]]
        known = (left >= 0) & (right >= 0)
        equal(observed, known.sum(axis=1))
        equal(together, (known & (left == right)).sum(axis=1))
    assert [len(part) for part in engine.load(ensemble).pair_counts(pairs[:0])] == [0, 0]


def test_worst_rows_differ_and_go_down(engine):
    for seed in seeds(engine):
        few = {"n": 1500, "p": 2, "most": 2} if seed == 1 else {}  # hundreds of equal rows
        theirs, ours, ensemble, rng = case(seed, engine, **few)
        yours, mine, _ = labelled(theirs, ours, 5, rng)
        cost = fix_table(rng.integers(-2, 3, size=(theirs.layout.n_codes, 5)) * 0.5, theirs.layout)
        own, copies = theirs.own_scores(yours, cost), np.ones(theirs.n_rows) if theirs.copies is None else theirs.copies
        worst: dict[bytes, int] = {}
        for i in np.argsort(-own, kind="stable"):
            if copies[i] > 0:
                worst.setdefault(ensemble.codes[i].tobytes(), int(i))
        for m in (1, 4, 9):
            rows, costs = ours.worst_rows(mine, cost, m)
            expected = list(worst.values())[:m]
            equal(rows, ensemble.codes[expected])
            equal(costs, own[expected])


def test_seeding_step_by_step(engine):
    for seed in seeds(engine):
        theirs, ours, ensemble, rng = case(seed, engine)
        p = ensemble.n_partitions
        unequal = rng.integers(0, 3, size=p), rng.integers(1, 60_000 // p, size=p)
        for weights in (np.ones(p, np.int64), np.full(p, 64), *unequal):
            two, one = theirs.seeding(weights), ours.seeding(weights)
            for step in range(4):
                assert one.total == two.total
                if two.total == 0:
                    break
                targets = np.append(rng.integers(two.total, size=11), [0, two.total - 1])
                rows = two.locate(targets)
                equal(one.locate(targets), rows)
                if step % 2 == 0:  # a row may be added without having been measured
                    equal(one.potentials(rows), two.potentials(rows))
                chosen = rows[step] if step < 3 else ensemble.codes[-1]
                one.add(chosen)
                two.add(chosen)
        equal(*(random_rows(rows, 2, np.random.default_rng(8)) for rows in (ours, theirs)))


@pytest.mark.parametrize("p", [3, 4])
def test_seeding_distances_are_brute_force(engine, p):
    """Also where a partition has as many clusters as a code has values, and none is left to mean "missing"."""
    rng = np.random.default_rng(p)
    table = rng.integers(4, size=(400, p))
    table[rng.random(table.shape) < 0.3] = -1
    table[:, 1] = np.arange(400) % 256
    ensemble = ca.Ensemble(table)
    assert ensemble.codes.dtype == np.uint8
    for weights in (np.full(p, 64), 64 * np.arange(1, p + 1), np.arange(p) * 100):
        one_sided = (table[:, None] < 0) != (table[None] < 0)
        cost = np.where(one_sided, weights // 64, weights) * (table[:, None] != table[None])
        distance, seeding = cost.sum(axis=2), engine.load(ensemble).seeding(weights)
        equal(seeding.potentials(ensemble.codes[:20]), distance[:20].sum(axis=1))
        seeding.add(ensemble.codes[7])
        assert seeding.total == distance[7].sum()
        equal(seeding.potentials(ensemble.codes[:20]), np.minimum(distance[:20], distance[7]).sum(axis=1))


def test_subsets_keep_order_and_scatter_puts_them_back(engine):
    for seed in seeds(engine, 6):
        theirs, ours, _, rng = case(seed, engine)
        yours, mine, labels = labelled(theirs, ours, 4, rng)
        leaves, expected = ours.split(mine), theirs.split(yours)
        for one, two in zip(leaves, expected, strict=True):
            assert (one.n_rows, one.n_copies) == (two.n_rows, two.n_copies)
            equal(one.codes_at(np.arange(one.n_rows)), two.codes)
        equal(ours.scatter(leaves), labels)
        halves = [rows.split(rows.labelling(2, np.arange(rows.n_rows) % 2)) for rows in leaves]
        wanted = np.zeros(theirs.n_rows, int)
        for c in range(4):
            here = np.flatnonzero(labels == c)
            wanted[here] = 2 * c + np.arange(len(here)) % 2
        equal(ours.scatter([half for pair in halves for half in pair]), wanted)
        inner = leaves[0].labelling(2, np.arange(leaves[0].n_rows) % 2)
        equal(leaves[0].counts(inner).alpha, np.stack([half.whole_counts().alpha[:, 0] for half in halves[0]], axis=1))


def test_renumbered_and_joined_labellings(engine):
    for seed, k in enumerate((2, 7, 300)):
        theirs, ours, _, rng = case(seed, engine, n=400)
        _, mine, labels = labelled(theirs, ours, k, rng)
        for after in (3, 290):
            numbers = rng.integers(after, size=k)
            other = ours.renumbered(mine, numbers, after)
            equal(ours.labels(other), numbers[labels])
            equal(ours.labels(mine), labels)
            equal(ours.counts(other).alpha, theirs.counts(theirs.labelling(after, numbers[labels])).alpha)
        if engine.name in ("dask", "stream") and k > 7:
            continue  # hundreds of chunks
        parts = ours.split(mine)
        own = [None if c % 3 == 1 else part.labelling(2, np.arange(part.n_rows) % 2) for c, part in enumerate(parts)]
        first, expected = 0, np.zeros(len(labels), np.int64)
        for c in range(k):
            here = np.flatnonzero(labels == c)
            expected[here] = first + (0 if own[c] is None else np.arange(len(here)) % 2)
            first += 1 if own[c] is None else 2
        joined = ours.joined(parts, own)
        assert joined.n_clusters == first
        equal(ours.labels(joined), expected)


def test_overlaps_and_single_rows(engine):
    for seed in seeds(engine, 6):
        many = {"n": 70_000} if engine.name == "native" and seed == 2 else {}  # more than are counted together
        theirs, ours, ensemble, rng = case(seed, engine, p=5, most=30 if seed else 100, **many)
        equal(ours.overlap(), theirs.overlap())
        weights = rng.random(ensemble.n_codes)
        weights[::7] = 0.0
        equal(ours.weighted_overlap(weights), theirs.weighted_overlap(weights))
        indices = rng.integers(theirs.n_rows, size=6)
        equal(ours.codes_at(indices), ensemble.codes[indices])


@pytest.mark.parametrize("state", [DensityState, AgreementState])
def test_moves_proposed_and_applied(engine, state):
    made = 0
    for seed in seeds(engine, 6):
        theirs, ours, ensemble, rng = case(seed, engine, most=12)
        k = 80 if seed % 2 else 6  # 80: clusters of a few rows, which moves may not make smaller than two
        yours, mine, _ = labelled(theirs, ours, k, rng)
        scores = fix_table(rng.normal(size=(ensemble.n_codes, k)), theirs.layout)
        assert ours.assign(mine, scores) == theirs.assign(yours, scores)
        v = np.ones(ensemble.n_partitions) if seed % 2 else rng.random(ensemble.n_partitions) + 0.1
        both, least = ((theirs, yours), (ours, mine)), 1 + seed % 2
        live = [state(rows.counts(those), v, least) for rows, those in both]
        start = 0
        for limit in (3, 50, 10_000):
            table = live[0].table()
            expected = theirs.propose_moves(yours, table, start, limit)
            moves = ours.propose_moves(mine, table, start, limit)
            for name in ("indices", "sources", "targets", "codes", "copies", "stop"):
                np.testing.assert_array_equal(getattr(moves, name), getattr(expected, name), err_msg=name)
            applied = theirs.apply_moves(yours, live[0], expected, table.threshold)
            assert ours.apply_moves(mine, live[1], moves, table.threshold) == applied
            equal(ours.labels(mine), theirs.labels(yours))
            equal(ours.counts(mine).alpha, live[0].alpha)
            equal(live[1].alpha, live[0].alpha)
            start, made = moves.stop if moves.stop < theirs.n_rows else 0, made + applied
        assert ours.assign(mine, scores) == theirs.assign(yours, scores)  # rows that moved are scored again
        equal(ours.labels(mine), theirs.labels(yours))
    assert made > 0


# -- whole fits --------------------------------------------------------------------------------------------------------


def test_seeded_passes_on_many_ensembles(engine):
    """Seeds, labels, losses and the reason to stop, for codes of every width and up to 500 clusters."""
    for seed in seeds(engine, 8):
        ensemble, copies = planted(seed, n=size(engine))
        codes = ensemble.codes if copies is None else ensemble.codes[copies > 0]
        seen = np.unique(codes[(codes < ensemble.n_clusters).any(axis=1)], axis=0)
        rng = np.random.default_rng(seed)
        k = max(1, min(int(rng.choice([2, 3, 5, 20, 33, 70, 257, 500])), len(seen) // 3))
        v = rng.random(ensemble.n_partitions) * 2 if seed % 4 == 0 else np.ones(ensemble.n_partitions)
        ends = []
        for kind in (Numpy(), engine):
            rows = kind.load(ensemble, copies)
            try:
                weights = seeding_weights(v, rows.whole_counts())
                chosen = seed_rows(rows, k, weights, np.random.default_rng(seed))
            except ValueError as error:  # too few rows that differ
                ends.append(str(error))
                continue
            fit = lloyd(rows, KMeansObjective(v), Counts.of_rows(chosen, rows.layout), 25)
            ends.append((chosen.tolist(), np.asarray(rows.labels(fit.labelling)).tolist(), fit.losses, fit.stop))
        assert ends[0] == ends[1], f"seed {seed}, k={k}"


ESTIMATORS = {
    "kmeans": ca.KMeansConsensus(4, n_init=3, random_state=1),
    "kmeans-refilled": ca.KMeansConsensus(25, n_init=1, random_state=1),
    "kmeans-random": ca.KMeansConsensus(4, n_init=2, init="random", partition_weights=[1, 2, 1, 3, 1], random_state=2),
    "bisecting": ca.BisectingConsensus(5, max_leaves=9, random_state=3),
    "bisecting-refined": ca.BisectingConsensus(6, criterion="size", refine="kmeans", random_state=3),
    "sec": ca.SEC(4, n_init=2, random_state=1),
    "ecc": ca.ECC(4, n_init=2, random_state=1),
    "density": ca.DensityConsensus(4, n_init=1, random_state=1, max_rounds=2),
    "agreement": ca.AgreementConsensus(4, n_init=1, random_state=1, max_rounds=2),
    "hbgf": ca.HBGF(4, random_state=1),
    "lwgp": ca.LWGP(4, random_state=1),
    "ecpcs": ca.ECPCS(4, random_state=1),
    "lwea": ca.LWEA(4, micro_clusters=20, random_state=1),
    "auto": ca.Consensus(4, random_state=1),
    "eac": ca.EAC(4),
    "eac-micro": ca.EAC(4, micro_clusters=20, random_state=1),
    "mcla": ca.MCLA(4, random_state=1),
    "cspa": ca.CSPA(4, random_state=1),
}


EXPECTED = {}


def result(name, engine, table, copies):
    fit = clone(ESTIMATORS[name]).set_params(engine=engine).fit(table, sample_weight=copies)
    known = fit.predict(table[:60]).tolist() if hasattr(fit, "predict") else None
    return np.asarray(fit.labels_).tolist(), fit.density_, known


def test_every_method_is_among_the_estimators():
    assert {name.split("-")[0] for name in method_names()} == {name.split("-")[0] for name in ESTIMATORS}


def test_estimators_give_the_labels_of_the_oracle(engine, request):
    """Every method on the fast engines and on the toy, which has the mandatory verbs alone; a third on each other."""
    names = [name for name in ESTIMATORS if find_spec("pymetis") or name not in ("mcla", "cspa")]
    if engine.name not in (*FAST, "toy"):
        names = names[list(ENGINES).index(request.node.callspec.params["engine"]) % 3 :: 3]
    for name in names:
        for missing in (0.0, 0.3) if engine.name == "native" else (0.3,):
            table = noisy_table(11, 250, missing=missing)
            copies = None
            if missing:
                table[5:8] = -1  # items without any label
                copies = np.random.default_rng(3).integers(0, 3, size=len(table))
            key = name, missing
            if key not in EXPECTED:
                EXPECTED[key] = result(name, Numpy(), table, copies)
            assert result(name, engine, table, copies) == EXPECTED[key], name
