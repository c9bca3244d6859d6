"""Communities in, against labels written by hand; co-association of pairs and edges, against the dense matrix."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import coassoc as ca
from twins.cases import noisy_table

igraph = pytest.importorskip("igraph")
nx = pytest.importorskip("networkx")


def labels(ensemble, j=0):
    return ensemble.partition(j).tolist()


def test_sets_dicts_and_generators_mean_the_same():
    sets = [{0, 1}, frozenset([2, 3])]
    given = [sets, [[0, 1], [2, 3]], iter(sets), {0: "a", 1: "a", 2: "b", 3: "b"}, ({0, 1}, {2, 3})]
    ens = ca.Ensemble.from_communities(given)
    assert ens.n_partitions == 5 and ens.item_ids.tolist() == [0, 1, 2, 3]
    assert all(labels(ens, j) == [0, 0, 1, 1] for j in range(5))


def test_absent_nodes_are_missing():
    ens = ca.Ensemble.from_communities([[{0, 1}, {2}], {1: 5, 3: -1}])
    assert ens.item_ids.tolist() == [0, 1, 2, 3]
    assert labels(ens, 0) == [0, 0, 1, -1] and labels(ens, 1) == [-1, 0, -1, -1]


def test_nodes_set_order_and_names_may_be_a_dict():
    ens = ca.Ensemble.from_communities({"first": [{"x"}, {"y"}], "second": {"y": 0}}, nodes=["z", "y", "x"])
    assert ens.names == ["first", "second"] and ens.item_ids.tolist() == ["z", "y", "x"]
    assert labels(ens, 0) == [-1, 1, 0]
    assert ca.Ensemble.from_communities([[{1}]], names=["run"]).names == ["run"]
    assert ca.Ensemble.from_communities([[{1}]], nodes=nx.path_graph(3)).n_samples == 3


def test_nodes_of_several_types_are_sorted_the_same_way_each_time():
    assert ca.Ensemble.from_communities([[{"b", 2, "a", 1}]]).item_ids.tolist() == [1, 2, "a", "b"]


def test_igraph_clusterings():
    graph = igraph.Graph.Famous("Zachary")
    runs = [graph.community_leiden("modularity", resolution=r) for r in (0.5, 1, 2)]
    ens = ca.Ensemble.from_communities(runs)
    assert all(ca.nmi(ens.partition(j), run.membership) == 1 for j, run in enumerate(runs))
    graph.vs["name"] = [f"member {i}" for i in range(34)]
    named = ca.Ensemble.from_communities([graph.community_leiden()], nodes=graph)
    assert named.item_ids[33] == "member 33"


def test_networkx_results():
    graph = nx.karate_club_graph()
    runs = [
        nx.community.louvain_communities(graph, seed=0),
        nx.community.greedy_modularity_communities(graph),
        nx.community.label_propagation_communities(graph),
        nx.community.asyn_lpa_communities(graph, seed=0),
    ]
    kept = [list(map(set, run)) for run in runs[:3]]
    ens = ca.Ensemble.from_communities(runs, nodes=graph)
    for j, run in enumerate(kept):
        assert [{v for v in graph if ens.partition(j)[v] == number} for number in range(len(run))] == run


def test_cdlib_results():
    clustering = SimpleNamespace(communities=[[2, 1], [3]], graph=nx.Graph([(3, 2), (2, 1), (1, 0)]), overlap=False)
    ens = ca.Ensemble.from_communities([clustering])
    assert ens.item_ids.tolist() == [3, 2, 1, 0] and labels(ens) == [1, 0, 0, -1]


@pytest.mark.parametrize(
    ("given", "settings", "error", "words"),
    [
        ([[{0, 1}, {1, 2}]], {}, ValueError, r"communities\[0\] must not overlap: node 1 is in communities 0 and 1"),
        ([{0, 1}, {2}], {}, TypeError, r"write \[clustering\] for a single one"),
        ([["ab", "cd"]], {}, TypeError, "must be a collection of nodes, got 'ab'"),
        ([], {}, ValueError, "at least one clustering"),
        ([[{0, 1}]], {"nodes": [0]}, ValueError, r"nodes must name every node of communities\[0\]; 1 is absent"),
        ([[{0}]], {"nodes": [0, 0]}, ValueError, "once"),
        ([[{0}]], {"names": ["a", "b"]}, ValueError, "names must have one entry per partition"),
    ],
)
def test_bad_communities_are_refused(given, settings, error, words):
    with pytest.raises(error, match=words):
        ca.Ensemble.from_communities(given, **settings)


@pytest.mark.parametrize("make", [ca.Ensemble, ca.Ensemble.from_partitions, ca.HBGF(2).fit])
@pytest.mark.parametrize(
    "given", [[[{0, 1}, {2}], [{0}, {1, 2}]], [{0: 1, 1: 2}, {0: 1}], [{0, 1}, {2}], [[[0, 1], [2]], [[0], [1, 2]]]]
)
def test_other_constructors_name_this_one(make, given):
    with pytest.raises(TypeError, match=r"Ensemble.from_communities"):
        make(given)


# -- pairs and edges -------------------------------------------------------------------------------------------

equal = np.testing.assert_array_equal


@pytest.fixture(scope="module")
def ensemble():
    return ca.Ensemble(noisy_table(0, 60, missing=0.3))


def test_pairs_are_entries_of_the_matrix(ensemble, engine):
    pairs = np.random.default_rng(1).integers(60, size=(200, 2))
    dense = ensemble.coassociation("all")
    equal(ensemble.coassociation(pairs, engine=engine), dense[pairs[:, 0], pairs[:, 1]])
    equal(ensemble.coassociation(pairs.astype(np.uint8).tolist()), dense[pairs[:, 0], pairs[:, 1]])


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.lil_matrix])
def test_a_graph_keeps_its_pattern(ensemble, engine, kind):
    graph = sparse.random(60, 60, 0.1, random_state=0)
    shares = ensemble.coassociation(kind(graph), engine=engine)
    at, dense = graph.toarray() != 0, ensemble.coassociation("all")
    assert shares.format == "csr" and shares.nnz == graph.nnz
    equal(shares.toarray(), np.where(at, dense, 0))


def test_explicit_zeros_stay_and_duplicates_are_one_edge():
    ens = ca.Ensemble([[0], [0], [1]])
    given = sparse.coo_matrix((np.array([0.0, 1, 1]), ([0, 1, 1], [1, 2, 2])), shape=(3, 3))
    shares = ens.coassociation(given)
    assert shares.nnz == 2 and shares[0, 1] == 1 and shares[1, 2] == 0
    assert given.nnz == 3  # unchanged


def test_igraph_and_networkx_graphs_give_what_their_matrix_gives(ensemble):
    graph = nx.gnp_random_graph(60, 0.1, seed=1)
    expected = ensemble.coassociation(nx.to_scipy_sparse_array(graph))
    assert (ensemble.coassociation(graph) != expected).nnz == 0
    other = igraph.Graph(n=60, edges=[*graph.edges, (3, 3)])
    ours = ensemble.coassociation(other)
    assert ours.nnz == expected.nnz + 1 and ours[3, 3] == ensemble.coassociation([3])[0, 0]
    ours[3, 3] = 0
    assert (ours != expected).nnz == 0


def test_nodes_of_a_networkx_graph_are_matched_by_name():
    ens = ca.Ensemble.from_communities([[{"a", "b"}, {"c"}]], nodes=["c", "a", "b"])
    graph = nx.Graph([("a", "b"), ("b", "c")])
    assert ens.coassociation(graph).toarray().tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    with pytest.raises(ValueError, match="a node for each item; 1 are absent, such as 'c'"):
        ens.coassociation(nx.Graph([("a", "b")]))
    with pytest.raises(ValueError, match="one node per item, got 4 nodes and 3 items"):
        ens.coassociation(nx.Graph([("a", "b"), ("c", "d")]))


def test_a_stored_ensemble_has_pairs(tmp_path, ensemble):
    np.save(tmp_path / "codes.npy", ensemble.codes)
    pairs = np.array([[0, 1], [5, 9]])
    stored = ca.Ensemble(str(tmp_path / "codes.npy"), missing="nan")
    equal(stored.coassociation(pairs, engine="stream"), ca.Ensemble(ensemble.codes).coassociation(pairs))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (np.array([[0, 60]]), IndexError, "pairs must name items 0..59, got 60"),
        (np.array([[-1, 0]]), IndexError, "got -1"),
        (np.array([[0, 1, 2]]), TypeError, r"pairs must be integers of shape \(m, 2\)"),
        (np.array([[0.0, 1.0]]), TypeError, "float64"),
        (sparse.eye(59), ValueError, "one node per item, got 59 nodes and 60 items"),
        (sparse.random(60, 50), ValueError, "square"),
    ],
)
def test_pairs_and_graphs_that_do_not_fit_are_refused(ensemble, given, error, words):
    with pytest.raises(error, match=words):
        ensemble.coassociation(given)
