"""Starts of k-means: the best of several, from a given partition, and with fewer clusters than asked for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coassoc as ca
import oracle
from coassoc.consensus import lloyd
from coassoc.consensus.lloyd import Starts, TooFewRows, best_start, with_fewer_clusters
from coassoc.core.objectives import KMeansObjective


def fit(table, k=3, **options):
    return ca.KMeansConsensus(k, **{"n_init": 2, "random_state": 0, "engine": "numpy"} | options).fit(table)


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_the_best_of_several_starts_is_the_first_of_lowest_loss(init):
    ensemble = ca.Ensemble(np.random.default_rng(1).integers(0, 4, size=(60, 5)))
    engine, v = ca.engines.Numpy(), np.ones(5)
    with engine.load(ensemble) as rows:
        best = best_start(rows, engine, KMeansObjective(v), v, Starts(4, 6, 100, 0, init))
        labels = rows.labels(best.labelling)
        losses = []
        for n_init in range(1, 7):  # start r is the same however many there are
            losses.append(best_start(rows, engine, KMeansObjective(v), v, Starts(4, n_init, 100, 0, init)).loss)
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    assert best.loss == losses[-1] == pytest.approx(ca.kmeans_loss(ensemble, labels))


def test_fewer_clusters_are_fitted_where_fewer_rows_differ():
    asked = []

    def fit(k):
        asked.append(k)
        if k > 3:
            raise TooFewRows(k, 5 if k > 5 else 3)
        return "fit"

    with pytest.warns(ConvergenceWarning, match="n_clusters=9 is larger than the number of different label rows, 3;"):
        assert with_fewer_clusters(fit, 9) == ("fit", 3)
    assert asked == [9, 5, 3] and with_fewer_clusters(fit, 9, silent=True) == ("fit", 3)


def test_a_given_start_is_where_the_passes_begin(engine):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = oracle.table_with_holes(rng, holes=False)
        start = rng.integers(4, size=80)
        start[:: 3 if seed % 2 else 100] = -1  # items without a start do not pull a center
        km = fit(table, 4, init=start, max_iter=1, engine=engine)
        assert (km.labels_ == oracle.Dense(table).step(start, 4)).all()


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_start_that_finds_too_few_rows_is_left_out(monkeypatch, left_out):
    table, real, numbers = oracle.table_with_holes(np.random.default_rng(0)), lloyd.seeded_fits, iter(range(100))

    def one_short(*given):
        return [TooFewRows(4, 2) if next(numbers) == left_out else fit for fit in real(*given)]

    monkeypatch.setattr(lloyd, "seeded_fits", one_short)
    km = fit(table, 4, n_init=2)
    assert km.n_clusters_ == 4
    assert (km.predict(table) == km.labels_).all()
