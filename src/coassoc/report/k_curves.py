"""The drawing of select_k: scores over k and their distance from the reference."""

from __future__ import annotations

from typing import Any


def plot_select_k(found: Any, axes: Any = None) -> Any:
    """Draw a `SelectK`: density, NMI, stability and PAC on the left, z-scores against the reference on the right.

    Parameters
    ----------
    found : SelectK
        What ``select_k`` returned.
    axes : pair of matplotlib Axes, default=None
        Where to; a new figure when None.

    Returns
    -------
    pair of Axes
    """
    if axes is None:
        from matplotlib.figure import Figure

        axes = Figure(figsize=(9, 3.5), layout="constrained").subplots(1, 2)
    left, right = axes
    for name, label in (
        ("density", "density S"),
        ("nmi", "ensemble NMI"),
        ("stability", "cluster stability"),
        ("pac", "PAC"),
    ):
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


def save_select_k(found: Any, path: Any, *, force: bool = False) -> None:
    """Write the drawing to a file; its ending says the kind."""
    from pathlib import Path

    from ..ensemble.io.output import replacing

    left, _ = plot_select_k(found)
    kind = Path(path).suffix.lstrip(".") or "png"
    with replacing(path, force=force) as partial:
        left.figure.savefig(partial, format=kind, dpi=150)
