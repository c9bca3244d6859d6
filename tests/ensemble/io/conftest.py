"""What the tests of files share."""

from __future__ import annotations

import pytest

import coassoc as ca
from coassoc.ensemble import StoredEnsemble
from coassoc.ensemble.io import guard, writing


@pytest.fixture(autouse=True)
def here(request, monkeypatch):
    """Binary files are read in this process: the child reads the same (test_guard.py), but takes long to start."""
    if request.module.__name__.endswith(("test_guard", "test_formats")):
        return
    monkeypatch.setattr(guard, "GuardedTable", guard.open_here)
    monkeypatch.setattr(writing, "append_guarded", lambda found, *how: found.append(*how))


@pytest.fixture(params=["in memory", "in blocks"])
def read(request, tmp_path):
    """Reads a text, in memory or in blocks."""
    pytest.importorskip("pyarrow")

    def read_text(content, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return StoredEnsemble(path, **options) if request.param == "in blocks" else ca.read_ensemble(path, **options)

    return read_text
