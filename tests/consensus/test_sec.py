"""SEC against weighted k-means on the written-out matrix h_i / w_i."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coassoc as ca
import oracle
from coassoc.core.tables import SECObjective, fix_table
from coassoc.engines import Numpy


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

    def costs(self, centres):
        """w_i |h_i/w_i − m_c|² for every item and cluster."""
        gaps = self.points[:, None, :] - centres[None]
        return self.w[:, None] * (gaps**2).sum(axis=2)

    def table_of(self, centres):
        """The same as a table: what is left of the cost once |h_i|²/w_i, a constant of the item, is taken out."""
        sizes = self.copies @ self.H
        column = 2.0 * self.scale[:, None] * centres.T
        return column - (self.v[self.owner] * sizes)[:, None] * (centres**2).sum(axis=1)

    def step(self, labels, k):
        table, _ = self.rounded(self.table_of(self.centres(labels, k)))
        return (self.H @ table).argmax(axis=1)


def _case(seed):
    rng = np.random.default_rng(seed)
    table = oracle.planted(rng, n=int(rng.integers(20, 70)), p=int(rng.integers(2, 7)), noise=0.3)
    if seed % 2:
        table[rng.random(table.shape) < 0.15] = -1
    copies = rng.integers(0, 4, size=len(table)) if seed % 3 == 0 else None
    v = rng.random(table.shape[1]) + 0.2 if seed % 5 == 0 else None
    return table, copies, v


def _normed(v):
    return None if v is None else v * len(v) / v.sum()


@pytest.mark.parametrize("seed", range(12))
def test_table_is_the_weighted_kmeans_cost(seed):
    table, copies, v = _case(seed)
    dense = DenseSEC(table, _normed(v), copies)
    labels = np.random.default_rng(seed).integers(4, size=len(table))
    rows = Numpy().load(ca.Ensemble(table), copies)
    counts = rows.counts(rows.labelling(4, labels.astype(np.int32)))
    objective = SECObjective(dense.v, dense.copies @ dense.H)
    ours = dense.H @ objective.table(counts)
    labelled = dense.w > 0
    norms = (dense.points**2).sum(axis=1) * dense.w
    costs = dense.costs(dense.centres(labels, 4))
    np.testing.assert_allclose((norms[:, None] - ours)[labelled], costs[labelled], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_labels_equal_a_dense_run_from_the_same_start(seed):
    table, copies, v = _case(seed)
    k = 4
    start = np.arange(len(table)) % k
    dense = DenseSEC(table, _normed(v), copies)
    fitted = [
        ca.SEC(k, init=start, max_iter=m, partition_weights=v, engine="numpy").fit(table, sample_weight=copies)
        for m in (1, 2, 3)
    ]
    labels = start
    for model in fitted:
        if (model.cluster_sizes_ == 0).any() or model.stop_reason_ != "max_iter":
            break  # a refill or the end: the dense pass knows neither
        before, labels = labels, dense.step(labels, k)
        seen = model.labels_ >= 0
        assert (model.labels_[seen] == labels[seen]).all()
        # with float64 scores, the same wherever the gap exceeds what rounding can move
        scores = dense.H @ dense.table_of(dense.centres(before, k))
        _, bits = dense.rounded(dense.table_of(dense.centres(before, k)))
        top = np.sort(scores, axis=1)
        clear = seen & (top[:, -1] - top[:, -2] > len(dense.v) * 2.0**-bits)
        assert clear.sum() > 0.5 * seen.sum()
        assert (scores.argmax(axis=1)[clear] == model.labels_[clear]).all()


def test_loss_is_the_normalised_cut_of_the_coassociation_graph():
    rng = np.random.default_rng(3)
    table = oracle.planted(rng, n=40)
    model = ca.SEC(3, random_state=0, engine="numpy").fit(table)
    graph = ca.Ensemble(table).coassociation("all") * table.shape[1]
    cut = 0.0
    for c in range(3):
        inside = model.labels_ == c
        cut += graph[inside][:, ~inside].sum() / graph[inside].sum()
    assert model.loss_ == pytest.approx(cut, rel=1e-12)
    dense = DenseSEC(table)
    # moving any single item never beats a converged partition by a Lloyd step
    costs = dense.costs(dense.centres(model.labels_, 3))
    own = costs[np.arange(40), model.labels_]
    assert (own <= costs.min(axis=1) + 1e-9).all()


def test_losses_fall_and_more_starts_never_hurt():
    table = oracle.planted(np.random.default_rng(5), n=200, p=8, k=6, noise=0.4, most=9)
    one = ca.SEC(6, n_init=1, init="random", random_state=1, engine="numpy").fit(table)
    ten = ca.SEC(6, n_init=10, init="random", random_state=1, engine="numpy").fit(table)
    assert (np.diff(one.losses_) < 0).all()
    assert ten.loss_ <= one.loss_


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_multiplicity_is_repetition(init):
    rng = np.random.default_rng(9)
    table = oracle.planted(rng, n=50)
    table[rng.random(table.shape) < 0.1] = -1
    copies = rng.integers(0, 4, size=50)
    weighted = ca.SEC(4, n_init=3, init=init, random_state=2, engine="numpy").fit(table, sample_weight=copies)
    repeated = ca.SEC(4, n_init=3, init=init, random_state=2, engine="numpy").fit(np.repeat(table, copies, axis=0))
    assert weighted.loss_ == repeated.loss_
    assert (np.repeat(weighted.labels_, copies) == repeated.labels_).all()


def test_order_of_partitions_and_names_of_clusters_do_not_matter():
    rng = np.random.default_rng(13)
    table = oracle.planted(rng, n=80, p=7, noise=0.4)
    start = rng.integers(4, size=80)
    reference = ca.SEC(4, init=start, engine="numpy").fit(table)
    shuffled = (50 - table)[:, rng.permutation(7)]
    other = ca.SEC(4, init=start, engine="numpy").fit(shuffled)
    assert (reference.labels_ == other.labels_).all() and reference.losses_ == other.losses_


def test_empty_centre_scores_zero():
    table = np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
    rows = Numpy().load(ca.Ensemble(table))
    counts = rows.counts(rows.labelling(2, np.array([0, 0, 0, 0], np.int32)))
    scores = SECObjective(np.ones(2), np.array([2, 2, 2, 2])).table(counts)
    assert (scores[:, 1] == 0).all() and np.isfinite(scores).all()
    assert fix_table(scores, rows.layout).values.shape == (4, 2)


def test_random_start_needs_enough_different_rows():
    table = [[0, 0], [0, 0], [0, 0], [1, 1], [1, 1], [1, 1]]
    assert set(ca.SEC(2, init="random", random_state=0, engine="numpy").fit(table).labels_.tolist()) == {0, 1}
    for k in (3, 9):
        with pytest.warns(ConvergenceWarning, match="different label rows, 2"):
            assert ca.SEC(k, init="random", random_state=0, engine="numpy").fit(table).n_clusters_ == 2
