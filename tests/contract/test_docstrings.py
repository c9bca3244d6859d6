"""Documented parameters: all of them, in order, with the defaults of the signature, for every public thing."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass

import numpy as np
import pytest

import coassoc as ca
from coassoc.consensus.base import inherit_docs

PUBLIC = sorted(set(ca.__all__) - {"__version__", "engines", "ConsensusEstimator"})  # the last has no parameters
ENGINES = sorted(name for name in ca.engines.__all__ if inspect.isclass(getattr(ca.engines, name, None)))
REPORT = [name for name in ca.report.__all__ if name not in ("Summary", "compare")]


def documented(docstring: str, section: str = "Parameters") -> dict[str, str]:
    """Name -> type line of each entry of a section; "a, b : int" documents both."""
    match = re.search(rf"^{section}\n-+\n(.*?)(?:\n\n?\w[\w ]*\n-{{3,}}\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    if match is None:
        return {}
    found = {}
    for line in match.group(1).split("\n"):
        entry = re.match(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: ?: ?(.*))?$", line)
        if entry and not line.startswith(" "):
            for name in entry.group(1).split(", "):
                found[name.lstrip("*")] = entry.group(2) or ""
    return found


def defaults_of(thing) -> dict[str, object]:
    parameters = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing).parameters
    return {name: p.default for name, p in parameters.items() if name != "self"}


def resolve(name: str):
    if name in ENGINES and name not in PUBLIC:
        return getattr(ca.engines, name)
    return getattr(ca.report, name) if name in REPORT else getattr(ca, name)


def callables():
    found = {name: resolve(name) for name in [*PUBLIC, *REPORT]}
    return [
        name
        for name, thing in found.items()
        if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, (Exception, Warning, tuple)))
    ]


def shown(value: object) -> set[str]:
    """Ways a default may be written."""
    texts = {repr(value), repr(value).replace("'", '"')}
    if isinstance(value, int) and not isinstance(value, bool) and value > 1000:
        texts |= {f"{value:,}", f"{value}"}
    return texts


@pytest.mark.parametrize("name", callables())
def test_docstrings_begin_with_a_sentence_and_give_the_defaults_of_the_signature(name):
    thing = resolve(name)
    text = inspect.getdoc(thing) or ""
    assert text.strip(), f"{name} has no docstring"
    assert text.strip().splitlines()[0].rstrip().endswith((".", "?")), f"{name}: the first line is a sentence"
    entries, defaults = documented(text), defaults_of(thing)
    assert entries.get("engine") in (
        None, "", '{"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"'
    )  # fmt: skip
    assert (
        entries
        or "Parameters are those of" in text
        or not inspect.isclass(thing)
        or not [n for n in defaults if n not in ("X", "labels")]
    ), f"{name} documents no parameter"
    for parameter, kind in entries.items():
        assert parameter in defaults, f"{name} documents {parameter!r}, which it does not take"
        written = re.search(r"default=(.*)$", kind)
        assert written is None or any(text in written.group(1) for text in shown(defaults[parameter])), (
            f"{name}: {parameter} is documented as {kind}, the signature says {defaults[parameter]!r}"
        )


ESTIMATORS = [n for n in callables() if inspect.isclass(resolve(n)) and hasattr(resolve(n), "fit")]
TABLE = np.array([[0, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 2], [1, 0, 2], [1, 2, 2]] * 4)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_document_every_parameter_and_show_an_example(name):
    cls = resolve(name)
    text = inspect.getdoc(cls) or ""
    assert inspect.isfunction(cls.__init__) and not is_dataclass(cls), f"{name}: the constructor is not written out"
    entries, defaults = documented(text), defaults_of(cls)
    assert list(entries) == list(defaults), f"{name}: parameters documented out of order or missing"
    for parameter, kind in entries.items():
        assert "default=" in kind, f"{name}: {parameter} has no documented type and default"
    for heading in ("Parameters", "Attributes", "Examples", "Notes"):
        assert re.search(rf"^{heading}\n-+$", text, re.MULTILINE), f"{name} has no section {heading}"
    assert ">>> " in text
    assert "As for" not in text, f"{name}: a reader should not have to look elsewhere"


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"Consensus", "GraphConsensus"}))
def test_estimators_document_every_attribute(name):
    if name in ("MCLA", "CSPA"):
        pytest.importorskip("pymetis")
    cls = resolve(name)
    frame = pytest.importorskip("pandas").DataFrame(TABLE, columns=list("abc"))
    settings = {"n_clusters": 2, "random_state": 0, "n_partitions": 3, "engine": "numpy"}
    model = cls(**{key: value for key, value in settings.items() if key in defaults_of(cls)}).fit(frame)
    fitted = {attribute for attribute in vars(model) if attribute.endswith("_") and not attribute.startswith("_")}
    assert set(documented(inspect.getdoc(cls), "Attributes")) == fitted


def test_public_docstrings_hold_no_notes_to_linters():
    for name in callables():
        assert not re.search(r"More than \d+ (parameters|lines)|noqa", inspect.getdoc(resolve(name)) or ""), name


def test_shared_entries_come_from_the_nearest_base_class():
    class Base:
        """First.

        Attributes
        ----------
        a, b : int, float
            Two
            lines.
        c : str
            Another.
        """

    class Near(Base):
        """Second.

        c : bool
            Nearer.
        """

    @inherit_docs
    class Filled(Near):
        """Third, {a} {c} in a line of text.

        {a} {c}
        d : {"x", "y"}
        """

    entries = "a, b : int, float\n    Two\n    lines.\nc : bool\n    Nearer.\n"
    assert Filled.__doc__ == "Third, {a} {c} in a line of text.\n\n" + entries + 'd : {"x", "y"}'
    with pytest.raises(LookupError, match="Unknown: no base class documents 'e'"):
        inherit_docs(type("Unknown", (Near,), {"__doc__": "Text.\n\n{a} {e}"}))
    for name in callables():  # a class without the decorator keeps its names in braces
        assert not re.search(r"^ *\{\w+\}( |$)", inspect.getdoc(resolve(name)) or "", re.MULTILINE), name


def test_estimators_can_be_imported_without_docstrings():
    script = "import coassoc as ca; print(ca.SEC.__doc__, ca.SEC(2, random_state=0).fit([[0], [1]]).n_clusters_)"
    done = subprocess.run([sys.executable, "-OO", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "2"]
