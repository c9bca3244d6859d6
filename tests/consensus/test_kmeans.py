"""KMeansConsensus, SEC and ECC against k-means written out; never below the exhaustive minimum."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
import oracle
from coassoc.core.objectives import ECCObjective, SECObjective, fix_table
from coassoc.engines import Numpy


def fit(table, k=3, *, copies=None, **options):
    options = {"n_init": 2, "random_state": 0, "engine": "numpy"} | options
    return ca.KMeansConsensus(k, **options).fit(table, sample_weight=copies)


def fit_any(*arguments, **options):
    """A fit that may find fewer clusters than asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*arguments, **options)


def test_scores_and_attributes_are_those_of_the_labels():
    """That the passes are k-means passes is tested with the loop."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        case = oracle.random_case(rng, most_items=40, most_partitions=6)
        options = {"random_state": seed, "partition_weights": case.weights, "max_iter": int(rng.choice([1, 2, 300]))}
        km = fit_any(case.table, int(rng.integers(1, 4)), copies=case.copies, **options)
        assert km.converged_ == (km.stop_reason_ == "fixed_point")
        assert km.loss_ == km.losses_[-1] and km.n_iter_ == len(km.losses_) <= options["max_iter"]
        times = 1 if case.copies is None else case.copies
        table, labels = np.repeat(case.table, times, axis=0), np.repeat(km.labels_, times)
        assert km.loss_ == pytest.approx(oracle.loss(table, labels, case.v), abs=1e-9)
        assert km.density_ == pytest.approx(oracle.density(table, labels, case.v), abs=1e-9)
        k = len(km.cluster_sizes_)
        assert km.n_clusters_ == len(set(labels[labels >= 0].tolist())) <= k
        assert km.cluster_sizes_.tolist() == [labels.tolist().count(c) for c in range(k)]
        named = dict(zip(oracle.clusters_of(table, labels), oracle.densities(table, labels, case.v)))
        assert km.cluster_density_.tolist() == pytest.approx([named.get(c, 0.0) for c in range(k)], abs=1e-9)
        assert ((km.labels_ == -1) == (case.table < 0).all(axis=1)).all()


def test_the_best_of_fifty_starts_is_nearly_always_the_exhaustive_minimum():
    rng = np.random.default_rng(0)
    reached = cases = 0
    while cases < 100:
        n, p, k = int(rng.integers(4, 8)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
        table = rng.integers(0, 3, size=(n, p))
        if rng.random() < 0.3:
            hole = rng.random((n, p)) < 0.15
            hole[0] = False
            table[hole] = -1
        if len({tuple(row) for row in table.tolist()}) < k:
            continue
        km = fit_any(table, k, n_init=50, random_state=cases)
        if km.n_clusters_ < k:  # with missing labels, different rows may be at no distance
            continue
        minimum = min(oracle.exact_loss(table, labels) for labels in oracle.set_partitions(n, k))
        mine = oracle.exact_loss(table, np.where((table < 0).all(axis=1), 0, km.labels_))
        assert mine >= minimum
        assert km.loss_ == pytest.approx(float(mine), abs=1e-9)
        cases += 1
        reached += mine == minimum
    assert reached >= 95


def test_nested_clusterings_with_missing_labels_keep_the_finer_one():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        fine = rng.integers(6, size=int(rng.integers(60, 600)))
        table = np.column_stack([fine // 2, fine])
        hidden = rng.random(len(fine)) < rng.uniform(0.01, 0.4)
        table[hidden, 1] = -1
        km = fit(table, 6, random_state=seed)
        assert km.n_clusters_ == 6
        assert adjusted_rand_score(fine[~hidden], km.labels_[~hidden]) >= 0.95


def test_clusters_that_only_missing_labels_could_tell_apart_are_warned_of():
    for seed in range(10):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            km = fit([[0, 0]] * 3 + [[0, 1]] * 3 + [[0, np.nan]], 3, random_state=seed, n_init=1)
        assert [w.category for w in caught] == [ConvergenceWarning] * (3 - km.n_clusters_)


def test_items_that_take_no_part_change_no_seed():
    """Rows of weight 0, and rows without any label, hold the only missing labels."""
    table = oracle.table_with_holes(np.random.default_rng(3), holes=False)
    more = np.vstack([table, [[-1] * table.shape[1], [0, -1, *table[0, 2:]]]])
    weight = np.append(np.ones(len(table) + 1, int), 0)
    for seed in range(10):
        plain, padded = fit(table, 4, random_state=seed, n_init=1), ca.KMeansConsensus(4, random_state=seed, n_init=1)
        assert (padded.fit(more, sample_weight=weight).labels_[: len(table)] == plain.labels_).all()


class DenseSEC(oracle.Dense):
    """Weighted k-means with every row, weight and centre written out."""

    def __init__(self, table, v=None, copies=None):
        super().__init__(table, v, copies)
        self.scale = np.sqrt(self.v[self.owner])  # H with √v_j per column is the weighted co-association
        sizes = self.copies @ self.H
        self.w = self.H @ (self.v[self.owner] * sizes)
        self.points = np.divide(self.H * self.scale, self.w[:, None], where=self.w[:, None] > 0, out=0.0 * self.H)

    def centres(self, labels, k):
        out = np.zeros((k, self.H.shape[1]))
        for c in range(k):
            mass = self.copies * self.w * (np.asarray(labels) == c)
            if mass.sum() > 0:
                out[c] = mass @ self.points / mass.sum()
        return out

    def costs(self, labels, k):
        """w_i |h_i/w_i − m_c|² for every item and cluster."""
        gaps = self.points[:, None, :] - self.centres(labels, k)[None]
        return self.w[:, None] * (gaps**2).sum(axis=2)

    def values(self, labels, k):
        """The same as a table: what is left of the cost once |h_i|²/w_i, a constant of the item, is taken out."""
        sizes, centres = self.copies @ self.H, self.centres(labels, k)
        return 2.0 * self.scale[:, None] * centres.T - (self.v[self.owner] * sizes)[:, None] * (centres**2).sum(axis=1)


class DenseECC(oracle.Dense):
    """Shares of every label in every cluster, and the divergences of the items from them."""

    def __init__(self, table, v=None, copies=None, epsilon=1e-3, floor=False):
        super().__init__(table, v, copies)
        self.epsilon, self.floor = epsilon, floor

    def shares(self, labels, k):
        alpha = self.counts(labels, k)
        out = np.zeros(alpha.shape)
        for j in range(len(self.v)):
            block = self.owner == j
            n_labels = block.sum()
            for c in range(k):
                seen = alpha[block, c].sum()
                if not self.floor:
                    out[block, c] = (alpha[block, c] + self.epsilon) / (seen + self.epsilon * n_labels)
                elif seen:
                    out[block, c] = np.maximum(alpha[block, c] / seen, self.epsilon)
                else:
                    out[block, c] = 1 / n_labels
        return out

    def values(self, labels, k):
        return self.v[self.owner][:, None] * np.log(self.shares(labels, k))

    def loss(self, labels, k):
        mass = self.counts(labels, k) + (0.0 if self.floor else self.epsilon)
        return -np.where(mass > 0, mass * self.values(labels, k), 0.0).sum()


@pytest.mark.parametrize("method", ["sec", "additive", "floor"])
@pytest.mark.parametrize("seed", range(12))
def test_labels_equal_a_dense_run_from_the_same_start(seed, method):
    rng = np.random.default_rng(seed)
    table = oracle.planted(rng, n=int(rng.integers(20, 70)), p=int(rng.integers(2, 7)), noise=0.3)
    if seed % 2:
        table[rng.random(table.shape) < 0.15] = -1
    copies = rng.integers(0, 4, size=len(table)) if seed % 3 == 0 else None
    v = rng.random(table.shape[1]) + 0.2 if seed % 5 == 0 else None
    normed = None if v is None else v * len(v) / v.sum()
    k, epsilon, start = 4, [1e-3, 0.5, 1e-8][seed % 3], np.arange(len(table)) % 4
    if method == "sec":
        dense, model = DenseSEC(table, normed, copies), ca.SEC(k)
    else:
        dense = DenseECC(table, normed, copies, epsilon, method == "floor")
        model = ca.ECC(k, smoothing=method, epsilon=epsilon)
    labels = start
    for passes in (1, 2, 3):
        model.set_params(init=start, max_iter=passes, partition_weights=v, engine="numpy")
        model.fit(table, sample_weight=copies)
        if (model.cluster_sizes_ == 0).any() or model.stop_reason_ != "max_iter":
            break  # a refill or the end: the dense pass knows neither
        values = dense.values(labels, k)
        if method == "sec":  # scores and costs add up to a constant of the item
            total = dense.H @ values + dense.costs(labels, k)
            np.testing.assert_allclose(total, np.repeat(total[:, :1], k, axis=1), rtol=1e-9, atol=1e-12)
        labels, seen = (dense.H @ dense.rounded(values)[0]).argmax(axis=1), model.labels_ >= 0
        assert (model.labels_[seen] == labels[seen]).all()
        assert method == "sec" or model.loss_ == pytest.approx(dense.loss(labels, k), rel=1e-12)


def test_sec_loss_is_the_normalised_cut_of_the_coassociation_graph():
    table = oracle.planted(np.random.default_rng(3), n=40)
    model = ca.SEC(3, random_state=0, engine="numpy").fit(table)
    graph = ca.Ensemble(table).coassociation("all") * table.shape[1]
    inside = [model.labels_ == c for c in range(3)]
    cut = sum(graph[own][:, ~own].sum() / graph[own].sum() for own in inside)
    assert model.loss_ == pytest.approx(cut, rel=1e-12)
    # moving any single item never beats a converged partition by a Lloyd step
    costs = DenseSEC(table).costs(model.labels_, 3)
    assert (costs[np.arange(40), model.labels_] <= costs.min(axis=1) + 1e-9).all()


def test_sec_scores_of_an_empty_centre_are_zero():
    rows = Numpy().load(ca.Ensemble([[0, 0], [0, 0], [1, 1], [1, 1]]))
    counts = rows.counts(rows.labelling(2, np.zeros(4, np.int32)))
    scores = SECObjective(np.ones(2), np.array([2, 2, 2, 2])).table(counts)
    assert (scores[:, 1] == 0).all() and np.isfinite(scores).all()
    assert fix_table(scores, rows.layout).values.shape == (4, 2)


@pytest.mark.parametrize("seed", range(6))
def test_ecc_refill_cost_is_exactly_what_the_loss_falls_by(seed):
    rng = np.random.default_rng(seed)
    table = oracle.planted(rng, n=12, p=3, noise=0.5)
    table[0, 1] = -1
    epsilon = [1e-3, 0.2][seed % 2]
    dense = DenseECC(table, epsilon=epsilon)
    labels = np.zeros(12, int)  # cluster 1 is empty
    rows = Numpy().load(ca.Ensemble(table))
    counts = rows.counts(rows.labelling(2, labels.astype(np.int32)))
    gains = dense.H @ ECCObjective(np.ones(3), epsilon).cost_table(counts)[:, 0]
    shares = dense.shares(labels, 2)
    for i in range(12):
        alone = dense.shares(np.where(np.arange(12) == i, 1, -1), 2)[:, 1]
        # the item leaves for a centre on itself, the other centre stays
        before = -dense.H[i] @ np.log(shares[:, 0]) - epsilon * np.log(shares[:, 1]).sum()
        after = -dense.H[i] @ np.log(alone) - epsilon * np.log(alone).sum()
        assert gains[i] == pytest.approx(before - after, rel=1e-9, abs=1e-12)
