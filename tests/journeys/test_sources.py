"""What people hold beside tables: networks, cells, topics; each with the real library, where it is installed."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

import coassoc as ca
from benchmarks.truth_families import stream

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_leiden_runs_of_a_network():
    igraph, nx = pytest.importorskip("igraph"), pytest.importorskip("networkx")
    graph = igraph.Graph.from_networkx(nx.planted_partition_graph(16, 25, 0.25, 0.03, seed=1))
    truth = np.repeat(np.arange(16), 25)
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


def cells(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulated cells: 30 principal components, Leiden labels (n, 30), and their types.

    3000 cells of 9 types, the last with 15 cells (``rare``), or 6000 of 45 types (``many``). The labels are those
    of igraph's Leiden on the graph of 15 neighbours, at ten resolutions from 0.2 to 4, three runs each.
    """
    import igraph

    rng = stream("cells", kind, seed)
    if kind == "rare":
        shares = np.append(rng.dirichlet(np.full(8, 4.0)) * 0.995, 0.005)
        sizes = np.append(np.round(3000 * shares[:8]).astype(int), 15)
    else:
        sizes = np.maximum(np.round(6000 * rng.dirichlet(np.full(45, 3.0))).astype(int), 30)
    types = np.repeat(np.arange(len(sizes)), sizes)
    centers = rng.normal(scale=1.4 if kind == "rare" else 1.0, size=(len(sizes), 30))
    X = centers[types] + rng.normal(size=(len(types), 30))
    near = kneighbors_graph(X, 15).tocoo()
    edges = np.unique(np.sort(np.column_stack([near.row, near.col]), axis=1), axis=0)
    graph = igraph.Graph(n=len(types), edges=edges)
    igraph.set_random_number_generator(random.Random(seed))
    columns = [
        graph.community_leiden("modularity", resolution=float(r), n_iterations=2).membership
        for r in np.geomspace(0.2, 4, 10)
        for _ in range(3)
    ]
    igraph.set_random_number_generator(random)
    return X, np.array(columns).T, types


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


@pytest.mark.filterwarnings("ignore")
def test_the_page_on_topics(tmp_path):
    """BERTopic takes any clusterer as ``hdbscan_model``: it calls ``fit`` and reads ``labels_``, then ``predict``."""
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
