"""What single methods refuse, with the argument and the rule. What all of them refuse: tests/test_bad_input.py."""

import pytest

import coassoc as ca

TABLE = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
REFUSED = [
    ("EAC", {"linkage": "ward"}, ValueError, "linkage must be one of"),
    ("EAC", {"micro_clusters": 1}, ValueError, "micro_clusters=1 must be at least n_clusters=2"),
    ("EAC", {"enhanced": True, "max_bytes": 100}, MemoryError, r"needs \d+ bytes, above max_bytes=100"),
    ("MCLA", {"max_bytes": 1000}, MemoryError, r"MCLA over 5 base clusters needs up to \d+ bytes"),
    ("ECC", {"epsilon": 0.0}, ValueError, "epsilon must be above 0"),
    ("ECC", {"epsilon": "a"}, TypeError, "epsilon must be a number, got 'a'"),
    ("ECC", {"smoothing": "floor", "epsilon": 1.5}, ValueError, "below 1"),
    ("LWGP", {"theta": float("nan")}, ValueError, "theta must be a positive number"),
    ("LWEA", {"theta": -1.0}, ValueError, "theta must be a positive number"),
    ("DensityConsensus", {"n_init": 0, "micro_clusters": None}, ValueError, "nothing to start from"),
    ("DensityConsensus", {"partition_weights": "best"}, ValueError, "'agreement'"),
    ("DensityConsensus", {"init": [0, 0, 1, 1, 2, 2]}, ValueError, "init must have n_clusters=2"),
    ("ConsensusClustering", {"n_clusters": 7}, ValueError, "n_samples=6 should be >= n_clusters=7"),
    ("ConsensusClustering", {"n_clusters": "auto", "method": "density"}, TypeError, "n_clusters"),
    ("ConsensusClustering", {"method": "nope"}, ValueError, "no method 'nope'"),
    ("ConsensusClustering", {"method": 3}, TypeError, "method must be a name or a consensus estimator"),
    ("ConsensusClustering", {"clusterer": 3}, TypeError, "clusterer must be a scikit-learn clusterer"),
    ("ConsensusClustering", {"base_n_clusters": (5, 2)}, ValueError, r"^base_n_clusters must be a range \(low, high\)"),
    ("ConsensusClustering", {"feature_fraction": 0}, ValueError, "feature_fraction"),
]


@pytest.mark.parametrize(("method", "settings", "error", "words"), REFUSED)
def test_a_bad_argument_is_named(method, settings, error, words):
    if method in ("MCLA", "CSPA"):
        pytest.importorskip("pymetis")
    with pytest.raises(error, match=words):
        getattr(ca, method)(**{"n_clusters": 2} | settings).fit(TABLE)
