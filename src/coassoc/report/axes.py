"""Axes to draw on, colours, and drawings in files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..ensemble.io.output import replacing

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


def check_drawing(path: Any) -> None:
    """Refuse a name whose ending is not a picture that matplotlib draws, and say when there is no matplotlib."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot must be a .png, .svg or .pdf file, got {path!r}.")
    if find_spec("matplotlib") is None:
        raise ImportError(_INSTALL)


def save_drawing(ax: Any, path: Any, *, force: bool = False) -> None:
    """Write the figure of some axes; the suffix gives the format."""
    with replacing(path, force=force) as partial:
        ax.figure.savefig(partial, format=Path(path).suffix[1:].lower(), dpi=150)
