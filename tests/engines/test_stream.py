"""Streaming: every verb equals the NumPy engine for any chunk size and any budget, warm, lean or in files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import coassoc as ca
from coassoc.core import memory as _memory
from coassoc.core.memory import Budget, PeakMemory, file_array, parse_size
from coassoc.core.moves import AgreementState, DensityState
from coassoc.core.tables import fix_table
from coassoc.engines import Numpy, Stream
from coassoc.engines.stream.chunks import chunk_assign, chunk_potentials


@pytest.fixture
def files_for_everything(monkeypatch):
    """Let even small arrays go to files."""
    monkeypatch.setattr(_memory, "_SMALL", 0)


def noisy_table(rng, n, p=5, k=4, missing=0.0):
    group = rng.integers(k, size=n)
    table = np.where(rng.random((n, p)) < 0.6, group[:, None], rng.integers(k, size=(n, p)))
    table[rng.random((n, p)) < missing] = -1
    table[0] = 0
    return table


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 160))
    table = noisy_table(rng, n, draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.sampled_from([0.0, 0.4])))
    copies = None
    if draw(st.booleans()):
        copies = rng.integers(0, 4, size=n)
        copies[0] = 1
    engine = Stream(
        draw(st.sampled_from(["1B", "500B", "1GB"])),
        chunk_rows=draw(st.sampled_from([1, 7, 64, 1000])),
        local=draw(st.sampled_from(["auto", "numpy"])),
    )
    return rng, ca.Ensemble(table), copies, engine


def same_rows(found, expected):
    assert found[0].tolist() == expected[0].tolist()
    assert found[1].tolist() == expected[1].tolist()


@given(cases(), st.integers(1, 5))
@settings(max_examples=40)
def test_every_verb_equals_the_oracle(case, k):
    rng, ensemble, copies, engine = case
    oracle, rows = Numpy().load(ensemble, copies), engine.load(ensemble, copies)
    assert (rows.n_rows, rows.n_copies) == (oracle.n_rows, oracle.n_copies)
    ours, theirs = rows.labelling(k), oracle.labelling(k)
    for _ in range(3):
        table = fix_table(rng.integers(-2, 3, size=(ensemble.n_codes, k)) * 1.0, oracle.layout)
        assert rows.assign(ours, table) == oracle.assign(theirs, table)
        assert (rows.counts(ours).alpha == oracle.counts(theirs).alpha).all()
        assert (rows.counts(ours).sizes == oracle.counts(theirs).sizes).all()
    same_rows(rows.worst_rows(ours, table, 3), oracle.worst_rows(theirs, table, 3))
    assert (rows.overlap() == oracle.overlap()).all()
    weights = rng.random(ensemble.n_codes)
    assert (rows.weighted_overlap(weights) == oracle.weighted_overlap(weights)).all()
    indices = rng.integers(rows.n_rows, size=6)
    assert (rows.codes_at(indices) == oracle.codes_at(indices)).all()
    parts, expected = rows.split(ours), oracle.split(theirs)
    assert [p.n_rows for p in parts] == [p.n_rows for p in expected]
    halves = [
        half for part in parts if part.n_rows for half in part.split(part.labelling_of(np.arange(part.n_rows) % 2, 2))
    ]
    wanted = [half for p in expected if p.n_rows for half in p.split(p.labelling_of(np.arange(p.n_rows) % 2, 2))]
    assert rows.scatter(halves).tolist() == oracle.scatter(wanted).tolist()
    given_labels = rng.integers(k, size=rows.n_rows)
    assert (
        rows.counts(rows.labelling_of(given_labels, k)).alpha
        == oracle.counts(oracle.labelling_of(given_labels, k)).alpha
    ).all()
    assert rows.labels(ours).tolist() == oracle.labels(theirs).tolist()


@given(cases())
@settings(max_examples=25)
def test_seeding_equals_the_oracle_step_by_step(case):
    rng, ensemble, copies, engine = case
    weights = rng.integers(1, 4, size=ensemble.n_partitions)
    ours, theirs = engine.load(ensemble, copies).seeding(weights), Numpy().load(ensemble, copies).seeding(weights)
    for step in range(5):
        assert ours.total == theirs.total
        if ours.total == 0:
            break
        targets = rng.integers(ours.total, size=4)
        candidates = ours.locate(targets)
        assert (candidates == theirs.locate(targets)).all()
        if step % 2:  # a row may be added without having been measured
            assert (ours.potentials(candidates) == theirs.potentials(candidates)).all()
        chosen = candidates[int(rng.integers(4))] if step != 3 else ensemble.codes[-1]
        ours.add(chosen)
        theirs.add(chosen)


@pytest.mark.parametrize("memory", ["1B", "1GB"])
@pytest.mark.parametrize("state_of", [DensityState, AgreementState])
def test_exchange_equals_the_oracle(memory, state_of):
    rng = np.random.default_rng(5)
    ensemble = ca.Ensemble(noisy_table(rng, 300, missing=0.1))
    labels, v, ends = rng.integers(3, size=300), np.ones(5), []
    for engine in (Numpy(), Stream(memory, chunk_rows=41)):
        rows = engine.load(ensemble)
        labelling = rows.labelling_of(labels, 3)
        state = state_of(rows.counts(labelling), v)
        trail = []
        for _ in range(4):
            table, start = state.table(), 0
            while start < rows.n_rows:
                moves = rows.propose_moves(labelling, table, start, 17)
                trail.append((moves.indices.tolist(), moves.targets.tolist(), moves.stop))
                rows.apply_moves(labelling, state, moves, table.threshold)
                start = moves.stop
        assert (rows.counts(labelling).alpha == state.counts().alpha).all()
        ends.append((trail, np.asarray(rows.labels(labelling)).tolist()))
    assert ends[0] == ends[1]


ESTIMATORS = [
    ca.KMeansConsensus(4, n_init=3, random_state=1),
    ca.KMeansConsensus(30, n_init=1, random_state=1),  # empty clusters are refilled
    ca.KMeansConsensus(4, n_init=2, init="random", partition_weights=[1, 2, 1, 3, 1], random_state=2),
    ca.BisectingConsensus(5, max_leaves=9, random_state=3),
    ca.BisectingConsensus(6, criterion="size", finish=True, random_state=3),
    ca.SEC(4, n_init=2, random_state=1),
    ca.ECC(4, n_init=2, random_state=1),
    ca.DensityConsensus(4, n_init=1, random_state=1),
    ca.AgreementConsensus(4, n_init=1, random_state=1),
    ca.HBGF(4, random_state=1),
    ca.LWGP(4, random_state=1),
    ca.ECPCS(4, random_state=1),
]


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_estimators_give_the_labels_of_the_memory_engines(estimator, missing, files_for_everything):
    rng = np.random.default_rng(11)
    table = noisy_table(rng, 250, missing=missing)
    if missing:
        table[5:8] = -1  # items without any label
    expected = clone(estimator).set_params(engine="numpy").fit(table)
    for engine in (Stream("1B", chunk_rows=64), Stream("1GB", chunk_rows=100), Stream("3kB")):
        found = clone(estimator).set_params(engine=engine).fit(table)
        assert found.labels_.tolist() == expected.labels_.tolist()
        assert found.density_ == expected.density_


def test_multiplicities_and_predict_agree(files_for_everything):
    rng = np.random.default_rng(3)
    table, copies = noisy_table(rng, 300, missing=0.2), rng.integers(0, 3, size=300)
    for estimator in (ca.KMeansConsensus(4, random_state=0), ca.BisectingConsensus(5, random_state=0)):
        expected = clone(estimator).fit(table, sample_weight=copies)
        found = clone(estimator).set_params(engine=Stream("1B", chunk_rows=50)).fit(table, sample_weight=copies)
        assert found.labels_.tolist() == expected.labels_.tolist()
        assert found.predict(table[:120]).tolist() == expected.predict(table[:120]).tolist()


def test_a_forgetful_chunk_gives_the_same_answers():
    """What a chunk keeps is a shortcut: wiping it between calls changes nothing."""
    rng = np.random.default_rng(8)
    ensemble = ca.Ensemble(noisy_table(rng, 200))
    oracle, rows = Numpy().load(ensemble), Stream("1GB", chunk_rows=33).load(ensemble)
    ours, theirs = rows.labelling(3), oracle.labelling(3)
    for _ in range(4):
        table = fix_table(rng.normal(size=(ensemble.n_codes, 3)), oracle.layout)
        assert rows.assign(ours, table) == oracle.assign(theirs, table)
        for part in rows.chunks.parts:
            part.states.clear()
        assert (rows.counts(ours).alpha == oracle.counts(theirs).alpha).all()
    assert rows.labels(ours).tolist() == oracle.labels(theirs).tolist()


def test_a_call_may_be_repeated_or_come_late():
    """A cluster may run a task twice, or an older one again: the state found then is not the one the call means."""
    rng = np.random.default_rng(4)
    ensemble = ca.Ensemble(noisy_table(rng, 200, missing=0.2))
    rows = Stream("1GB", chunk_rows=1000).load(ensemble)
    chunk, layout = rows.chunks.parts[0], rows.layout
    tables = [fix_table(rng.normal(size=(ensemble.n_codes, 3)), layout) for _ in range(3)]
    calls = [("a", 3, ("", None, None), "v0", tables[0])]
    calls += [("a", 3, (f"v{i}", tables[i], None), f"v{i + 1}", tables[i + 1]) for i in range(2)]
    first = [chunk_assign(chunk, *call) for call in calls]
    for i in (2, 1, 1, 0, 2):
        again = chunk_assign(chunk, *calls[i])
        assert again[0] == first[i][0] and (again[1] == first[i][1]).all() and (again[2] == first[i][2]).all()
    weights, chosen = np.ones(5, np.int64), ensemble.codes[[3, 50, 120]]
    asked = [("s", weights, chosen[:m], ensemble.codes[[7, 9]]) for m in (1, 2, 3)]
    asked.append(("s", weights, chosen[[1, 0]], ensemble.codes[[7, 9]]))
    totals = [chunk_potentials(chunk, *call).tolist() for call in asked]
    for i in (1, 3, 2, 0):
        assert chunk_potentials(chunk, *asked[i]).tolist() == totals[i]


def test_states_go_with_their_labelling():
    rows = Stream("1GB", chunk_rows=50).load(ca.Ensemble(noisy_table(np.random.default_rng(0), 200)))
    labelling = rows.labelling_of(np.zeros(200, np.int32), 1)
    rows.counts(labelling)
    assert all(part.states for part in rows.chunks.parts)
    del labelling
    assert not any(part.states for part in rows.chunks.parts)


# -- memory ----------------------------------------------------------------------------------------------------


def test_sizes_as_people_write_them():
    assert [parse_size(s) for s in ("2GB", "1 GiB", "1.5e3", 10, "7kb")] == [2 * 10**9, 2**30, 1500, 10, 7000]
    for bad in ("two", "", "-1GB", "1XB"):
        with pytest.raises(ValueError, match="memory must be a size"):
            parse_size(bad)
    with pytest.raises(TypeError, match="memory must be a size"):
        parse_size(None)
    with pytest.raises(ValueError, match="at least one byte"):
        parse_size(0)


def test_budget_hands_out_memory_then_files_then_memory_again():
    budget = Budget(1_000_000)
    first = budget.allocate(100_000, np.int64)
    second = budget.allocate((1000, 200), np.uint8)
    third = budget.allocate(10_000, np.int64)
    assert [isinstance(a, np.memmap) for a in (first, second, third)] == [False, False, True]
    third[:] = 7
    assert third.sum() == 70_000
    view = first[10:]
    del first
    assert budget.used == 1_000_000  # the view still holds it
    del view, second
    assert budget.used == 0
    assert not isinstance(budget.allocate(100_000, np.int64), np.memmap)


def test_temporary_files_leave_nothing_behind(tmp_path):
    array = file_array((1000, 10), np.uint8, str(tmp_path))
    array[:] = 3
    assert array.sum() == 30_000
    assert list(tmp_path.iterdir()) == []


def test_a_fit_keeps_within_its_budget():
    """Per row: 6 bytes of state, then labels; lean: 1 byte and the labels in a file. Chunks add a little."""
    n = 3_000_000
    rng = np.random.default_rng(0)
    codes = file_array((n, 4), np.uint8)
    for start in range(0, n, 500_000):
        codes[start : start + 500_000] = rng.integers(5, size=(500_000, 4), dtype=np.uint8)
    ensemble = ca.Ensemble(codes)
    estimator = ca.KMeansConsensus(3, n_init=1, max_iter=3, random_state=0)
    pytest.importorskip("coassoc._kernels")
    clone(estimator).set_params(engine=Stream("4MB", chunk_rows=65536)).fit(ensemble)  # what is loaded once
    for memory in ("4MB", "10MB", "40MB"):
        with PeakMemory() as used:
            clone(estimator).set_params(engine=Stream(memory, chunk_rows=65536)).fit(ensemble)
        if used.peak is None:
            pytest.skip("this system does not say what memory a process holds")
        assert used.peak - used.start < parse_size(memory) + 4_000_000


def test_resolve_knows_the_name_and_checks_arguments():
    assert isinstance(ca.engines.resolve("stream"), Stream)
    assert repr(Stream("2GB", chunk_rows=5)) == "Stream(memory='2GB', chunk_rows=5)"
    with pytest.raises(ValueError, match="chunk_rows must be at least 1"):
        Stream(chunk_rows=0)
    with pytest.raises(ValueError, match="local must be"):
        Stream(local="gpu").load(ca.Ensemble([[0], [1]]))
