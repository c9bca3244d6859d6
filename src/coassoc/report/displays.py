"""Drawings by matplotlib; each function takes ``ax=`` and returns the axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import dendrogram

from ..consensus.auto.select_k import SelectK
from ..consensus.tree import Tree
from ..ensemble import check_ensemble
from ..metrics import item_consensus
from ..metrics.labels import check_labels
from .axes import axes_or_new, with_ax
from .blocks import block_means
from .distribution import pair_distribution


@with_ax
def plot_coassociation(X: Any, labels: Any, *, max_blocks: int = 200, cmap: Any = "viridis", ax: Any = None):
    """Heat map of the co-association matrix, items ordered by a partition, block means when there are many.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The base partitions.
    labels : array-like of shape (n_samples,)
        Partition that orders the items.
    max_blocks : int, default=200
        Rows of the picture at most.
    cmap : str or Colormap, default="viridis"
        Colours.
    {ax}

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
    for border in blocks.borders:
        ax.axhline(edges[border], color="white", linewidth=0.6, alpha=0.7)
        ax.axvline(edges[border], color="white", linewidth=0.6, alpha=0.7)
    ax.invert_yaxis()
    ax.set(xlabel="items, by cluster", ylabel="items, by cluster", aspect="equal")
    ax.figure.colorbar(mesh, ax=ax, label="co-association", shrink=0.85)
    return ax


@with_ax
def plot_tree(tree: Any, *, cut: int | None = None, cmap: Any = "viridis", ax: Any = None):
    """The bisecting tree: splits from top to bottom in the order they were made, coloured by density.

    Parameters
    ----------
    tree : BisectingConsensus or Tree
        A fitted tree.
    cut : int or None, default=None
        Draw the line that cuts the tree into this many clusters.
    cmap : str or Colormap, default="viridis"
        Colours of the densities.
    {ax}

    Examples
    --------
    >>> import matplotlib, coassoc as ca; matplotlib.use("agg")
    >>> model = ca.BisectingConsensus(max_leaves=3, random_state=0).fit([[0, 1], [0, 1], [1, 0], [1, 2], [2, 2]] * 3)
    >>> ax = ca.report.plot_tree(model, cut=2)
    >>> [text.get_text() for text in ax.get_yticklabels()]  # clusters of the cut, from the leaves up
    ['3', '2', '1']
    """
    tree = getattr(tree, "tree_", tree)
    if not isinstance(tree, Tree):
        raise TypeError(f"tree must be a fitted BisectingConsensus or its tree_, got {type(tree).__name__}.")
    splits = {rank: node for node, rank in enumerate(tree.rank) if rank}
    ax = axes_or_new(ax, figsize=(7, 4))
    drawn = dendrogram(tree.linkage(), ax=ax, no_labels=True, link_color_func=lambda _: "0.55")
    tops = [(x[1] + x[2], y[1]) for x, y in zip(drawn["icoord"], drawn["dcoord"])]
    nodes = [splits[round(tree.n_leaves - height)] for _, height in tops]
    dense, size = np.asarray(tree.density)[nodes], np.asarray(tree.size)[nodes] / max(tree.size)
    x, y = np.array(tops).T
    points = ax.scatter(x / 2, y, s=12 + 120 * size, c=dense, cmap=cmap, vmin=0, vmax=1, zorder=3)
    if cut is not None:
        ax.axhline(tree.n_leaves - cut + 0.5, color="tab:red", linestyle="--", linewidth=1)
    shown = range(0, tree.n_leaves, max(1, tree.n_leaves // 8))
    ax.set_yticks(shown, [str(tree.n_leaves - t) for t in shown])
    ax.set(xlabel="leaves", ylabel="clusters")
    ax.figure.colorbar(points, ax=ax, label="density", shrink=0.85)
    return ax


@with_ax
def plot_cdf(X: Any, *, random_state: int = 0, ax: Any = None):
    """Cumulative distribution of the co-association over pairs of items, with the range that counts as ambiguous.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The base partitions.
    random_state : int, default=0
        Seed of the pairs that are drawn when there are many items.
    {ax}

    Examples
    --------
    >>> import matplotlib, coassoc as ca; matplotlib.use("agg")
    >>> ax = ca.report.plot_cdf([[0, 1], [0, 1], [1, 0], [1, 1]])
    >>> ax.get_legend().get_texts()[0].get_text()  # half of the pairs are together in one of the two
    'PAC 0.500'
    """
    distribution = pair_distribution(check_ensemble(X), random_state)
    ax = axes_or_new(ax, figsize=(5.5, 3.6))
    ax.axvspan(0.1, 0.9, color="tab:orange", alpha=0.1, linewidth=0)
    ax.step(distribution.grid, distribution.cdf, where="post", label=f"PAC {distribution.pac:.3f}")
    ax.set(xlabel="co-association of a pair", ylabel="share of pairs", xlim=(0, 1), ylim=(0, 1.02))
    ax.legend(frameon=False)
    return ax


@with_ax
def plot_item_consensus(X: Any, labels: Any, *, bins: int = 40, ax: Any = None):
    """Histogram over items: co-association with the own cluster minus that with the best other.

    Parameters
    ----------
    X, labels
        As for :func:`plot_coassociation`.
    bins : int, default=40
        Bars over [−1, 1].
    {ax}

    Examples
    --------
    >>> import matplotlib, coassoc as ca; matplotlib.use("agg")
    >>> ax = ca.report.plot_item_consensus([[0, 1], [0, 1], [1, 0], [1, 1]], [0, 0, 1, 1], bins=4)
    >>> [int(bar.get_height()) for bar in ax.patches]  # from −1 to −0.5, ..., from 0.5 to 1
    [0, 0, 1, 3]
    """
    ensemble = check_ensemble(X)
    codes, _ = check_labels(labels, ensemble.n_samples)
    margin = item_consensus(ensemble, codes).margin[codes >= 0]
    ax = axes_or_new(ax, figsize=(5.5, 3.4))
    ax.hist(margin, bins=np.linspace(-1, 1, bins + 1), color="tab:blue")
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set(xlabel="own cluster minus best other", ylabel="items", xlim=(min(0.0, margin.min()) - 0.03, 1.02))
    return ax


@with_ax
def plot_profile(effects: Any, features: Any, clusters: Any = None, *, most: int = 25, ax: Any = None):
    """How far each feature tells each cluster from the others: a heat map of effects.

    Parameters
    ----------
    effects : array-like of shape (n_clusters, n_features)
        Mean in the cluster minus mean of the other items, in standard deviations; see :func:`coassoc.profile`.
    features : sequence of str
        Names of the features.
    clusters : sequence or None, default=None
        Names of the clusters; None numbers them.
    most : int, default=25
        Features drawn at most: those with the largest effects.
    {ax}

    Examples
    --------
    >>> import matplotlib, coassoc as ca; matplotlib.use("agg")
    >>> ax = ca.report.plot_profile([[1.2, 0.1, -0.4], [-1.2, 0.0, 0.9]], ["age", "height", "income"], most=2)
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['age', 'income']
    """
    effects = np.nan_to_num(np.asarray(effects, dtype=np.float64))
    shown = np.sort(np.argsort(-np.abs(effects).max(axis=0), kind="stable")[:most])
    ax = axes_or_new(ax, figsize=(2.5 + 0.3 * len(shown), 1.5 + 0.25 * len(effects)))
    mesh = ax.imshow(effects[:, shown], cmap="PuOr_r", vmin=-2, vmax=2, aspect="auto")
    ax.set_xticks(range(len(shown)), [str(features[i]) for i in shown], rotation=45, ha="right")
    ax.set_yticks(range(len(effects)), map(str, range(len(effects)) if clusters is None else clusters))
    ax.set(ylabel="cluster")
    ax.figure.colorbar(mesh, ax=ax, label="effect", shrink=0.85)
    return ax


def plot_select_k(selection: SelectK, axes: Any = None) -> Any:
    """Draw what `select_k` found: scores over k on the left, what k is chosen by on the right.

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
    for name, curve in {"density": selection.density, **selection.curves}.items():
        left.plot(selection.ks, curve, marker="o", markersize=3, label=name)
    left.set(xlabel="clusters k", ylim=(-0.02, 1.02), title=f"suggested k = {selection.k}")
    left.legend(frameon=False)
    right.plot(selection.ks, selection.score, marker="o", markersize=3, color="black")
    right.set(xlabel="clusters k", title="score: the highest is suggested")
    for ax in (left, right):
        if selection.k in selection.ks:
            ax.axvline(selection.k, color="0.8", linewidth=6, zorder=0)
    return axes
