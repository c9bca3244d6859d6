"""For tests of the CUDA engine: on the NumPy twin of the kernels, anywhere, and on a GPU, where there is one."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from coassoc.consensus import base, bisecting, eac, kmeans, linkage, lloyd, merge, micro, search, spectral
from coassoc.consensus.auto import estimator, verdict
from coassoc.engines import Cuda, contract
from coassoc.engines.cuda import device as _cuda_device
from coassoc.engines.cuda.device import has_device
from coassoc.ensemble import gpu
from coassoc.ensemble.ensemble import is_on_gpu
from coassoc.ensemble.gpu import DeviceEnsemble
from coassoc.metrics import labels
from twins.device import NumpyDevice, OnDevice

GUARDED = (estimator, verdict, base, bisecting, contract, eac, kmeans, labels, lloyd, merge, micro, search)
GUARDED += (linkage, spectral)


class Twin(Cuda):
    """The CUDA engine on the NumPy twin of a GPU."""

    skip = True  # so that bounds are tested on few rows, too

    def __init__(self, *arguments, twin=None, **options):
        super().__init__(*arguments, **options)
        self.twin = twin or NumpyDevice()

    def open(self):
        return self.twin


@pytest.fixture(name="make", params=["twin", pytest.param("gpu", marks=pytest.mark.gpu)])
def engines(request):
    """A function that makes engines of one kind."""
    if request.param == "gpu" and not has_device():
        pytest.skip("no CUDA device, or no CuPy")
    kind = Twin if request.param == "twin" else Cuda

    def maker(skip=True, **options):
        engine = kind(**options)
        engine.skip = skip
        return engine

    maker.kind = kind
    return maker


@contextmanager
def on_device(make, host, monkeypatch):
    """The same ensemble with its codes on a device, an engine for it, and a watch over that device.

    Estimators take the twin's arrays for arrays of a GPU, and NumPy functions refuse them.
    """
    engine = make()
    device = engine.open()
    resident = DeviceEnsemble.from_codes(device.put(host.codes), host.n_clusters, device)
    with monkeypatch.context() as patch:
        if make.kind is Twin:
            patch.setattr(_cuda_device, "device_of", lambda array: device)
            for module in (estimator, base, gpu, labels):
                patch.setattr(module, "is_on_gpu", lambda array: isinstance(array, OnDevice) or is_on_gpu(array))
            for module in GUARDED:
                patch.setattr(module, "np", Guard())
        yield resident, engine, Watch(device, patch)


class Watch:
    """Records the bytes of every copy between a device and the host."""

    def __init__(self, device, patch):
        self.device, self.fetched, self.sent = device, [], []
        for name, noted in (("get", self.fetched), ("put", self.sent)):
            patch.setattr(device, name, self._noting(getattr(device, name), noted))

    @staticmethod
    def _noting(cross, noted):
        def crossing(array):
            noted.append(array.nbytes)
            return cross(array)

        return crossing

    def large(self, which, least=5000):
        """The crossings of at least so many bytes: more than any table here has."""
        return [size for size in which if size >= least]


class Guard:
    """NumPy for the host code, which refuses arrays of the twin as NumPy would refuse those of CuPy."""

    def __getattr__(self, name):
        value = getattr(np, name)
        if isinstance(value, (type, np.ufunc)) or not callable(value) or name == "bincount":  # CuPy has its own
            return value

        def guarded(*args, **options):
            assert not any(isinstance(a, OnDevice) for a in args), f"np.{name} was given an array of the device"
            return value(*args, **options)

        return guarded
