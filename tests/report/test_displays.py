"""Plots: they draw on the axes given, return them, and show the numbers of the library."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from coassoc.report import plot_cdf, plot_coassociation, plot_item_consensus, plot_profile, plot_tree
from coassoc.report.blocks import block_means
from coassoc.report.distribution import pair_distribution

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")

RNG = np.random.default_rng(8)
TRUTH = RNG.integers(0, 4, size=60)
TABLE = np.column_stack([np.where(RNG.random(60) < 0.15, RNG.integers(0, 4, 60), TRUTH) for _ in range(6)])


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_coassociation_shows_block_means(ax):
    assert plot_coassociation(TABLE, TRUTH, max_blocks=20, ax=ax) is ax
    blocks = block_means(TABLE, TRUTH, 20)
    mesh = ax.collections[0]
    assert (np.asarray(mesh.get_array()).reshape(blocks.values.shape) == blocks.values).all()
    assert len(ax.lines) == 2 * len(blocks.borders)


def test_tree_draws_every_split_once(ax):
    model = ca.BisectingConsensus(max_leaves=6, random_state=0, engine="numpy").fit(TABLE)
    plot_tree(model, cut=4, ax=ax)
    points = next(c for c in ax.collections if c.get_array() is not None)
    heights = points.get_offsets()[:, 1]
    splits = {6 - rank: density for rank, density in zip(model.tree_.rank, model.tree_.density) if rank}
    assert dict(zip(heights.tolist(), np.asarray(points.get_array()).tolist())) == splits
    with pytest.raises(TypeError, match="fitted BisectingConsensus"):
        plot_tree([1, 2], ax=ax)


def test_profile_shows_the_features_with_the_largest_effects(ax):
    effects = np.random.default_rng(0).normal(size=(3, 40))
    plot_profile(effects, [f"f{i}" for i in range(40)], ["a", "b", "c"], most=4, ax=ax)
    best = sorted(np.argsort(-np.abs(effects).max(axis=0))[:4].tolist())
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"f{i}" for i in best]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c"]
    assert (np.asarray(ax.images[0].get_array()) == effects[:, best]).all()


def test_cdf_and_item_consensus_show_every_pair_and_item(ax):
    made = plot_cdf(TABLE)  # on a figure of its own
    assert (made.lines[-1].get_ydata() == pair_distribution(ca.Ensemble(TABLE)).cdf).all()
    plt.close(made.figure)
    plot_item_consensus(TABLE, TRUTH, ax=ax)
    assert sum(bar.get_height() for bar in ax.patches) == 60
