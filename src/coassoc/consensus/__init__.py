"""Ensemble in, labels out: one module per method, all of them listed in `registry`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .registry import METHODS, methods

# other public names -> module; like the methods they are imported on first use, so that the registry is quick to read
_EXPORTS = {"ConsensusEstimator": "base", "SelectK": "auto.select_k", "select_k": "auto.select_k", "load": "persist"}
_EXPORTS["stable_leiden"] = "leiden"

__all__ = sorted([*_EXPORTS, *(method.class_name for method in METHODS.values())])


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    if not name.startswith("_"):
        for method in methods().values():
            if method.class_name == name:
                return method.estimator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_EXPORTS, *(method.class_name for method in methods().values())})
