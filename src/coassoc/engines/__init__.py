"""Engines: where the rows live. Algorithms never import a backend; they ask for an engine here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._numpy import Numpy
from ._verbs import Counts, Engine, Labelling, Layout, Rows, ScoreTable, Seeding

if TYPE_CHECKING:
    from ._native import Native

__all__ = ["Counts", "Engine", "Labelling", "Layout", "Native", "Numpy", "Rows", "ScoreTable", "Seeding", "resolve"]

_LAZY = {"Native": "_native"}
_NAMES = ("auto", "numpy", "native")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def resolve(engine: str | Engine, ensemble: Any = None) -> Engine:
    """The engine a user asked for, by name or instance; ``"auto"`` picks the fastest one at hand."""
    if isinstance(engine, Engine):
        return engine
    if engine == "numpy":
        return Numpy()
    if engine == "native":
        from ._native import Native

        return Native()
    if engine == "auto":
        from ._native import native_or_none

        return native_or_none() or Numpy()
    if isinstance(engine, str):
        raise ValueError(f"engine must be one of {_NAMES} or an engine instance, got {engine!r}.")
    raise TypeError(f"engine must be a name in {_NAMES} or an engine instance, got {type(engine).__name__}.")
