"""Tasks side by side on the native engine: order, errors, Ctrl-C, nesting, fork."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from by_hand import make_ensemble
from coassoc.core.counts import ScoreTable
from coassoc.engines import native as _native

pytestmark = pytest.mark.skipif(_native._kernels is None, reason="the kernels are not compiled")


def counts_of(rows, seed):
    return rows.counts(rows.labelling(4, np.random.default_rng(seed).integers(4, size=rows.n_rows))).alpha.tolist()


@pytest.fixture
def some_rows():
    return _native.Native(n_threads=3).load(make_ensemble(np.random.default_rng(0), 3000, 8, 9, noise=0.7))


def test_tasks_give_results_in_order_and_the_first_error(some_rows):
    engine = _native.Native(n_threads=3)
    truth = [counts_of(some_rows, seed) for seed in range(12)]
    for n in (0, 1, 2, 12):
        assert engine.side_by_side(lambda seed: counts_of(some_rows, seed), range(n)) == truth[:n]

    def slow_to_fast(task):
        time.sleep(0.02 * (3 - task))
        if task > 0:
            raise KeyError(task)
        return task

    with pytest.raises(KeyError, match="1"):
        engine.side_by_side(slow_to_fast, [0, 1, 2])
    assert engine.side_by_side(lambda seed: counts_of(some_rows, seed), range(3)) == truth[:3]  # nothing is left over


def test_tasks_really_run_at_the_same_time():
    engine = _native.Native(n_threads=3)
    meeting = threading.Barrier(3, timeout=30)

    def meet(_):
        meeting.wait()
        return threading.get_ident()

    first = set(engine.side_by_side(meet, range(3)))
    assert len(first) == 3 and threading.get_ident() not in first


def test_tasks_within_a_task_run_in_its_own_thread():
    engine, other = _native.Native(n_threads=2), _native.Native(n_threads=3)

    def outer(task):
        inner = [e.side_by_side(lambda x: (x, threading.get_ident()), range(4)) for e in (engine, other)]
        return threading.get_ident(), inner

    for ident, inner in engine.side_by_side(outer, range(5)):
        assert ident != threading.get_ident()
        assert inner == [[(x, ident) for x in range(4)]] * 2


def work_until_stopped(rows, running, ends):
    """Passes for a minute, unless they are stopped; tells when they have begun, and how they end."""
    labelling, deadline = rows.labelling(4), time.monotonic() + 60
    tables = [ScoreTable(np.full((rows.layout.n_codes, 4), x, np.int32), 0) for x in (0, 1)]
    try:
        while time.monotonic() < deadline:
            for table in tables:
                rows.assign(labelling, table)
            running.set()
        ends.append("never stopped")
    except BaseException as error:
        ends.append(type(error).__name__)
        raise


def test_an_interrupt_cancels_what_runs_and_what_waits(some_rows):
    engine = _native.Native(n_threads=2)
    running, ends, started = threading.Event(), [], []

    def task(name):
        started.append(name)
        if name == 0:
            running.wait(30)
            raise KeyboardInterrupt
        if name == 1:
            work_until_stopped(some_rows, running, ends)
        time.sleep(0.2)  # so that whatever still starts is seen

    with pytest.raises(KeyboardInterrupt):
        engine.side_by_side(task, range(12))
    assert ends == ["Stopped"]
    assert set(started) < set(range(12))
    truth = [counts_of(some_rows, seed) for seed in range(4)]
    assert engine.side_by_side(lambda seed: counts_of(some_rows, seed), range(4)) == truth
