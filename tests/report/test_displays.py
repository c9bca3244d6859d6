"""Plots: they draw on the axes given, return them, and show the numbers they were given."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from coassoc.report import plot_cdf, plot_coassociation, plot_comparison, plot_stability, plot_tree
from coassoc.report.summary import summarize

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")

RNG = np.random.default_rng(8)
TRUTH = RNG.integers(0, 4, size=60)
TABLE = np.column_stack([np.where(RNG.random(60) < 0.15, RNG.integers(0, 4, 60), TRUTH) for _ in range(6)])


@pytest.fixture(scope="module")
def told():
    return summarize(TABLE, 4, engine="numpy", compare=["bisecting"])


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_coassociation_shows_block_means(told, ax):
    assert plot_coassociation(told, ax=ax) is ax
    mesh = ax.collections[0]
    assert (np.asarray(mesh.get_array()).reshape(told.blocks.values.shape) == told.blocks.values).all()
    assert len(ax.lines) == 2 * len(told.blocks.borders)


def test_coassociation_of_an_ensemble_needs_labels(ax):
    with pytest.raises(ValueError, match="labels must be given"):
        plot_coassociation(TABLE, ax=ax)
    assert plot_coassociation(TABLE, TRUTH, max_blocks=20, ax=ax).get_xlabel() == "items, by cluster"


def test_tree_draws_every_split_once(told, ax):
    model = ca.BisectingConsensus(max_leaves=6, random_state=0, engine="numpy").fit(TABLE)
    plot_tree(model, cut=4, ax=ax)
    points = next(c for c in ax.collections if c.get_array() is not None)
    heights = points.get_offsets()[:, 1]
    splits = {6 - rank: density for rank, density in zip(model.tree_.rank, model.tree_.density) if rank}
    assert dict(zip(heights.tolist(), np.asarray(points.get_array()).tolist())) == splits
    assert len(plot_tree(told, ax=ax).collections) > 1
    with pytest.raises(TypeError, match="fitted BisectingConsensus"):
        plot_tree([1, 2], ax=ax)


def test_cdf_takes_an_ensemble_a_summary_or_a_distribution(told, ax):
    for X in (told, TABLE, told.distribution):
        assert (plot_cdf(X, ax=ax).lines[-1].get_ydata() == told.distribution.cdf).all()


def test_stability_counts_every_item(told, ax):
    plot_stability(told, ax=ax)
    assert sum(bar.get_height() for bar in ax.patches) == 60
    plot_stability(TABLE, TRUTH, ax=ax)


def test_comparison_leaves_out_methods_that_did_not_run(told, ax):
    rows = [*told.comparison, {"method": "broken", "density": None, "ensemble_nmi": None}]
    plot_comparison(rows, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["Consensus", "bisecting"]


def test_a_figure_is_made_when_none_is_given(told):
    made = plot_cdf(told)
    assert made.figure is not None
    plt.close(made.figure)
