"""Summaries, drawings and the report page. The package is callable: ``coassoc.report(X, 20, path="page.html")``."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# public name -> module, imported on first use: drawings need matplotlib and the page needs jinja2
_EXPORTS = {
    "Summary": "summary",
    "summarize": "summary",
    "render": "page",
    "write_report": "page",
    "item_table": "tidy",
    "cluster_table": "tidy",
    "partition_table": "tidy",
    "plot_coassociation": "displays",
    "plot_tree": "displays",
    "plot_cdf": "displays",
    "plot_stability": "displays",
    "plot_comparison": "displays",
    "plot_select_k": "displays",
    "compare": "comparison",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


class _Callable(ModuleType):
    """``coassoc.report`` is both the package and the function that writes a report."""

    def __call__(self, X: Any, n_clusters: int | None = None, **settings: Any) -> Any:
        """Write one self-contained HTML page about an ensemble; see ``coassoc.report.write_report``."""
        return __getattr__("write_report")(X, n_clusters, **settings)


sys.modules[__name__].__class__ = _Callable
