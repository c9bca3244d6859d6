"""Engines: where the rows are kept and worked on. Algorithms never import a backend; they ask for an engine here."""

from __future__ import annotations

from ..core.plugins import declared, loaded
from .contract import Engine, Fit, Labelling, Loadable, Rows, Seeding, Start
from .cuda.device import has_device
from .cuda.engine import CUDA_PAYS, Cuda
from .dask import Dask
from .native import Native, native_or_none
from .numpy import Numpy
from .stream import Stream

__all__ = [
    "Cuda",
    "Dask",
    "Engine",
    "Fit",
    "Labelling",
    "Native",
    "Numpy",
    "Rows",
    "Seeding",
    "Start",
    "Stream",
    "resolve",
]

_BY_NAME: dict[str, type[Engine]] = {kind.name: kind for kind in (Numpy, Native, Cuda, Stream, Dask)}


def engine_names() -> tuple[str, ...]:
    """Names of the engines, those of other packages included."""
    return ("auto", *_BY_NAME, *(entry.name for entry in declared("engines")))


def resolve(engine: str | Engine, ensemble: Loadable | None = None) -> Engine:
    """The engine a user asked for, by name or instance; ``"auto"`` picks the fastest one available."""
    if isinstance(engine, Engine):
        return engine
    if not isinstance(engine, str):
        raise TypeError(
            f"engine must be a name in {engine_names()} or an engine instance, got {type(engine).__name__}."
        )
    if engine == "auto":
        preferred = None if ensemble is None else ensemble.preferred_engine()
        if preferred is None and ensemble is not None and ensemble.n_samples >= CUDA_PAYS and has_device():
            preferred = Cuda() if Cuda().fits(ensemble.codes) else None
        return preferred or native_or_none() or Numpy()
    kind = _BY_NAME.get(engine) or loaded("engines").get(engine)
    if kind is None:
        raise ValueError(f"engine must be one of {engine_names()} or an engine instance, got {engine!r}.")
    return kind()
