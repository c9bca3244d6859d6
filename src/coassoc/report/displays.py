"""Drawings by matplotlib on given or new axes, which are returned; colours, and pictures in files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..ensemble.io.writing import replacing
from ..metrics.labels import check_labels
from .tables import block_means

_MOST_BORDERS = 60  # lines between clusters; more would hide the picture
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
    if path is None:
        return
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot must be a .png, .svg or .pdf file, got {path!r}.")
    if find_spec("matplotlib") is None:
        raise ImportError(_INSTALL)


def save_drawing(ax: Any, path: Any, *, force: bool = False) -> None:
    """Write the figure of some axes; the suffix gives the format."""
    with replacing(path, force=force) as partial:
        ax.figure.savefig(partial, format=Path(path).suffix[1:].lower(), dpi=150)


def plot_coassociation(X: Any, labels: Any, *, max_blocks: int = 200, cmap: Any = "viridis", ax: Any = None):
    """Heat map of the co-association matrix, items ordered by a partition, block means when there are many.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The clusterings.
    labels : array-like of shape (n_samples,)
        Partition that orders the items.
    max_blocks : int, default=200
        Rows of the picture at most.
    cmap : str or Colormap, default="viridis"
        Colours.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib, coassoc as ca; matplotlib.use("agg")
    >>> ax = ca.report.plot_coassociation([[0, 1], [0, 1], [1, 0], [1, 1]], [0, 0, 1, 1])
    >>> ax.collections[0].get_array().reshape(4, 4).round(2).tolist()[0]  # of the first item with each
    [1.0, 1.0, 0.0, 0.5]
    """
    blocks = block_means(X, labels, max_blocks)
    ax = axes_or_new(ax, figsize=(5.2, 4.6))
    edges = np.concatenate([[0], np.cumsum(blocks.sizes)])
    mesh = ax.pcolormesh(edges, edges, blocks.values, vmin=0, vmax=1, cmap=cmap, rasterized=True)
    borders = np.flatnonzero(np.diff(check_labels(labels, len(labels))[0][blocks.order])) + 1
    for draw_line in (ax.axhline, ax.axvline):
        for border in borders if len(borders) < _MOST_BORDERS else ():
            draw_line(border, color="white", linewidth=0.6, alpha=0.7)
    ax.invert_yaxis()
    ax.set(xlabel="items, by cluster", ylabel="items, by cluster", aspect="equal")
    ax.figure.colorbar(mesh, ax=ax, label="co-association", shrink=0.85)
    return ax


def plot_select_k(selection: Any, axes: Any = None) -> Any:
    """Draw what `select_k` found: its curves over k on the left, the score that k is chosen by on the right.

    Parameters
    ----------
    selection : SelectK
        What ``select_k`` returned.
    axes : pair of matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    pair of Axes

    Examples
    --------
    >>> import matplotlib, coassoc as ca; matplotlib.use("agg")
    >>> selection = ca.select_k(ca.Ensemble([[0, 1], [0, 1], [1, 0], [1, 0]] * 9), [2], random_state=0)
    >>> print(*(ax.get_title() for ax in ca.report.plot_select_k(selection)), sep="; ")
    suggested k = 2; score: the highest is suggested
    """
    left, right = axes = axes_or_new(axes, 2, figsize=(9, 3.5))
    for name, curve in selection.curves.items():
        left.plot(selection.ks, curve, marker="o", markersize=3, label=name)
    left.set(xlabel="clusters k", ylim=(-0.02, 1.02), title=f"suggested k = {selection.k}")
    left.legend(frameon=False)
    right.plot(selection.ks, selection.score, marker="o", markersize=3, color="black")
    right.set(xlabel="clusters k", title="score: the highest is suggested")
    for ax in (left, right):
        if selection.k in selection.ks:
            ax.axvline(selection.k, color="0.8", linewidth=6, zorder=0)
    return axes
