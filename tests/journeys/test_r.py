"""docs/from-r.md as an R user runs it: every block of the page in one session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "from-r.md"
PROBE = """
found <- requireNamespace("reticulate") && requireNamespace("ConsensusClusterPlus") &&
  is.numeric(reticulate::py_eval("__import__('numpy').arange(3)"))
q(status = !found)
"""


def rscript(code: str, folder: Path) -> subprocess.CompletedProcess:
    python = os.environ.get("RETICULATE_PYTHON", sys.executable)
    env = {**os.environ, "RETICULATE_PYTHON": python, "PYTHONPATH": os.pathsep.join(p for p in sys.path if "src" in p)}
    return subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, env=env, cwd=folder)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_the_page_runs(tmp_path):  # R leaves Rplots.pdf where it runs
    if rscript(PROBE, tmp_path).returncode:
        pytest.skip("R lacks ConsensusClusterPlus, or a reticulate that understands the NumPy of RETICULATE_PYTHON")
    blocks = re.findall(r"^```r\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    done = rscript("\n".join(blocks), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "partitions agree beyond chance" in done.stdout and "flower" in done.stdout
    assert float(re.search(r"agreement \(NMI\): ([0-9.]+)", done.stdout)[1]) > 0.8
