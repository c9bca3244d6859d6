"""Shared by all tests: the `engine` fixture and the hypothesis profiles."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A suite started in the background of a shell has Ctrl-C ignored, and so would every process it starts: the tests that
# press it need it back.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config):
    # without compiled kernels engine="auto" says so once; that is no failure of what is tested
    config.addinivalue_line("filterwarnings", "ignore:coassoc runs on plain NumPy")


def pytest_collection_modifyitems(config, items):
    # a test that waits for ever must fail, not hold up the suite; the slow ones have work for hours
    if config.pluginmanager.hasplugin("timeout"):
        for item in items:
            if item.get_closest_marker("slow") is None:
                item.add_marker(pytest.mark.timeout(300))


# name -> (class, arguments); every one must give the same labels
ENGINES = {
    "numpy": ("Numpy", {"chunk_rows": 13}),
    "native": ("Native", {}),  # with the best instruction set here
    "native-baseline-rows7": ("Native", {"n_threads": 3, "chunk_rows": 7, "simd": "baseline"}),
    "native-avx2-no-copy": ("Native", {"n_threads": 2, "chunk_rows": 64, "blocked_copy": False, "simd": "avx2"}),
    "stream": ("Stream", {"memory": "1GB"}),
    "stream-files": ("Stream", {"memory": "1B"}),  # labels and subsets in files
    "dask": ("Dask", {"chunk_rows": 110}),
    "cuda-twin": ("Twin", {}),
    "cuda": ("Cuda", {}),
    "toy": ("Toy", {}),
}
LOCAL = [name for name in ENGINES if name not in ("dask", "cuda")]


def make_engine(name: str, client=None):
    """The engine of that name; skips when it cannot run here, unless COASSOC_REQUIRE_NATIVE=1 forbids that."""
    from coassoc import engines
    from coassoc.engines import native as _native
    from coassoc.engines.cuda.device import has_device

    kind, arguments = ENGINES[name]
    if kind in ("Twin", "Toy"):
        from twins.fixtures import Twin
        from twins.toy import Toy

        return Twin(**arguments) if kind == "Twin" else Toy()
    if kind == "Dask":
        return engines.Dask(client, **arguments)
    if kind == "Cuda" and not has_device():
        pytest.skip("no CUDA device, or no CuPy")
    if kind == "Native" and _native._kernels is None:
        reason = "the compiled kernels are not installed (build the package with a C++ compiler)"
        if os.environ.get("COASSOC_REQUIRE_NATIVE") == "1":
            pytest.fail(f"COASSOC_REQUIRE_NATIVE=1, but {reason}")
        pytest.skip(reason)
    simd = arguments.get("simd")
    if simd is not None and simd not in _native.simd_levels():
        pytest.skip(f"this CPU or build has no {simd} kernels")
    engine = getattr(engines, kind)(**arguments)
    if kind == "Cuda":
        engine.skip = True  # so that the bounds are tested on few rows, too
    return engine


@pytest.fixture(scope="session")
def dask_client():
    """A cluster of two threads in this process, for all tests of the session that ask for one."""
    distributed = pytest.importorskip("distributed")
    settings = {"processes": False, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}  # any free port
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.gpu if name == "cuda" else ()) for name in ENGINES])
def engine(request):
    """Every engine in several settings; results must not depend on which."""
    client = request.getfixturevalue("dask_client") if request.param == "dask" else None
    if request.param == "stream-files":  # let even small arrays go to files
        request.getfixturevalue("monkeypatch").setattr("coassoc.engines.stream._SMALL", 0)
    return make_engine(request.param, client)


@pytest.fixture
def all_engines():
    """Name -> engine, all that work in this process; for tests with too many fits for a cluster."""
    found = {}
    for name in LOCAL:
        try:
            found[name] = make_engine(name)
        except pytest.skip.Exception:
            continue
    return found
