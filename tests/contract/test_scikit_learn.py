"""scikit-learn's own checks for every estimator, with three declared exceptions and our integer versions of them."""

from __future__ import annotations

import re
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import coassoc as ca
from coassoc import consensus

# every estimator that takes a label table: found, not listed, so that a new one is checked too
OTHERS = ("ConsensusClustering", "ConsensusEstimator", "GraphConsensus")  # features; yours; needs a graph
TABLE_ESTIMATORS = sorted(n for n in consensus.__all__ if hasattr(getattr(consensus, n), "fit") and n not in OTHERS)
NEEDS = {"MCLA": "pymetis", "CSPA": "pymetis"}
EXCEPTIONS = {
    "check_clustering": "features are not labels: see test_clusters_are_found_in_integer_labels",
    "check_sample_weight_equivalence_on_dense_data": "the same on integers: see test_multiplicity_equals_repetition",
    "check_positive_only_tag_during_fit": "it passes fractions: see test_negative_labels_are_accepted_as_missing",
}

RNG = np.random.default_rng(11)
TRUTH = RNG.integers(0, 3, size=60)
TABLE = np.column_stack([np.where(RNG.random(60) < 0.1, RNG.integers(0, 3, 60), TRUTH) for _ in range(6)])


def make(name: str, **settings):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    cls = getattr(consensus, name)
    known = cls._get_param_names()
    defaults = {"n_clusters": 3, "random_state": 0}
    return cls(**{k: v for k, v in {**defaults, **settings}.items() if k in known})


def configured(estimator, **settings):
    """On compiled kernels, with those settings that the method has."""
    known = {name: value for name, value in settings.items() if name in estimator.get_params()}
    return clone(estimator).set_params(engine="auto", **known)


def with_holes(rng):
    table = np.where(rng.random(TABLE.shape) < 0.3, rng.integers(0, 5, size=TABLE.shape), TABLE)
    table[rng.random(TABLE.shape) < 0.1] = -1
    table[7] = -1
    return table


def checked(others: bool):
    """One estimator of each base class, or the others, whose own part is a table, an objective or a graph."""
    first, rest = {}, []
    for name in TABLE_ESTIMATORS:
        if find_spec(NEEDS.get(name, "numpy")):
            base = getattr(consensus, name).__mro__[1]
            if first.setdefault(base, name) != name:
                rest.append(make(name))
    several = ca.ConsensusClustering(n_partitions=5, random_state=0)
    return rest if others else [*map(make, first.values()), make("KMeansConsensus"), several]


def exceptions(estimator):
    return {} if isinstance(estimator, ca.ConsensusClustering) else EXCEPTIONS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # tables of few different rows
@parametrize_with_checks(checked(others=False), expected_failed_checks=exceptions)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(checked(others=True), expected_failed_checks=exceptions)
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


@pytest.fixture(params=TABLE_ESTIMATORS)
def estimator(request):
    return make(request.param)


# -- our versions of the three exceptions ----------------------------------------------------------------------


def test_clusters_are_found_in_integer_labels(estimator):
    labels = estimator.fit_predict(TABLE)
    assert labels.shape == (60,) and labels.dtype.kind == "i" and (labels == estimator.labels_).all()
    assert set(labels.tolist()) <= set(range(3)) and ca.nmi(TRUTH, labels) > 0.8
    assert estimator.n_clusters_ == len(set(labels.tolist())) and estimator.cluster_sizes_.sum() == 60
    if "max_iter" in estimator.get_params():
        assert estimator.n_iter_ >= 1 and estimator.converged_ in (True, False)
    assert (clone(estimator).fit(TABLE.astype(np.float64)).labels_ == labels).all()
    with pytest.raises(ValueError, match=r"labels, not measurements"):
        clone(estimator).fit(TABLE + 0.5)


def test_multiplicity_equals_repetition(estimator):
    # CSPA's METIS asks for equal parts, and a heavy item is one piece where its copies could be divided
    most = 2 if type(estimator).__name__ == "CSPA" else 4
    rng = np.random.default_rng(2)
    weight = rng.integers(0, most, size=len(TABLE))
    for table, weights in ((TABLE, None), (with_holes(rng), rng.random(6) + 0.1)):
        if weights is not None and type(estimator).__name__ in ("CSPA", "AgreementConsensus"):
            continue  # the search moves all copies of an item at once
        model = configured(estimator, partition_weights=weights)
        weighted = clone(model).fit(table, sample_weight=weight)
        repeated = clone(model).fit(np.repeat(table, weight, axis=0))
        removed = clone(model).fit(table[weight > 0], sample_weight=weight[weight > 0])
        assert (np.repeat(weighted.labels_, weight) == repeated.labels_).all()
        assert (weighted.labels_[weight > 0] == removed.labels_).all()
        for name in ("density_", "loss_", "losses_", "linkage_"):
            assert np.array_equal(getattr(weighted, name, 0), getattr(repeated, name, 0)), name


def test_negative_labels_are_accepted_as_missing(estimator):
    table = TABLE.copy()
    table[::7, 2] = -1
    table[3] = -1
    labels = estimator.fit(table).labels_
    assert labels[3] == -1 and (np.delete(labels, 3) >= 0).all()
    nan = np.where(table < 0, np.nan, table)
    assert (clone(estimator).fit(nan).labels_ == labels).all()


def test_more_clusters_than_different_rows_warn_and_give_fewer(estimator):
    table = np.repeat([[0, 0], [0, 1], [-1, -1]], [5, 5, 1], axis=0)  # the last item has no label
    k = 11 if isinstance(estimator, ca.CSPA) else 5  # which may put equal rows apart
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        labels = estimator.set_params(n_clusters=k).fit(table).labels_
    told = [str(one.message) for one in seen if one.category is ConvergenceWarning]
    assert told and re.search(rf"n_clusters={k} is larger than .* clusters are returned", told[0])
    assert estimator.n_clusters_ == len(set(labels[:-1].tolist())) == np.count_nonzero(estimator.cluster_sizes_) < k
    assert labels.max() < len(estimator.cluster_sizes_) == len(estimator.cluster_density_)
    with pytest.raises(ValueError, match="n_samples=11 should be >= n_clusters=12"):
        estimator.set_params(n_clusters=12).fit(table)


@pytest.mark.parametrize("seed", range(2))
def test_names_of_clusters_and_order_of_partitions_do_not_matter(estimator, seed):
    if type(estimator).__name__ in ("ECPCS", "MCLA"):
        pytest.skip("it numbers base clusters, and equal distances between them are decided by number")
    rng = np.random.default_rng(seed)
    table, weights, order = with_holes(rng), rng.random(6) + 0.1 if seed else None, rng.permutation(6)
    renamed = np.stack([np.where(c < 0, -1, rng.permutation(50)[c]) for c in table.T], axis=1)
    model = configured(estimator, partition_weights=weights, random_state=seed).fit(table)
    for columns in (np.arange(6), order):
        own = None if weights is None else weights[columns]
        other = configured(estimator, partition_weights=own, random_state=seed).fit(renamed[:, columns])
        assert (other.labels_ == model.labels_).all() and other.density_ == model.density_
        assert getattr(other, "losses_", 0) == pytest.approx(getattr(model, "losses_", 0), rel=1e-9)


def test_predict_gives_the_labels_of_the_fit_and_takes_new_labels_for_missing(estimator):
    if not hasattr(estimator, "predict"):
        pytest.skip(f"{type(estimator).__name__} does not predict")
    table = with_holes(np.random.default_rng(0))
    model = configured(estimator).fit(table)
    for rows in (table, ca.Ensemble(table), table[20:33]):
        assert (model.predict(rows) == (model.labels_ if len(rows) > 13 else model.labels_[20:33])).all()
    assert [model.predict([row])[0] for row in table[:9]] == model.labels_[:9].tolist()
    new, hidden = table[:20].copy(), table[:20].copy()
    new[:, 3], hidden[:, 3] = 99, -1
    assert (model.predict(new) == model.predict(hidden)).all()
    assert model.predict(np.vstack([np.full((2, 6), 99), table[:1]])).tolist() == [-1, -1, model.labels_[0]]
    assert model.predict(np.array([["a"] * 6])).tolist() == [-1]
    assert (clone(model).fit_predict(table) == model.labels_).all()


# -- the rest of the contract ----------------------------------------------------------------------------------


def test_tags_names_and_number_of_partitions(estimator):
    tags = get_tags(estimator)
    assert tags.input_tags.categorical and tags.input_tags.allow_nan and tags.estimator_type == "clusterer"
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(TABLE, columns=[f"run {j}" for j in range(6)])
    assert estimator.fit(frame).n_features_in_ == 6
    assert estimator.feature_names_in_.tolist() == frame.columns.tolist()
    assert estimator.fit(ca.Ensemble(TABLE)).n_features_in_ == 6 and not hasattr(estimator, "feature_names_in_")
    if hasattr(estimator, "predict"):
        estimator.fit(frame)
        with pytest.raises(ValueError, match="X lacks columns, by name, that the model was fitted with: run 0;"):
            estimator.predict(frame.rename(columns={"run 0": "other"}))
        shuffled = frame[frame.columns[::-1]].assign(more="x")
        assert (estimator.predict(shuffled) == estimator.predict(frame)).all()
        with pytest.raises(ValueError, match=r"X has 5 features, but \w+ is expecting 6"):
            estimator.predict(ca.Ensemble(TABLE[:, :5]))


def test_metadata_routing_of_sample_weight(estimator):
    weight = np.random.default_rng(3).integers(1, 3, size=len(TABLE))
    with config_context(enable_metadata_routing=True):
        step = clone(estimator).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(FunctionTransformer(), step).fit(TABLE, sample_weight=weight)
        direct = clone(estimator).fit(TABLE, sample_weight=weight)
        assert (pipeline[-1].labels_ == direct.labels_).all()
