"""Engines: where the rows live. Algorithms never import a backend; they ask for an engine here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._numpy import Numpy
from ._verbs import Counts, Engine, Labelling, Layout, Rows, ScoreTable, Seeding

if TYPE_CHECKING:
    from ._cuda import Cuda
    from ._dask import Dask
    from ._native import Native
    from ._stream import Stream

__all__ = [
    "Counts",
    "Cuda",
    "Dask",
    "Engine",
    "Labelling",
    "Layout",
    "Native",
    "Numpy",
    "Rows",
    "ScoreTable",
    "Seeding",
    "Stream",
    "resolve",
]

_LAZY = {"Cuda": "_cuda", "Dask": "_dask", "Native": "_native", "Stream": "_stream"}
_NAMES = ("auto", "numpy", "native", "cuda", "stream", "dask")
CUDA_PAYS = 1_000_000  # items from which moving codes to a card pays


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
    if engine == "cuda":
        from ._cuda import Cuda

        return Cuda()
    if engine == "stream":
        from ._stream import Stream

        return Stream()
    if engine == "dask":
        from ._dask import Dask

        return Dask()
    if engine == "auto":
        home = getattr(ensemble, "preferred_engine", None)  # an ensemble in a file or on a cluster knows best
        if home is not None and (found := home()) is not None:
            return found
        if ensemble is not None and _belongs_on_card(ensemble):
            from ._cuda import Cuda

            return Cuda()
        from ._native import native_or_none

        return native_or_none() or Numpy()
    if isinstance(engine, str):
        raise ValueError(f"engine must be one of {_NAMES} or an engine instance, got {engine!r}.")
    raise TypeError(f"engine must be a name in {_NAMES} or an engine instance, got {type(engine).__name__}.")


def _belongs_on_card(ensemble: Any) -> bool:
    """Whether the items are many, and a card and CuPy are at hand."""
    from ._cuda_device import has_device

    return getattr(ensemble, "n_samples", 0) >= CUDA_PAYS and has_device()
