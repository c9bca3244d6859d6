"""Using the native engine: choices, limits, Ctrl-C, fork, several Python threads, and life without kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import coassoc as ca
from benchmarks.measure import anonymous_bytes
from coassoc import engines
from coassoc.engines import native as _native
from coassoc.ensemble import Ensemble
from twins.cases import make_ensemble, needs_kernels


def make_rows(engine, n=20_000, seed=0):
    codes = np.random.default_rng(seed).integers(30, size=(n, 10)).astype(np.uint8)
    return engine.load(Ensemble.from_codes(codes, np.full(10, 30)))


def run_python(code, **environment):
    """A fresh interpreter that sees the same coassoc."""
    paths = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


WITHOUT_KERNELS = "import sys; sys.modules['coassoc._kernels'] = None\n"


# -- choices -----------------------------------------------------------------------------------------------


@needs_kernels
def test_environment_chooses_the_instruction_set(monkeypatch):
    for level in _native.simd_levels():
        monkeypatch.setenv("COASSOC_SIMD", level)
        assert _native.simd_level() == level
        assert make_rows(engines.Native(), 100).settings["simd"] == level
    assert make_rows(engines.Native(simd="baseline"), 100).settings["simd"] == "baseline"
    monkeypatch.setenv("COASSOC_SIMD", "mmx")
    with pytest.raises(ValueError, match=r"COASSOC_SIMD must be one of .* got 'mmx'"):
        engines.Native()


@needs_kernels
def test_bad_arguments_are_named(monkeypatch):
    for arguments, words in (
        ({"n_threads": 0}, "n_threads must be at least 1, got 0"),
        ({"n_threads": 1.5}, "n_threads must be an integer, got 1.5"),
        ({"chunk_rows": -3}, "chunk_rows must be at least 1, got -3"),
        ({"simd": "sse9"}, "simd must be one of .*'baseline'.* got 'sse9'"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            engines.Native(**arguments)
    levels = [("baseline", True, True), ("avx2", True, False), ("avx512", False, True)]
    monkeypatch.setattr(_native, "_kernels", SimpleNamespace(levels=lambda: levels))
    for simd in ("avx2", "avx512"):
        with pytest.raises(ValueError, match=r"one of \['baseline'\], which this build and this CPU have"):
            _native.simd_level(simd)


def test_threads_respect_omp_num_threads(monkeypatch):
    """Affinity and the limits of containers are joblib's part."""
    monkeypatch.setattr("joblib.cpu_count", lambda: 6)
    for asked, threads in (("", 6), ("4,2", 4), ("64", 6), ("0", 6), ("many", 6)):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert _native.default_threads() == threads


@needs_kernels
def test_kernels_refuse_what_does_not_fit():
    rows = make_rows(engines.Native(n_threads=2, blocked_copy=False), 100)
    assert repr(engines.Native()) == "Native()"
    assert repr(engines.Native(n_threads=2, blocked_copy=False)) == "Native(n_threads=2, blocked_copy=False)"
    labelling, ids = rows.labelling(3), np.arange(100, dtype=np.uint32)
    start, ones = engines.Start(rows, np.random.default_rng(0)), np.ones(10)
    for words, call in (
        ("shape", lambda: rows.core.assign(labelling.core, np.zeros((10, 3), np.int32), 0)),
        ("labelled", lambda: rows.counts(labelling)),
        ("the rows must be labelled first", lambda: rows.split(labelling)),
        ("weights", lambda: rows.seeding(np.ones(3, np.int64))),
        ("do not fit", lambda: engines.Native().kmeans_fits([start], 2, 2, ones[:3], ones, 5)),
        ("do not fit", lambda: engines.Native().kmeans_fits([start], 2, 0, ones, ones, 5)),
        ("targets", lambda: rows.seeding(np.ones(10, np.int64)).locate(np.array([100]))),
        ("not there", lambda: _native._kernels.scatter([ids, ids + 1], np.empty(100, np.int32), 3)),
        ("not there", lambda: _native._kernels.scatter([ids, ~ids], np.empty(100, np.int32), 3)),
    ):
        with pytest.raises(ValueError, match=words):
            call()


# -- without kernels ---------------------------------------------------------------------------------------


def test_without_kernels_auto_warns_once_falls_back_and_the_rest_says_so():
    code = WITHOUT_KERNELS + (
        "import warnings\n"
        "from coassoc import engines\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    print(engines.resolve('auto').name, engines.resolve('auto').name)\n"
        "print(len(seen), seen[0].category.__name__, 'NumPy' in str(seen[0].message))\n"
        "try:\n    engines.resolve('native')\n"
        "except ImportError as error:\n    print('compiled kernels' in str(error))\n"
    )
    result = run_python(code, COASSOC_REQUIRE_NATIVE="0")
    assert result.stdout.split() == ["numpy", "numpy", "1", "SlowPathWarning", "True", "True"], result.stderr
    result = run_python(
        WITHOUT_KERNELS + "from coassoc import engines; engines.resolve('auto')", COASSOC_REQUIRE_NATIVE="1"
    )
    assert result.returncode != 0 and "COASSOC_REQUIRE_NATIVE is set" in result.stderr
    result = run_python(WITHOUT_KERNELS + "import coassoc; coassoc.show_config()")
    assert "missing: " in result.stdout and "engine: numpy" in result.stdout, result.stderr


# -- Ctrl-C, fork, threads ---------------------------------------------------------------------------------

ENDLESS = """
import os
import numpy as np
import coassoc as ca
from coassoc.core.counts import ScoreTable
from coassoc.engines import Native, Start
codes = np.random.default_rng(0).integers(30, size=(400_000, 10)).astype(np.uint8)
ensemble = ca.Ensemble.from_codes(codes[:50_000], np.full(10, 30))
engine = Native({arguments})
rows = engine.load(ca.Ensemble.from_codes(codes, np.full(10, 30)))
# tables that settle nothing: every row is evaluated in every pass
scores = np.random.default_rng(1).integers(-1000, 1000, size=(2, 300, 500)).astype(np.int32)
tables = [ScoreTable(values, 0) for values in scores]
def passes(_):
    labelling = rows.labelling(500)  # one of its own: passes of two threads on the same one would race
    while True:
        for table in tables:
            rows.assign(labelling, table)
def starts(rows, n, *sizes):
    many = [Start(rows, np.random.default_rng(seed)) for seed in range(n)]
    engine.kmeans_fits(many, *sizes[:2], np.ones(10, int), np.ones(10), sizes[2])
starts(engine.load(ensemble), 1, 2, 2, 2)
os.write(1, b"ready\\n")
{call}
"""
# thousands of rounds of seeding, each far shorter than the time between two looks for a signal
LONG_SEEDING = "starts(rows, 60, 20_000, 9, 1)"


@needs_kernels
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("passes(0)", "n_threads=2, simd='baseline'"),
        ("engine.side_by_side(passes, [0, 1])", "n_threads=2"),
        ("starts(engine.load(ensemble), 3000, 400, 5, 100)", "n_threads=3"),
        (LONG_SEEDING, "n_threads=1"),
    ],
)
def test_ctrl_c_stops_work_of_hours(call, arguments):
    child = subprocess.Popen(
        [sys.executable, "-c", ENDLESS.format(arguments=arguments, call=call)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = child.stdout.readline()
        if said == "ready\n":
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
        else:  # killed first: an endless child would never close its stderr
            child.kill()
        assert "KeyboardInterrupt" in child.communicate(timeout=240)[1]
    finally:
        child.kill()


@needs_kernels
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_in_the_middle_of_fits_of_other_threads():
    """Compiled work holds no GIL, so a fork finds it anywhere; the child's fits must neither hang nor differ."""
    codes = np.random.default_rng(0).integers(9, size=(140_000, 4)).astype(np.uint8)
    ensemble, engine, ones = Ensemble.from_codes(codes, np.full(4, 9)), engines.Native(n_threads=2), np.ones(4, int)
    truth = fit_labels(20_000, 3, engines.Numpy())
    over = threading.Event()

    def busy(seed):
        rows = engine.load(ensemble)
        while not over.is_set():
            engine.kmeans_fits([engines.Start(rows, np.random.default_rng(seed))], 3, 3, ones, np.ones(4), 2)

    workers = [threading.Thread(target=busy, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(2):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if fit_labels(20_000, 3, engine) == truth else 1)
                except BaseException:
                    os._exit(2)
            try:
                status = os.waitpid(child, 0)[1]
            except BaseException:  # a child that hangs is found by the time limit of every test
                os.kill(child, signal.SIGKILL)
                raise
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        over.set()
        for worker in workers:
            worker.join()


def fit_labels(n, seed, engine):
    codes = np.random.default_rng(seed).integers(12, size=(n, 8)).astype(np.uint8)
    ensemble = Ensemble.from_codes(codes, np.full(8, 12))
    flat = ca.KMeansConsensus(5, n_init=2, max_iter=4, random_state=seed, engine=engine).fit(ensemble)
    tree = ca.BisectingConsensus(max_leaves=3, max_iter=4, random_state=seed, engine=engine).fit(ensemble)
    return flat.labels_.tolist(), tree.cut(3).tolist()


@needs_kernels
def test_memory_does_not_grow():
    if anonymous_bytes() is None:
        pytest.skip("this system does not say what memory a process holds")
    engine, sizes = engines.Native(n_threads=2), np.random.default_rng(0).integers(100, 90_000, size=12).tolist()
    for n in (90_000, 100, 80_000):
        fit_labels(n, n, engine)
    start = anonymous_bytes()
    for seed, n in enumerate(sizes):
        fit_labels(n, seed, engine)
    assert anonymous_bytes() - start < 40_000_000, "24 fits of up to 90 000 rows"


# -- tasks side by side -----------------------------------------------------------------------------------


def counts_of(rows, seed):
    return rows.counts(rows.labelling(4, np.random.default_rng(seed).integers(4, size=rows.n_rows))).alpha.tolist()


@pytest.fixture
def some_rows():
    return engines.Native(n_threads=3).load(make_ensemble(np.random.default_rng(0), 3000, 8, 9, noise=0.7))


@needs_kernels
def test_tasks_give_results_in_order_and_the_first_error(some_rows):
    engine = engines.Native(n_threads=3)
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


@needs_kernels
def test_tasks_run_at_the_same_time_and_those_within_a_task_in_its_own_thread():
    engine, other = engines.Native(n_threads=3), engines.Native(n_threads=2)
    meeting = threading.Barrier(3, timeout=30)

    def outer(_):
        meeting.wait()
        inner = [e.side_by_side(lambda x: (x, threading.get_ident()), range(4)) for e in (engine, other)]
        return threading.get_ident(), inner

    results = engine.side_by_side(outer, range(3))
    assert len({threading.get_ident(), *(ident for ident, _ in results)}) == 4
    for ident, inner in results:
        assert inner == [[(x, ident) for x in range(4)]] * 2


@needs_kernels
def test_an_interrupt_in_a_task_cancels_those_that_wait():
    started = []

    def task(name):
        started.append(name)
        if name == 0:
            raise KeyboardInterrupt
        time.sleep(0.2)  # so that whatever still starts is seen

    with pytest.raises(KeyboardInterrupt):
        engines.Native(n_threads=2).side_by_side(task, range(12))
    assert len(started) < 12


# -- show_config -------------------------------------------------------------------------------------------


def test_show_config_prints_what_it_returns(capsys):
    config = ca.show_config(as_dict=True)
    assert ca.show_config() is None
    printed = capsys.readouterr().out
    for value in (config["coassoc"], config["engine"], config["versions"]["numpy"], str(config["n_threads"])):
        assert value in printed
    assert config["engine"] == engines.resolve("auto").name
    if config["engine"] == "native":
        assert config["simd"] == _native.simd_level() and config["simd"] in config["simd_available"]
