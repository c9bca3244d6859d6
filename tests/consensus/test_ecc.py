"""ECC against Kullback–Leibler k-means written out over probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coassoc as ca
import oracle
from coassoc.core.tables import ECCObjective
from coassoc.engines import Numpy


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

    def step(self, labels, k):
        table, _ = self.rounded(self.v[self.owner][:, None] * np.log(self.shares(labels, k)))
        return (self.H @ table).argmax(axis=1)

    def loss(self, labels, k):
        alpha, shares = self.counts(labels, k), self.shares(labels, k)
        mass = alpha + (0.0 if self.floor else self.epsilon)
        return -(self.v[self.owner][:, None] * np.where(mass > 0, mass * np.log(shares), 0.0)).sum()


def _case(seed):
    rng = np.random.default_rng(seed)
    table = oracle.planted(rng, n=int(rng.integers(20, 70)), p=int(rng.integers(2, 7)), noise=0.3)
    if seed % 2:
        table[rng.random(table.shape) < 0.15] = -1
    copies = rng.integers(0, 4, size=len(table)) if seed % 3 == 0 else None
    v = rng.random(table.shape[1]) + 0.2 if seed % 5 == 0 else None
    return table, copies, v


@pytest.mark.parametrize("smoothing", ["additive", "floor"])
@pytest.mark.parametrize("seed", range(12))
def test_labels_equal_a_dense_run_from_the_same_start(seed, smoothing):
    table, copies, v = _case(seed)
    k, epsilon = 4, [1e-3, 0.5, 1e-8][seed % 3]
    start = np.arange(len(table)) % k
    normed = None if v is None else v * len(v) / v.sum()
    dense = DenseECC(table, normed, copies, epsilon, smoothing == "floor")
    labels = start
    for passes in (1, 2, 3):
        model = ca.ECC(
            k,
            init=start,
            max_iter=passes,
            smoothing=smoothing,
            epsilon=epsilon,
            partition_weights=v,
            engine="numpy",
        ).fit(table, sample_weight=copies)
        if (model.cluster_sizes_ == 0).any() or model.stop_reason_ != "max_iter":
            break
        before, labels = labels, dense.step(labels, k)
        seen = model.labels_ >= 0
        assert (model.labels_[seen] == labels[seen]).all()
        assert model.loss_ == pytest.approx(dense.loss(labels, k), rel=1e-12)
        values = dense.v[dense.owner][:, None] * np.log(dense.shares(before, k))
        scores, (_, bits) = dense.H @ values, dense.rounded(values)
        top = np.sort(scores, axis=1)
        clear = seen & (top[:, -1] - top[:, -2] > len(dense.v) * 2.0**-bits)
        assert clear.sum() > 0.5 * seen.sum()
        assert (scores.argmax(axis=1)[clear] == model.labels_[clear]).all()


@given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-3, 0.3, 4.0]))
def test_penalised_loss_falls_with_every_unrefilled_pass(seed, epsilon):
    """Labels, then shares, minimise the same penalised loss in turn."""
    rng = np.random.default_rng(seed)
    table = oracle.planted(rng, n=30, p=4, noise=0.5)
    dense = DenseECC(table, epsilon=epsilon)
    labels = rng.integers(4, size=30)
    loss = dense.loss(labels, 4)
    for _ in range(4):
        labels = dense.step(labels, 4)
        assert dense.loss(labels, 4) <= loss + 1e-7 * abs(loss)
        loss = dense.loss(labels, 4)
    model = ca.ECC(4, epsilon=epsilon, init="random", n_init=1, random_state=seed, engine="numpy")
    try:
        model.fit(table)
    except ValueError:
        return
    assert (np.diff(model.losses_) < 0).all()
    assert model.stop_reason_ == "fixed_point" or model.losses_[-1] < model.losses_[0] or model.n_iter_ == 1


@pytest.mark.parametrize("seed", range(6))
def test_refill_cost_is_exactly_what_the_loss_falls_by(seed):
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
        alone = DenseECC.shares(dense, np.where(np.arange(12) == i, 1, -1), 2)[:, 1]
        # the item leaves for a centre on itself, the other centre stays
        before = -dense.H[i] @ np.log(shares[:, 0]) - epsilon * np.log(shares[:, 1]).sum()
        after = -dense.H[i] @ np.log(alone) - epsilon * np.log(alone).sum()
        assert gains[i] == pytest.approx(before - after, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("smoothing", ["additive", "floor"])
def test_multiplicity_is_repetition(smoothing):
    rng = np.random.default_rng(9)
    table = oracle.planted(rng, n=50)
    table[rng.random(table.shape) < 0.1] = -1
    copies = rng.integers(0, 4, size=50)
    model = ca.ECC(4, n_init=3, smoothing=smoothing, random_state=2, engine="numpy")
    weighted = model.fit(table, sample_weight=copies).labels_
    repeated = model.fit(np.repeat(table, copies, axis=0)).labels_
    assert (np.repeat(weighted, copies) == repeated).all()


def test_finds_what_is_planted():
    rng = np.random.default_rng(1)
    table = oracle.planted(rng, n=300, p=12, k=4, noise=0.15)
    truth = np.random.default_rng(1).integers(4, size=300)
    for smoothing in ("additive", "floor"):
        labels = ca.ECC(4, smoothing=smoothing, random_state=0, engine="numpy").fit(table).labels_
        assert oracle.same_partition(labels, truth)


@pytest.mark.parametrize("epsilon, error", [(0.0, ValueError), (-1, ValueError), ("a", TypeError), (True, TypeError)])
def test_epsilon_is_checked(epsilon, error):
    with pytest.raises(error, match="epsilon must be"):
        ca.ECC(2, epsilon=epsilon).fit([[0], [1]])


def test_floor_is_a_share():
    with pytest.raises(ValueError, match="below 1"):
        ca.ECC(2, smoothing="floor", epsilon=1.5).fit([[0], [1]])
    with pytest.raises(ValueError, match="smoothing must be one of"):
        ca.ECC(2, smoothing="none").fit([[0], [1]])
