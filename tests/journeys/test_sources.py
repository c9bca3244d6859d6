"""What people hold beside tables: networks, cells, topics; each with the real library, where it is installed."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
from known_truth import cells

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def network():
    """400 people in 16 groups, as a networkx graph, and the groups."""
    nx = pytest.importorskip("networkx")
    graph = nx.planted_partition_graph(16, 25, 0.25, 0.03, seed=1)
    return graph, np.repeat(np.arange(16), 25)


def test_leiden_runs_of_a_network(network):
    igraph = pytest.importorskip("igraph")
    graph, truth = igraph.Graph.from_networkx(network[0]), network[1]
    igraph.set_random_number_generator(random.Random(0))
    runs = [graph.community_leiden("modularity", resolution=2) for _ in range(20)]
    igraph.set_random_number_generator(random)
    single = np.mean([adjusted_rand_score(truth, run.membership) for run in runs])
    between = np.mean([adjusted_rand_score(runs[j].membership, runs[j + 1].membership) for j in range(19)])
    ensemble = ca.Ensemble.from_communities(runs)
    weighted = ca.GraphConsensus(2, random_state=0).fit(ensemble, graph=graph)
    stable = [ca.stable_leiden(graph, random_state=seed).labels_ for seed in (0, 1)]
    assert all(adjusted_rand_score(truth, labels) > single for labels in [weighted.labels_, *stable])
    assert adjusted_rand_score(*stable) > between
    assert ca.Consensus(random_state=0).fit(ensemble).supported_


def test_communities_of_networkx(network):
    nx = pytest.importorskip("networkx")
    graph, truth = network
    runs = {f"louvain {seed}": nx.community.louvain_communities(graph, resolution=2, seed=seed) for seed in range(8)}
    runs["greedy"] = nx.community.greedy_modularity_communities(graph, resolution=2)
    ensemble = ca.Ensemble.from_communities(runs, nodes=graph)
    answer = ca.Consensus(random_state=0).fit(ensemble)
    assert ensemble.names[-1] == "greedy" and adjusted_rand_score(truth, answer.labels_) > 0.5
    edges = ensemble.coassociation(graph)
    start, end = np.repeat(np.arange(400), np.diff(edges.indptr)), edges.indices
    inside = truth[start] == truth[end]
    assert edges.nnz == 2 * graph.number_of_edges() and edges.data[inside].mean() > 0.6 > edges.data[~inside].mean()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_rare_type_of_cells_is_found(seed):
    pytest.importorskip("igraph")
    _, labels, types = cells("rare", seed)
    answer = ca.Consensus(random_state=0).fit(labels)
    rare = types == 8
    cluster = np.bincount(answer.labels_[rare]).argmax()
    shared = (answer.labels_ == cluster) & rare
    assert answer.n_clusters_ == 9
    assert shared.sum() > 0.8 * ((answer.labels_ == cluster) | rare).sum()


def test_45_types_of_cells_and_their_profile():
    pytest.importorskip("igraph")
    X, labels, types = cells("many", 0)
    answer = ca.Consensus(random_state=0).fit(labels)
    assert adjusted_rand_score(types, answer.labels_) >= 0.9
    table = answer.profile(X, [f"PC{j}" for j in range(30)])
    assert len(table["cluster"]) == 5 * answer.n_clusters_ and np.abs(table["effect"]).min() > 0.5


def test_cells_in_scanpy():
    sc = pytest.importorskip("scanpy")
    anndata = pytest.importorskip("anndata")
    X, _, types = cells("rare", 0)
    adata = anndata.AnnData(X.astype(np.float32))
    sc.pp.neighbors(adata, use_rep="X")
    for resolution in (0.5, 1.0, 1.5):
        sc.tl.leiden(adata, resolution, key_added=f"leiden_{resolution}", flavor="igraph", n_iterations=2)
    ca.tl.consensus(adata, "leiden*")
    assert adjusted_rand_score(types, adata.obs["consensus"]) > 0.9
    ca.tl.stable_leiden(adata, n_runs=8)
    assert adjusted_rand_score(types, adata.obs["stable_leiden"].astype(int)) > 0.9


class TestTopics:
    """BERTopic takes any clusterer as ``hdbscan_model``: it calls ``fit`` and reads ``labels_``, then ``predict``."""

    def test_the_parts_that_topic_models_use(self):
        topics = np.repeat(np.arange(3), 40)
        X = np.eye(3)[topics] * 5 + np.random.default_rng(0).normal(size=(120, 3))
        model = ca.ConsensusClustering(3, n_partitions=6, random_state=0)
        model.fit(X, y=None)
        assert adjusted_rand_score(topics, model.labels_) == 1
        assert model.predict(X[:5]).tolist() == model.labels_[:5].tolist()

    @pytest.mark.filterwarnings("ignore")
    def test_the_page_on_topics(self, tmp_path):
        for package in ("bertopic", "umap", "hdbscan"):
            pytest.importorskip(package)
        text = (DOCS / "guide" / "topics.md").read_text()
        spec = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
        make_pages = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(make_pages)
        run = make_pages.run_blocks(text, tmp_path)
        score = re.compile(r"\d\.\d+")
        found, expected = ([float(number) for number in score.findall(page)] for page in (run, text))
        assert found == pytest.approx(expected, abs=0.05)  # UMAP's result depends on the processor
        assert score.sub("", run) == score.sub("", text)
