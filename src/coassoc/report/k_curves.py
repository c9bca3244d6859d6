"""The drawing of select_k: scores over k and their distance from the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..consensus.choose_k import SelectK
from ..ensemble.io.output import replacing
from .axes import axes_or_new


def plot_select_k(found: SelectK, axes: Any = None) -> Any:
    """Draw what `select_k` found: scores over k on the left, z-scores against the reference on the right.

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
    >>> found = ca.select_k([[0, 1], [0, 1], [1, 0], [1, 0]] * 3, [2], n_references=2, random_state=0)
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
