"""Every public name is documented. The page of commands is generated: test_pages.py."""

import re
from pathlib import Path

import pytest

import coassoc

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", [name for name in coassoc.__all__ if name not in ("__version__", "engines")])
def test_public_names_are_in_the_reference_and_have_a_docstring(name):
    assert re.search(rf"^\s+{re.escape(name)}$", (DOCS / "api.md").read_text(), re.M), f"{name} is not in docs/api.md"
    assert (getattr(coassoc, name).__doc__ or "").strip()
