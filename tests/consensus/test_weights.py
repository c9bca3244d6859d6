"""Weights of partitions and of base clusters, and ensembles that grow."""

import gc
import weakref

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.exceptions import ConvergenceWarning

import coassoc as ca
from coassoc.consensus.grow import stack_columns, stack_rows
from coassoc.consensus.registry import METHODS
from coassoc.consensus.weights import ClusterWeightObjective
from coassoc.metrics.weights import resolve_partition_weights, uncertainty_from_overlap


def blocks(seed=0, n=200, p=8, k=4, noise=0.2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, size=n)
    table = np.stack([np.where(rng.random(n) < noise, rng.integers(0, k, size=n), truth) for _ in range(p)], axis=1)
    return table, truth


def test_agreement_weights_are_the_mean_nmi_with_the_others():
    table, _ = blocks()
    table[:, 3] = np.random.default_rng(9).permutation(table[:, 3])  # one partition agrees with nobody
    ens = ca.Ensemble(table)
    v = resolve_partition_weights("agreement", ens)
    scores = ca.partition_agreement(ens)
    assert v == pytest.approx(scores / scores.mean())
    assert v.argmin() == 3 and v[3] < 0.2


@pytest.mark.parametrize(
    "method", [m.estimator for m in METHODS.values() if "partition_weights" in m.estimator._get_param_names()]
)
def test_every_method_with_partition_weights_takes_agreement(method):
    table, _ = blocks(noise=0.5)
    copies = np.arange(len(table)) % 3
    scores = ca.partition_agreement(table, sample_weight=copies)
    named, given = (method(4, partition_weights=w, random_state=0) for w in ("agreement", scores))
    assert (named.fit(table, sample_weight=copies).labels_ == given.fit(table, sample_weight=copies).labels_).all()
    assert named.density_ == given.density_
    repeated = method(4, partition_weights="agreement", random_state=0).fit(np.repeat(table, copies, axis=0))
    assert (np.repeat(named.labels_, copies) == repeated.labels_).all()


@pytest.mark.parametrize("name", ["density", "inter_weight", "kmeans_loss", "ensemble_nmi", "item_stability"])
def test_scores_take_agreement_too(name):
    table, truth = blocks(noise=0.5)
    score, weights = getattr(ca.metrics, name), ca.partition_agreement(table)
    named, given = (score(table, truth, partition_weights=w) for w in ("agreement", weights))
    np.testing.assert_array_equal(*(getattr(found, "own", found) for found in (named, given)))
    with pytest.raises(ValueError, match="partition_weights must be None, 'agreement' or one number per partition"):
        score(table, truth, partition_weights="best")


def explicit_rows(ens, u):
    h = ens.one_hot().toarray() * u
    r = h.sum(axis=1)
    return h / r[:, None], r


def test_weighted_objective_equals_k_means_on_explicit_rows():
    table, _ = blocks(n=60)
    ens = ca.Ensemble(table)
    u = np.random.default_rng(1).random(ens.n_codes) + 0.1
    rows = ca.engines.Numpy().load(ens)
    labels = (np.arange(60) % 3).astype(np.int32)
    objective = ClusterWeightObjective.of(rows, u)
    counts = rows.counts(rows.labelling(3, labels))
    x, r = explicit_rows(ens, u)
    centres = np.stack([np.average(x[labels == c], axis=0, weights=r[labels == c]) for c in range(3)])
    loss = (r * ((x - centres[labels]) ** 2).sum(axis=1)).sum()
    assert objective.loss(counts) == pytest.approx(loss)
    scores = ens.one_hot().toarray() @ objective.table(counts)
    distances = r[:, None] * ((x[:, None, :] - centres) ** 2).sum(axis=2)
    constant = scores + distances
    assert constant == pytest.approx(np.broadcast_to(constant[:, :1], constant.shape))
    cost = ens.one_hot().toarray() @ objective.cost_table(counts)
    assert (cost.argmax(axis=0) == (r[:, None] - scores).argmax(axis=0)).all()


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1.0, 2.0], "one entry per base cluster"),
        ([1.0, 1.0, 1.0, -1.0], "finite and positive"),
        ("best", "cluster_weights must be one of"),
    ],
)
def test_bad_cluster_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        ca.KMeansConsensus(2, cluster_weights=weights).fit([[0, 0], [0, 0], [1, 1], [1, 1]])


@pytest.mark.parametrize("micro", [None, 40])
def test_lwea_is_average_linkage_on_the_weighted_matrix(micro):
    rng = np.random.default_rng(4)
    table, _ = blocks(n=40, noise=0.5)
    v = rng.random(8) + 0.5  # leaves no ties
    v *= 8 / v.sum()
    ens = ca.Ensemble(table)
    u = ca.metrics.cluster_uncertainty(ens)
    h = ens.one_hot().toarray()
    together = (h * (u * np.repeat(v, ens.n_clusters))) @ h.T / 8
    distances = 1.0 - together
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average")
    if micro is None:
        model = ca.EAC(5, cluster_weights="uncertainty", partition_weights=v).fit(ens)
        assert ca.nmi(model.labels_, fcluster(tree, 5, "maxclust")) == 1.0
    given = ca.EAC(5, cluster_weights=u, partition_weights=v, micro_clusters=micro, random_state=0).fit(ens)
    named = ca.EAC(5, cluster_weights="uncertainty", partition_weights=v, micro_clusters=micro, random_state=0).fit(ens)
    assert given.labels_.tolist() == named.labels_.tolist()


def test_refine_must_be_known():
    with pytest.raises(ValueError, match="refine must be one of"):
        ca.KMeansConsensus(2, refine="nmi").fit([[0, 0], [0, 0], [1, 1], [1, 1]])


# -- growing ---------------------------------------------------------------------------------------------------------

GROWING = [ca.KMeansConsensus, ca.DensityConsensus, ca.AgreementConsensus]


@pytest.mark.parametrize("method", GROWING)
def test_partial_fit_starts_from_the_present_consensus(method):
    table, truth = blocks()
    model = method(4, random_state=0).partial_fit(table[:120])
    model.partial_fit(table[120:])
    assert len(model.labels_) == 200
    assert ca.nmi(model.labels_, truth) > 0.95
    assert model.density_ == ca.density(table, model.labels_)
    assert method(4, random_state=0).get_params()["init"] == model.get_params()["init"]


@pytest.mark.parametrize("method", GROWING)
def test_add_partitions_adds_columns(method):
    table, truth = blocks()
    model = method(4, random_state=0).partial_fit(table[:, :5])
    model.add_partitions(table[:, 5:7]).add_partitions(table[:, 7])
    assert model.n_features_in_ == 8
    assert model.density_ == ca.density(table, model.labels_)
    assert ca.nmi(model.labels_, truth) > 0.95


def test_new_labels_become_new_base_clusters_and_missing_stays_missing():
    first = ca.Ensemble([["a", 0], ["b", 1], [None, 1]])
    second = ca.Ensemble([["c", 1], ["a", None]])
    both = stack_rows(first, second)
    assert both.n_clusters.tolist() == [3, 2]
    assert both.partition(0).tolist() == [0, 1, -1, 2, 0]
    assert both.partition(1).tolist() == [0, 1, 1, 1, -1]
    assert both.categories[0].tolist() == ["a", "b", "c"]


def test_stacked_columns_keep_names_apart():
    both = stack_columns(ca.Ensemble([[0], [1]]), ca.Ensemble([[1], [0]]))
    assert both.names == ["0", "1"]
    with pytest.raises(ValueError, match="must label the 2 items"):
        stack_columns(both, ca.Ensemble([[0], [1], [1]]))


def test_a_copied_model_says_what_it_lacks():
    import copy

    table, _ = blocks(n=50)
    model = copy.deepcopy(ca.KMeansConsensus(3, random_state=0).partial_fit(table))
    with pytest.raises(ValueError, match="add_partitions needs the ensemble of the last fit"):
        model.add_partitions(table[:, :1])


@pytest.mark.parametrize("method", GROWING)
def test_fit_does_not_keep_the_ensemble(method):
    ensemble = ca.Ensemble(blocks(n=50)[0])
    alive = weakref.ref(ensemble)
    grown = method(3, random_state=0).partial_fit(ensemble)
    model = method(3, random_state=0).fit(ensemble)
    assert not any(ensemble is value for value in gc.get_referents(model.__dict__))
    grown.fit(ensemble.codes)  # a fit afresh lets go of it
    del ensemble
    gc.collect()
    assert alive() is None
    with pytest.raises(ValueError, match="make the first fit with partial_fit"):
        model.add_partitions([[0]] * 50)
    with pytest.warns(UserWarning, match="partial_fit starts anew"):
        assert len(model.partial_fit(np.eye(8, dtype=int)).labels_) == 8


def test_a_consensus_of_fewer_clusters_grows():
    for method in GROWING:
        with pytest.warns(ConvergenceWarning):
            model = method(3, random_state=0).partial_fit([[0, 0], [0, 0], [1, 1]])
        assert model.partial_fit([[1, 1], [1, 0]]).labels_.shape == (5,)


def test_uncertainty_does_not_depend_on_the_layout_of_the_overlap_or_the_names_of_clusters():
    rng = np.random.default_rng(0)
    k = np.array([40, 25, 60])
    H = np.hstack([np.eye(size, dtype=np.int64)[rng.integers(size, size=90)] for size in k])
    offsets = np.concatenate([[0], np.cumsum(k)])
    order = np.concatenate([start + rng.permutation(size) for start, size in zip(offsets, k)])
    overlap = H.T @ H
    u = uncertainty_from_overlap(np.ascontiguousarray(overlap), offsets)
    assert (u == uncertainty_from_overlap(np.asfortranarray(overlap), offsets)).all()
    assert (u[order] == uncertainty_from_overlap(overlap[np.ix_(order, order)], offsets)).all()
