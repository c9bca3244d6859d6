"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import coassoc

MODULES = [found.name for found in pkgutil.walk_packages(coassoc.__path__, "coassoc.")]


@pytest.mark.parametrize("name", sorted(name for name in MODULES if not name.endswith("__main__")))
def test_docstring_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples failed"
