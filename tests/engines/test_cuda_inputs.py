"""Starts, multiplicities and new rows on a GPU are used there and give the labels of the NumPy engine."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import coassoc as ca
from coassoc.consensus import registry
from coassoc.consensus.auto import evidence
from coassoc.engines import Numpy
from coassoc.engines.cuda import engine as cuda_engine
from coassoc.engines.cuda.device import has_device
from coassoc.ensemble.gpu import DeviceEnsemble
from consensus.test_sampled_items import reduce_early
from twins import fixtures as twin
from twins.cases import noisy_table, planted
from twins.fixtures import on_device

ALL = ("KMeansConsensus", "SEC", "ECC", "DensityConsensus", "AgreementConsensus", "BisectingConsensus")

make = twin.engines  # a fixture


def model_of(method, engine, **options):
    fast = {"max_rounds": 1, "micro_clusters": 8} if method.startswith(("Den", "Agr")) else {}
    return getattr(ca, method)(5, random_state=0, engine=engine, **fast, **options)


def table_of(host):
    """Labels as a caller has them: −1 where missing."""
    return np.where(host.codes == host.n_clusters, -1, host.codes.astype(np.int32))


def n_items(method):
    """Enough items that no table has as many bytes; fewer for the searches, which fetch the moves that they check."""
    return 900 if method.startswith(("Den", "Agr")) else 6000


def check_same_fit(make, method, where, monkeypatch, host, weight=None, **init):
    """Codes on the device or copied to it; a start or multiplicities on the device: the labels of NumPy."""
    expected = model_of(method, Numpy(), **init).fit(host, sample_weight=weight)
    with on_device(make, host, monkeypatch) as (resident, engine, watch):
        np.testing.assert_array_equal(resident.sizes, host.sizes)
        assert resident.has_missing == host.has_missing and engine.load(resident).codes is resident.codes
        device = watch.device
        given = None if weight is None else device.put(weight)
        init = {name: device.put(labels) for name, labels in init.items()}
        watch.sent.clear()
        model = model_of(method, engine, **init).fit(resident if where == "device" else host, sample_weight=given)
    np.testing.assert_array_equal(device.get(model.labels_), expected.labels_)
    np.testing.assert_array_equal(model.cluster_sizes_, expected.cluster_sizes_)
    assert device.owns(model.labels_) == (where == "device")
    if weight is not None:
        np.testing.assert_array_equal(device.get(given), weight)  # marks of items without labels go elsewhere
    if where == "device" and n_items(method) == 6000:
        checked = [array.nbytes for array in (given, *init.values()) if array is not None]  # on the host
        assert watch.large(watch.fetched) == checked
        assert watch.large(watch.sent) == [4 * host.n_samples] * len(checked)


@pytest.mark.parametrize("where", ["device", "host"])
@pytest.mark.parametrize("method", ALL)
def test_multiplicities_and_a_start_on_the_gpu(make, method, where, monkeypatch):
    dtype = (np.int64, np.float32, np.bool_, np.uint8)[(ALL.index(method) + len(where)) % 4]
    host, _ = planted(8, n=n_items(method), p=4, width=np.uint8, most=6, missing=0.3)
    weight = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 4, size=host.n_samples).astype(dtype)
    check_same_fit(make, method, where, monkeypatch, host, weight)
    if method == "BisectingConsensus":  # which takes no start
        return
    labels = (np.arange(host.n_samples) * 7 % 5 * 3 + 2).astype((np.int8, np.int64, np.uint16)[len(method) % 3])
    if method == "KMeansConsensus":
        labels[::9] = -1  # items without a start
    check_same_fit(make, method, where, monkeypatch, host, init=labels)


@pytest.mark.parametrize("method", ALL)
def test_predict_on_the_gpu(make, method, monkeypatch):
    fitted_on = ("device", "host")[ALL.index(method) % 2]
    host, _ = planted(6, n=n_items(method) // 2, p=4, width=np.uint8, most=6, missing=0.1)
    new, _ = planted(9, n=6000, p=4, width=np.uint8, most=9, missing=0.2)  # some labels are unknown
    table, rows = table_of(host), table_of(new)
    theirs = model_of(method, Numpy()).fit(table)
    with on_device(make, host, monkeypatch) as (resident, engine, watch):
        device = watch.device
        ours = model_of(method, engine).fit(resident if fitted_on == "device" else table)
        for these in (rows, table, np.full((5500, 4), -1), np.full((5500, 4), 99)):
            given = [device.put(these)]
            if (these >= 0).any():
                given.append(DeviceEnsemble(given[0], device=device))
            expected = theirs.predict(these)
            for X in given:
                watch.fetched.clear()
                watch.sent.clear()
                labels = ours.predict(X)
                assert device.owns(labels) and labels.dtype == np.int32
                assert watch.large(watch.fetched) == watch.large(watch.sent) == []
                np.testing.assert_array_equal(device.get(labels), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", [name for name, method in registry.METHODS.items() if method.takes == "labels"])
def test_every_method_takes_an_array_on_the_gpu(make, method, monkeypatch):
    """Labels of NumPy, left on the device, on all items and where samples and micro-clusters take their place."""
    if method in ("mcla", "cspa"):
        pytest.importorskip("pymetis")
    host, _ = planted(6, n=300, p=6, width=np.uint8, most=9, missing=0.1)
    settings = {"max_rounds": 1} if method in ("density", "agreement") else {}
    for reduced in (False, True):
        if reduced:
            reduce_early(monkeypatch)
            settings |= {"max_bytes": 0} if method in ("eac", "cspa") else {}
        expected = registry.make_method(method, n_clusters=4, random_state=0, engine=Numpy(), **settings).fit(host)
        with on_device(make, host, monkeypatch) as (resident, engine, watch):
            found = registry.make_method(method, n_clusters=4, random_state=0, engine=engine, **settings).fit(resident)
        assert watch.device.owns(found.labels_)
        np.testing.assert_array_equal(watch.device.get(found.labels_), expected.labels_)
        for name in ("n_sampled_", "n_micro_clusters_"):
            assert getattr(found, name, None) == getattr(expected, name, None)
            assert not reduced or (getattr(found, name, None) or 0) < host.n_samples


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("method", ["auto", "hbgf"])
def test_the_default_answer_stays_on_the_gpu(make, method, missing, monkeypatch):
    """Labels, confidence and alternatives of NumPy, on the device; what is copied does not grow with the items."""
    reduce_early(monkeypatch)
    monkeypatch.setattr(evidence, "MOST_COMPARED", 200)
    monkeypatch.setattr(cuda_engine, "_SCORED_ROWS", 3000)
    copied = []
    for n in (2000, 20_000):
        host = ca.Ensemble(noisy_table(1, n, p=6, missing=missing))
        weight = (np.arange(n) % 3).astype(np.uint8) if method == "hbgf" and missing else None
        settings = {"n_clusters": 4, "method": method, "random_state": 0}
        expected = ca.Consensus(engine=Numpy(), **settings).fit(host, sample_weight=weight)
        with on_device(make, host, monkeypatch) as (resident, engine, watch):
            device = watch.device
            found = ca.Consensus(engine=engine, **settings).fit(resident, sample_weight=weight)
            copied.append(max(watch.fetched + ([] if weight is not None else watch.sent)))
            others = [other.labels for other in found.alternatives_]
            arrays = [found.labels_, found.confidence_, found.disputed_, *others]
        assert all(device.owns(array) for array in arrays)
        theirs = [expected.labels_, expected.confidence_, expected.disputed_]
        for mine, own in zip(arrays, theirs + [other.labels for other in expected.alternatives_], strict=True):
            np.testing.assert_array_equal(device.get(mine), own)
        np.testing.assert_array_equal(found.cluster_confidence_, expected.cluster_confidence_)
        assert found.verdict_ == expected.verdict_
    assert copied[0] == copied[1]


@pytest.mark.parametrize("method", ["auto", "kmeans"])
def test_noise_is_marked_where_the_labels_are(make, method, monkeypatch):
    table = noisy_table(1, 2000, p=6, missing=0.1)
    table[:50, :5] = -1
    settings = {"n_clusters": 4, "method": method, "noise": 0.5, "random_state": 0}
    expected = ca.Consensus(engine=Numpy(), **settings).fit(table)
    with on_device(make, ca.Ensemble(table), monkeypatch) as (resident, engine, watch):
        found, device = ca.Consensus(engine=engine, **settings).fit(resident), watch.device
    assert device.owns(found.labels_) and device.owns(found.confidence_)
    np.testing.assert_array_equal(device.get(found.labels_), expected.labels_)
    np.testing.assert_array_equal(device.get(found.confidence_), expected.confidence_)
    assert (expected.labels_[:50] == -1).all() and found.verdict_ == expected.verdict_


@pytest.mark.parametrize("method", ["eac", "lwea", "cspa"])
def test_linkage_of_many_items_stays_on_the_gpu(make, method, monkeypatch):
    if method == "cspa":
        pytest.importorskip("pymetis")
    reduce_early(monkeypatch)
    host = ca.Ensemble(noisy_table(1, 20_000, p=6, missing=0.05))
    reduced = {"micro_clusters": 20} if method == "lwea" else {"max_bytes": 0}
    settings = {"n_clusters": 4, "random_state": 0} | reduced
    expected = registry.make_method(method, engine=Numpy(), **settings).fit(host)
    with on_device(make, host, monkeypatch) as (resident, engine, watch):
        device = watch.device
        found = registry.make_method(method, engine=engine, **settings).fit(resident)
        assert max(watch.fetched + watch.sent) < host.n_samples and device.owns(found.labels_)
        np.testing.assert_array_equal(device.get(found.labels_), expected.labels_)
        if method != "cspa":
            assert device.owns(found.leaf_of_item_) and device.owns(found.cut(3))


def test_what_cannot_be_used_on_the_gpu_is_refused(make, monkeypatch):
    host, _ = planted(6, n=700, p=4, width=np.uint8, most=6, missing=0.0)
    n = host.n_samples
    with on_device(make, host, monkeypatch) as (resident, engine, watch):
        device = watch.device
        # both are checked on the host, like arrays from there
        for init, text in (
            (np.zeros(n - 1, np.int32), f"one entry per item \\({n}\\)"),
            (np.arange(n), "more than n_cl"),
        ):
            with pytest.raises(ValueError, match=text):
                model_of("KMeansConsensus", engine, init=device.put(init)).fit(resident)
        for weight, text in ((np.full(n, np.nan), "whole numbers"), (np.full(n, 1 << 40), "at most")):
            with pytest.raises(ValueError, match=text):
                model_of("SEC", engine).fit(resident, sample_weight=device.put(weight))
        given = device.put(np.arange(n) % 5)
        with pytest.raises(TypeError, match="init is on the GPU, but engine 'numpy' works in the host's memory"):
            model_of("KMeansConsensus", "numpy", init=given).fit(host)
        with pytest.raises(TypeError, match="sample_weight is on the GPU"):
            model_of("KMeansConsensus", "numpy").fit(host, sample_weight=given)
        with pytest.raises(TypeError, match="labels must lie in the host's memory"):
            ca.metrics.labels.check_labels(given, n)
        model = model_of("KMeansConsensus", engine).fit(resident)
        with pytest.raises(TypeError, match="transform works in the host's memory"):
            model.transform(resident)
        with pytest.raises(TypeError, match="X is on the GPU"):
            model_of("KMeansConsensus", "numpy").fit(host).predict(resident)


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["KMeansConsensus", "DensityConsensus", "AgreementConsensus"])
def test_estimators_take_arrays_on_the_gpu(method):
    """Tables and ensembles of CuPy and, where it is installed, of PyTorch."""
    if not has_device():
        pytest.skip("no CUDA device, or no CuPy")
    import cupy

    host, _ = planted(6, n=3000, p=4, width=np.uint8, most=6, missing=0.1)
    table, weight = table_of(host), np.random.default_rng(0).integers(0, 4, size=host.n_samples)
    expected = model_of(method, "numpy").fit(table, sample_weight=weight)
    kinds = [cupy.asarray]
    if find_spec("torch") is not None:
        import torch

        kinds.append(lambda array: torch.from_numpy(array).cuda())
    for kind in kinds:
        codes = ca.Ensemble.from_codes(kind(host.codes), host.n_clusters)
        for given in (kind(table), ca.Ensemble(kind(table)), codes):
            model = model_of(method, "auto").fit(given, sample_weight=kind(weight))
            assert isinstance(model.labels_, cupy.ndarray)
            np.testing.assert_array_equal(model.labels_.get(), expected.labels_)
        again = model.predict(kind(table[:99]))
        assert isinstance(again, cupy.ndarray)
        np.testing.assert_array_equal(again.get(), expected.predict(table[:99]))
