"""The numbers of a report against brute force and the library, without any drawing."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
import oracle
from coassoc.report import item_table, plot_coassociation
from coassoc.report.summary import summarize
from coassoc.report.tables import block_means, partition_columns

TABLE, TRUTH = oracle.blocks(1, n=90, p=8, noise=0.15)
TABLE[::11, 3] = -1
ENSEMBLE = ca.Ensemble(TABLE)


@pytest.fixture(scope="module")
def summary():
    ensemble = ca.Ensemble(TABLE)
    ensemble.classes = TRUTH
    ensemble.item_ids = np.array([f"row {i}" for i in range(90)])
    return summarize(ensemble, 4, engine="numpy")


@pytest.mark.parametrize("seed", range(80))
def test_block_means_equal_means_of_the_whole_matrix(seed):
    rng = np.random.default_rng(seed)
    case = oracle.random_case(rng, copies=False, weights=False, most_items=16)
    labels, most = case.labels, int(rng.integers(1, 20))
    blocks = block_means(case.table, labels, most, engine="numpy")
    # blocks hold every labelled item once, one cluster each where they suffice, in the order of clusters
    assert sorted(blocks.order.tolist()) == np.flatnonzero(labels >= 0).tolist()
    assert blocks.sizes.sum() == len(blocks.order) and len(blocks.sizes) <= most
    assert (np.diff(labels[blocks.order]) >= 0).all()
    of_block = np.full(len(labels), -1)
    of_block[blocks.order] = np.repeat(np.arange(len(blocks.sizes)), blocks.sizes)
    names = np.unique(labels[labels >= 0])
    starts = np.cumsum(blocks.sizes) - blocks.sizes
    assert (labels[blocks.order[starts]] == names[blocks.clusters]).all()
    if len(names) <= most:
        assert (labels[blocks.order] == names[np.repeat(blocks.clusters, blocks.sizes)]).all()
    wanted = oracle.inter_densities(case.table, of_block, case.v)
    np.fill_diagonal(wanted, np.where(blocks.sizes == 1, 1.0, wanted.diagonal()))
    assert blocks.values == pytest.approx(wanted, abs=1e-12)


def test_the_most_typical_items_come_first_in_their_cluster():
    table = np.array([[0, 0, 5], [0, 0, 0], [0, 0, 0], [0, 1, 0], [1, 1, 1], [1, 1, 1]])
    assert block_means(table, [0, 0, 0, 0, 1, 1], engine="numpy").order.tolist() == [1, 2, 0, 3, 4, 5]


def test_coassociation_shows_block_means():
    ax = pytest.importorskip("matplotlib.figure").Figure().subplots()
    assert plot_coassociation(TABLE, TRUTH, max_blocks=20, ax=ax) is ax
    blocks = block_means(TABLE, TRUTH, 20)
    assert (np.asarray(ax.collections[0].get_array()).reshape(blocks.values.shape) == blocks.values).all()
    assert len(ax.lines) == 2 * 3  # between four clusters
    assert [len(plot_coassociation(TABLE, np.arange(90) % k).lines) for k in (60, 61)] == [2 * 59, 0]
    lines = plot_coassociation(TABLE, TRUTH, max_blocks=2).lines  # of fewer blocks than clusters
    assert [line.get_ydata()[0] for line in lines[:3]] == np.cumsum(np.bincount(TRUTH))[:3].tolist()


def test_an_outlying_partition_is_marked():
    table = np.hstack([TABLE, np.random.default_rng(0).integers(0, 4, size=(90, 1))])
    outliers = [
        partition_columns(ca.Ensemble(members), TRUTH, ca.metrics.pairwise_nmi(members), "numpy")["outlier"].tolist()
        for members in (table, TABLE, np.column_stack([TRUTH, TRUTH, table[:, 8]]))
    ]
    assert outliers == [[False] * 8 + [True], [False] * 8, [False] * 3]


def test_the_parts_of_a_summary_agree_with_the_library(summary):
    labels, told, clusters = summary.labels, summary.consensus, summary.clusters
    assert told["density"] == ca.density(ENSEMBLE, labels)
    assert told["ensemble_nmi"] == ca.ensemble_nmi(ENSEMBLE, labels)
    assert told["class_nmi"] == ca.nmi(TRUTH, labels)
    assert clusters["size"].tolist() == np.bincount(labels).tolist() == sorted(np.bincount(labels), reverse=True)
    assert clusters["density"].tolist() == ca.cluster_density(ENSEMBLE, labels).tolist()
    assert summary.input["missing_share"] == pytest.approx((TABLE < 0).mean())
    between = ca.inter_density(ENSEMBLE, labels)
    assert clusters["nearest_density"].tolist() == [np.delete(between[c], c).max() for c in range(4)]
    answer = ca.Consensus(4, random_state=0, engine="numpy").fit(TABLE)
    assert (labels == answer.labels_).all() and told["verdict"] == answer.verdict_
    assert summary.items["confidence"].tolist() == sorted(answer.confidence_.tolist())
    assert summary.items["item"][0] == f"row {answer.confidence_.argmin()}"
    assert told["sure_share"] == (answer.confidence_ >= 0.85).mean()
    assert clusters["confidence"].tolist() == answer.cluster_confidence_.tolist()
    assert told["nearest"] == answer.nearest_partition_
    assert summary.partitions["ari_with_consensus"].tolist() == answer.partition_ari_.tolist()
    assert summary.partitions["labelled_share"].tolist() == (TABLE >= 0).mean(axis=0).tolist()
    assert summary.partitions["nmi_with_consensus"].tolist() == ca.partition_nmi(ENSEMBLE, labels).tolist()
    assert summary.partitions["nmi_with_others"].tolist() == ca.partition_nmi(ENSEMBLE).tolist()


def test_given_labels_are_reported_and_items_without_a_label_take_no_part():
    names = [f"class {t}" if i != 5 else None for i, t in enumerate(TRUTH)]
    told = summarize(ENSEMBLE, labels=names, engine="numpy")
    assert summarize(ENSEMBLE, names, engine="numpy").consensus == told.consensus
    assert told.consensus["method"] == "given labels" and told.consensus["unlabelled"] == 1
    assert ca.nmi(told.labels, np.where(np.arange(90) == 5, -1, TRUTH)) == 1.0 and told.labels[5] == -1
    seen = [(TABLE[:, j] >= 0) & (told.labels >= 0) for j in range(8)]
    rand = [adjusted_rand_score(told.labels[both], TABLE[both, j]) for j, both in enumerate(seen)]
    assert told.partitions["ari_with_consensus"] == pytest.approx(rand)
    assert told.consensus["nearest"][0] == int(np.argmax(rand)) and told.consensus["nearest"].ari == max(rand)
    assert 5 not in told.blocks.order and 5 not in told.items["item"]


@pytest.mark.parametrize("table", [[[0], [0]], [[0, 0], [0, 0], [0, 0]], [[0, 1], [1, 0]]])
def test_tiny_and_degenerate_ensembles_still_have_a_summary(table):
    assert summarize(table, 1, engine="numpy").consensus["n_clusters"] == 1


def test_many_items_are_compared_on_a_sample(monkeypatch):
    monkeypatch.setattr("coassoc.report.comparison.MOST_COMPARED", 40)
    assert 0 < ca.compare(TABLE, 4, ["kmeans"], engine="numpy")["kmeans"].left_out_nmi < 1
    told = summarize(ENSEMBLE, 4, engine="numpy")
    assert told.input["compared"] == 40 and len(told.labels) == 90
    assert {len(labels) for flow in told.flows.values() for _, labels in flow} == {40}
    assert told.consensus["density"] == ca.density(ENSEMBLE, told.labels)  # the consensus itself is that of all


def test_numbers_need_no_drawing_library():
    """A fresh interpreter computes a summary without matplotlib or jinja2."""
    script = (
        "import sys\nsys.modules['matplotlib'] = sys.modules['jinja2'] = None\n"
        "from coassoc.report import summarize\n"
        "print(summarize([[0, 1], [0, 1], [1, 0], [1, 0]], 2, engine='numpy').consensus['density'])"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True)
    assert float(done.stdout) == 1.0


def test_the_table_of_items_goes_into_a_frame():
    pytest.importorskip("pandas")
    labels = ca.KMeansConsensus(4, random_state=0, engine="numpy").fit(ENSEMBLE).labels_
    items = item_table(ENSEMBLE, labels).to_frame()
    assert items["cluster"].tolist() == labels.tolist() and set(items["role"]) <= {"core", "boundary", "outlier"}
    # the mean of what items say of their own cluster is the density where nothing is missing
    whole = ca.Ensemble(np.where(TABLE < 0, 0, TABLE))
    by_item = item_table(whole, labels).to_frame().groupby("cluster")["own"].mean()
    assert by_item.to_numpy() == pytest.approx(ca.cluster_density(whole, labels))


def test_features_of_other_items_are_refused_before_the_fit():
    with pytest.raises(ValueError, match="features must have a row for each of the 90 items, got 89"):
        summarize(ENSEMBLE, features=np.zeros((89, 2)))
