"""make_ensemble: what it draws, that jobs do not matter, what it refuses."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.mixture import GaussianMixture

import coassoc as ca
from coassoc.ensemble import generate as _generate
from coassoc.ensemble.generate import partition_seeds


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    return np.concatenate([rng.normal(c, 0.3, size=(40, 5)) for c in (0, 2, 4)])


def test_partition_is_what_scikit_learn_makes_from_the_same_draws(X):
    ens = ca.make_ensemble(X, 4, (2, 7), n_init=3, random_state=11)
    for j in range(4):
        rng = np.random.default_rng(np.random.SeedSequence(11, spawn_key=(j,)))
        k = int(rng.integers(2, 8))
        expected = KMeans(k, n_init=3, random_state=int(rng.integers(2**31))).fit(X).labels_
        assert ens.n_clusters[j] == k
        assert (ens.partition(j) == expected).all()


def test_same_ensemble_for_any_number_of_jobs(X):
    settings = {"n_partitions": 6, "n_init": 2, "random_state": 5, "feature_fraction": 0.6, "sample_fraction": 0.7}
    calls, before = [], np.random.get_state()[1].copy()  # noqa: NPY002
    one = ca.make_ensemble(X, n_jobs=1, **settings, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, 6) for done in range(1, 7)]
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    two = ca.make_ensemble(X, n_jobs=2, **settings)
    assert (one.codes == two.codes).all() and (one.n_clusters == two.n_clusters).all()


def test_seed_decides_and_first_partitions_do_not_depend_on_how_many_follow(X):
    a, b, c = (ca.make_ensemble(X, p, n_init=1, random_state=seed) for p, seed in ((3, 1), (5, 1), (5, 2)))
    assert (a.codes == b.codes[:, :3]).all()
    assert b.codes.shape == c.codes.shape and (b.codes != c.codes).any()


@pytest.mark.parametrize(("p", "n_classes", "wanted"), [(40, None, range(2, 11)), (12, 8, [8, 9, 10]), (3, 15, [15])])
def test_default_range_runs_from_two_or_the_classes_to_the_root_of_n(X, p, n_classes, wanted):
    ens = ca.make_ensemble(X, p, n_classes=n_classes, n_init=1, random_state=0)
    assert {*ens.n_clusters.tolist()} == {*wanted}  # floor(sqrt(120)) = 10


def test_unsampled_rows_are_missing_or_predicted(X):
    settings = {"sample_fraction": 0.5, "n_init": 1, "random_state": 0}
    missing = ca.make_ensemble(X, 5, 3, **settings)
    filled = ca.make_ensemble(X, 5, 3, unsampled="predict", **settings)
    seen = missing.observed()
    assert (seen.sum(axis=0) == 60).all() and not filled.has_missing
    assert (missing.codes[seen] == filled.codes[seen]).all()


def test_fit_sample_labels_every_row_by_its_nearest_centre(X, monkeypatch):
    whole = ca.make_ensemble(X, 3, 4, fit_sample=50, n_init=1, random_state=0)
    monkeypatch.setattr(_generate, "_CHUNK_BYTES", 7 * 40)  # seven rows at a time
    chunked = ca.make_ensemble(X, 3, 4, fit_sample=50, n_init=1, random_state=0)
    assert not whole.has_missing
    assert (whole.codes == chunked.codes).all()
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0,)))
    k, seed = int(rng.integers(4, 5)), int(rng.integers(2**31))
    rows = np.sort(rng.choice(len(X), 50, replace=False))
    centres = KMeans(k, n_init=1, random_state=seed).fit(X[rows]).cluster_centers_
    nearest = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (whole.partition(0) == nearest).all()


def test_clusterers_take_turns_and_noise_is_missing(X):
    mixed = [AgglomerativeClustering(), GaussianMixture(), DBSCAN(eps=0.45)]
    ens = ca.make_ensemble(X, 6, (3, 5), clusterer=mixed, random_state=0)
    noise = DBSCAN(eps=0.45).fit(X).labels_
    assert (noise < 0).any()
    for j in (2, 5):
        assert ((ens.partition(j) < 0) == (noise < 0)).all()
    assert (ens.partition(0) == AgglomerativeClustering(int(ens.n_clusters[0])).fit_predict(X)).all()


def test_sparse_features_give_the_partitions_of_dense_ones():
    X = np.random.default_rng(0).poisson(0.3, size=(80, 12)).astype(float)
    dense, sparse = (ca.make_ensemble(x, 4, (2, 5), n_init=2, random_state=0) for x in (X, csr_matrix(X)))
    assert all(ca.nmi(dense.partition(j), sparse.partition(j)) > 0.99 for j in range(4))


def test_mini_batch_and_float32(X):
    ens = ca.make_ensemble(X.astype(np.float32), 3, 3, clusterer=MiniBatchKMeans(n_init=1), random_state=0)
    assert ens.n_partitions == 3 and (ens.n_clusters <= 3).all()


def test_duplicate_rows_give_fewer_clusters_without_a_warning():
    X = np.repeat(np.eye(3), 10, axis=0)
    assert (ca.make_ensemble(X, 2, 5, n_init=1, random_state=0).n_clusters == 3).all()


class Given(BaseEstimator):
    """Labels that are given, whatever the rows are."""

    def __init__(self, labels=None):
        self.labels = labels

    def fit(self, X):
        self.labels_ = np.asarray(self.labels)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


@pytest.mark.parametrize("given", [[5, -1, 2, 5, 9], [10**12, 7, 10**12, -3, -300]])
def test_gaps_in_labels_are_closed_and_negative_ones_missing(given):
    ens = ca.make_ensemble(np.eye(5), 2, 2, clusterer=Given(given))
    assert (ens.partition(0) == ca.Ensemble(np.array(given)[:, None]).partition(0)).all()
    assert ens.codes.dtype == np.uint8


def test_seeds_accept_sequences_and_generators():
    root = np.random.SeedSequence(4, spawn_key=(9, 1))
    assert partition_seeds(root, 2)[1].spawn_key == (9, 1, 1)
    a, b = (partition_seeds(np.random.default_rng(0), 1)[0].generate_state(2) for _ in range(2))
    assert (a == b).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": (5, 3)}, r"low <= high, got \(5, 3\)"),
        ({"n_clusters": 500}, "goes up to 500, but each clustering is fitted on 120 rows"),
        ({"n_clusters": (2, 100), "sample_fraction": 0.5}, "fitted on 60 rows"),
        ({"feature_fraction": 0.0}, "feature_fraction must be above 0"),
        ({"sample_fraction": 1.5}, "sample_fraction must be above 0"),
        ({"unsampled": "drop"}, "unsampled must be"),
        ({"fit_sample": 50, "sample_fraction": 0.5}, "give only one"),
        ({"clusterer": []}, "at least one clusterer"),
        ({"clusterer": AgglomerativeClustering(), "fit_sample": 50}, "has no predict"),
        ({"random_state": -1}, "random_state must not be negative"),
        ({"n_init": 0}, "n_init must be"),
        ({"n_clusters": "many"}, "n_clusters must be None"),
        ({"clusterer": KMeans}, "clusterer must be a scikit-learn clusterer"),
        ({"n_partitions": 0}, "n_partitions must be at least 1"),
        ({"clusterer": Given(np.full(120, -1))}, "labels no row at all"),
        ({"clusterer": Given(np.zeros(7, int))}, "one integer label per row"),
        ({"clusterer": Given(np.zeros(120))}, "one integer label per row"),
    ],
)
def test_bad_settings_are_named(X, change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ca.make_ensemble(X, **{"n_partitions": 2, **change})


def test_nan_is_refused_with_its_place(X):
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7, column 2 is nan"):
        ca.make_ensemble(bad, 2)
