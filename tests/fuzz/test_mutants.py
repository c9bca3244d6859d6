"""Mutated files of every format: read, or refused with one clear error, within time and memory."""

from __future__ import annotations

import os

import pytest

from fuzz.runner import TARGETS, violations

pytest.importorskip("pyarrow")
pytest.importorskip("h5py")
pytest.importorskip("openpyxl")
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="limits are set by Linux's means")

# mutants in the ordinary run, and the share of COASSOC_FUZZ_CASES in the slow one
CASES = {
    "csv": (300, 0.17),
    "tsv": (100, 0.15),
    "parquet": (60, 0.2),
    "npy": (200, 0.17),
    "npz": (60, 0.16),
    "h5ad": (50, 0.04),
    "mat": (25, 0.01),
    "arrow": (40, 0.01),
    "xlsx": (25, 0.01),
    "model": (100, 0.02),
    "npy-stored": (40, 0.03),
    "parquet-stored": (20, 0.03),
}


@pytest.mark.parametrize("target", TARGETS)
def test_every_mutant_is_read_or_refused(target):
    assert not violations(target, cases=CASES[target][0])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_one_of_a_million_mutants_is_read_or_refused(target):
    total, seed = int(os.environ.get("COASSOC_FUZZ_CASES", 1_000_000)), int(os.environ.get("COASSOC_FUZZ_SEED", 1))
    assert not violations(target, cases=int(total * CASES[target][1]), seed=seed)
