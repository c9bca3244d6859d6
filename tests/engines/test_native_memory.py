"""Memory of the native engine: buffers that are kept for the next, in threads, after a fork, over many fits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import coassoc as ca
from coassoc.engines import Native, Numpy, Start
from coassoc.engines.native import engine as _native
from coassoc.ensemble import Ensemble
from forked import exit_code

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")

SIZES = [
    0,
    1,
    64,
    100_000,
    131_071,
    131_072,
    131_073,
    500_000,
    2**20,
    2**21 - 1,
    2**21,
    2**21 + 1,
    3 * 2**20,
    5 * 2**20,
]


def juggle(seed, turns=150):
    """Buffers come and go; none may share a byte with another that is in use."""
    rng = np.random.default_rng(seed)
    held: list[tuple[int, np.ndarray]] = []
    for turn in range(turns):
        if len(held) > 8 or (held and rng.random() < 0.45):
            mark, buffer = held.pop(int(rng.integers(len(held))))
            assert (buffer == mark).all()
        size, mark = int(rng.choice(SIZES)), (turn + 7 * seed) % 251
        buffer = _native._kernels.memory(size)
        assert buffer.shape == (size,) and buffer.ctypes.data % 64 == 0
        buffer[:] = mark
        held.append((mark, buffer))
    assert all((buffer == mark).all() for mark, buffer in held)


def together(functions):
    """All at once, each in a thread; raises what one of them raised."""
    errors = []

    def call(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=call, args=(function,)) for function in functions]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def test_kept_buffers_are_never_shared():
    juggle(0)
    together([lambda s=s: juggle(s, 60) for s in range(1, 5)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_in_the_middle_of_fits_of_other_threads():
    """Compiled work holds no GIL, so a fork finds it anywhere; the child's fits must neither hang nor differ."""
    codes = np.random.default_rng(0).integers(9, size=(140_000, 4)).astype(np.uint8)
    ensemble, engine, ones = Ensemble.from_codes(codes, np.full(4, 9)), Native(n_threads=2), np.ones(4, int)
    truth = fit_labels(20_000, 3, Numpy())
    over = threading.Event()

    def busy(seed):
        rows = engine.load(ensemble)
        while not over.is_set():
            engine.kmeans_fits([Start(rows, np.random.default_rng(seed))], 3, 3, ones, np.ones(4), 2)

    workers = [threading.Thread(target=busy, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()
    try:
        for seed in range(8):
            child = os.fork()
            if child == 0:
                try:
                    juggle(seed, 10)
                    os._exit(0 if fit_labels(20_000, 3, engine) == truth else 1)
                except BaseException:
                    os._exit(2)
            assert exit_code(child, 20) == 0
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


FITS = [(n, seed) for seed, n in enumerate([300, 40_000, 5000, 70_000, 20_000])]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fits_in_a_row_in_threads_and_after_a_fork():
    truth = [fit_labels(n, seed, Numpy()) for n, seed in FITS]
    engine = Native(n_threads=2)

    def all_right(order):
        for at in order:
            assert fit_labels(*FITS[at], engine) == truth[at]

    all_right([0, 1, 2, 3, 4, 3, 2, 1])
    together([lambda s=s: all_right([s, (s + 1) % 5, (s + 3) % 5]) for s in range(4)])
    child = os.fork()
    if child == 0:
        try:
            juggle(9, 50)
            all_right([4, 1, 0])
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert exit_code(child) == 0
    all_right([2, 4])


MEMORY = """
import numpy as np
import coassoc as ca
from coassoc import _kernels

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // 2**20

def fit(n, seed):
    rng = np.random.default_rng(seed)
    ensemble = ca.Ensemble.from_codes(rng.integers(9, size=(n, 6)).astype(np.uint8), np.full(6, 9))
    engine = ca.engines.Native(n_threads=2)
    if seed % 3:
        ca.KMeansConsensus(int(2 + seed % 7), n_init=2, max_iter=3, engine=engine).fit(ensemble)
    else:
        ca.BisectingConsensus(max_leaves=4, max_iter=3, engine=engine).fit(ensemble)

sizes = np.random.default_rng(0).integers(100, 90_000, size=200)
for n in (90_000, 100, 80_000):
    fit(n, n)
start = resident()
for seed, n in enumerate(sizes):
    fit(int(n), seed)
print(resident() - start)
start = resident()
held = [_kernels.memory(2**20 + 4096 * i) for i in range(100)]
for buffer in held:
    buffer[:] = 1
print(resident() - start)
del held, buffer
print(resident() - start)
large = _kernels.memory(2**28)
large[:] = 1
del large
print(resident() - start)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc here")
def test_memory_does_not_grow_and_is_given_back():
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    grown, held, freed, after_large = (int(line) for line in done.stdout.split())
    assert grown < 40, "over 200 fits of up to 90 000 rows; kept buffers are 16 MB at most"
    assert held >= 100
    assert freed < 24 and after_large < 24
