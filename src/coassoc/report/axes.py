"""Axes to draw on, and drawings as part of a page."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import Any

_INSTALL = "plots need matplotlib: pip install 'coassoc[report]'."


def axes_or_new(axes: Any = None, columns: int = 1, **settings: Any) -> Any:
    """`axes`, or `columns` new ones when None; without matplotlib the error says what to install."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(_INSTALL) from None
    return plt.subplots(1, columns, layout="constrained", **settings)[1]


def new_figure(width: float, height: float) -> Any:
    """A figure that pyplot does not keep, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(_INSTALL) from None
    return Figure(figsize=(width, height), layout="constrained")


def embedded(figure: Any, text: str, kind: str = "svg", **settings: Any) -> str:
    """The figure inside an HTML element; `text` describes it to those who do not see it."""
    from matplotlib import rc_context

    data = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "coassoc"}):
        figure.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else None, **settings)
    mime = "image/svg+xml" if kind == "svg" else f"image/{kind}"
    return f'<img alt="{escape(text)}" src="data:{mime};base64,{b64encode(data.getvalue()).decode()}">'
