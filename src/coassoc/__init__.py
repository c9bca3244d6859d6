"""coassoc: many clusterings in, one trustworthy partition out, in linear time."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .consensus.registry import METHODS

# public name -> the package that exports it; imported on first use, so that `import coassoc` is quick
_EXPORTS = {
    "Ensemble": "ensemble",
    "read_ensemble": "ensemble",
    "write_ensemble": "ensemble",
    "write_labels": "ensemble",
    "make_ensemble": "ensemble",
    "make_ensemble_large": "ensemble",
    **{method.class_name: "consensus" for method in METHODS.values()},
    "load": "consensus",
    "select_k": "consensus",
    "compare": "report",
    "density": "metrics",
    "cluster_density": "metrics",
    "inter_density": "metrics",
    "kmeans_loss": "metrics",
    "nmi": "metrics",
    "ensemble_nmi": "metrics",
    "zero_effort": "metrics",
    "best_member": "metrics",
    "item_stability": "metrics",
    "cluster_stability": "metrics",
    "partition_agreement": "metrics",
    "align_labels": "metrics",
    "show_config": "engines.config",
}
_PACKAGES = ("consensus", "datasets", "engines", "ensemble", "experiments", "metrics", "report")

__all__ = ["__version__", "engines", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name == "__version__":
        try:
            return import_module("._version", __name__).version
        except ImportError:
            return "0+unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
