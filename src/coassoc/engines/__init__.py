"""Engines: where the rows live. Algorithms never import a backend; they ask for an engine here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.counts import Counts, Layout, ScoreTable
from .contract import Engine, Fit, Labelling, Rows, Seeding, Start
from .numpy import Numpy

if TYPE_CHECKING:
    from .cuda.engine import Cuda
    from .dask.engine import Dask
    from .native.engine import Native
    from .stream.engine import Stream

__all__ = [
    "Counts",
    "Cuda",
    "Dask",
    "Engine",
    "Fit",
    "Labelling",
    "Layout",
    "Native",
    "Numpy",
    "Rows",
    "ScoreTable",
    "Seeding",
    "Start",
    "Stream",
    "resolve",
]

_LAZY = {"Cuda": "cuda", "Dask": "dask", "Native": "native", "Stream": "stream"}
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
        from .native.engine import Native

        return Native()
    if engine == "cuda":
        from .cuda.engine import Cuda

        return Cuda()
    if engine == "stream":
        from .stream.engine import Stream

        return Stream()
    if engine == "dask":
        from .dask.engine import Dask

        return Dask()
    if engine == "auto":
        home = getattr(ensemble, "preferred_engine", None)  # an ensemble in a file or on a cluster knows best
        if home is not None and (found := home()) is not None:
            return found
        if ensemble is not None and _belongs_on_card(ensemble):
            from .cuda.engine import Cuda

            return Cuda()
        from .native.engine import native_or_none

        return native_or_none() or Numpy()
    if isinstance(engine, str):
        raise ValueError(f"engine must be one of {_NAMES} or an engine instance, got {engine!r}.")
    raise TypeError(f"engine must be a name in {_NAMES} or an engine instance, got {type(engine).__name__}.")


def _belongs_on_card(ensemble: Any) -> bool:
    """Whether the items are many, and a card and CuPy are at hand."""
    from .cuda.device import has_device

    return getattr(ensemble, "n_samples", 0) >= CUDA_PAYS and has_device()
