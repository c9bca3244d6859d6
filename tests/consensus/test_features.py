"""ConsensusClustering: the same as its two halves, the same for any number of jobs, predict through the base models."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.datasets import make_blobs
from sklearn.mixture import GaussianMixture

import coassoc as ca

X, Y = make_blobs(150, centers=4, n_features=5, cluster_std=1.0, random_state=1)


def fitted(**settings):
    return ca.ConsensusClustering(4, n_partitions=8, random_state=3, engine="numpy", **settings).fit(X)


def test_it_is_make_ensemble_and_a_consensus_method():
    ensemble = ca.make_ensemble(X, 8, n_classes=4, n_init=1, random_state=3)
    answer = ca.Consensus(4, random_state=3, engine="numpy").fit(ensemble)
    for n_jobs in (None, 2):
        assert (fitted(n_jobs=n_jobs).labels_ == answer.labels_).all()
    model = fitted(method="kmeans")
    assert (model.ensemble_.codes == ensemble.codes).all()
    direct = ca.KMeansConsensus(4, random_state=3, engine="numpy").fit(ensemble)
    assert (model.labels_ == direct.labels_).all()
    assert model.density_ == direct.density_


def test_the_number_of_clusters_may_be_chosen():
    model = ca.ConsensusClustering("auto", n_partitions=12, random_state=3, engine="numpy").fit(X)
    assert model.n_clusters_ == len(set(model.labels_.tolist())) == 4
    assert model.consensus_.supported_ and model.verdict_.endswith("select_k(X) compares them with such data.")


@pytest.mark.parametrize("method", [None, "bisecting", "sec", ca.BisectingConsensus(refine="kmeans", engine="numpy")])
def test_any_consensus_method(method):
    model = fitted(method=method)
    assert len(set(model.labels_.tolist())) == 4
    assert ca.nmi(Y, model.labels_) > 0.8


def test_a_given_method_is_cloned_not_changed():
    method = ca.KMeansConsensus(2, n_init=3, engine="numpy")
    used = fitted(method=method).consensus_
    assert (method.n_clusters, used.n_clusters, used.n_init) == (2, 4, 3) and not hasattr(method, "labels_")


@pytest.mark.parametrize(
    "base",
    [KMeans(n_init=2), GaussianMixture(), [KMeans(n_init=1), GaussianMixture()], AgglomerativeClustering()],
)
def test_any_base_clusterer(base):
    model = fitted(clusterer=base)
    # Ward's clusterings of 5 clusters and more are nested: nothing says which of the 5 to merge
    assert ca.nmi(Y, model.labels_) > (0.6 if isinstance(base, AgglomerativeClustering) else 0.7)
    assert hasattr(model, "predict") == (not isinstance(base, AgglomerativeClustering))


def test_predict_on_the_rows_of_fit_is_the_fit():
    model = fitted(feature_fraction=0.6)
    assert (model.predict(X) == model.labels_).all()
    assert any(columns is not None and len(columns) == 3 for columns in model.base_features_)


def test_rows_left_out_of_a_base_clustering_are_missing_there():
    model = fitted(sample_fraction=0.5)
    assert model.ensemble_.has_missing
    assert (model.labels_ >= 0).all()
    assert ca.nmi(Y, model.labels_) > 0.7


def test_sparse_features():
    sparse = csr_matrix(np.where(np.abs(X) < 2, 0, X))
    model = ca.ConsensusClustering(4, n_partitions=5, random_state=0, engine="numpy").fit(sparse)
    assert model.predict(sparse).shape == (150,)


def test_equal_base_clusterings_are_no_evidence():
    """A clusterer without randomness gives the same labels again and again."""
    with pytest.warns(UserWarning, match=r"all 8 clusterings are the same.*sample_fraction=0.8"):
        fitted(clusterer=HDBSCAN(min_cluster_size=5, copy=True))


def test_words_among_the_features_get_a_hint():
    frame = pd.DataFrame(X, columns=list("abcde")).assign(town="x", kind=pd.Categorical(["u"] * len(X)))
    for use in (ca.ConsensusClustering(4).fit, ca.make_ensemble):
        with pytest.raises(
            ValueError, match=r"columns hold words: town, kind. Leave them out, or code them: .*OneHotEncoder"
        ):
            use(frame)


def test_new_rows_are_matched_by_name():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = ca.ConsensusClustering(4, n_partitions=5, random_state=3, engine="numpy").fit(frame)
    assert (model.predict(frame[list("edcba")].assign(f=1)) == model.predict(frame)).all()
    with pytest.raises(ValueError, match="X lacks columns, by name, that the model was fitted with: c, e;"):
        model.predict(frame[list("abd")])
