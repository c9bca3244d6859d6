"""How much memory reading takes: the estimate, and the limit that users can raise."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import coassoc as ca
from coassoc.ensemble.io.limits import COLUMN_BYTES, FREE_BYTES, Limit, table_bytes

pytest.importorskip("resource")

READ = """
import resource, sys
import numpy, coassoc, pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
coassoc.read_ensemble(sys.argv[1], columns="*")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_what_reading_takes_stays_below_the_estimate(tmp_path):
    """The estimate covers the largest cases: many columns, and many rows of one column."""
    rng = np.random.default_rng(0)
    pytest.importorskip("pyarrow")
    shapes = {"rows": (1_500_000, 1), "square": (30_000, 200), "columns": (3, 20_000)}
    for name, shape in shapes.items():
        path = tmp_path / f"{name}.npz"
        np.savez_compressed(path, labels=rng.integers(0, 20, size=shape).astype(np.int16).astype(str))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", READ, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
        assert int(done.stdout) < 2 * (table_bytes(*shape) + 12 * shape[0] * shape[1]) + (1 << 25), name


def test_the_limit_is_named_and_can_be_raised(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.zeros((100, 3), np.uint8))
    needed = table_bytes(100, 3)
    with pytest.raises(ValueError, match=f"t.npy declares 100 rows of 3 columns.*pass max_bytes={needed} "):
        ca.read_ensemble(path, max_bytes=1000)
    with pytest.raises(ValueError, match="max_bytes="):
        ca.ensemble.StoredEnsemble(path, max_bytes=needed - 1)
    assert ca.read_ensemble(path, max_bytes=needed).n_samples == 100
    assert ca.ensemble.StoredEnsemble(path, max_bytes=needed).n_samples == 100
    assert Limit.of([path], None).allowed == FREE_BYTES
    assert table_bytes(0, 1) == COLUMN_BYTES
