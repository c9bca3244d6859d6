"""The searches on a GPU give the labels of the NumPy engine and copy no array of all items to the host."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from coassoc.core.moves import AgreementState, DensityState
from coassoc.engines import Numpy
from coassoc.engines.cuda.device import has_device
from twins import fixtures as twin
from twins.cases import WIDTHS, planted
from twins.fixtures import Watch, as_if_on_device, on_device

SEARCHES = ("DensityConsensus", "AgreementConsensus")

make = twin.engines  # a fixture


def fitted(method, engine, ensemble, copies=None, **options):
    model = getattr(ca, method)(**{"n_clusters": 5, "random_state": 0, "engine": engine} | options)
    return model.fit(ensemble, sample_weight=copies)


def small_tables():
    """Many items, and tables so small that nothing that grows with the items, or the moves, could pass for one."""
    host, _ = planted(6, n=6000, p=4, width=np.uint8, most=6, missing=0.0)
    return host, {"micro_clusters": 20, "max_rounds": 2}


@pytest.mark.parametrize("where", ["device", "device, no start", "host", "streamed"])
@pytest.mark.parametrize("method", SEARCHES)
def test_only_tables_counts_and_scalars_cross_during_a_search(make, method, where, monkeypatch):
    """Codes, start and labels on the device never cross, those of the host once each way."""
    host, options = small_tables()
    n = host.n_samples
    init = {} if where == "device, no start" else {"init": np.arange(n) % 5}
    expected = fitted(method, Numpy(), host, **options, **init)
    assert expected.n_rounds_ > 0 and expected.n_iter_ > 0
    given, engine, device = on_device(make, host)
    resident = where.startswith("device")
    if resident:
        init = {name: device.put(labels) for name, labels in init.items()}
    else:
        given, engine = host, make(stream=where == "streamed")
        device = engine.open()
    with monkeypatch.context() as patch:
        if resident:
            as_if_on_device(make, patch, device)
        watch = Watch(device, patch)
        found = fitted(method, engine, given, **options, **init)
    assert device.owns(found.labels_) == resident
    np.testing.assert_array_equal(device.get(found.labels_), expected.labels_)
    codes = [4 * n] if where == "host" else []
    assert watch.large(watch.sent) == ([] if resident else [*codes, n])
    assert watch.large(watch.fetched) == ([] if resident else [n])
    assert max(watch.moves) > (2500 if init else 50)


@pytest.mark.parametrize("state", [DensityState, AgreementState])
@pytest.mark.parametrize(("p", "k"), [(3, 2), (20, 20), (40, 120), (3, 500)])
def test_moves_settled_on_the_gpu_equal_the_plain_loop(make, state, p, k, monkeypatch):
    """Codes of every width, resident and streamed, counts in shared and in global memory, tickets shared or not."""
    for case, width in enumerate(WIDTHS):
        missing, weighted, repeated = 0.2 * (case % 2), (case + k // 20) % 2 == 0, (case + p) % 2
        host, _ = planted(
            100 * k + p + case, n=9000 if case == 2 and k == 20 else 700, p=p, width=width, most=9, missing=missing
        )
        rng = np.random.default_rng(case)
        copies = rng.integers(0, 4, size=host.n_samples) if repeated else None
        if case == 0 and p == 3:
            copies = copies * 1_000_000  # sums over partitions on both sides of 2**53
        v = rng.random(p) + 0.1 if weighted else np.ones(p)
        labels = rng.integers(k, size=host.n_samples)
        engine = make(stream=case == 2)
        monkeypatch.setattr(engine.open(), "settle_limit", 0 if case == 0 else 232_448, raising=False)
        ours, theirs = engine.load(host, copies), Numpy().load(host, copies)
        mine, yours = ours.labelling(k, labels), theirs.labelling(k, labels)
        least = 1 + case
        live = [state(rows.counts(those), v, least, case > 0) for rows, those in ((ours, mine), (theirs, yours))]
        table, start, made = live[1].table(), 0, 0
        for limit in (3, 50, 300):
            found, expected = (
                rows.propose_moves(those, table, start, limit) for rows, those in ((ours, mine), (theirs, yours))
            )
            assert (len(found), found.stop) == (len(expected), expected.stop)
            applied = theirs.apply_moves(yours, live[1], expected, table.threshold)
            assert ours.apply_moves(mine, live[0], found, table.threshold) == applied
            np.testing.assert_array_equal(ours.labels(mine), theirs.labels(yours))
            for name in ("alpha", "sizes", "cells", "squares", "shared", "entropy"):
                if hasattr(live[1], name):
                    np.testing.assert_array_equal(getattr(live[0], name), getattr(live[1], name), err_msg=name)
            np.testing.assert_array_equal(ours.counts(mine).alpha, live[1].alpha)
            start, made = found.stop, made + applied
        assert made > 25
        monkeypatch.undo()


@pytest.mark.gpu
@pytest.mark.parametrize("state", [DensityState, AgreementState])
@pytest.mark.parametrize("k", [2, 20, 300])
def test_many_moves_on_a_gpu_again_and_again(state, k):
    """Warps that do not wait for each other would show among many moves, and not every time the same."""
    if not has_device():
        pytest.skip("no CUDA device, or no CuPy")
    host, _ = planted(5, n=40_000, p=5, width=np.uint8, most=12, missing=0.1)
    labels = np.random.default_rng(0).integers(k, size=host.n_samples)
    theirs = Numpy().load(host)
    yours = theirs.labelling(k, labels)
    plain = state(theirs.counts(yours), np.ones(5))
    table = plain.table()
    made = theirs.apply_moves(yours, plain, theirs.propose_moves(yours, table, 0, 1 << 20), table.threshold)
    for repeat in range(8):
        ours = twin.Cuda(stream=bool(repeat % 2)).load(host)
        mine = ours.labelling(k, labels)
        live = state(ours.counts(mine), np.ones(5))
        ours.device.settle_limit = 0 if repeat % 4 > 1 else ours.device.shared_limit
        assert ours.apply_moves(mine, live, ours.propose_moves(mine, table, 0, 1 << 20), table.threshold) == made > 9000
        np.testing.assert_array_equal(ours.labels(mine), theirs.labels(yours))
        np.testing.assert_array_equal(live.alpha, plain.alpha)
