"""Axes to draw on, colours, and drawings in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..ensemble.io.output import replacing

_AX = """ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes"""
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


def distinct_colours(n: int) -> np.ndarray:
    """(n, 3) colours, different up to 60."""
    from matplotlib import colormaps

    names = ["tab10"] if n <= 10 else ["tab20", "tab20b", "tab20c"]
    colours = np.concatenate([np.asarray(colormaps[name](range(colormaps[name].N)))[:, :3] for name in names])
    return colours[np.arange(n) % len(colours)]


def with_ax(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Replace {ax} in the docstring of a drawing by what all of them say about it."""
    draw.__doc__ = (draw.__doc__ or "").replace("{ax}", _AX)
    return draw


def new_figure(width: float, height: float) -> Any:
    """A figure that pyplot does not keep, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(_INSTALL) from None
    return Figure(figsize=(width, height), layout="constrained")


def check_drawing(path: Any) -> None:
    """Refuse a name whose ending is not a picture that matplotlib draws, and say when there is no matplotlib."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot must be a .png, .svg or .pdf file, got {path!r}.")
    new_figure(1, 1)


def save_drawing(ax: Any, path: Any, *, force: bool = False) -> None:
    """Write the figure of some axes; the suffix gives the format."""
    with replacing(path, force=force) as partial:
        ax.figure.savefig(partial, format=Path(path).suffix[1:].lower(), dpi=150)
