"""DensityConsensus and AgreementConsensus: exhaustive truth on small inputs, promises on larger ones."""

import itertools

import numpy as np
import pytest

import coassoc as ca
import oracle
from coassoc.consensus import search
from coassoc.consensus.merge import AgreementGoal, DensityGoal, merge_clusters
from coassoc.core.counts import Counts
from coassoc.core.moves import AgreementObjective


def blocks(seed, n=240, p=8, k=6, noise=0.25):
    table, truth = oracle.blocks(seed, n, p, k, noise)
    return ca.Ensemble(table), truth


@pytest.mark.parametrize("seed", range(5))
def test_the_exhaustive_maximum_is_found_on_small_tables(seed):
    table = np.random.default_rng(seed).integers(0, 3, size=(8, 4))
    dense = ca.DensityConsensus(3, random_state=0).fit(table)
    agreed = ca.AgreementConsensus(3, min_cluster_size=1, n_init=3, random_state=0).fit(table)
    for score, found, labels in (
        (ca.density, dense.density_, dense.labels_),
        (ca.ensemble_nmi, agreed.ensemble_nmi_, agreed.labels_),
    ):
        best = max(score(table, one) for one in oracle.set_partitions(8, 3) if max(one) == 2)
        assert found == pytest.approx(best, abs=1e-9)
        assert found == pytest.approx(score(table, labels), abs=1e-12)
    assert dense.converged_ and agreed.converged_


@pytest.mark.parametrize("seed", range(6))
def test_density_is_never_below_k_means_with_the_same_seed(seed):
    ens, _ = blocks(seed)
    kmeans = ca.KMeansConsensus(9, n_init=3, random_state=seed).fit(ens)
    refined = ca.DensityConsensus(9, n_init=3, micro_clusters=None, max_rounds=0, random_state=seed).fit(ens)
    dense = ca.DensityConsensus(9, n_init=3, random_state=seed).fit(ens)
    assert kmeans.density_ <= refined.density_ <= dense.density_
    assert refined.density_ == ca.density(ens, refined.labels_)
    assert len(np.unique(dense.labels_)) == 9
    assert (np.diff(dense.densities_) > 0).all()
    assert dense.densities_[-1] == pytest.approx(dense.density_, abs=1e-12)


SEARCHES = [
    (ca.DensityConsensus, ca.density, lambda model: model.density_),
    (ca.AgreementConsensus, ca.ensemble_nmi, lambda model: model.ensemble_nmi_),
]


@pytest.mark.parametrize("method, metric, score", SEARCHES)
def test_missing_labels_multiplicities_and_weights_are_taken(method, metric, score):
    ens, _ = blocks(3, n=100)
    rng = np.random.default_rng(1)
    table = np.where(rng.random(ens.codes.shape) < 0.2, -1, ens.codes.astype(int))
    table[7] = -1
    copies = rng.integers(0, 4, size=100)
    v = rng.random(8) + 0.2
    model = method(4, partition_weights=v, random_state=0).fit(table, sample_weight=copies)
    assert model.labels_[7] == -1
    kept = np.where((copies == 0) | (np.arange(100) == 7), -1, model.labels_)
    assert score(model) == pytest.approx(metric(table, kept, sample_weight=copies, partition_weights=v), rel=1e-12)


def test_agreement_makes_no_singletons_that_linkage_did_not(monkeypatch):
    # seven clusters asked of a table with three: NMI alone would cut off single items
    noisy = np.repeat(np.arange(3), 30)[:, None].repeat(5, axis=1)
    noisy[::7, 0] = 3
    noisy[::5, 1] = 4
    noisy[::4, 2] = 5
    sizes = []

    def merged(counts, *rest):
        sizes.append(np.bincount(group := merge_clusters(counts, *rest), counts.sizes))
        return group

    monkeypatch.setattr(search, "merge_clusters", merged)
    sizes.append(ca.AgreementConsensus(7, random_state=0).fit(noisy).cluster_sizes_)
    sizes.append(ca.AgreementConsensus(7, min_cluster_size=1, random_state=0).fit(noisy).cluster_sizes_)
    linked, agreed, _, tempted = (int((own == 1).sum()) for own in sizes)
    assert agreed <= linked < tempted


@pytest.mark.parametrize("method, metric, score", SEARCHES)
def test_starting_from_labels_keeps_or_raises_their_score(method, metric, score):
    ens, truth = blocks(5)
    assert score(method(6, init=truth, random_state=0).fit(ens)) >= metric(ens, truth)


@pytest.mark.parametrize("goal", [DensityGoal, AgreementGoal])
def test_plans_promise_what_they_bring(goal):
    ens, _ = blocks(8, n=80)
    labels = (np.arange(80) % 5).astype(np.int32)
    rows = ca.engines.Numpy().load(ens)
    counts = rows.counts(rows.labelling(5, labels))
    half = labels.copy()
    half[(labels == 2) & (np.arange(80) < 40)] = 5
    six = rows.counts(rows.labelling(6, half))
    pieces = {2: Counts(six.alpha[:, [2, 5]], six.sizes[[2, 5]], six.layout)}
    plan = goal(np.ones(8)).plans(counts, pieces)[0]
    after = np.where(half == plan.drop, plan.into, half)
    score = ca.density if goal is DensityGoal else ca.ensemble_nmi
    scale = 80 if goal is DensityGoal else 8
    assert plan.net == pytest.approx(scale * (score(ens, after) - score(ens, labels)), abs=1e-8)
    # and no other pair would have been better
    for a, b in itertools.combinations(range(6), 2):
        if (a, b) != (2, 5):
            other = scale * (score(ens, np.where(half == b, a, half)) - score(ens, labels))
            assert other <= plan.net + 1e-8


@pytest.mark.parametrize(
    "method, score, loses", [("DensityConsensus", ca.density, 0.001), ("AgreementConsensus", ca.ensemble_nmi, 0.002)]
)
def test_many_items_are_searched_on_samples(method, score, loses, engine, monkeypatch):
    """A score as good as that of a search on all items, where no single move raises it, the same on every engine."""
    ens, _ = blocks(3, n=900, noise=0.45)
    table = np.where(np.random.default_rng(0).random(ens.codes.shape) < 0.1, -1, ens.codes.astype(int))
    method = getattr(ca, method)
    whole = method(6, random_state=0).fit(table)
    assert whole.n_sampled_ == 900
    monkeypatch.setattr(method, "_sampled_above", 500)
    for owner, name, value in ((search, "_SAMPLE_ITEMS", 500), (search, "_SAMPLE_PER_CLUSTER", 1)):
        monkeypatch.setattr(owner, name, value)
    found = method(6, random_state=0, engine=engine).fit(table)
    assert found.n_sampled_ == 500 and found.n_clusters_ == 6 and found.converged_
    assert score(table, found.labels_) > score(table, whole.labels_) - loses
    again = method(6, init=found.labels_, max_rounds=0).fit(table)
    assert again.labels_.tolist() == found.labels_.tolist() and again.n_sampled_ == 900
    assert found.labels_.tolist() == method(6, random_state=0, engine="numpy").fit(table).labels_.tolist()
    # 500 items drawn from equal rows hold one of them: the search runs on all items then
    rare = np.zeros((900, 2), int)
    rare[:4] = [[1, 1], [1, 1], [2, 2], [2, 2]]
    assert method(3, random_state=2, engine=engine).fit(rare).n_clusters_ == 3


def test_density_keeps_the_best_of_its_samples(monkeypatch):
    ens, _ = blocks(1, n=2000, noise=0.5)
    monkeypatch.setattr(ca.DensityConsensus, "_sampled_above", 0)
    for owner, name, value in ((search, "_SAMPLE_ITEMS", 40), (search, "_SAMPLE_PER_CLUSTER", 1)):
        monkeypatch.setattr(owner, name, value)
    found = ca.DensityConsensus(6, random_state=0).fit(ens)
    monkeypatch.setattr(ca.DensityConsensus, "_n_samples", 1)
    single = [ca.DensityConsensus(6, random_state=seed).fit(ens) for seed in range(5)]
    densities = [model.density_ for model in single]
    assert len(set(densities)) == 5 and np.argmax(densities) < 4  # the last sample is not the best
    assert found.labels_.tolist() == single[np.argmax(densities)].labels_.tolist()


def test_passes_go_where_the_agreement_rises_most():
    """The table is the derivative of the agreement: differences of NMI when an item counts a little more."""
    ens, _ = blocks(1, n=60, p=4, k=3)
    rows = ca.engines.Numpy().load(ens, np.full(60, 1000))
    labels, objective = np.arange(60) % 4, AgreementObjective(np.ones(4))
    counts = rows.counts(rows.labelling(4, labels))
    scores = ens.one_hot().toarray() @ objective.table(counts)
    before = -objective.loss(counts)
    assert before == pytest.approx(4 * ca.ensemble_nmi(ens, labels))
    for i, c in itertools.product(range(0, 60, 7), range(4)):
        own = rows.layout.columns_of(ens.codes[i])
        if c != labels[i] and counts.alpha[own, c].all():  # no derivative at 0
            alpha, sizes = counts.alpha.copy(), counts.sizes.copy()
            for cluster, step in ((c, 1), (labels[i], -1)):
                alpha[own, cluster] += step
                sizes[cluster] += step
            gain = 2 * (scores[i, c] - scores[i, labels[i]])
            after = -objective.loss(Counts(alpha, sizes, rows.layout))
            assert after - before == pytest.approx(gain, rel=0.01, abs=1e-7)
