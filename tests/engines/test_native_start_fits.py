"""Fits of many starts in one compiled call: restarts and trees as NumPy has them, and ways to stop them."""

from __future__ import annotations

import os
import re
import threading

import numpy as np
import pytest

import coassoc as ca
from by_hand import LEVELS, make_ensemble
from coassoc.consensus.lloyd import seeded_fits
from coassoc.core.checks import stream
from coassoc.core.counts import Counts
from coassoc.core.tables import KMeansObjective, seeding_weights
from coassoc.engines import Native, Numpy
from coassoc.engines.native import engine as _native
from forked import seconds_to_stop

pytestmark = pytest.mark.skipif(_native.kernels_missing() is not None, reason="the kernels are not compiled")


@pytest.mark.parametrize("how", ["plain", "missing", "copies", "weights"])
def test_restarts_and_trees_are_those_of_numpy(how, capsys):
    rng = np.random.default_rng(3)
    ensemble = make_ensemble(rng, 1500, 6, 12, missing=0.1 * (how == "missing"), noise=0.6)
    copies = rng.integers(0, 3, size=1500) if how == "copies" else None
    weights = rng.random(6) + 0.1 if how == "weights" else None

    def everything(engine):
        found = []
        for k in (2, 7):
            for verbose in (0, 1):
                model = ca.KMeansConsensus(
                    k, n_init=5, random_state=1, partition_weights=weights, engine=engine, verbose=verbose
                ).fit(ensemble, sample_weight=copies)
                found += [model.labels_.tolist(), model.losses_, model.stop_reason_, model.loss_, model._alpha.tolist()]
                found += [capsys.readouterr().out, model.predict(ensemble).tolist()]
        for criterion in ("gain", "size", "loss"):
            tree = ca.BisectingConsensus(
                max_leaves=9,
                n_clusters=5,
                criterion=criterion,
                n_init=2,
                random_state=1,
                partition_weights=weights,
                engine=engine,
            ).fit(ensemble, sample_weight=copies)
            found += [tree.labels_.tolist(), tree.to_newick(), repr(tree.tree_.gain), tree.cut(9).tolist(), tree.loss_]
        return found

    truth = everything(Numpy())
    assert len(re.findall(r"start [0-4], pass \d+, loss", truth[12])) > 5
    engines = [Native(n_threads=t, chunk_rows=rows, simd=s) for s in LEVELS for t, rows in ((1, None), (3, 64))]
    for engine in [*engines, Native(n_threads=2, blocked_copy=False), Native(n_threads=4)]:
        for mine, theirs in zip(everything(engine), truth, strict=True):
            assert mine == theirs, engine


@pytest.mark.parametrize("threads", [1, 3])
def test_first_of_equally_good_starts_is_kept(threads):
    codes = np.repeat(np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]], np.uint8), 40, axis=0)
    ensemble = ca.Ensemble.from_codes(codes, [3, 3, 3])
    for engine in (Native(n_threads=threads), Numpy()):
        orders = []
        for seed in range(6):
            one = ca.KMeansConsensus(3, n_init=1, random_state=seed, engine=engine).fit(ensemble)
            many = ca.KMeansConsensus(3, n_init=7, random_state=seed, engine=engine).fit(ensemble)
            assert many.labels_.tolist() == one.labels_.tolist() and many.loss_ == one.loss_ == 0
            orders.append(one.labels_[::40].tolist())
        assert len({tuple(order) for order in orders}) > 2


def test_split_is_the_best_of_its_starts():
    """The two leaves of a tree, and the best of so many starts that were made one at a time."""
    ensemble = make_ensemble(np.random.default_rng(8), 400, 5, 6, noise=0.9)
    objective, ones = KMeansObjective(np.ones(5)), np.ones(5, int)
    firsts = []
    for seed in range(5):
        plain = Numpy()
        fits = [
            seeded_fits(plain, [(plain.load(ensemble), stream(seed, restart))], objective, 2, ones, 300)[0]
            for restart in range(6)
        ]
        best = min(range(6), key=lambda i: fits[i].loss)
        firsts.append(best)
        truth = np.asarray(fits[best].labelling.labels)
        for engine in (plain, Native(n_threads=1), Native(n_threads=3)):
            tree = ca.BisectingConsensus(max_leaves=2, n_clusters=2, n_init=6, random_state=seed, engine=engine)
            assert np.array_equal(tree.fit(ensemble).labels_, truth)
    assert max(firsts) > 0


def test_starts_that_leave_a_cluster_empty_go_on_as_numpy_does():
    """Rare: found by trying thousands of seeds."""
    refilled = 0
    for seed in (1925, 2317, 2334, 2720, 2880, 3221):
        rng = np.random.default_rng(seed)
        n, p, k = int(rng.integers(20, 300)), int(rng.integers(2, 9)), int(rng.integers(3, 20))
        most, noise, missing = int(rng.integers(2, 9)), float(rng.random()), float(rng.choice([0.2, 0.5]))
        ensemble = make_ensemble(rng, n, p, most, noise=noise, missing=missing)
        v, copies = rng.random(p) ** 3 + 0.01, rng.integers(0, 3, size=n)
        found = []
        for engine in (Numpy(), Native(n_threads=1), Native(n_threads=3, chunk_rows=64)):
            rows, weights = engine.load(ensemble, copies), seeding_weights(v)
            task = [(rows, np.random.default_rng(seed))]
            (fit,) = seeded_fits(engine, task, KMeansObjective(v), k, weights, 100)
            labels = np.asarray(rows.labels(fit.labelling)).tolist()
            found.append((fit.losses, fit.stop, labels, fit.counts.alpha.tolist(), fit.table.values.tolist()))
            if engine.fuses_starts:
                task = [(rows, np.random.default_rng(seed))]
                (start,) = engine.kmeans_starts(task, k, 2 + int(np.log(k)), weights, v, 100)
                refilled += start.passes[2] > 0
        assert found[0] == found[1] == found[2]
    assert refilled


# -- stopping ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_cancelled_token_stops_starts(threads):
    kernels = _native._kernels
    engine = Native(n_threads=threads)
    ensemble = make_ensemble(np.random.default_rng(0), 60_000, 10, 30, noise=0.9)
    rows = engine.load(ensemble)
    tasks = [(rows, np.random.default_rng(seed)) for seed in range(200)]  # many seconds of work
    for late in (False, True):
        token = kernels.Token()
        kernels.use_token(token)
        stopper = threading.Timer(0.2, token.cancel)
        try:
            stopper.start() if late else token.cancel()
            with pytest.raises(kernels.Stopped):
                engine.kmeans_starts(tasks, 40, 5, np.ones(10, int), np.ones(10), 100)
        finally:
            kernels.use_token(None)
            stopper.cancel()
    # the rows are as good as before, and so is this thread
    (after,) = engine.kmeans_starts([(rows, np.random.default_rng(5))], 3, 2, np.ones(10, int), np.ones(10), 2)
    labelling = rows.labelling(3)
    assert after.passes == rows.kmeans_passes(labelling, np.ones(10), Counts.of_rows(after.seeds, rows.layout), 2)
    assert np.array_equal(rows.labels(after.labelling), rows.labels(labelling))


ENDLESS = """
import os
import numpy as np
import coassoc as ca
codes = np.random.default_rng(0).integers(30, size=(50_000, 10)).astype(np.uint8)
ensemble = ca.Ensemble.from_codes(codes, np.full(10, 30))
engine = ca.engines.Native(n_threads={threads})
rows = engine.load(ensemble)
tasks = [(rows, np.random.default_rng(seed)) for seed in range(3000)]
many = dict(n_init=10**6, engine=engine, random_state=0)
models = [ca.KMeansConsensus(20, **many), ca.BisectingConsensus(max_leaves=2, **many)]
weights = np.ones(10, int), np.ones(10)
long = ca.Ensemble.from_codes(np.tile(codes, (6, 1)), np.full(10, 30))
engine.kmeans_starts(tasks[:1], 2, 2, *weights, 2)
os.write(1, b"ready\\n")
{call}
"""
# thousands of rounds of seeding, each far too short to look up in
LONG_SEEDING = "engine.kmeans_starts([(engine.load(long), rng) for _, rng in tasks[:3]], 20_000, 9, *weights, 1)"
ONE_CALL = "engine.kmeans_starts(tasks, 40, 5, *weights, 100)"


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize(
    ("call", "threads"),
    [
        (ONE_CALL, 3),
        (LONG_SEEDING, 1),
        (LONG_SEEDING, 3),
        ("models[0].fit(ensemble)", 3),
        ("models[1].fit(ensemble)", 1),
    ],
    ids=["starts", "seeding", "seeding in threads", "k-means", "tree"],
)
def test_ctrl_c_stops_starts_soon(call, threads):
    assert seconds_to_stop(ENDLESS.format(threads=threads, call=call)) < 5
