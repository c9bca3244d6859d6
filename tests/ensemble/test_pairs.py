"""Co-association of pairs and of graphs, against the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import coassoc as ca
from twins.cases import noisy_table

igraph = pytest.importorskip("igraph")
nx = pytest.importorskip("networkx")

equal = np.testing.assert_array_equal


@pytest.fixture
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
def test_what_does_not_fit_is_refused(ensemble, given, error, words):
    with pytest.raises(error, match=words):
        ensemble.coassociation(given)
