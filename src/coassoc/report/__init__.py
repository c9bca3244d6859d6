"""Summaries, drawings and the report page: ``coassoc.report.write_report(X, 20, path="page.html")``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# module -> its public names, imported on first use: drawings need matplotlib and the page needs jinja2
_MODULES = {
    "summary": ("Summary", "summarize"),
    "page": ("render", "write_report"),
    "tables": ("item_table",),
    "displays": ("plot_coassociation", "plot_select_k"),
    "comparison": ("compare",),
}
_EXPORTS = {name: module for module, names in _MODULES.items() for name in names}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
