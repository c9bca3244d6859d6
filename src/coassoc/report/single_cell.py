"""``coassoc.pl``: drawings of clusterings and their consensus in an AnnData object."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..consensus.auto.refits import rand_index
from ..consensus.auto.verdict import SURE
from ..consensus.single_cell import cells_ensemble, matching_keys
from ..metrics.labels import contingency
from .displays import axes_or_new, distinct_colours

__all__ = ["confidence", "resolutions"]


def __dir__() -> list[str]:  # what `coassoc.pl` completes
    return __all__


_BASES = ("X_umap", "X_tsne", "X_draw_graph_fa", "X_pca")
_PAGE = 10.0  # inches that a drawing is high at most
_KEY_ROWS = 20  # clusters in a column of the key


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


def confidence(adata: Any, key: str = "consensus", *, basis: str | None = None, ax: Any = None) -> Any:
    """The consensus on an embedding, cells of low confidence pale; without an embedding, confidence by cluster.

    Parameters
    ----------
    adata : AnnData
        After ``coassoc.tl.consensus(adata, ...)``.
    key : str, default="consensus"
        What ``key_added`` was.
    basis : str or None, default=None
        Embedding whose first two columns are drawn: a key of ``.obsm``, with or without ``"X_"``. None takes UMAP,
        t-SNE or PCA where there is one.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib, anndata, numpy as np, pandas as pd, coassoc as ca; matplotlib.use("agg")
    >>> kind, rng = np.arange(120) // 40, np.random.default_rng(0)
    >>> runs = {f"leiden_{j}": np.where(rng.random(120) < 0.9, kind, rng.integers(3, size=120)) for j in range(5)}
    >>> adata = anndata.AnnData(obs=pd.DataFrame(runs, index=np.arange(120).astype(str)).astype("category"))
    >>> adata.obsm["X_umap"] = rng.normal(size=(120, 2)) + 9 * np.eye(3)[kind, :2]
    >>> answer = ca.tl.consensus(adata, keys="leiden*")
    >>> ca.pl.confidence(adata, basis="umap").get_xlabel()
    'umap 1'
    """
    for name in (key, f"{key}_confidence"):
        if name not in adata.obs:
            raise ValueError(f"key: .obs has no column {name!r}; run coassoc.tl.consensus(adata, keys=...) first.")
    found = [name for name in ((basis, f"X_{basis}") if basis else _BASES) if name in adata.obsm]
    if basis is not None and not found:
        raise ValueError(f"basis: .obsm has no {basis!r}; it has {', '.join(adata.obsm) or 'none'}.")
    clusters, sure = adata.obs[key], adata.obs[f"{key}_confidence"].to_numpy()
    codes, categories = clusters.cat.codes.to_numpy(), clusters.cat.categories
    colours, drawn = distinct_colours(len(categories)), codes >= 0
    columns = -(-len(categories) // _KEY_ROWS)
    ax = axes_or_new(ax, figsize=(6.5 + 0.5 * columns, 5))
    if found:
        points = np.asarray(adata.obsm[found[0]])[drawn, :2]
        alpha = np.clip(sure[drawn], 0.08, 1.0)
        ax.scatter(*points.T, s=6, c=np.column_stack([colours[codes[drawn]], alpha]), linewidths=0)
    for code, name in enumerate(categories):
        if found:
            ax.scatter([], [], s=20, color=colours[code], label=name)  # the key
        else:
            curve = np.sort(sure[codes == code])[::-1]
            ax.plot(np.linspace(0, 1, len(curve)), curve, color=colours[code], label=name)
    label = found[0].removeprefix("X_") if found else None
    ax.set_xlabel(f"{label} 1" if found else "share of the cluster's cells")
    ax.set_ylabel(f"{label} 2" if found else "confidence")
    beside = {"fontsize": 8, "frameon": False, "loc": "upper left", "borderaxespad": 0.0}
    if found:  # what paleness means; the layout makes space for the last key, which is the wider one
        shades = [ax.scatter([], [], s=20, color="black", alpha=value, linewidths=0) for value in (0.2, 0.5, SURE, 1)]
        words = ["0.2", "0.5", f"{SURE}: sure", "1"]
        ax.add_artist(ax.legend(shades, words, title="confidence", bbox_to_anchor=(1.02, 0.22), **beside))
    ax.legend(title=key, ncols=columns, bbox_to_anchor=(1.02, 1.0), **beside)
    return ax
