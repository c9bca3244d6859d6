"""The drawing of select_k: scores over k and their distance from the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..consensus.choose_k import SelectK
from ..ensemble.io.output import replacing
from .axes import axes_or_new


def plot_select_k(found: SelectK, axes: Any = None) -> Any:
    """Draw what `select_k` found: scores over k on the left, what k is chosen by on the right.

    Parameters
    ----------
    found : SelectK
        What ``select_k`` returned.
    axes : pair of matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    pair of Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import coassoc as ca
    >>> found = ca.select_k(ca.Ensemble([[0, 1], [0, 1], [1, 0], [1, 0]] * 9), [2], random_state=0)
    >>> ca.report.plot_select_k(found)[0].get_title()
    'suggested k = 2'
    """
    left, right = axes = axes_or_new(axes, 2, figsize=(9, 3.5))
    labels = {"density": "density S", "nmi": "ensemble NMI", "stability": "cluster stability", "pac": "PAC"}
    for name, label in labels.items():
        values = getattr(found, name)
        if (values == values).any():  # PAC is NaN where too few partitions have k clusters
            left.plot(found.ks, values, marker="o", markersize=3, label=label)
    left.set(xlabel="clusters k", ylim=(-0.02, 1.02), title=f"suggested k = {found.k}")
    left.legend(frameon=False)
    if found.curves:
        for name, curve in found.curves.items():
            low, high = curve.min(), curve.max()
            right.plot(found.ks, (curve - low) / max(high - low, 1e-12), linewidth=1, label=name.replace("_", " "))
        right.plot(found.ks, found.score / 3, marker="o", markersize=3, color="black", label="score")
        right.set(xlabel="clusters k", title="curves, each from 0 to 1, and their mean")
        right.legend(frameon=False)
    else:
        right.axhline(3.0, color="0.6", linewidth=1, linestyle="--")
        right.plot(found.ks, found.z, marker="o", markersize=3, color="black")
        right.set(xlabel="clusters k", ylabel="z-score of k", title=f"against {found.reference} reference")
    for ax in (left, right):
        if found.k in found.ks:
            ax.axvline(found.k, color="0.8", linewidth=6, zorder=0)
    return axes


def save_select_k(found: SelectK, path: Any, *, force: bool = False) -> None:
    """Write the drawing to a file; the suffix gives the format."""
    left, _ = plot_select_k(found)
    kind = Path(path).suffix.lstrip(".") or "png"
    with replacing(path, force=force) as partial:
        left.figure.savefig(partial, format=kind, dpi=150)
