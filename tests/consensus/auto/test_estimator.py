"""Consensus: finds what is there, says when nothing is, and depends on nothing but the ensemble and the seed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

import coassoc as ca
from benchmarks.truth_families import blob_ensemble, digits_ensemble
from coassoc.consensus.auto.estimator import gather_evidence
from coassoc.core.checks import seed_from
from coassoc.engines import resolve


def planted(seed=0, n=400, k=4, p=9, noise=0.15, missing=0.0):
    """Members that know the truth but for some noise; half of them have merged two of its clusters."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    columns = []
    for j in range(p):
        labels = np.where(truth == k - 1, 0, truth) if j % 4 == 3 else truth
        columns.append(np.where(rng.random(n) < noise, rng.integers(0, k, n), labels))
    table = np.stack(columns, axis=1)
    table[rng.random(table.shape) < missing] = -1
    return table, truth


def fit(table, **settings):
    return ca.Consensus(**{"random_state": 1, **settings}).fit(table)


def same(a, b):
    """Equal in everything that a user sees."""
    facts = [(x.n_clusters_, x.method_, x.supported_, x.verdict_, x.stability_, x.agreement_) for x in (a, b)]
    arrays = ("labels_", "confidence_", "cluster_confidence_", "partition_weights_", "partition_ari_")
    return facts[0] == facts[1] and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays)


# -- what is there, and what is not ------------------------------------------------------------------------------


def test_planted_clusters_are_found_and_described():
    table, truth = planted()
    answer = fit(table)
    assert answer.n_clusters_ == 4 and answer.supported_
    assert adjusted_rand_score(truth, answer.labels_) > 0.95
    assert answer.verdict_.startswith("4 clusters") and "from all 9 clusterings" in answer.verdict_
    assert answer.verdict_.endswith("clusterings of evenly spread data agree too.")
    assert answer.confidence_.shape == (400,) and 0 <= answer.confidence_.min() <= answer.confidence_.max() <= 1
    assert (answer.partition_weights_ == 1).all()
    means = [answer.confidence_[answer.labels_ == c].mean() for c in range(4)]
    assert answer.cluster_confidence_ == pytest.approx(means)
    assert answer.density_ == pytest.approx(ca.density(table, answer.labels_))
    scores = [adjusted_rand_score(answer.labels_, member) for member in table.T]
    assert answer.partition_ari_ == pytest.approx(scores)
    assert answer.nearest_partition_ == (int(np.argmax(scores)), str(np.argmax(scores)), pytest.approx(max(scores)))
    assert answer.agreement_ == pytest.approx(
        np.mean([adjusted_mutual_info_score(answer.labels_, member) for member in table.T])
    )
    assert (np.diff(answer.cluster_sizes_) <= 0).all()
    ks = answer.k_curves_["ks"]
    assert answer.k_curves_["score"][ks == 4] == np.nanmax(answer.k_curves_["score"])


def wrong_blobs(seeds):
    return [(kind, seed) for kind in ("wide", "near", "above") for seed in seeds
            if fit(blob_ensemble(kind, seed).table).n_clusters_ != blob_ensemble(kind, seed).k]  # fmt: skip


def test_the_number_of_blobs_is_found():
    assert len(wrong_blobs(range(3))) <= 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_number_of_blobs_is_found_in_54_of_60():
    assert len(wrong_blobs(range(20))) <= 6


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_digits_have_9_to_12_clusters(seed):
    assert 9 <= fit(digits_ensemble(seed).table).n_clusters_ <= 12
    assert load_digits().target.max() == 9


@pytest.mark.parametrize("seed", range(3))
def test_linkage_and_confidence_are_those_of_all_pairs_of_items(seed):
    """Where micro-clusters are the different rows: each merge joins the most similar two, and confidences by hand."""
    table, _ = planted(seed, n=50, k=3, noise=0.25)
    ensemble, k = ca.Ensemble(table), 3
    engine = resolve("numpy", ensemble)
    rows = engine.load(ensemble)
    evidence = gather_evidence(rows, engine, [k], seed_from(1))
    leaf = rows.labels(evidence.micro.labelling)
    together = (table[:, None] == table[None]).mean(axis=2)
    merges = evidence.fits.strong_tree.merges
    groups = {i: np.flatnonzero(leaf == i) for i in range(evidence.micro.n_leaves)}
    for a, b, similarity in zip(merges.first.tolist(), merges.second.tolist(), merges.similarity / table.shape[1]):
        mean = {(i, j): (together[np.ix_(groups[i], groups[j])] ** 4).mean() for i in groups for j in groups if i < j}
        assert mean[min(a, b), max(a, b)] == pytest.approx(similarity) == pytest.approx(max(mean.values()))
        groups[a] = np.concatenate([groups[a], groups.pop(b)])

    answer = ca.Consensus(k, random_state=1, engine="numpy").fit(table)
    own = answer.labels_[:, None] == answer.labels_
    association = (together * own).sum(axis=1) / own.sum(axis=1)
    for c in range(k):  # the highest of an item in the largest part of each member
        members = table[answer.labels_ == c].T
        association[answer.labels_ == c] /= np.mean([np.bincount(labels).max() / len(labels) for labels in members])
    assert answer.confidence_ == pytest.approx((np.sqrt(association) + answer.stability_) / 2, abs=1e-5)


# -- it depends on nothing else ----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_every_engine_gives_the_same_answer(all_engines, missing):
    table, _ = planted(n=300, missing=missing)
    table[5] = -1
    expected = fit(table, engine="numpy")
    assert expected.labels_[5] == -1 and expected.confidence_[5] == 0
    for name, engine in all_engines.items():
        assert same(expected, fit(table, engine=engine)), name


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_names_of_clusters_and_order_of_partitions_do_not_matter_to_a_named_method(missing):
    table, _ = planted(missing=missing)
    rng, method = np.random.default_rng(3), "hbgf"
    expected = fit(table, method=method)
    renamed = table.copy()
    for j in range(table.shape[1]):
        names = rng.permutation(9)
        renamed[:, j] = np.where(table[:, j] < 0, -1, names[table[:, j]])
    answer = fit(renamed, method=method)
    assert ca.nmi(answer.labels_, expected.labels_) == 1 and answer.verdict_ == expected.verdict_
    order = rng.permutation(table.shape[1])
    answer = fit(table[:, order], method=method)
    assert ca.nmi(answer.labels_, expected.labels_) == 1 and answer.verdict_ == expected.verdict_
    assert (answer.partition_weights_ == expected.partition_weights_[order]).all()
    assert (answer.partition_ari_ == expected.partition_ari_[order]).all()


def test_a_large_ensemble_is_reduced_on_a_sample(monkeypatch):
    table, truth = planted(n=3000)
    monkeypatch.setattr("coassoc.consensus.micro.SAMPLED_ABOVE", 1000)
    monkeypatch.setattr("coassoc.consensus.micro.SAMPLE_ITEMS", 800)
    answer = fit(table)
    assert adjusted_rand_score(truth, answer.labels_) > 0.95 and answer.n_clusters_ == 4
    assert same(answer, fit(table, engine="numpy")) and same(
        answer, fit(table, engine=ca.engines.Stream(1))
    )
    weight = np.random.default_rng(0).integers(0, 3, 3000)
    weighted, repeated = fit(table).fit(table, sample_weight=weight), fit(np.repeat(table, weight, axis=0))
    assert (np.repeat(weighted.labels_, weight) == repeated.labels_).all()


# -- other ways to ask, and small tables -------------------------------------------------------------------------


def test_numbers_of_clusters_may_be_given():
    table, _ = planted()
    assert fit(table, n_clusters=3).n_clusters_ == 3
    assert "suggest 4" in fit(table, n_clusters=7).verdict_
    assert fit(table, n_clusters=range(2, 9)).n_clusters_ == 4
    assert fit(table, n_clusters=[5, 6]).n_clusters_ in (5, 6)
    assert not fit(table, n_clusters=1).labels_.any()
    for bad, message in (
        (0, "at least 1"),
        ("four", '"auto", an integer'),
        ([], "at least one"),
        ([2, 0], "at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(table, n_clusters=bad)
    with pytest.raises(TypeError, match="n_clusters must be an integer"):
        fit(table, n_clusters=2.5)
    with pytest.warns(ConvergenceWarning, match="n_clusters=9 is larger"):
        assert fit(np.repeat([[0, 0, 0], [1, 1, 1]], 10, axis=0), n_clusters=9).n_clusters_ == 2


@pytest.mark.parametrize("method", ["average", "lwea", "kmeans", "density", "hbgf", "bisecting", "eac"])
def test_a_method_may_be_named(method):
    table, truth = planted(missing=0.05)
    answer = fit(table, method=method)
    assert answer.method_ == method and answer.n_clusters_ == 4 and answer.supported_
    assert adjusted_rand_score(truth, answer.labels_) > 0.8
    if method not in ("average", "lwea"):
        model = ca.consensus.registry.make_method(method, n_clusters=4, random_state=1).fit(table)
        assert (answer.labels_ == model.labels_).all() and answer.density_ == pytest.approx(model.density_)
    assert {other.method for other in answer.alternatives_} >= {"average", "lwea"} - {method}


def test_unknown_methods_are_refused():
    with pytest.raises(ValueError, match="did you mean 'density'"):
        fit(planted()[0], method="densty")


def test_alternatives_describe_themselves():
    table, _ = planted()
    answer = fit(table)
    assert answer.alternatives_
    for other in answer.alternatives_:
        assert len(np.unique(other.labels)) == other.n_clusters
        assert other.distance == pytest.approx(1 - adjusted_rand_score(answer.labels_, other.labels))
        expected = [adjusted_mutual_info_score(other.labels, member) for member in table.T]
        assert other.agreement == pytest.approx(np.mean(expected), abs=1e-6)
        assert f"{other.n_clusters} clusters by {other.method}" in repr(other)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 30])
def test_small_tables(n, p):
    table = np.arange(n)[:, None].repeat(p, axis=1) % 3
    answer = fit(table)
    assert answer.labels_.shape == answer.confidence_.shape == (n,)
    assert answer.supported_ is None and not answer.confidence_.any()
    assert adjusted_rand_score(answer.labels_, table[:, 0]) == 1
    assert (answer.predict(table) == answer.labels_).all()


def test_constant_members_do_no_harm():
    table, _ = planted(p=6)
    answer = fit(np.column_stack([table, np.zeros((400, 2), int)]))
    assert answer.n_clusters_ == 4 and "6 of 8" in answer.verdict_
    nothing = fit(np.zeros((20, 3), int))
    assert nothing.n_clusters_ == 1 and nothing.supported_ is None


def test_items_without_labels_take_no_part():
    table, _ = planted(missing=0.1)
    table[[3, 7]] = -1
    answer = fit(table)
    assert (answer.labels_[[3, 7]] == -1).all() and not answer.confidence_[[3, 7]].any()
    for other in answer.alternatives_:
        assert (other.labels[[3, 7]] == -1).all()
    without = fit(np.delete(table, [3, 7], axis=0))
    assert (without.labels_ == np.delete(answer.labels_, [3, 7])).all() and without.verdict_ == answer.verdict_


@pytest.mark.parametrize("method", ["auto", "hbgf"])
def test_a_saved_answer_is_the_same(tmp_path, method):
    table, _ = planted(missing=0.05)
    answer = fit(table, method=method)
    answer.save(tmp_path / "answer.skops")
    again = ca.load(tmp_path / "answer.skops")
    assert same(answer, again) and (again.predict(table) == answer.predict(table)).all()
    for a, b in zip(answer.alternatives_, again.alternatives_, strict=True):
        assert repr(a) == repr(b) and (a.labels == b.labels).all()


def test_new_rows_get_the_cluster_of_the_nearest_micro_cluster():
    table, truth = planted(noise=0.05)
    answer = fit(table[:300])
    assert (answer.predict(table[:300]) == answer.labels_).all()
    assert adjusted_rand_score(truth[300:], answer.predict(table[300:])) > 0.9
    assert answer.predict([["never"] * 9]).tolist() == [-1]


def test_steps_are_printed(capsys):
    fit(planted()[0], verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Consensus:") and "4 clusters" in lines[-1]


def test_small_groups_are_kept_when_k_is_given_and_named_when_they_join():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), [250, 250, 250, 240, 10])
    members = [np.where(rng.random(1000) < 0.05, rng.integers(0, 4, 1000), truth) for _ in range(8)]
    table = np.stack([np.where(truth == 4, 4, member) for member in members], axis=1)
    kept = fit(table, n_clusters=5)
    assert len(np.unique(kept.labels_[truth == 4])) == 1 and (kept.labels_ == kept.labels_[-1]).sum() == 10
    absorbed = fit(table, n_clusters=4, min_cluster_size=30)
    assert absorbed.cluster_sizes_.min() >= 30 and "10 items in groups too small" in absorbed.verdict_
    assert fit(table, min_cluster_size=2).cluster_sizes_.min() >= 2
    with pytest.raises(ValueError, match="min_cluster_size must be at least 1"):
        fit(table, min_cluster_size=0)
    with pytest.raises(ValueError, match="min_cluster_size needs method"):
        fit(table, method="hbgf", min_cluster_size=5)


def test_the_share_of_sure_items_is_not_rounded_up():
    table, _ = planted(0, n=400, noise=0.12)
    answer = ca.Consensus(random_state=0).fit(table)
    sure = 100.0 * (answer.confidence_ >= np.float32(0.85)).mean()
    assert 99.5 < sure < 100 and " 99 % of the items are placed surely" in answer.verdict_


# -- noise=: items that most clusterings leave out get −1 ------------------------------------------------------------


@pytest.fixture(scope="module")
def strays():
    """Three groups in eight clusterings; the first 10 items are noise in six of them, the next 10 in two."""
    rng = np.random.default_rng(0)
    groups = np.arange(150) % 3
    found = np.where(rng.random((150, 8)) < 0.05, rng.integers(3, size=(150, 8)), groups[:, None])
    found[:10, :6] = -1
    found[10:20, :2] = -1
    return found


def test_items_that_most_leave_out_have_no_cluster(strays):
    plain = ca.Consensus(random_state=0).fit(strays)
    model = ca.Consensus(noise=0.5, random_state=0).fit(strays)
    assert (model.labels_[:10] == -1).all() and (model.confidence_[:10] == 0).all()
    assert ca.nmi(model.labels_[10:], plain.labels_[10:]) == 1 and (plain.labels_ >= 0).all()
    assert (model.cluster_sizes_ == np.bincount(model.labels_[10:])).all()
    sure = (model.confidence_[10:] >= 0.85).mean()
    assert "10 items are noise, and in no cluster." in model.verdict_
    assert f"{int(100 * sure)} % of the items with a cluster are placed surely" in model.verdict_
    assert (ca.Consensus(noise=0.2, random_state=0).fit(strays).labels_[:20] == -1).all()
    assert (ca.Consensus(noise=0.75, random_state=0).fit(strays).labels_ >= 0).all()  # more than the share


@pytest.mark.parametrize("value", [1, -0.1, "most", True])
def test_a_share_of_noise_is_asked_for(strays, value):
    with pytest.raises(ValueError, match="noise must be None or a share from 0 to below 1"):
        ca.Consensus(noise=value).fit(strays)


@pytest.mark.parametrize("settings", [{}, {"method": "kmeans", "n_clusters": 3}, {"n_clusters": 4}])
def test_noise_takes_no_part(strays, settings):
    """The answer is that of a table without these rows, and no cluster is empty."""
    single = np.full((12, 8), -1)
    single[np.arange(12), np.arange(12) % 8] = 3 + np.arange(12) % 2  # clusters of noise in single runs
    table = np.vstack([strays, single])
    noisy = (table < 0).mean(axis=1) > 0.5
    model = ca.Consensus(noise=0.5, random_state=0, **settings).fit(table)
    alone = ca.Consensus(random_state=0, **settings).fit(table[~noisy])
    assert (model.labels_[~noisy] == alone.labels_).all() and (model.labels_[noisy] == -1).all()
    assert (model.confidence_[~noisy] == alone.confidence_).all() and (model.confidence_[noisy] == 0).all()
    assert model.n_clusters_ == alone.n_clusters_ and (model.cluster_sizes_ > 0).all()
    assert all((other.labels[noisy] == -1).all() for other in model.alternatives_)
    assert model.verdict_.replace(" 22 items are noise, and in no cluster.", "").replace(" with a cluster", "") == (
        alone.verdict_
    )


def test_nothing_but_noise_is_refused():
    table = np.full((32, 4), -1)
    table[np.arange(32), np.arange(32) % 4] = np.arange(32) % 3
    with pytest.raises(ValueError, match=r"noise=0\.5 leaves no item"):
        ca.Consensus(noise=0.5).fit(table)
