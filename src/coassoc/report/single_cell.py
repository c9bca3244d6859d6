"""``coassoc.pl``: a drawing of clusterings and their consensus in an AnnData object."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..consensus.auto.refits import rand_index
from ..consensus.single_cell import cells_ensemble, matching_keys
from ..metrics.labels import contingency
from .displays import axes_or_new, distinct_colours

__all__ = ["resolutions"]


def __dir__() -> list[str]:  # what `coassoc.pl` completes
    return __all__


_PAGE = 10.0  # inches that a drawing is high at most


def resolutions(adata: Any, keys: str | Sequence[str], *, key: str = "consensus", ax: Any = None) -> Any:
    """A tree of resolutions: how clusters split from one clustering to the next, the consensus among them.

    One row of dots per clustering, from few clusters to many. A dot is a cluster, its area the number of cells. A line
    joins clusters that share cells; it is as dark as the share of the lower cluster that comes from the upper one, so
    that a cluster with one dark line splits off cleanly, and several grey ones mean that cells move. Where there is a
    consensus, its row is marked, and the adjusted Rand index of each clustering with it stands on the right.

    Parameters
    ----------
    adata : AnnData
        With clusterings in ``.obs``.
    keys : str or list of str
        Those columns, by name or pattern (``"leiden*"``).
    key : str, default="consensus"
        Column of the consensus, as `tl.consensus` wrote it; it may be absent.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib, anndata, numpy as np, pandas as pd, coassoc as ca; matplotlib.use("agg")
    >>> obs = pd.DataFrame({"leiden_1": np.arange(120) // 20, "leiden_0.5": np.arange(120) // 40}).astype("category")
    >>> ax = ca.pl.resolutions(anndata.AnnData(obs=obs.set_index(obs.index.astype(str))), keys="leiden*")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['leiden_0.5', 'leiden_1']
    """
    names = matching_keys(adata, keys)
    names = [name for name in names if name != key] + [key] * (key in adata.obs)  # of as many clusters, it comes last
    ensemble = cells_ensemble(adata, names)
    order = np.argsort(ensemble.n_clusters, kind="stable")
    levels = [ensemble.partition(int(j)) for j in order]
    sizes = [np.bincount(level[level >= 0]) for level in levels]
    flows = [contingency(above, below) for above, below in pairwise(levels)]
    ax = axes_or_new(ax, figsize=(8, min(1 + 0.8 * len(levels), _PAGE)))
    across = max(len(size) for size in sizes)
    # dots of a row and rows themselves must not overlap: areas in points², of what fits the axes
    width, height = 72 / ax.figure.dpi * ax.bbox.size
    step = min(width / across, 1.4 * height / len(levels))
    places = [_spread(np.arange(len(sizes[0]), dtype=float))]
    for shared in flows:  # a cluster stands below the ones it comes from
        places.append(_spread(places[-1] @ shared / np.maximum(shared.sum(axis=0), 1)))
    for depth, shared in enumerate(flows):
        share = shared / np.maximum(shared.sum(axis=0), 1)
        for above, below in np.argwhere(share > 0.02).tolist():
            ends = [places[depth][above], places[depth + 1][below]]
            ax.plot(ends, [-depth, -depth - 1], color="black", alpha=float(share[above, below]), lw=1.5, zorder=1)
    largest = max(int(size.max()) for size in sizes)
    for depth, (where, size, j) in enumerate(zip(places, sizes, order.tolist())):
        area = np.maximum(min(step, 30.0) ** 2 * size / largest, 12.0)
        marked = {"edgecolors": "black", "linewidths": 1.2} if names[j] == key else {}
        ax.scatter(where, np.full(len(where), -depth), s=area, color=distinct_colours(len(where)), zorder=2, **marked)
        for x, label in zip(where, ensemble.categories[j].tolist() if step > 9 else ()):
            ax.annotate(str(label), (x, -depth), ha="center", va="center", fontsize=min(7.0, step / 2), zorder=3)
    ax.set_yticks(-np.arange(len(levels)), [ensemble.names[j] for j in order.tolist()])
    if key in names:
        _mark_answer(ax, key, [names[j] for j in order.tolist()], levels)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    return ax


def _mark_answer(ax: Any, key: str, names: list[str], levels: list[np.ndarray]) -> None:
    """A band behind the row of the consensus, and what each other clustering has in common with it."""
    row = names.index(key)
    ax.axhspan(-row - 0.4, -row + 0.4, color="tab:orange", alpha=0.15, linewidth=0, zorder=0)
    ax.get_yticklabels()[row].set_fontweight("bold")
    indices = [rand_index(contingency(levels[row], level)) for level in levels]
    nearest = max((i for i in range(len(levels)) if i != row), key=indices.__getitem__, default=row)
    place = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
    ax.text(1.01, 0.7, f"ARI with\n{key}", **place)
    for i, index in enumerate(indices):
        if i != row:
            text = f"{index:.2f}" + ", closest" * (i == nearest)
            ax.text(1.01, -i, text, fontweight="bold" if i == nearest else "normal", **place)


def _spread(where: np.ndarray) -> np.ndarray:
    """Even places from 0 to 1 in the same order."""
    places = np.empty(len(where))
    places[np.argsort(where, kind="stable")] = (np.arange(len(where)) + 0.5) / len(where)
    return places
