"""GraphConsensus and stable_leiden: weights by hand, seeds, containers, what is refused."""

import random
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import coassoc as ca

igraph = pytest.importorskip("igraph")
nx = pytest.importorskip("networkx")


@pytest.fixture(scope="module")
def blocks():
    """Twelve groups of 25 nodes, joined at random, and their graph."""
    truth = np.repeat(np.arange(12), 25)
    rng = np.random.default_rng(0)
    inside = truth[:, None] == truth
    upper = np.triu(rng.random((300, 300)) < np.where(inside, 0.3, 0.02), 1)
    return sparse.csr_matrix(upper | upper.T).astype(float), truth


def runs_of(graph, n, seed=0, **settings):
    igraph.set_random_number_generator(random.Random(seed))
    return [graph.community_leiden("modularity", **settings) for _ in range(n)]


def test_the_weights_are_the_shares_of_runs_that_join(monkeypatch):
    """A path of four nodes: the middle edge is joined by one of four runs, the others by all."""
    ens = ca.Ensemble([[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]])
    given = []
    plain = igraph.Graph.community_leiden
    monkeypatch.setattr(
        igraph.Graph,
        "community_leiden",
        lambda g, *a, weights, **k: given.append(weights) or plain(g, *a, weights=weights, **k),
    )
    path = sparse.coo_matrix(([2.0, 1.0, 1.0], ([0, 1, 3], [1, 2, 2])), shape=(4, 4))
    model = ca.GraphConsensus(random_state=0).fit(ens, graph=path)
    assert given[0] == [2.0, 0.25, 1.0]
    assert model.labels_.tolist() == [0, 0, 1, 1] and model.n_clusters_ == 2


def test_communities_are_found_and_sorted_by_size(blocks):
    graph, truth = blocks
    answer = ca.stable_leiden(graph, random_state=0)
    assert adjusted_rand_score(truth, answer.labels_) > 0.95
    assert answer.n_clusters_ == len(answer.cluster_sizes_) == 12
    assert (np.diff(answer.cluster_sizes_) <= 0).all()
    assert answer.ensemble_.n_partitions == 20 and 0 <= answer.stability_ <= 1
    assert [row.resolution for row in answer.resolutions_] == [1, 2, 4]
    assert answer.resolution_ in (1, 2, 4) and 0 < answer.modularity_ < 1


def test_one_seed_gives_one_answer_and_leaves_random_alone(blocks):
    graph, _ = blocks
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global state is what is tested
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    a = ca.stable_leiden(graph, 5, resolution=1, random_state=3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    random.seed(77)
    b = ca.stable_leiden(graph, 5, resolution=1, random_state=3)
    assert (a.ensemble_.codes == b.ensemble_.codes).all() and (a.labels_ == b.labels_).all()
    drawn = []
    for _ in range(2):  # igraph uses Python's generator again
        random.seed(1)
        drawn.append(igraph.Graph.Erdos_Renyi(30, 0.2).get_edgelist())
    assert drawn[0] == drawn[1]


def test_every_container_of_the_graph_gives_the_same(blocks):
    graph, _ = blocks
    edges = np.argwhere(sparse.triu(graph).toarray()).tolist()
    forms = [graph, sparse.triu(graph), sparse.coo_array(graph), igraph.Graph(n=300, edges=edges)]
    forms.append(nx.from_scipy_sparse_array(graph))
    answers = [ca.stable_leiden(form, 4, resolution=1, random_state=0).labels_.tolist() for form in forms]
    assert all(answer == answers[0] for answer in answers)


def test_engines_agree_and_the_contract_of_scikit_learn_holds(blocks, engine):
    graph, _ = blocks
    ens = ca.Ensemble.from_communities(runs_of(ca.consensus.leiden.Edges.of(graph).igraph(), 5))
    model = ca.GraphConsensus(2.0, n_init=2, random_state=0, engine="numpy")
    assert clone(model).get_params() == model.get_params()
    labels = model.fit_predict(ens, graph=graph)
    assert model.transform(ens).shape == (300, model.n_clusters_)
    again = clone(model).set_params(engine=engine).fit(ens.codes.astype(int), graph=graph)
    assert (again.labels_ == labels).all() and again.stability_ == model.stability_


def test_nodes_without_labels_get_none_and_lone_nodes_their_own():
    graph = sparse.coo_matrix((np.ones(2), ([0, 1], [1, 2])), shape=(4, 4))
    model = ca.GraphConsensus(random_state=0).fit([[0, 0], [0, 0], [-1, -1], [1, 1]], graph=graph)
    assert model.labels_[2] == -1 and model.labels_[0] == model.labels_[1] != model.labels_[3]
    assert np.isnan(model.stability_)  # two runs have no halves of two


@pytest.mark.parametrize(
    ("settings", "graph", "words"),
    [
        ({}, None, r"graph must be given: fit\(ensemble, graph=...\)"),
        ({}, sparse.eye(3), "one node per item, got 3 nodes and 2 items"),
        ({}, sparse.csr_matrix([[0, -1.0], [0, 0]]), "weights of at least 0"),
        ({"resolution": 0}, sparse.eye(2), "resolution must be a number above 0, got 0"),
        ({"n_init": 0}, sparse.eye(2), "n_init must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(settings, graph, words):
    with pytest.raises(ValueError, match=words):
        ca.GraphConsensus(**settings).fit([[0], [1]], graph=graph)


def test_stable_leiden_refuses_too_few_runs_no_resolution_and_no_igraph(blocks, monkeypatch):
    with pytest.raises(ValueError, match="n_runs must be at least 4"):
        ca.stable_leiden(blocks[0], 3)
    with pytest.raises(ValueError, match="at least one number"):
        ca.stable_leiden(blocks[0], resolution=[])
    for graph in ([[0, 1], [1, 2]], np.ones((3, 3))):
        with pytest.raises(TypeError, match=r"graph must be a SciPy sparse matrix.*networkx.Graph"):
            ca.stable_leiden(graph)
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(ImportError, match=r"pip install coassoc\[graph\]"):
        ca.stable_leiden(blocks[0])


def test_cells_in_place(blocks):
    anndata = pytest.importorskip("anndata")
    graph, truth = blocks
    adata = anndata.AnnData(np.zeros((300, 1), np.float32), obsp={"connectivities": graph})
    model = ca.tl.stable_leiden(adata, n_runs=6, resolution=1)
    assert adata.obs["stable_leiden"].astype(int).tolist() == ca.metrics.order_by_size(model.labels_).tolist()
    assert adata.uns["stable_leiden"]["resolution"] == 1
    for j in range(6):
        adata.obs[f"leiden_{j}"] = model.ensemble_.partition(j).astype(str)
    again = ca.tl.stable_leiden(adata, "leiden_*", key_added="mine")
    assert adjusted_rand_score(truth, again.labels_) > 0.8 and "mine" in adata.obs
    with pytest.raises(ValueError, match=r"no graph .obsp\['other_connectivities'\]"):
        ca.tl.stable_leiden(adata, neighbors_key="other")
    with pytest.raises(TypeError, match="must be an AnnData"):
        ca.tl.stable_leiden(graph)


def test_cliques_come_back_at_every_resolution_and_the_answer_can_be_saved(tmp_path):
    graph = igraph.Graph.Full(10) + igraph.Graph.Full(10) + igraph.Graph.Full(10)
    answer = ca.stable_leiden(graph, n_runs=4, random_state=0)
    assert answer.n_clusters_ == 3 and answer.resolutions_[-1].n_clusters == 30  # at resolution 4, single nodes
    pytest.importorskip("skops")
    answer.save(tmp_path / "model.skops")
    again = ca.load(tmp_path / "model.skops")
    assert (again.labels_ == answer.labels_).all() and again.resolutions_ == answer.resolutions_
