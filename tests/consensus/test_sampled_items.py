"""Samples and micro-clusters in place of items: the same labels on every engine, and close to those of all items."""

import json
import os
import subprocess
import sys
import tracemalloc
from importlib.util import find_spec

import numpy as np
import pytest

import coassoc as ca
from coassoc.consensus import eac, metis, micro, registry, search, spectral
from fuzz.engine_cases import difference


def reduce_early(monkeypatch):
    """Samples and micro-clusters of sizes that take no time."""
    for module, name, value in (
        (micro, "SAMPLED_ABOVE", 60), (micro, "SAMPLE_ITEMS", 50), (search, "_SAMPLE_ITEMS", 50),
        (search, "_SAMPLE_PER_CLUSTER", 8), (ca.AgreementConsensus, "_sampled_above", 60),
        (ca.DensityConsensus, "_sampled_above", 60), (spectral, "MOST_LABELS", 500),
        (spectral, "START_ROWS", 40), (spectral, "MOST_CODES", 30),
        (eac, "MANY_MICRO_CLUSTERS", 25), (metis, "MANY_MICRO_CLUSTERS", 25),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("cases", [8, pytest.param(1500, marks=pytest.mark.slow)])
def test_random_cases_that_are_reduced_early_agree_on_all_engines(cases, monkeypatch):
    reduce_early(monkeypatch)
    assert [one for i in range(cases) if (one := difference(3, i)) is not None] == []


# bytes that each further item takes beyond its codes, the copies of the compiled engine left out: see
# benchmarks/notes/scale.md. Up to 20,000 items, `auto` copies the codes to compare the clusterings, and their sample to
# refit.
BYTES_PER_ITEM = {
    "hbgf": 4, "lwgp": 4, "ecpcs": 4, "agreement": 4, "mcla": 4, "density": 6, "kmeans": 6, "sec": 6, "ecc": 6,
    "auto": 24, "lwea": 10, "eac": 10, "bisecting": 16, "cspa": 16,
}  # fmt: skip


def test_memory_of_every_method_is_known():
    assert set(BYTES_PER_ITEM) == {name for name, method in registry.METHODS.items() if method.takes == "labels"}


@pytest.fixture(scope="module")
def bytes_per_item():
    """Measured in a process of its own: memory is traced for all threads, also those that earlier tests left behind."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-W", "ignore", __file__], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", BYTES_PER_ITEM)
def test_memory_grows_by_a_few_bytes_for_each_item(name, bytes_per_item):
    """Nothing of size items × clusters is made, let alone items × items."""
    pytest.importorskip("coassoc._kernels")
    if name in ("mcla", "cspa"):
        pytest.importorskip("pymetis")
    assert bytes_per_item[name] < BYTES_PER_ITEM[name]


def measure(name):
    """Traced bytes that each further item takes in a fit, from 4,000 to 16,000 items."""
    settings = {"density": {"max_rounds": 1}, "agreement": {"max_rounds": 1}, "eac": {"max_bytes": 0},
                "cspa": {"max_bytes": 0}}  # fmt: skip
    engine = ca.engines.Native(n_threads=1)  # how many starts are alive at once depends on threads
    model = registry.make_method(name, n_clusters=5, random_state=0, engine=engine, **settings.get(name, {}))
    peaks = []
    for n in (500, 4000, 16_000):
        rng = np.random.default_rng(0)
        table = np.where(rng.random((n, 8)) < 0.5, rng.integers(0, 12, size=(n, 8)), rng.integers(0, 5, size=(n, 1)))
        ensemble = ca.Ensemble(table.astype(np.uint8))
        tracemalloc.start()
        model.fit(ensemble)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[2] - peaks[1]) / 12_000


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patched:
        reduce_early(patched)
        patched.setattr(micro, "SAMPLED_ABOVE", 3000)
        patched.setattr(micro, "SAMPLE_ITEMS", 2000)
        left_out = () if find_spec("pymetis") else ("mcla", "cspa")
        kernels = find_spec("coassoc._kernels") is not None
        print(json.dumps({name: measure(name) for name in BYTES_PER_ITEM if kernels and name not in left_out}))
