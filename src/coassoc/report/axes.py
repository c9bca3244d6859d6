"""Axes to draw on."""

from __future__ import annotations

from typing import Any


def axes_or_new(axes: Any = None, columns: int = 1, **settings: Any) -> Any:
    """`axes`, or `columns` new ones when None; without matplotlib the error says what to install."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'coassoc[report]'.") from None
    return plt.subplots(1, columns, layout="constrained", **settings)[1]
