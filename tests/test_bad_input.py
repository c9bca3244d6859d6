"""What is wrong, where, and the way out: one table of bad input for the ensemble, the estimators and the scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import coassoc as ca

GOOD = np.array([[0, 1], [0, 1], [1, 0], [1, 2], [2, 2]])  # four different rows
INF = float("inf")


def ragged():
    out = np.empty(2, dtype=object)
    out[:] = [[0, 1], [0]]
    return out


# X, the error, and words its message must hold: the argument, what was found, what to do
TABLES = {
    "1-D": (np.array([0, 1, 1]), ValueError, ["partitions", "(3,)", "np.asarray(labels)[:, None]"]),
    "1-D list": ([0, 1, 1], ValueError, ["partitions", "(3,)", "np.asarray(labels)[:, None]"]),
    "3-D": (np.zeros((2, 2, 2), int), ValueError, ["partitions", "(2, 2, 2)", "2-D"]),
    "3-D list": ([[[0], [1]], [[1], [0]]], TypeError, ["partitions", "list", "from_communities"]),
    "None": (None, TypeError, ["partitions", "NoneType", "(n_samples, n_partitions)"]),
    "no such file": ("abc", FileNotFoundError, ["partitions", "'abc'"]),
    "fractions": (np.array([[0.5, 1.0]]), ValueError, ["partitions", "row 0", "0.5", "make_ensemble"]),
    "fractions in a list": ([[0, 1], [0, 1.25]], ValueError, ["partitions", "column 1, row 1", "1.25"]),
    "inf": (np.array([[0.0, INF]]), ValueError, ["partitions", "infinity", "column 1", "NaN"]),
    "no rows": (np.zeros((0, 3), int), ValueError, ["partitions", "(0, 3)", "at least one item"]),
    "no columns": (np.zeros((3, 0), int), ValueError, ["partitions", "(3, 0)", "one partition"]),
    "all missing": (np.full((3, 2), -1), ValueError, ["partitions", "column 0", "no label", "drop"]),
    "a missing column": ([[0, None], [1, None]], ValueError, ["partitions", "column 1", "no label", "drop"]),
    "ragged": ([[0, 1], [0]], ValueError, ["partitions", "[1, 2]", "None"]),
    "ragged array": (ragged(), ValueError, ["partitions", "(2,)"]),
    "complex": (np.array([[1j, 2]]), (TypeError, ValueError), ["complex128", "labels"]),
    "sparse": (sparse.csr_matrix(GOOD), TypeError, ["partitions", "sparse", "dense"]),
    "nested dicts": ([[{"a": 1}, 2]], TypeError, ["partitions", "column 0", "dict"]),
    "sets of rows": ({1, 2}, TypeError, ["partitions", "set"]),
    "beyond 64 bits": ([[2**70, 1]], ValueError, ["partitions", "column 0", "64-bit", "strings"]),
    "records": (np.zeros((2, 2), dtype=[("a", int)]), TypeError, ["partitions", "column 0", "labels must be"]),
}

CONSUMERS = (
    ca.Ensemble,
    lambda X: ca.KMeansConsensus(2, random_state=0, engine="numpy").fit(X),
    lambda X: ca.density(X, [0, 1, 1], engine="numpy"),
)


def refused(error, words, call, *args, **kwargs):
    with pytest.raises(error) as caught:
        call(*args, **kwargs)
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize("name", TABLES)
def test_a_bad_table_is_refused_with_a_reason(name):
    table, error, words = TABLES[name]
    for consumer in CONSUMERS:
        refused(error, words, consumer, table)


KM, TREE = ca.KMeansConsensus, ca.BisectingConsensus
BOTH = (KM, TREE)
COPIES, WEIGHTS = "sample_weight", "partition_weights"

# estimators, parameters, fit arguments, error, words
PARAMETERS = {
    "k = 0": (BOTH, {"n_clusters": 0}, {}, ValueError, ["n_clusters", "at least 1", "0"]),
    "k a float": (BOTH, {"n_clusters": 2.0}, {}, TypeError, ["n_clusters", "integer", "2.0"]),
    "engine unknown": (BOTH, {"engine": "fast"}, {}, ValueError, ["engine", "'fast'", "numpy"]),
    "engine a number": (BOTH, {"engine": 3}, {}, TypeError, ["engine", "int", "numpy"]),
    "criterion": ((TREE,), {"criterion": "density"}, {}, ValueError, ["criterion", "'density'", "gain"]),
    "init": ((KM,), {"init": "kmeans"}, {}, ValueError, ["init", "'kmeans'", "k-means++"]),
    "init length": ((KM,), {"init": [0, 1]}, {}, ValueError, ["init", "(5)", "2"]),
    "init shape": ((KM,), {"init": np.zeros((5, 2))}, {}, ValueError, ["init", "one-dimensional", "(5, 2)"]),
    "init fractions": ((KM,), {"init": [0, 0.5, 1, 1, 1]}, {}, ValueError, ["init", "row 1", "0.5"]),
    "init too many": ((KM,), {"init": [0, 1, 2, 2, 2]}, {}, ValueError, ["init", "3 clusters", "n_clusters=2"]),
    "init all missing": ((KM,), {"init": [-1] * 5}, {}, ValueError, ["init", "no label"]),
    "n_init": (BOTH, {"n_init": 0}, {}, ValueError, ["n_init", "at least 1", "0"]),
    "huge n_init": (BOTH, {"n_init": 10**20}, {}, ValueError, ["n_init", "at most 2147483647", "1" + "0" * 20]),
    "max_leaves < k": ((TREE,), {"max_leaves": 1}, {}, ValueError, ["max_leaves=1", "n_clusters=2"]),
    "seed a float": (BOTH, {"random_state": 0.5}, {}, TypeError, ["random_state", "0.5", "integer"]),
    "seed negative": (BOTH, {"random_state": -1}, {}, ValueError, ["random_state", "-1"]),
    "weights negative": (BOTH, {WEIGHTS: [1, -1]}, {}, ValueError, [WEIGHTS, "negative", "-1"]),
    "weights NaN": (BOTH, {WEIGHTS: [1, np.nan]}, {}, ValueError, [WEIGHTS, "finite", "nan"]),
    "weights length": (BOTH, {WEIGHTS: [1, 1, 1]}, {}, ValueError, [WEIGHTS, "(2)", "(3,)"]),
    "weights text": (BOTH, {WEIGHTS: ["a", "b"]}, {}, TypeError, [WEIGHTS, "numbers"]),
    "copies negative": (BOTH, {}, {COPIES: [1, 1, 1, 1, -2]}, ValueError, [COPIES, "-2", "removes"]),
    "copies fraction": (BOTH, {}, {COPIES: [1, 1, 0.5, 1, 1]}, ValueError, [COPIES, "0.5", "integers"]),
    "copies zero": (BOTH, {}, {COPIES: [0] * 5}, ValueError, [COPIES, "at least one", "zeros"]),
    "copies huge": (BOTH, {}, {COPIES: [2**62] * 5}, ValueError, [COPIES, str(2**62), "divide"]),
    "copies huge sum": (BOTH, {}, {COPIES: [2**31] * 5}, ValueError, [str(5 * 2**31), "at most"]),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_bad_parameter_is_refused_with_a_reason(name):
    estimators, parameters, arguments, error, words = PARAMETERS[name]
    for estimator in estimators:
        made = estimator(**({"n_clusters": 2, "random_state": 0, "engine": "numpy"} | parameters))
        refused(error, words, made.fit, GOOD, **arguments)


SCORES = {
    "labels length": (lambda: ca.density(GOOD, [0, 1]), ValueError, ["labels", "(5)", "2"]),
    "labels shape": (lambda: ca.density(GOOD, np.zeros((5, 2))), ValueError, ["labels", "(5, 2)"]),
    "labels fractions": (lambda: ca.density(GOOD, [0, 0.5, 0, 0, 0]), ValueError, ["labels", "row 1", "0.5"]),
    "labels missing": (lambda: ca.density(GOOD, [None] * 5), ValueError, ["labels", "no label"]),
    "labels lists": (lambda: ca.density(GOOD, [[0], [1, 2], 0, 0, 0]), TypeError, ["labels", "list"]),
    "a and b": (lambda: ca.nmi([0, 1], [0]), ValueError, ["b", "(2)", "1"]),
    "metric": (lambda: ca.zero_effort(GOOD, metric="ari"), ValueError, ["metric", "'nmi' or 'density'", "'ari'"]),
    "a empty": (lambda: ca.nmi([], []), ValueError, ["a must", "at least one"]),
    "missing rule": (lambda: ca.Ensemble(GOOD, missing="zero"), ValueError, ["missing", "'zero'", "negative"]),
    "rule for vectors": (lambda: ca.Ensemble.from_partitions([[0]], missing=None), ValueError, ["missing", "None"]),
    "chunk_rows": (lambda: ca.engines.Numpy(chunk_rows=0), ValueError, ["chunk_rows", "at least 1", "0"]),
}


@pytest.mark.parametrize("name", SCORES)
def test_bad_arguments_of_scores_and_ensembles_are_refused_with_a_reason(name):
    call, error, words = SCORES[name]
    refused(error, words, call)


@pytest.mark.parametrize("estimator", BOTH)
def test_prediction_checks_its_rows_too(estimator):
    fitted = estimator(2, random_state=0, engine="numpy").fit(GOOD)
    refused(ValueError, ["3 features", "expecting 2"], fitted.predict, np.zeros((4, 3), int))
    refused(ValueError, ["(2,)", "np.asarray(labels)[:, None]"], fitted.predict, np.array([0, 1]))
    refused(ValueError, ["column 0", "0.5"], fitted.predict, [[0.5, 1]])
    refused(ValueError, ["(0, 2)"], fitted.predict, np.zeros((0, 2), int))
    from sklearn.exceptions import NotFittedError

    refused(NotFittedError, ["not fitted"], estimator(2).predict, GOOD)
    refused(NotFittedError, ["not fitted"], TREE(2).cut, 1)
