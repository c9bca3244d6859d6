"""select_k: says when there is nothing, finds what is plainly there, and says what it can claim."""

import json

import numpy as np
import pytest

import coassoc as ca

SETTINGS = {"n_references": 6, "n_partitions": 12}


def gaussian(seed, n=200, d=5):
    return np.random.default_rng(seed).standard_normal((n, d))


def cube(seed, n=200, d=3):
    return np.random.default_rng(seed).random((n, d))


def blobs(seed, n=200):
    """2 to 4 unit Gaussians in the plane whose centres are at least 10 apart."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    centres = [rng.uniform(-15, 15, 2)]
    while len(centres) < k:
        one = rng.uniform(-15, 15, 2)
        if min(np.linalg.norm(one - other) for other in centres) >= 10:
            centres.append(one)
    return np.array(centres)[rng.permutation(np.arange(n) % k)] + rng.standard_normal((n, 2)), k


def independent(seed, n=200, p=12):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, rng.integers(2, 9), size=n) for _ in range(p)], axis=1)


def right(kind, seeds, settings=SETTINGS):
    """In how many trials the answer is the right one."""
    good = 0
    for seed in seeds:
        if kind == "blobs":
            X, k = blobs(seed)
            good += ca.select_k(X, range(2, 6), random_state=seed, **settings).k == k
        elif kind == "independent":
            found = ca.select_k(ca.Ensemble(independent(seed)), range(2, 6), random_state=seed)
            good += found.reference == "permuted" and not found.structure and found.k == 1
        else:
            X = gaussian(seed) if kind == "gaussian" else cube(seed)
            found = ca.select_k(X, range(2, 6), random_state=seed, **settings)
            good += found.k == 1 and not found.structure and found.verdict.startswith("No structure")
    return good


@pytest.mark.parametrize("kind", ["gaussian", "cube", "blobs", "independent"])
def test_a_trial_comes_out_right(kind):
    assert right(kind, range(1)) == 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["gaussian", "cube", "blobs", "independent"])
def test_at_least_95_of_100_trials_come_out_right(kind):
    good = right(kind, range(100, 200), {})  # as users call it
    print(f"{kind}: {good} of 100")
    assert good >= 95


def test_partitions_that_agree_are_told_from_chance_and_k_is_found():
    rng = np.random.default_rng(0)
    truth = np.arange(240) % 4
    table = np.stack([np.where(rng.random(240) < 0.15, rng.integers(0, 4, 240), truth) for _ in range(10)], axis=1)
    found = ca.select_k(table, range(2, 9), reference="permuted", random_state=0)
    assert found.structure and found.k == 4 and found.runners_up == []
    assert found.reference == "permuted" and "not whether the data have clusters" in found.claim
    assert found.p_value < 1e-6 and "(p < 0.001)" in found.verdict
    assert ca.nmi(found.labels(), truth) > 0.9
    assert set(found.curves) == {"agreement", "eigengap", "stability", "balance"} and np.isnan(found.z)
    assert all(len(np.unique(found.labels(k))) == k for k in found.ks.tolist())


def test_items_without_a_label_have_none():
    table = independent(0, n=60)
    table[::7] = -1
    found = ca.select_k(ca.Ensemble(table), range(2, 4), random_state=0)
    assert (found.labels(3)[::7] == -1).all() and set(np.delete(found.labels(3), np.s_[::7])) == {0, 1, 2}


def test_two_levels_of_clusters_are_both_named():
    # four members see four groups, seven see that each consists of two
    rng = np.random.default_rng(1)
    fine = np.arange(320) % 8
    members = [fine if j < 7 else fine // 2 for j in range(11)]
    table = np.stack([np.where(rng.random(320) < 0.1, rng.integers(0, 8, 320), one) for one in members], axis=1)
    found = ca.select_k(ca.Ensemble(table), range(2, 13), random_state=0)
    assert {4, 8} <= {found.k, *found.runners_up} and found.k in (4, 8)
    assert found.verdict.startswith(f"{found.k} or {found.runners_up[0]} clusters")


@pytest.mark.parametrize("kind", [int, float])
def test_whole_numbers_are_not_taken_for_labels_without_a_word(kind):
    table = independent(0).astype(kind)
    with pytest.raises(ValueError, match="may be labels or features"):
        ca.select_k(table)
    assert ca.select_k(table, range(2, 4), reference="permuted", random_state=0).reference == "permuted"
    small = {"n_references": 4, "n_partitions": 5, "random_state": 0}
    assert ca.select_k(table, range(2, 4), reference="gaussian", **small).reference == "gaussian"
    assert ca.select_k(table.astype(int).astype(str), range(2, 4), random_state=0).reference == "permuted"


def test_the_result_prints_and_travels_as_json():
    found = ca.select_k(ca.Ensemble(independent(0, n=60)), range(2, 4), random_state=0)
    text = str(found)
    assert "reference: permuted" in text and "stability" in text
    assert json.loads(json.dumps(found.to_dict()))["k"] == 1
    assert found.labels().tolist() == [0] * 60
    with pytest.raises(ValueError, match="must be one of those tried"):
        found.labels(9)


def test_the_same_seed_gives_the_same_answer():
    X, _ = blobs(1, n=80)
    a, b = (ca.select_k(X, range(2, 4), n_references=4, n_partitions=5, random_state=4).to_dict() for _ in range(2))
    assert a == b


def test_neighbours_share_a_cluster_as_counted_by_hand():
    X, k = blobs(0, n=100)
    found = ca.select_k(X, range(2, 5), n_references=4, n_partitions=5, random_state=0)
    assert found.reference == "gaussian" and "covariance" in found.claim and found.k == k and found.z > 3
    distance = np.linalg.norm(X[:, None] - X, axis=2) + np.diag(np.full(100, np.inf))
    nearest = np.argsort(distance, axis=1)[:, :10]
    for i, other in enumerate(found.ks.tolist()):
        labels = found.labels(other)
        chance = (np.bincount(labels) ** 2).sum() / 100**2
        share = np.mean([labels[a] == labels[b] for a in range(100) for b in nearest[a]])
        assert found.curves["neighbours"][i] == pytest.approx((share - chance) / (1 - chance), abs=0.05)


@pytest.mark.parametrize(
    "X, settings, message",
    [
        (np.zeros((20, 2)) + 0.5, {"ks": []}, "ks must name at least one"),
        (np.random.default_rng(0).random((20, 2)), {"ks": [1]}, "ks must be at least 2"),
        (np.random.default_rng(0).random((20, 2)), {"ks": [15]}, "at most a quarter"),
        (
            np.zeros((20, 1), dtype=int) + np.arange(20)[:, None] % 3,
            {"ks": [2], "reference": "permuted"},
            "two clusterings",
        ),
        ([[0, 1], [1, 0]], {"reference": "guess"}, "reference must be one of"),
    ],
)
def test_bad_input_is_named(X, settings, message):
    with pytest.raises(ValueError, match=message):
        ca.select_k(X, **settings)


def test_segments_that_overlap_and_many_blobs_are_structure():
    rng = np.random.default_rng(0)
    segments = rng.uniform(0, 12, (6, 4))[rng.permutation(600) % 6] + rng.normal(size=(600, 4))
    assert ca.select_k(segments, range(2, 11), random_state=0, **SETTINGS).k in (5, 6)
    centres = np.array([[i, j] for i in range(5) for j in range(3)]) * 10.0
    assert ca.select_k(centres[np.arange(600) % 15] + rng.normal(size=(600, 2)), range(10, 18), random_state=0,
                       **SETTINGS).k in (14, 15, 16)  # fmt: skip
