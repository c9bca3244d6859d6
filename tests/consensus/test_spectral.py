"""HBGF, LWGP, ECPCS: against dense formulas written out, and the promises around them."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

import coassoc as ca
from coassoc.consensus import spectral
from coassoc.consensus.linkage import walk_similarity
from coassoc.consensus.spectral import Sample, SphereSeeding, graph_vectors, leading_eigenvectors
from coassoc.core.objectives import EmbeddingObjective, round_vectors
from oracle import blocks

METHODS = [ca.HBGF, ca.LWGP, ca.ECPCS]


def sample_of(table, copies=None):
    return Sample(ca.engines.Numpy().load(ca.Ensemble(table), copies), np.random.default_rng(0))


def bipartite(table, u):
    """Eigenvalues and item vectors of the normalised bipartite graph of items and base clusters, written out."""
    b = ca.Ensemble(table).one_hot().toarray() * u
    n, d = b.shape
    whole = np.zeros((n + d, n + d))
    whole[:n, n:], whole[n:, :n] = b, b.T
    scale = 1 / np.sqrt(whole.sum(axis=1))
    values, vectors = np.linalg.eigh((scale[:, None] * whole) * scale)
    return b, values[::-1], (scale[:, None] * vectors)[:n, ::-1]


@pytest.mark.parametrize("method", [ca.HBGF, ca.LWGP])
@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("most_codes", [4096, 0])
def test_embedding_is_the_normalised_cut_of_the_whole_bipartite_graph(method, missing, most_codes, monkeypatch):
    monkeypatch.setattr(spectral, "MOST_CODES", most_codes)  # 0: by products with sparse matrices
    table, _ = blocks(n=60, p=4, k=3, noise=0.3, missing=missing)
    table[(table < 0).all(axis=1)] = 0
    sample = sample_of(table)
    u = sample.uncertainty(0.4) if method is ca.LWGP else np.ones(sample.layout.n_codes)
    ours, values = sample.vectors(u, 3, np.random.default_rng(0))
    b, expected, items = bipartite(table, u)
    # an eigenvalue of the bipartite graph squared is one of the transferred problem
    assert expected[:3] ** 2 == pytest.approx(values, abs=1e-8)
    points = (b @ ours) / b.sum(axis=1)[:, None]
    for column in range(3):
        assert np.abs(np.diff(values)).min() > 1e-3
        cosine = items[:, column] @ points[:, column]
        assert abs(cosine) == pytest.approx(
            np.linalg.norm(items[:, column]) * np.linalg.norm(points[:, column]), rel=1e-5
        )
    assert method(3, random_state=0).fit(table).eigenvalues_ == pytest.approx(values, abs=1e-9)


def test_uncertainty_of_many_base_clusters_is_that_of_few(monkeypatch):
    table, _ = blocks(n=200, p=9, missing=0.2)
    expected = ca.metrics.cluster_uncertainty(table)
    assert sample_of(table).uncertainty(0.4) == pytest.approx(expected)
    monkeypatch.setattr(spectral, "MOST_CODES", 0)
    assert sample_of(table).uncertainty(0.4) == pytest.approx(expected)


def test_base_clusters_without_weight_have_no_walk_and_no_vector():
    graph = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    assert walk_similarity(graph, 3)[2].tolist() == [0.0, 0.0, 1.0]
    vectors, values = graph_vectors(graph, 3, np.random.default_rng(0))
    assert vectors.shape == (3, 2) and values == pytest.approx([1.0, 1 / 3])
    assert vectors[2].tolist() == [0.0, 0.0]


def test_sums_of_rounded_vectors_are_exact_and_the_loss_is_that_of_the_items():
    table, _ = blocks(n=500)
    ensemble = ca.Ensemble(table)
    rng = np.random.default_rng(0)
    rough = rng.normal(size=(ensemble.n_codes, 3)) * 10.0 ** rng.integers(-6, 6, size=(ensemble.n_codes, 1))
    vectors = round_vectors(rough, ensemble.sizes)
    assert np.abs(vectors - rough).max() < 1e-6 * np.abs(rough).max()
    objective, labels = EmbeddingObjective(vectors), rng.integers(0, 4, size=500)
    rows = ca.engines.Numpy().load(ensemble)
    counts = rows.counts(rows.labelling(4, labels))
    items = counts.alpha.T.tolist()
    exact = [[sum(n * Fraction(x) for n, x in zip(own, column)) for column in vectors.T] for own in items]
    assert [[Fraction(x) for x in row] for row in objective.sums(counts).tolist()] == exact

    onehot = ensemble.one_hot().toarray()
    points = onehot @ vectors
    sums = np.stack([points[labels == c].sum(axis=0) for c in range(4)])
    lengths = np.linalg.norm(sums, axis=1)
    assert objective.loss(counts) == pytest.approx(-lengths.sum())
    expected = points @ (sums / lengths[:, None]).T
    assert onehot @ objective.table(counts) == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.abs(points).max())


def test_vectors_outside_the_sample_are_scaled_too():
    starts = sample_of(blocks(n=50)[0]).starts(None, 2, None)
    vectors = np.random.default_rng(0).normal(size=(starts.layout.n_codes, 2))
    starts.indicator.data[starts.indicator.indices == 0] = 0.0
    assert np.linalg.norm(starts.even(vectors)[0]) == pytest.approx(1 / starts.layout.n_partitions)


def test_seeds_are_different_points_also_when_points_coincide():
    points = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
    seeding = SphereSeeding(points, np.ones(5, dtype=np.int64))
    assert sorted(seeding.choose(5, np.random.default_rng(0)).tolist()) == [0, 1, 2, 3, 4]
    assert {0 if c < 2 else 1 for c in seeding.choose(2, np.random.default_rng(1))} == {0, 1}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_planted_blocks_are_found_also_from_a_sample_of_the_items(method, missing, monkeypatch):
    table, truth = blocks(n=2000, missing=missing)
    for n_sampled in (2000, 400):
        model = method(4, random_state=0).fit(table)
        assert ca.nmi(model.labels_, truth) > 0.93 and model.n_sampled_ == n_sampled
        assert model.density_ == ca.density(table, model.labels_)
        assert model.predict(table[::-1]).tolist() == model.labels_[::-1].tolist()
        monkeypatch.setattr(spectral, "MOST_LABELS", 4000)
        monkeypatch.setattr(spectral, "START_ROWS", 200)


def test_a_partition_into_the_same_pieces_by_all_is_returned():
    truth = np.repeat(np.arange(6), 30)
    table = np.stack([np.random.default_rng(j).permutation(6)[truth] for j in range(7)], axis=1)
    for method in METHODS:  # the graph falls into six pieces: an eigenvalue that occurs six times
        assert ca.nmi(method(6, random_state=0).fit(table).labels_, truth) == pytest.approx(1.0)


def test_what_cannot_be_done_is_said(monkeypatch):
    monkeypatch.setattr(spectral, "_MAX_BYTES", 100)
    with pytest.raises(ValueError, match="pairs of 4 base clusters, which needs 1280 bytes"):
        ca.ECPCS(2).fit([[0, 0], [0, 0], [1, 1], [1, 1]])


def test_fewer_clusters_than_asked_for_are_a_warning():
    table = [[0, 0], [0, 1], [1, 0], [1, 1]] * 3  # four rows, but the leading vectors tell only some of them apart
    for method in METHODS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = method(4, random_state=0).fit(table)
        assert model.n_clusters_ == len(set(model.labels_.tolist())) <= 4
        assert (model.n_clusters_ < 4) == any(w.category is ConvergenceWarning for w in caught)


@pytest.mark.parametrize("k", [1, 5, 12])
@pytest.mark.parametrize("rank", [3, 20, 400])
def test_block_iterations_find_what_a_whole_decomposition_finds(k, rank):
    rng = np.random.default_rng(0)
    n = 400
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    spectrum = np.concatenate([np.ones(4), np.linspace(0.9, 0.0, n - 4)])  # 1 occurs four times
    spectrum[rank:] = 0.0
    matrix = (basis * spectrum) @ basis.T
    matrix = (matrix + matrix.T) / 2
    expected = eigh(matrix, eigvals_only=True)[::-1][:k]
    for argument in (matrix, lambda X: matrix @ X):
        values, vectors = leading_eigenvectors(argument, basis[:, 0], k, np.random.default_rng(1))
        assert values == pytest.approx(expected, abs=1e-6)
        assert vectors.T @ vectors == pytest.approx(np.eye(k), abs=1e-9)
        assert np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max() < 2 * spectral._TOLERANCE
        assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(k)] > 0).all()


def test_labels_need_no_more_exact_eigenvectors(monkeypatch):
    """The tolerance of the iterations, against whole decompositions, on ensembles whose clusters overlap."""
    rng, agreements = np.random.default_rng(0), []
    monkeypatch.setattr(spectral, "_WHOLE_PER_VECTOR", 0)
    for seed in range(6):
        truth = rng.integers(0, 5, size=800)
        fine = 12 * truth[:, None] + rng.integers(0, 12, size=(800, 8))  # 60 clusters in each partition
        table, models = np.where(rng.random(fine.shape) < 0.3, rng.integers(0, 60, size=fine.shape), fine), []
        for whole in (10**6, 0):
            monkeypatch.setattr(spectral, "_WHOLE", whole)  # up to this size, matrices are decomposed whole
            models.append(ca.LWGP(5, random_state=seed).fit(table))
        assert models[0].eigenvalues_ == pytest.approx(models[1].eigenvalues_, abs=1e-6)
        agreements.append(ca.nmi(models[0].labels_, models[1].labels_))
    assert min(agreements) > 0.98 and np.mean(agreements) > 0.99
