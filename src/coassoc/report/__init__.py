"""Summaries, drawings and the report page: ``coassoc.report.write_report(X, 20, path="page.html")``."""

from __future__ import annotations

from importlib import import_module
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
