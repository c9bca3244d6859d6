"""Importing coassoc is quick: nothing heavy comes along until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import coassoc as ca
from coassoc.consensus.registry import METHODS

HEAVY = ["sklearn", "scipy", "matplotlib", "pandas", "polars", "pyarrow", "dask", "distributed", "cupy", "h5py", "rich"]


LIGHT = [
    "import coassoc; coassoc.show_config()",
    "import coassoc.consensus.registry as r; r.method_names()",
    "from coassoc import cli; cli.main([])",
    "import coassoc as ca; ca.engines.Cuda(); ca.engines.resolve('auto', ca.Ensemble([[0, 1], [1, 1]]))",
    "import coassoc as ca; ca.density([[0, 1], [1, 1]], [0, 1], engine='numpy'); ca.nmi([0], [1])",
]


def test_nothing_heavy_is_loaded_until_an_estimator_is_used():
    """One fresh interpreter, which says after each line what it has loaded."""
    tell = f"\nprint('LOADED', *(m for m in {HEAVY!r} if m in sys.modules))\n"
    script = "import sys\n" + tell.join([*LIGHT, "coassoc.KMeansConsensus", ""])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("LOADED")]
    assert loaded[: len(LIGHT)] == [[]] * len(LIGHT)
    assert "sklearn" in loaded[-1] and len(loaded) == len(LIGHT) + 1


def test_every_public_name_is_there_and_in_dir():
    for name in ca.__all__:
        assert getattr(ca, name) is not None, name
    assert set(ca.__all__) <= set(dir(ca))
    assert len(set(ca.__all__)) == len(ca.__all__) and isinstance(ca.__version__, str)
    assert (dir(ca.tl), dir(ca.pl)) == (["consensus", "stable_leiden"], ["resolutions"])


def test_type_checkers_see_the_public_names():
    package = Path(ca.__file__).parent
    assert (package / "py.typed").is_file()
    block = next(node for node in ast.parse((package / "__init__.py").read_text()).body if isinstance(node, ast.If))
    lines = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module]
    seen = {alias.name: node.module for node in lines for alias in node.names}
    methods = {method.class_name for method in METHODS.values()}  # a new one needs no line of its own there
    assert set(ca.__all__) - methods - {"__version__", "engines"} <= set(seen) <= set(ca.__all__)
    for name, module in seen.items():
        assert getattr(import_module(f"coassoc.{module}"), name) is getattr(ca, name)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'KMeansConsensuss'"):
        ca.KMeansConsensuss  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Nativ'"):
        ca.engines.Nativ  # noqa: B018
