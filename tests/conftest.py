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
    "numpy": ("Numpy", {}),
    "numpy-rows13": ("Numpy", {"chunk_rows": 13}),
    "native": ("Native", {}),
    "native-threads1": ("Native", {"n_threads": 1}),
    "native-threads3-rows7": ("Native", {"n_threads": 3, "chunk_rows": 7}),
    "native-no-copy": ("Native", {"n_threads": 2, "chunk_rows": 64, "blocked_copy": False}),
    "native-baseline": ("Native", {"n_threads": 2, "simd": "baseline"}),
    "native-avx2": ("Native", {"n_threads": 2, "simd": "avx2"}),
    "native-avx512": ("Native", {"n_threads": 2, "simd": "avx512"}),
}


def make_engine(name: str):
    """The engine of that name; skips when it cannot run here, unless COASSOC_REQUIRE_NATIVE=1 forbids that."""
    from coassoc import engines

    kind, arguments = ENGINES[name]
    if kind == "Numpy":
        return engines.Numpy(**arguments)
    from coassoc.engines.native import engine as _native

    if _native.native_or_none() is None:
        reason = "the compiled kernels are not installed (build the package with a C++ compiler)"
        if os.environ.get("COASSOC_REQUIRE_NATIVE") == "1":
            pytest.fail(f"COASSOC_REQUIRE_NATIVE=1, but {reason}")
        pytest.skip(reason)
    simd = arguments.get("simd")
    if simd is not None and simd not in _native.simd_levels():
        pytest.skip(f"this CPU or build has no {simd} kernels")
    return engines.Native(**arguments)


@pytest.fixture(params=list(ENGINES))
def engine(request):
    """Every engine in several settings; results must not depend on which."""
    return make_engine(request.param)


@pytest.fixture
def all_engines():
    """Name -> engine, all that can run here."""
    found = {}
    for name in ENGINES:
        try:
            found[name] = make_engine(name)
        except pytest.skip.Exception:
            continue
    return found
