"""``coassoc.pl``: drawings of clusterings and their consensus in an AnnData object."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..consensus.single_cell import cells_ensemble, matching_keys
from ..metrics.counting import contingency
from .axes import axes_or_new

__all__ = ["confidence", "resolutions"]
_BASES = ("X_umap", "X_tsne", "X_draw_graph_fa", "X_pca")


def resolutions(adata: Any, keys: str | Sequence[str], *, ax: Any = None) -> Any:
    """A tree of resolutions: how clusters split from one clustering to the next.

    One row of dots per clustering, from few clusters to many. A dot is a cluster, its area the number of cells. A line
    joins clusters that share cells; it is as dark as the share of the lower cluster that comes from the upper one, so
    that a cluster with one dark line splits off cleanly, and several grey ones mean that cells move.

    Parameters
    ----------
    adata : AnnData
        With clusterings in ``.obs``.
    keys : str or list of str
        Those columns, by name or pattern (``"leiden*"``).
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
    """
    ensemble = cells_ensemble(adata, matching_keys(adata, keys))
    order = np.argsort(ensemble.n_clusters, kind="stable")
    levels = [ensemble.partition(int(j)) for j in order]
    sizes = [np.bincount(level[level >= 0]) for level in levels]
    flows = [contingency(above, below) for above, below in pairwise(levels)]
    ax = axes_or_new(ax, figsize=(7, 1 + 0.8 * len(levels)))
    places = [_spread(np.arange(len(sizes[0]), dtype=float))]
    for shared in flows:  # a cluster stands below the ones it comes from
        places.append(_spread(places[-1] @ shared / np.maximum(shared.sum(axis=0), 1)))
    for depth, shared in enumerate(flows):
        share = shared / np.maximum(shared.sum(axis=0), 1)
        for above, below in np.argwhere(share > 0.02).tolist():
            ends = [places[depth][above], places[depth + 1][below]]
            ax.plot(ends, [-depth, -depth - 1], color="black", alpha=float(share[above, below]), lw=1.5, zorder=1)
    for depth, (where, size, j) in enumerate(zip(places, sizes, order.tolist())):
        ax.scatter(where, np.full(len(where), -depth), s=20 + 900 * size / ensemble.n_samples, zorder=2)
        for x, label in zip(where, ensemble.categories[j].tolist()):
            ax.annotate(str(label), (x, -depth), ha="center", va="center", fontsize=7, zorder=3)
    ax.set_yticks(-np.arange(len(levels)), [ensemble.names[j] for j in order.tolist()])
    ax.set_xticks([])
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set_visible(False)
    return ax


def _spread(where: np.ndarray) -> np.ndarray:
    """Even places from 0 to 1 in the same order."""
    places = np.empty(len(where))
    places[np.argsort(where, kind="stable")] = (np.arange(len(where)) + 0.5) / len(where)
    return places


def confidence(adata: Any, key: str = "consensus", *, basis: str | None = None, ax: Any = None) -> Any:
    """The consensus on an embedding, cells of low confidence pale; without an embedding, confidence by cluster.

    Parameters
    ----------
    adata : AnnData
        After ``coassoc.tl.consensus(adata, ...)``.
    key : str, default="consensus"
        What ``key_added`` was.
    basis : str or None, default=None
        Key of ``.obsm`` whose first two columns are drawn; None takes X_umap, X_tsne or X_pca where there is one.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
    """
    for name in (key, f"{key}_confidence"):
        if name not in adata.obs:
            raise ValueError(f"key: .obs has no column {name!r}; run coassoc.tl.consensus(adata, keys=...) first.")
    if basis is not None and basis not in adata.obsm:
        raise ValueError(f"basis: .obsm has no {basis!r}; it has {', '.join(adata.obsm) or 'none'}.")
    clusters, sure = adata.obs[key], adata.obs[f"{key}_confidence"].to_numpy()
    basis = basis or next((name for name in _BASES if name in adata.obsm), None)
    ax = axes_or_new(ax, figsize=(6, 5))
    for code, name in enumerate(clusters.cat.categories):
        mine = clusters.cat.codes.to_numpy() == code
        if basis is None:
            curve = np.sort(sure[mine])[::-1]
            ax.plot(np.linspace(0, 1, len(curve)), curve, color=f"C{code}", label=name)
        else:
            x, y = np.asarray(adata.obsm[basis])[mine, :2].T
            ax.scatter(x, y, s=6, color=f"C{code}", alpha=np.clip(sure[mine], 0.08, 1), linewidths=0)
            ax.scatter([], [], s=20, color=f"C{code}", label=name)  # the legend
    ax.set_xlabel(f"{basis} 1" if basis else "share of the cluster's cells")
    ax.set_ylabel(f"{basis} 2" if basis else "confidence")
    ax.legend(title=key, fontsize=8)
    return ax
