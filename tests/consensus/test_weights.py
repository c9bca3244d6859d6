"""Weights of partitions and of base clusters, and refits from a given consensus."""

import gc
import weakref
from functools import partial

import numpy as np
import pytest

import coassoc as ca
import oracle
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
    scores = ca.partition_nmi(table, sample_weight=copies)
    named, given = (method(4, partition_weights=w, random_state=0) for w in ("agreement", scores))
    assert (named.fit(table, sample_weight=copies).labels_ == given.fit(table, sample_weight=copies).labels_).all()
    assert named.density_ == given.density_
    if method is not ca.AgreementConsensus:  # whose search moves all copies of an item at once
        repeated = method(4, partition_weights="agreement", random_state=0).fit(np.repeat(table, copies, axis=0))
        assert (np.repeat(named.labels_, copies) == repeated.labels_).all()


@pytest.mark.parametrize("name", ["density", "kmeans_loss", "ensemble_nmi", "item_consensus"])
def test_scores_take_agreement_too(name):
    table, truth = blocks(noise=0.5)
    score, weights = getattr(ca.metrics, name), ca.partition_nmi(table)
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


@pytest.mark.parametrize("method", [ca.KMeansConsensus, ca.DensityConsensus, ca.AgreementConsensus])
def test_a_refit_of_more_items_and_partitions_starts_from_the_last_consensus(method):
    table, truth = blocks()
    first = method(4, random_state=0).fit(table[:120, :5])
    start = np.concatenate([first.labels_, first.predict(table[120:, :5])])
    model = method(4, init=start, random_state=0).fit(table)
    assert ca.nmi(model.labels_, truth) > 0.95 and model.density_ == ca.density(table, model.labels_)


def test_fit_does_not_keep_the_ensemble():
    ensemble = ca.Ensemble(blocks(n=50)[0])
    alive = weakref.ref(ensemble)
    model = ca.KMeansConsensus(3, random_state=0).fit(ensemble)
    del ensemble
    gc.collect()
    assert alive() is None and model.labels_.shape == (50,)


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
