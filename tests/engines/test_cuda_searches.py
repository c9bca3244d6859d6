"""The searches on the card: the labels of the NumPy engine, and no array of all items on its way to the host."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("sklearn")

import coassoc as ca
import twin
from coassoc.consensus import _base, _kmeans, _lloyd, _search
from coassoc.engines import Numpy, _verbs
from coassoc.engines._cuda_device import has_device
from coassoc.engines._cuda_ensemble import ensemble_from_device
from coassoc.engines._cuda_twin import OnCard
from twin import Twin, planted

SEARCHES = ("DensityConsensus", "AgreementConsensus")

make = twin.engines  # a fixture


def fitted(method, engine, ensemble, copies=None, **options):
    model = getattr(ca, method)(**{"n_clusters": 5, "random_state": 0, "engine": engine} | options)
    return model.fit(ensemble, sample_weight=copies)


def on_card(make, host):
    """The same ensemble with its codes on a card, and an engine there."""
    engine = make()
    card = engine.open()
    return ensemble_from_device(card.put(host.codes), host.n_clusters, card), engine, card


@pytest.mark.parametrize("method", SEARCHES)
@pytest.mark.parametrize("seed", range(5))
def test_searches_equal_the_numpy_engine(make, method, seed):
    host, copies = planted(seed, n=500, p=8, most=12, missing=0.15 * (seed % 2))
    options = {
        "partition_weights": np.random.default_rng(seed).random(8) + 0.1 if seed % 3 == 0 else None,
        "over_segment": 300 if seed == 4 else 40,  # labels of two bytes on the way
    }
    options |= {"at_most": True} if method == "AgreementConsensus" and seed > 2 else {}
    expected = fitted(method, Numpy(), host, copies, **options)
    resident, engine, card = on_card(make, host)
    for found in (
        fitted(method, engine, resident, copies, **options),
        fitted(method, make(stream=bool(seed % 2), piece_rows=8192), host, copies, **options),
    ):
        labels = card.get(found.labels_)
        np.testing.assert_array_equal(labels, expected.labels_)
        assert found.density_ == expected.density_ and found.n_rounds_ == expected.n_rounds_
    assert expected.n_rounds_ > 0


class Watch:
    """Notes the rows of every array that crosses between a card and the host."""

    def __init__(self, card, patch):
        self.fetched, self.sent = [], []
        for name, noted in (("get", self.fetched), ("put", self.sent)):
            patch.setattr(card, name, self._noting(getattr(card, name), noted))

    @staticmethod
    def _noting(cross, noted):
        def crossing(array):
            noted.append(array.shape[0] if array.ndim else 1)
            return cross(array)

        return crossing


class Guard:
    """NumPy for the host's code, refusing what lies on the twin's card, as it would refuse CuPy's arrays."""

    def __getattr__(self, name):
        value = getattr(np, name)
        if isinstance(value, (type, np.ufunc)) or not callable(value):
            return value

        def guarded(*args, **options):
            assert not any(isinstance(a, OnCard) for a in args), f"np.{name} was given an array of the card"
            return value(*args, **options)

        return guarded


@pytest.mark.parametrize("start", ["over-segmentation", "init"])
@pytest.mark.parametrize("method", SEARCHES)
def test_no_array_of_all_items_crosses_during_a_search(make, method, start, monkeypatch):
    n = 4000
    host, _ = planted(6, n=n, p=8, width=np.uint8, most=30, missing=0.0)
    options = {"init": np.arange(n) % 5} if start == "init" else {}
    expected = fitted(method, Numpy(), host, **options)
    assert expected.n_rounds_ > 0 and expected.n_iter_ > 0
    resident, engine, card = on_card(make, host)
    with monkeypatch.context() as patch:
        if make.kind is Twin:
            patch.setattr(_base, "lies_on_card", lambda labels: isinstance(labels, OnCard))
            for module in (_base, _kmeans, _lloyd, _search, _verbs):
                patch.setattr(module, "np", Guard())
        watch = Watch(card, patch)
        found = fitted(method, engine, resident, **options)
    assert card.owns(found.labels_)
    np.testing.assert_array_equal(card.get(found.labels_), expected.labels_)
    assert max(watch.fetched) < n  # tables, counts and moves
    assert [rows for rows in watch.sent if rows >= n] == ([n] if start == "init" else [])


@pytest.mark.parametrize("method", SEARCHES)
def test_items_of_the_host_cross_once_each_way(make, method, monkeypatch):
    n = 4000
    host, _ = planted(6, n=n, p=8, width=np.uint8, most=30, missing=0.0)
    engine = make()
    with monkeypatch.context() as patch:
        watch = Watch(engine.open(), patch)
        found = fitted(method, engine, host)
    assert isinstance(found.labels_, np.ndarray)
    assert [rows for rows in watch.sent if rows >= n] == [n]  # the codes
    assert [rows for rows in watch.fetched if rows >= n] == [n]  # the labels


@pytest.mark.gpu
@pytest.mark.parametrize("method", SEARCHES)
def test_public_door_takes_arrays_of_the_card(method):
    if not has_device():
        pytest.skip("no CUDA device, or no CuPy")
    import cupy

    host, _ = planted(2, n=3000, p=8, width=np.uint8, most=20, missing=0.3)
    expected = fitted(method, "numpy", host).labels_
    table = host.codes.astype(np.int32)
    table[host.codes == host.n_clusters] = -1
    doors = [ca.Ensemble.from_codes(cupy.asarray(host.codes), host.n_clusters), cupy.asarray(table)]
    if find_spec("torch") is not None:
        import torch

        doors.append(ca.Ensemble(torch.from_numpy(table).cuda()))
    for given in doors:
        labels = fitted(method, "auto", given).labels_
        assert isinstance(labels, cupy.ndarray)
        np.testing.assert_array_equal(labels.get(), expected)


def test_votes_of_meta_clusters_stay_on_the_card(make):
    host, copies = planted(6, n=700, p=8, most=12, missing=0.2)
    expected = fitted("ECPCS", Numpy(), host, copies)
    resident, engine, card = on_card(make, host)
    found = fitted("ECPCS", engine, resident, copies)
    np.testing.assert_array_equal(card.get(found.labels_), expected.labels_)


@pytest.mark.parametrize("stream", [False, True])
def test_renumbered_and_joined_labellings(make, stream):
    for seed, k in enumerate((2, 7, 300)):
        host, copies = planted(seed, n=9000 if seed else 700)
        rng = np.random.default_rng(seed)
        labels = rng.integers(k, size=host.n_samples)
        labels[:k] = np.arange(k)  # a part may not be empty below
        rows = make(stream=stream, piece_rows=8192).load(host, copies)
        labelling = rows.labelling_of(labels, k)
        for after in (3, 290):
            numbers = rng.integers(after, size=k)
            other = rows.renumbered(labelling, numbers, after)
            np.testing.assert_array_equal(rows.labels(other), numbers[labels])
            np.testing.assert_array_equal(rows.labels(labelling), labels)
            expected = Numpy().load(host, copies)
            counts = expected.counts(expected.labelling_of(numbers[labels], after))
            np.testing.assert_array_equal(rows.counts(other).alpha, counts.alpha)
        parts = rows.split(labelling)
        own = [None if c % 3 == 1 else part.labelling_of(np.arange(part.n_rows) % 2, 2) for c, part in enumerate(parts)]
        first, expected = 0, np.zeros(host.n_samples, np.int64)
        for c in range(k):
            here = np.flatnonzero(labels == c)
            expected[here] = first + (0 if own[c] is None else np.arange(len(here)) % 2)
            first += 1 if own[c] is None else 2
        joined = rows.joined(parts, own)
        assert joined.n_clusters == first
        np.testing.assert_array_equal(rows.labels(joined), expected)
