"""What is particular to streaming: states of chunks, memory, temporary files."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import coassoc as ca
from benchmarks.measure import PeakMemory
from coassoc.core.objectives import fix_table
from coassoc.engines import Stream
from coassoc.engines.memory import Budget, file_array, parse_size
from twins.cases import noisy_table


def test_a_call_may_be_repeated_or_come_late():
    """A cluster may run a task twice, or an older one again: the state found then is not the one the call means."""
    rng = np.random.default_rng(4)
    ensemble = ca.Ensemble(noisy_table(4, 200, missing=0.2))
    rows = Stream("1GB", chunk_rows=1000).load(ensemble)
    chunk, layout = rows.parts[0], rows.layout
    tables = [fix_table(rng.normal(size=(ensemble.n_codes, 3)), layout) for _ in range(3)]
    calls = [("a", 3, ("", None, None), "v0", tables[0])]
    calls += [("a", 3, (f"v{i}", tables[i], None), f"v{i + 1}", tables[i + 1]) for i in range(2)]
    first = [chunk.counts(*call) for call in calls]
    for i in (2, 1, 1, 0, 2):
        again = chunk.counts(*calls[i])
        assert again[0] == first[i][0] and (again[1] == first[i][1]).all() and (again[2] == first[i][2]).all()
    weights, chosen = np.ones(5, np.int64), ensemble.codes[[3, 50, 120]]
    asked = [("s", weights, chosen[:m], ensemble.codes[[7, 9]]) for m in (1, 2, 3)]
    asked.append(("s", weights, chosen[[2, 1]], ensemble.codes[[7, 9]]))
    totals = [chunk.potentials(*call).tolist() for call in asked]
    for i in (1, 3, 2, 0):
        assert chunk.potentials(*asked[i]).tolist() == totals[i]


def test_states_go_with_their_labelling():
    rows = Stream("1GB", chunk_rows=50).load(ca.Ensemble(noisy_table(0, 200)))
    labelling = rows.labelling(1, np.zeros(200, np.int32))
    rows.counts(labelling)
    assert all(part.states for part in rows.parts)
    del labelling
    assert not any(part.states for part in rows.parts)


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
    n = 1_500_000
    rng = np.random.default_rng(0)
    codes = file_array((n, 4), np.uint8)
    for start in range(0, n, 500_000):
        codes[start : start + 500_000] = rng.integers(5, size=(500_000, 4), dtype=np.uint8)
    ensemble = ca.Ensemble(codes)
    estimator = ca.KMeansConsensus(3, n_init=1, max_iter=3, random_state=0)
    pytest.importorskip("coassoc._kernels")
    clone(estimator).set_params(engine=Stream("4MB", chunk_rows=65536)).fit(ensemble)  # what is loaded once
    for memory in ("4MB", "10MB", "25MB"):
        with PeakMemory() as used:
            clone(estimator).set_params(engine=Stream(memory, chunk_rows=65536)).fit(ensemble)
        if used.peak is None:
            pytest.skip("this system does not say what memory a process holds")
        assert used.peak - used.start < parse_size(memory) + 4_000_000


def test_settings_are_shown_and_checked():
    assert repr(Stream("2GB", chunk_rows=5)) == "Stream(memory='2GB', chunk_rows=5)"
    with pytest.raises(ValueError, match="local must be"):
        Stream(local="gpu").load(ca.Ensemble([[0], [1]]))
