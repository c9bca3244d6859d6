"""What the tests of files share."""

from __future__ import annotations

import pytest

from coassoc.ensemble.io import formats, writing


@pytest.fixture
def here(monkeypatch):
    """Binary files are read in this process: the child reads the same (test_guard.py), but takes long to start."""
    monkeypatch.setattr(formats, "GuardedTable", formats.open_here)

    def append(found, files, target, columns, force, options):
        found.append(files, target, columns, options, force)

    monkeypatch.setattr(writing, "append_guarded", append)
