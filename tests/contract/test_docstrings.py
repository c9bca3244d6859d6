"""Every public thing documents its parameters, in order, with the defaults of the signature; every example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from dataclasses import is_dataclass

import numpy as np
import pytest

import coassoc as ca

PUBLIC = {name: getattr(ca, name) for name in ca.__all__ if name not in ("__version__", "engines")}
PUBLIC |= {name: getattr(ca.report, name) for name in ca.report.__all__ if name != "Summary"}
del PUBLIC["ConsensusEstimator"]  # has no parameters
CALLABLES = {
    name: thing
    for name, thing in PUBLIC.items()
    if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, (Exception, Warning, tuple)))
}
ESTIMATORS = {name: cls for name, cls in CALLABLES.items() if inspect.isclass(cls) and hasattr(cls, "fit")}
MODULES = sorted(found.name for found in pkgutil.walk_packages(ca.__path__, "coassoc.") if "__main__" not in found.name)
TABLE = np.array([[0, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 2], [1, 0, 2], [1, 2, 2]] * 4)


def documented(docstring: str, section: str = "Parameters") -> dict[str, str]:
    """Name -> type line of each entry of a section; "a, b : int" documents both."""
    match = re.search(rf"^{section}\n-+\n(.*?)(?:\n\n?\w[\w ]*\n-{{3,}}\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    found = {}
    for line in match.group(1).split("\n") if match else ():
        entry = re.match(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: ?: ?(.*))?$", line)
        if entry and not line.startswith(" "):
            found |= {name.lstrip("*"): entry.group(2) or "" for name in entry.group(1).split(", ")}
    return found


def defaults_of(thing) -> dict[str, object]:
    parameters = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing).parameters
    return {name: p.default for name, p in parameters.items() if name != "self"}


def shown(value: object) -> set[str]:
    """Ways a default may be written."""
    texts = {repr(value), repr(value).replace("'", '"')}
    return texts | {f"{value:,}"} if isinstance(value, int) and value > 1000 else texts


@pytest.mark.parametrize("name", CALLABLES)
def test_docstrings_begin_with_a_sentence_and_give_the_defaults_of_the_signature(name):
    thing = CALLABLES[name]
    text = inspect.getdoc(thing) or ""
    assert text.strip(), f"{name} has no docstring"
    assert text.strip().splitlines()[0].rstrip().endswith((".", "?")), f"{name}: the first line is a sentence"
    assert not re.search(r"More than \d+ (parameters|lines)|noqa", text), f"{name} has a note to linters"
    entries, defaults = documented(text), defaults_of(thing)
    assert entries.get("engine") in (
        None, "", '{"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"'
    )  # fmt: skip
    without = "Parameters are those of" in text or not inspect.isclass(thing) or not {*defaults} - {"X", "labels"}
    assert entries or without, f"{name} documents no parameter"
    for parameter, kind in entries.items():
        assert parameter in defaults, f"{name} documents {parameter!r}, which it does not take"
        written = re.search(r"default=(.*)$", kind)
        assert written is None or any(text in written.group(1) for text in shown(defaults[parameter])), (
            f"{name}: {parameter} is documented as {kind}, the signature says {defaults[parameter]!r}"
        )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_document_every_parameter_and_show_an_example(name):
    cls = ESTIMATORS[name]
    text = inspect.getdoc(cls) or ""
    assert inspect.isfunction(cls.__init__) and not is_dataclass(cls), f"{name}: the constructor is not written out"
    entries = documented(text)
    assert list(entries) == list(defaults_of(cls)), f"{name}: parameters documented out of order or missing"
    assert all("default=" in kind for kind in entries.values()), f"{name}: a parameter without a documented default"
    for heading in ("Parameters", "Attributes", "Examples", "Notes"):
        assert re.search(rf"^{heading}\n-+$", text, re.MULTILINE), f"{name} has no section {heading}"
    assert ">>> " in text
    assert "As for" not in text, f"{name}: a reader should not have to look elsewhere"


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"Consensus", "GraphConsensus"}))
def test_estimators_document_every_attribute(name):
    if name in ("MCLA", "CSPA"):
        pytest.importorskip("pymetis")
    cls = ESTIMATORS[name]
    frame = pytest.importorskip("pandas").DataFrame(TABLE, columns=list("abc"))
    settings = {"n_clusters": 2, "random_state": 0, "n_partitions": 3, "engine": "numpy"}
    model = cls(**{key: value for key, value in settings.items() if key in defaults_of(cls)}).fit(frame)
    fitted = {attribute for attribute in vars(model) if attribute.endswith("_") and not attribute.startswith("_")}
    assert set(documented(inspect.getdoc(cls), "Attributes")) == fitted


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples failed"
