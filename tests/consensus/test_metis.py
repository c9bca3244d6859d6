"""MCLA and CSPA: their graphs and tables against dense ones; the calls of METIS."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import coassoc as ca
import oracle
from coassoc.consensus import metis as _metis
from coassoc.engines import Numpy


def members(table):
    """Items of every base cluster, in the order of the columns of H."""
    return [
        set(np.flatnonzero(table[:, j] == c)) for j in range(table.shape[1]) for c in np.unique(table[:, j]) if c >= 0
    ]


@pytest.mark.parametrize("seed", range(5))
def test_mcla_graph_is_the_jaccard_graph_of_item_sets(seed):
    rng = np.random.default_rng(seed)
    table = oracle.planted(rng, n=40, p=5, noise=0.4)
    if seed % 2:
        table[rng.random(table.shape) < 0.2] = -1
    copies = rng.integers(1, 4, size=40) if seed > 2 else np.ones(40, np.int64)
    sets = members(table)
    expected = np.zeros((len(sets), len(sets)), np.int64)
    for f, g in itertools.permutations(range(len(sets)), 2):
        shared, united = (sum(copies[list(x)]) for x in (sets[f] & sets[g], sets[f] | sets[g]))
        expected[f, g] = round(100 * shared / united)
    overlap = Numpy().load(ca.Ensemble(table), copies).overlap()
    assert (_metis.mcla_graph(overlap).toarray() == expected).all()


@pytest.mark.parametrize("seed", range(6))
def test_cspa_graph_equals_the_graph_of_all_items_with_vertices_collapsed(seed):
    rng = np.random.default_rng(seed)
    rows = oracle.planted(rng, n=9, p=4, noise=0.5, most=3)
    table = rows[rng.integers(9, size=60)]
    ensemble = ca.Ensemble(table)
    vertex, first, weights = _metis.vertices(ensemble, None, k=1 + seed % 3)
    full = (table[:, None, :] == table[None, :, :]).sum(axis=2)
    n = len(weights)
    expected = np.zeros((n, n), np.int64)
    for i, j in itertools.product(range(60), repeat=2):
        if vertex[i] != vertex[j]:
            expected[vertex[i], vertex[j]] += full[i, j]
    assert (_metis.cspa_graph(ensemble.take(first), weights).toarray() == expected).all()
    assert (np.bincount(vertex) == weights).all() and (vertex[first] == np.arange(n)).all()
    # a vertex holds equal rows, a twentieth of an average cluster at most
    assert weights.max() <= max(1, 60 // (20 * (1 + seed % 3)))
    for v in range(n):
        assert len(np.unique(table[vertex == v], axis=0)) == 1


def test_cspa_graph_with_missing_labels_uses_the_share_observed_together():
    table = np.array([[0, 0, -1, 1], [0, -1, 2, 1], [1, 0, 2, -1], [1, 0, 2, 0]])
    ensemble = ca.Ensemble(table)
    expected = np.zeros((4, 4), np.int64)
    for i, j in itertools.permutations(range(4), 2):
        both = (table[i] >= 0) & (table[j] >= 0)
        share = (table[i] == table[j])[both].mean() if both.any() else 0.0
        expected[i, j] = max(1, round(4 * share)) if share else 0
    assert (_metis.cspa_graph(ensemble, np.ones(4, np.int64)).toarray() == expected).all()


@pytest.mark.parametrize("seed", range(6))
def test_mcla_items_go_to_the_highest_mean_share_and_empty_meta_clusters_are_filled(seed):
    rng = np.random.default_rng(seed)
    table = oracle.planted(rng, n=60, p=5, noise=0.3, most=6)
    if seed % 2:
        table[rng.random(table.shape) < 0.2] = -1
        table[4] = -1
    fewer = ca.MCLA(9, at_most=True, random_state=seed, engine="numpy").fit(table)
    sets = members(table)
    for i, row in enumerate(table):
        shares = []
        for c in range(fewer.n_clusters_):
            inside = [s for s, m in zip(sets, fewer.meta_clusters_) if m == c]
            shares.append(sum(i in s for s in inside) / len(inside))
        best = [c for c, share in enumerate(shares) if share > max(shares) - 1e-12]
        assert fewer.labels_[i] == (best[0] if (row >= 0).any() else -1)
    model = ca.MCLA(9, random_state=seed).fit(table)
    assert model.n_clusters_ == 9 >= fewer.n_clusters_ and (model.cluster_sizes_ > 0).all()
    assert fewer.n_clusters_ < 9 or (model.labels_ == fewer.labels_).all()
    for fitted in (fewer, model):
        assert (fitted.predict(table) == fitted.labels_).all()


def test_association_beyond_int32_falls_back_to_rounding():
    sizes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    meta = np.repeat(np.arange(10), sizes)
    layout = Numpy().load(ca.Ensemble(np.arange(len(meta))[:, None])).layout
    table = _metis.association_table(meta[:, None] == np.arange(10), layout)
    assert table.bits > 0 and table.values.dtype == np.int32
    np.testing.assert_allclose(table.values.max(axis=0) / 2.0**table.bits, 1 / np.array(sizes), atol=1e-8)


def test_cspa_keeps_the_copies_of_a_weighted_item_together():
    rng = np.random.default_rng(10)
    table = oracle.planted(rng, n=60, p=4, most=4)
    rows, number, copies = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    model = ca.CSPA(3, random_state=0, engine="numpy").fit(rows, sample_weight=copies)
    assert model.n_vertices_ == len(rows) < 60 and model.cluster_sizes_.sum() == 60
    assert ca.density(table, model.labels_[number.ravel()]) == pytest.approx(model.density_)


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_any_graph_survives(seed):
    """Sparse, dense, empty, disconnected, heavy: parts are in range and the same twice."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    upper = np.triu(rng.random((n, n)) < rng.choice([0.0, 0.05, 0.4, 1.0]), 1)
    graph = upper * rng.integers(1, rng.choice([2, 50, 10**15]), size=(n, n))
    graph = csr_matrix(graph + graph.T)
    weights = rng.integers(1, rng.choice([2, 100, 10**12]), size=n)
    k = int(rng.integers(1, n + 1))
    parts = _metis.partition_graph(graph, weights, k, seed)
    assert parts.shape == (n,) and parts.min() >= 0 and parts.max() < k
    assert (parts == _metis.partition_graph(graph, weights, k, seed)).all()


def test_a_graph_without_edges_is_balanced():
    parts = _metis.partition_graph(csr_matrix((5, 5), dtype=np.int64), np.array([4, 1, 1, 1, 1]), 2, 0)
    loads = np.bincount(parts, weights=[4, 1, 1, 1, 1])
    assert loads.tolist() == [4, 4]


def test_weights_too_large_for_32_bit_are_scaled_never_to_zero():
    weights = np.array([1, 10**12, 5 * 10**12])
    fitted = _metis._fit(weights, np.dtype(np.int32))
    assert fitted.dtype == np.int32 and fitted.min() >= 1 and fitted.astype(np.int64).sum() < 2**31
    assert fitted[2] == pytest.approx(5 * fitted[1], rel=1e-6)


@pytest.mark.parametrize("method", ["MCLA", "CSPA"])
def test_without_metis_the_error_says_what_to_install(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ImportError, match=r"pip install 'coassoc\[metis\]'"):
        getattr(ca, method)(2).fit([[0, 1], [1, 0], [1, 1]])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_cspa_cuts_micro_clusters_where_the_graph_of_rows_is_too_large(missing, monkeypatch):
    rng = np.random.default_rng(0)
    truth = np.arange(600) % 4
    table = np.where(rng.random((600, 8)) < 0.2, rng.integers(0, 6, (600, 8)), truth[:, None])
    table = np.where(rng.random(table.shape) < missing, -1, table)
    table[3], copies = -1, np.arange(600) % 3
    exact = ca.CSPA(4, random_state=0).fit(table, sample_weight=copies)
    monkeypatch.setattr(_metis, "MANY_MICRO_CLUSTERS", 80)
    model = ca.CSPA(4, max_bytes=1000, random_state=0).fit(table, sample_weight=copies)
    assert (exact.n_micro_clusters_, model.n_micro_clusters_, model.n_vertices_) == (0, 80, 80)
    for found in (exact, model):
        assert found.labels_[3] == -1 and (found.labels_[copies == 0] == -1).all()
    here = (copies > 0) & (np.arange(600) != 3)
    assert ca.nmi(model.labels_[here], truth[here]) > ca.nmi(exact.labels_[here], truth[here]) - 0.03

    # one micro-cluster for each row: the graph of the rows
    plain = ca.Ensemble(table[here])
    rows = ca.engines.Numpy().load(plain)
    counts = rows.counts(rows.labelling(plain.n_samples, np.arange(plain.n_samples)))
    expected = _metis.cspa_graph(plain, np.ones(plain.n_samples, np.int64))
    assert (_metis.micro_graph(counts) != expected).nnz == 0
