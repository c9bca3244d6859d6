"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import coassoc

_OPTIONAL = ("_cuda",)  # modules that need a device to import


def _modules():
    for found in pkgutil.walk_packages(coassoc.__path__, "coassoc."):
        name = found.name.rsplit(".", 1)[-1]
        if name not in _OPTIONAL and not name.endswith("_worker") and name != "__main__":
            yield found.name


@pytest.mark.parametrize("name", sorted(_modules()))
def test_docstring_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples failed"
