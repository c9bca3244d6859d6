"""The loop: passes equal dense k-means, losses fall, empty clusters are refilled, seeding is exact."""

import itertools
import math

import numpy as np
import pytest

import coassoc as ca
import oracle
from coassoc.consensus import lloyd as loop
from coassoc.consensus.lloyd import Starts, TooFewRows, lloyd, random_rows, seed_rows
from coassoc.core.checks import stream
from coassoc.core.objectives import KMeansObjective, seeding_weights
from coassoc.engines import Numpy


def loaded(table, copies=None, engine=None):
    return (engine or Numpy()).load(ca.Ensemble(table), copies)


def test_losses_fall_refills_lower_them_and_the_end_is_what_it_says(engine):
    rng = np.random.default_rng(3)
    stops, refilled = set(), 0
    for _ in range(80):
        case = oracle.random_case(rng, most_items=25)
        rows = loaded(case.table, case.copies, engine)
        k = int(rng.integers(1, 6))
        labels = rng.integers(max(1, k - 2), size=len(case.table)).astype(np.int32)  # the last two centers are empty
        start, max_iter = rows.counts(rows.labelling(k, labels)), int(rng.choice([1, 2, 300]))
        fit = lloyd(rows, KMeansObjective(np.array(case.v)), start, max_iter)
        stops.add(fit.stop)
        refilled += np.count_nonzero(fit.counts.sizes) > np.count_nonzero(start.sizes)
        assert all(later < earlier for earlier, later in itertools.pairwise(fit.losses))
        assert len(fit.losses) == fit.n_iter <= max_iter
        if (fit.counts.sizes == 0).any() and fit.stop == "fixed_point":  # only where nothing is left to place
            assert fit.loss == pytest.approx(0.0, abs=1e-6)
        check_end(case, k, np.array(rows.labels(fit.labelling)), fit)
    assert {"fixed_point", "max_iter"} <= stops and refilled > 10


def check_end(case, k, final, fit):
    """Labels, counts, table and stop belong together, judged by H written out."""
    dense = oracle.Dense(case.table, case.v, case.copies)
    counting = dense.copies > 0
    assert (fit.counts.alpha == dense.counts(np.where(counting, final, -1), k)).all()
    table, labels = case.repeated()
    labels = np.repeat(final, 1 if case.copies is None else case.copies)
    assert fit.loss == pytest.approx(oracle.loss(table, labels, case.v), abs=1e-9)
    assert ((dense.H @ fit.table.values.astype(np.int64)).argmax(axis=1) == final).all()
    if (fit.counts.sizes == 0).any():
        return  # one more pass would refill
    again = dense.step(final, k)
    if fit.stop == "fixed_point":
        assert (again == final)[counting].all()
    elif fit.stop == "no_gain":
        assert (again != final)[counting].any()
        later = np.repeat(again, 1 if case.copies is None else case.copies)
        assert oracle.loss(table, later, case.v) >= fit.loss - 1e-9


def test_a_pass_that_gains_nothing_is_taken_back(engine):
    """Rows that count once between clusters of 10⁸ copies: a pass still moves some, the loss no longer falls."""
    table = np.array([[0, 0, 1], [0, 0, 2], [0, 1, 2], [1, 2, 2], [0, 0, 2], [0, 2, 2], [1, 1, 1], [2, 2, 0]])
    copies = np.array([1, 1, 1, 100_000_001, 100_000_000, 300_000_000, 2, 1])
    labels = np.array([0, 1, 0, 1, 1, 0, 0, 1], np.int32)
    rows = loaded(table, copies, engine)
    fit = lloyd(rows, KMeansObjective(np.ones(3)), rows.counts(rows.labelling(2, labels)), 300)
    assert fit.stop == "no_gain"
    final = np.array(rows.labels(fit.labelling))
    dense = oracle.Dense(table, None, copies)
    assert ((dense.H @ fit.table.values.astype(np.int64)).argmax(axis=1) == final).all()
    assert (fit.counts.alpha == dense.counts(final, 2)).all()
    assert (dense.step(final, 2) != final).any()


def slow_seeding(case, k, seed, weights):
    """Greedy k-means++ with every copy written out, every distance by hand."""
    table, _ = case.repeated()
    table = [row for row in table.tolist() if any(x >= 0 for x in row)]
    rng = stream(seed)

    def gap(a, b):
        return sum(w if x >= 0 and y >= 0 else w // 64 for x, y, w in zip(a, b, weights) if x != y)

    distance, chosen = [1] * len(table), []
    for _ in range(k):
        total = sum(distance)
        if total == 0:
            return len(chosen)
        running = list(itertools.accumulate(distance))
        draws = rng.integers(total, size=2 + int(math.log(k)) if chosen else 1)
        candidates = [table[next(i for i, r in enumerate(running) if r > t)] for t in draws]
        closer = [
            [gap(row, c) if not chosen else min(d, gap(row, c)) for row, d in zip(table, distance)] for c in candidates
        ]
        best = min(range(len(candidates)), key=lambda i: sum(closer[i])) if len(candidates) > 1 else 0
        chosen.append(candidates[best])
        distance = closer[best]
    return chosen


def test_seeding_is_greedy_k_means_plus_plus_by_hand(engine):
    rng = np.random.default_rng(8)
    ran_out = 0
    for seed in range(120):
        case = oracle.random_case(rng, most_items=15)
        case.table[case.table < 0] = -1
        k = int(rng.integers(1, 7))
        rows = loaded(case.table, case.copies, engine)
        weights = seeding_weights(np.array(case.v), rows.whole_counts())
        wanted = slow_seeding(case, k, seed, weights.tolist())
        if isinstance(wanted, int):
            with pytest.raises(TooFewRows, match=f"number of different label rows, {wanted};"):
                seed_rows(rows, k, weights, stream(seed))
            ran_out += 1
            continue
        found = seed_rows(rows, k, weights, stream(seed))
        ens = ca.Ensemble(case.table)
        assert found.tolist() == ens.encode(np.array(wanted)).tolist()
    assert 5 < ran_out < 100


def test_random_rows_are_items(engine):
    table = np.array([[0, 0], [0, 1], [1, 1], [2, 2], [0, 0]])
    drawn = random_rows(loaded(table, None, engine), 3, stream(0))
    assert drawn.shape == (3, 2)
    assert {tuple(row) for row in drawn} <= {tuple(row) for row in table}
    with pytest.raises(TooFewRows, match="different label rows, 4;"):
        random_rows(loaded(table, None, engine), 5, stream(0))
    copies = np.array([2, 1, 0, 3, 1])
    same = random_rows(loaded(table, copies, engine), 2, stream(3))
    written_out = ca.Ensemble(table).take(np.repeat(np.arange(5), copies))
    repeated = random_rows(engine.load(written_out), 2, stream(3))
    assert same.tolist() == repeated.tolist()


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_the_best_of_several_starts_is_the_first_of_lowest_loss(init):
    ensemble = ca.Ensemble(np.random.default_rng(1).integers(0, 4, size=(60, 5)))
    engine, v = ca.engines.Numpy(), np.ones(5)
    with engine.load(ensemble) as rows:
        best = loop.best_start(rows, engine, KMeansObjective(v), v, Starts(4, 6, 100, 0, init))
        labels = rows.labels(best.labelling)
        losses = []
        for n_init in range(1, 7):  # start r is the same however many there are
            losses.append(loop.best_start(rows, engine, KMeansObjective(v), v, Starts(4, n_init, 100, 0, init)).loss)
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    assert best.loss == losses[-1] == pytest.approx(ca.kmeans_loss(ensemble, labels))


def test_a_given_start_is_where_the_passes_begin(engine):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = oracle.table_with_holes(rng, holes=False)
        start = rng.integers(4, size=80)
        start[:: 3 if seed % 2 else 100] = -1  # items without a start do not pull a center
        km = ca.KMeansConsensus(4, init=start, max_iter=1, engine=engine).fit(table)
        assert (km.labels_ == oracle.Dense(table).step(start, 4)).all()


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_start_that_finds_too_few_rows_is_left_out(monkeypatch, left_out):
    table, real, numbers = oracle.table_with_holes(np.random.default_rng(0)), loop.seeded_fits, iter(range(100))

    def one_short(*given):
        return [TooFewRows(4, 2) if next(numbers) == left_out else fit for fit in real(*given)]

    monkeypatch.setattr(loop, "seeded_fits", one_short)
    km = ca.KMeansConsensus(4, n_init=2, random_state=0, engine="numpy").fit(table)
    assert km.n_clusters_ == 4
    assert (km.predict(table) == km.labels_).all()
