"""Weights of partitions and of base clusters, and ensembles that grow."""

import copy
import gc
import weakref
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coassoc as ca
import oracle
from coassoc.consensus.grow import stack_columns, stack_rows
from coassoc.consensus.registry import METHODS
from coassoc.consensus.weights import ClusterWeightObjective
from coassoc.metrics.weights import uncertainty_from_overlap

blocks = partial(oracle.blocks, n=200, p=8)


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
    if method is not ca.AgreementConsensus:  # whose search moves all copies of an item at once
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
    "settings, message",
    [
        ({"cluster_weights": [1.0, 2.0]}, "one entry per base cluster"),
        ({"cluster_weights": [1.0, 1.0, 1.0, -1.0]}, "finite and positive"),
        ({"cluster_weights": "best"}, "cluster_weights must be one of"),
        ({"refine": "nmi"}, "refine must be one of"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ca.KMeansConsensus(2, **settings).fit([[0, 0], [0, 0], [1, 1], [1, 1]])


# -- growing ---------------------------------------------------------------------------------------------------------

GROWING = [ca.KMeansConsensus, ca.DensityConsensus, ca.AgreementConsensus]


@pytest.mark.parametrize("method", GROWING)
def test_rows_and_partitions_are_added_to_the_present_consensus(method):
    table, truth = blocks()
    model = method(4, random_state=0).partial_fit(table[:120, :5])
    model.partial_fit(table[120:, :5])
    assert model.density_ == ca.density(table[:, :5], model.labels_)
    model.add_partitions(table[:, 5:7]).add_partitions(table[:, 7])
    assert len(model.labels_) == 200 and model.n_features_in_ == 8
    assert ca.nmi(model.labels_, truth) > 0.95
    assert model.density_ == ca.density(table, model.labels_)
    assert method(4, random_state=0).get_params()["init"] == model.get_params()["init"]
    weighted = method(4, random_state=0).partial_fit(table[:120]).partial_fit(table[120:], sample_weight=[2] * 80)
    assert weighted.cluster_sizes_.sum() == 120 + 2 * 80


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
    for lacking in (model, copy.deepcopy(method(3, random_state=0).partial_fit(blocks(n=50)[0]))):
        with pytest.raises(ValueError, match="make the first fit with partial_fit"):
            lacking.add_partitions([[0]] * 50)
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
