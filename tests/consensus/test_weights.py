"""Weights of partitions and of base clusters."""

import gc
import weakref
from functools import partial

import numpy as np
import pytest

import coassoc as ca
import oracle
from coassoc.consensus.registry import METHODS
from coassoc.metrics.membership import uncertainty_from_overlap

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


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_weight_zero_is_a_partition_less(missing):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 5, (200, 4)).astype(float)
    table[:, 1:][rng.random((200, 3)) < missing] = np.nan
    without = ca.KMeansConsensus(4, random_state=0).fit(table)
    weighted = ca.KMeansConsensus(4, partition_weights=[1, 1, 1, 1, 0], random_state=0)
    weighted.fit(np.column_stack([table, rng.integers(0, 6, 200)]))
    assert (weighted.labels_ == without.labels_).all()


@pytest.mark.parametrize("name", ["density", "kmeans_loss", "ensemble_nmi", "item_consensus"])
def test_scores_take_agreement_too(name):
    table, truth = blocks(noise=0.5)
    score, weights = getattr(ca.metrics, name), ca.partition_nmi(table)
    named, given = (score(table, truth, partition_weights=w) for w in ("agreement", weights))
    np.testing.assert_array_equal(*(getattr(found, "own", found) for found in (named, given)))
    with pytest.raises(ValueError, match="partition_weights must be None, 'agreement' or one number per partition"):
        score(table, truth, partition_weights="best")


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
