"""HBGF, LWGP, ECPCS: against dense formulas written out, and the promises around them."""

import numpy as np
import pytest
from scipy.linalg import eigh

import coassoc as ca
from coassoc.consensus import spectral as _spectral
from coassoc.consensus.lloyd import TooFewRows
from coassoc.consensus.spectral import leading_vectors, walk_similarity

METHODS = [ca.HBGF, ca.LWGP, ca.ECPCS]


def blocks(seed=0, n=300, p=10, k=4, noise=0.2, missing=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, size=n)
    table = np.stack([np.where(rng.random(n) < noise, rng.integers(0, k + 2, size=n), truth) for _ in range(p)], axis=1)
    return np.where(rng.random(table.shape) < missing, -1, table), truth


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_planted_blocks_are_found(method, missing):
    table, truth = blocks(missing=missing)
    model = method(4, random_state=0).fit(table)
    assert ca.nmi(model.labels_, truth) > 0.93
    assert model.density_ == ca.density(table, model.labels_)
    assert model.predict(table).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_labels_on_every_engine(method, engine):
    table, _ = blocks(noise=0.5)
    expected = method(6, random_state=1, engine="numpy").fit(table).labels_
    assert method(6, random_state=1, engine=engine).fit(table).labels_.tolist() == expected.tolist()


def dense_parts(table, u):
    """B, D_X and the bipartite graph, all written out."""
    h = ca.Ensemble(table).one_hot().toarray()
    b = h * u
    return b, b.sum(axis=1)


@pytest.mark.parametrize("method", [ca.HBGF, ca.LWGP])
@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_embedding_is_the_normalised_cut_of_the_whole_bipartite_graph(method, missing):
    table, _ = blocks(n=60, p=4, k=3, noise=0.3, missing=missing)
    table[(table < 0).all(axis=1)] = 0
    model = method(3, random_state=0).fit(table)
    u = model.cluster_weights_ if method is ca.LWGP else np.ones(model._vectors.shape[0])
    b, degree = dense_parts(table, u)
    n, d = b.shape
    whole = np.zeros((n + d, n + d))
    whole[:n, n:], whole[n:, :n] = b, b.T
    scale = 1 / np.sqrt(whole.sum(axis=1))
    values, vectors = eigh((scale[:, None] * whole) * scale)
    items = (scale[:, None] * vectors)[:n, ::-1][:, :3]
    # eigenvalue of the bipartite graph squared is that of the transferred problem
    assert np.sort(values)[::-1][:3] ** 2 == pytest.approx(model.eigenvalues_, abs=1e-9)
    ours = (b @ (model._vectors / u[:, None])) / degree[:, None]
    for column in range(3):
        if np.abs(np.diff(model.eigenvalues_)).min() > 1e-6:
            cosine = items[:, column] @ ours[:, column]
            assert abs(cosine) == pytest.approx(
                np.linalg.norm(items[:, column]) * np.linalg.norm(ours[:, column]), rel=1e-6
            )


def test_cluster_uncertainty_by_hand():
    # {0,1} is whole in the other partition; {0,1,2} is cut 2 : 1; {2,3} is cut 1 : 1; {3} is whole
    cut = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    expected = np.exp(-np.array([0.0, 1.0, cut, 0.0]) / (0.4 * 2))
    assert ca.metrics.cluster_uncertainty([[0, 0], [0, 0], [1, 0], [1, 1]]) == pytest.approx(expected)
    sharper = ca.metrics.cluster_uncertainty([[0, 0], [0, 0], [1, 0], [1, 1]], theta=0.1)
    assert sharper[1] == pytest.approx(np.exp(-1 / 0.2))
    with pytest.raises(ValueError, match="theta must be a positive number"):
        ca.metrics.cluster_uncertainty([[0, 0], [1, 1]], theta=0.0)


def test_walk_similarity_equals_trajectories_laid_side_by_side():
    rng = np.random.default_rng(0)
    graph = rng.random((12, 12)) * (rng.random((12, 12)) < 0.5)
    graph = graph + graph.T
    np.fill_diagonal(graph, 0.0)
    step = graph / graph.sum(axis=1, keepdims=True)
    powers = [np.linalg.matrix_power(step, s) for s in range(1, 8)]
    trajectory = np.concatenate(powers, axis=1)
    unit = trajectory / np.linalg.norm(trajectory, axis=1, keepdims=True)
    assert walk_similarity(graph, 7) == pytest.approx(unit @ unit.T, abs=1e-10)


def test_an_isolated_base_cluster_has_no_walk():
    graph = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert walk_similarity(graph, 3)[2].tolist() == [0.0, 0.0, 1.0]


def test_sparse_and_dense_solvers_agree(monkeypatch):
    table, _ = blocks(n=200, p=12, k=6)
    overlap = ca.engines.Numpy().load(ca.Ensemble(table)).overlap() / 12
    dense, values = leading_vectors(overlap, 4, 0)
    monkeypatch.setattr(_spectral, "_DENSE", 10)
    sparse, again = leading_vectors(overlap, 4, 0)
    assert again == pytest.approx(values, abs=1e-8)
    assert np.abs(sparse.T @ dense).max(axis=1) == pytest.approx((dense * dense).sum(axis=0), rel=1e-5)


def test_items_beyond_the_sample_get_the_nearest_centre(monkeypatch):
    table, truth = blocks(n=800)
    monkeypatch.setattr(_spectral, "_SAMPLE", 100)
    model = ca.LWGP(4, random_state=0).fit(table)
    assert ca.nmi(model.labels_, truth) > 0.95
    assert model.predict(table[::-1]).tolist() == model.labels_[::-1].tolist()


def test_multiplicities_equal_repeated_rows_up_to_names():
    table, _ = blocks(n=80, noise=0.4)
    copies = np.random.default_rng(2).integers(1, 4, size=80)
    for method in (ca.HBGF, ca.LWGP):
        weighted = method(4, random_state=0).fit(table, sample_weight=copies)
        repeated = method(4, random_state=0).fit(np.repeat(table, copies, axis=0))
        assert weighted.eigenvalues_ == pytest.approx(repeated.eigenvalues_, abs=1e-10)


def test_unlabelled_items_and_unseen_labels():
    table, _ = blocks(n=50)
    table[3] = -1
    for method in METHODS:
        model = method(3, random_state=0).fit(table)
        assert model.labels_[3] == -1
        assert model.predict(np.full((2, 10), 99)).tolist() == [-1, -1]


def test_what_cannot_be_done_is_said(monkeypatch):
    with pytest.raises(TooFewRows):
        ca.HBGF(4).fit([[0, 0], [0, 0], [1, 1], [2, 2]])
    with pytest.raises(ValueError, match="larger than the number of base clusters, 4"):
        ca.ECPCS(5).fit([[0, 0], [0, 0], [1, 1], [1, 1]])
    monkeypatch.setattr(_spectral, "_MAX_BYTES", 100)
    with pytest.raises(ValueError, match="needs 128 bytes"):
        ca.LWGP(2).fit([[0, 0], [0, 0], [1, 1], [1, 1]])
