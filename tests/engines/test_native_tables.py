"""Tables of the compiled engine against plain NumPy: every width of a row, large counts, draws, listed moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from coassoc.consensus.lloyd import lloyd
from coassoc.core.counts import Counts
from coassoc.core.tables import KMeansObjective
from coassoc.engines.contract import Seeding
from coassoc.engines.native import engine as _native
from coassoc.engines.native import rows as _native_rows

if _native.kernels_missing():
    pytest.skip("the compiled kernels are not installed", allow_module_level=True)

LEVELS = _native.simd_levels()


def blurred(n: int, p: int, k: int, seed: int, missing: float = 0.0, most: int = 90) -> np.ndarray:
    """A label table with `k` hidden classes under partitions of 2 to `most` clusters; −1 is missing."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(k, size=n)
    table = np.empty((n, p), np.int64)
    for j in range(p):
        m = int(rng.integers(2, most + 1))
        table[:, j] = np.where(rng.random(n) < 0.6, hidden * m // k, rng.integers(m, size=n))
    table[rng.random((n, p)) < missing] = -1
    return table


def same_fit(one, other) -> None:
    assert one.labels_.tolist() == other.labels_.tolist()
    assert one.losses_ == other.losses_
    assert one._table.bits == other._table.bits
    assert np.array_equal(one._table.values, other._table.values)
    assert np.array_equal(one._alpha, other._alpha)


@pytest.mark.parametrize("simd", LEVELS)
@pytest.mark.parametrize("k", [2, 3, 5, 7, 8, 12, 16, 20, 33, 64, 65, 70, 130])
def test_tables_of_any_width_are_those_of_numpy(simd, k):
    """Vectors end in the middle of a row for most k; from 65 clusters on rows are swept one by one."""
    ensemble = ca.Ensemble(blurred(2500, 6, k, k, missing=0.02 * (k % 2)))
    model = dict(n_clusters=k, n_init=1, max_iter=6, random_state=k)
    plain = ca.KMeansConsensus(**model, engine="numpy").fit(ensemble)
    same_fit(ca.KMeansConsensus(**model, engine=ca.engines.Native(simd=simd)).fit(ensemble), plain)


@pytest.mark.parametrize("simd", LEVELS)
@pytest.mark.parametrize("weights", [None, [1.0, 0.3, 2.5, 1.0, 0.01]])
def test_large_counts_divide_exactly(simd, weights):
    """Copies by the million: quotients of large whole numbers must be rounded as a division rounds them."""
    rng = np.random.default_rng(11)
    ensemble = ca.Ensemble(blurred(600, 5, 7, 3))
    copies = rng.integers(1, 4_000_000, size=600)
    model = dict(n_clusters=7, n_init=1, random_state=0, partition_weights=weights)
    plain = ca.KMeansConsensus(**model, engine="numpy").fit(ensemble, sample_weight=copies)
    native = ca.KMeansConsensus(**model, engine=ca.engines.Native(simd=simd)).fit(ensemble, sample_weight=copies)
    same_fit(native, plain)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 3_037_000_498), min_size=9, max_size=40), st.integers(1, 6))
def test_scores_of_any_counts(counts, k):
    """Σ over a partition of counts up to the most that are allowed, against NumPy's division."""
    d = len(counts) // k
    alpha = np.array(counts[: d * k], np.int64).reshape(d, k) // max(d, 1)
    native = _native.NativeLayout(np.array([d]), np.array([0, d]))
    plain = ca.core.counts.Layout(np.array([d]), np.array([0, d]))
    one = np.ones(1)
    assert (
        native.mean_scores(Counts(alpha, alpha.sum(axis=0), native), one).tolist()
        == plain.mean_scores(Counts(alpha, alpha.sum(axis=0), plain), one).tolist()
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.one_of(st.integers(1, 2**33), st.integers(1, 2**63 - 1)))
def test_draws_are_those_of_numpy(seed, end):
    drawn = np.empty(20, np.uint64)
    ours = np.random.default_rng(seed)
    _native._kernels.draws(ours.bit_generator.capsule, end, drawn)
    theirs = np.random.default_rng(seed)
    assert drawn.tolist() == theirs.integers(end, size=20).tolist()
    assert ours.integers(1 << 40) == theirs.integers(1 << 40), "the generators went on differently"


@pytest.mark.parametrize("bits", ["PCG64", "Philox", "MT19937", "SFC64"])
def test_draws_from_any_bit_generator(bits):
    drawn = np.empty(50, np.uint64)
    make = getattr(np.random, bits)
    _native._kernels.draws(make(3).capsule, 1_000_003, drawn)
    assert drawn.tolist() == np.random.Generator(make(3)).integers(1_000_003, size=50).tolist()


def test_draws_that_differ_are_not_used(monkeypatch):
    ensemble = ca.Ensemble(blurred(500, 5, 6, 1))
    rows = ca.engines.Native().load(ensemble)
    weights = np.ones(5, np.int64)
    compiled = rows.seeding(weights).choose_all(6, 3, np.random.default_rng(5))
    monkeypatch.setattr(_native_rows, "draws_like_numpy", lambda: False)
    plain = rows.seeding(weights).choose_all(6, 3, np.random.default_rng(5))
    assert compiled.tolist() == plain.tolist()


def test_seeding_that_runs_out_gives_what_there_is():
    ensemble = ca.Ensemble(np.array([[0, 0], [0, 1], [0, 0], [1, 1]] * 5))
    for engine in (ca.engines.Native(), ca.engines.Numpy()):
        chosen = engine.load(ensemble).seeding(np.ones(2, np.int64)).choose_all(5, 3, np.random.default_rng(0))
        assert len(chosen) == 3 and len({tuple(row) for row in chosen.tolist()}) == 3


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("n", [130, 700, 3000])
def test_moves_listed_by_threads_are_counted(threads, n):
    """Few rows beside a large table: threads list what moved instead of counting in tables of their own."""
    ensemble = ca.Ensemble(blurred(n, 8, 12, n))
    engine = ca.engines.Native(n_threads=threads, chunk_rows=64)
    rows, plain = engine.load(ensemble), ca.engines.Numpy().load(ensemble)
    objective = KMeansObjective(np.ones(8))
    start = Counts.of_rows(ensemble.codes[:12].copy(), rows.layout)
    fit = lloyd(rows, objective, start, 30)
    told = lloyd(plain, objective, Counts.of_rows(ensemble.codes[:12].copy(), plain.layout), 30)
    assert fit.losses == told.losses and len(fit.losses) > 2
    assert np.array_equal(rows.labels(fit.labelling), plain.labels(told.labelling))
    assert np.array_equal(fit.counts.alpha, told.counts.alpha)


def test_default_loop_of_draws_is_the_compiled_one():
    """The base class draws through Python; both must take as many random numbers."""
    ensemble = ca.Ensemble(blurred(900, 6, 9, 4))
    rows = ca.engines.Native().load(ensemble)
    one, other = np.random.default_rng(9), np.random.default_rng(9)
    compiled = rows.seeding(np.ones(6, np.int64)).choose_all(9, 4, one)
    written = Seeding.choose_all(rows.seeding(np.ones(6, np.int64)), 9, 4, other)
    assert compiled.tolist() == written.tolist()
    assert one.integers(1 << 60) == other.integers(1 << 60)
