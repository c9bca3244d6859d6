"""For tests of the CUDA engine: over the NumPy twin of the kernels, anywhere, and on a card, where there is one."""

from __future__ import annotations

import numpy as np
import pytest

from coassoc.engines import Cuda
from coassoc.engines import contract as _verbs
from coassoc.engines.cuda import device as _cuda_device
from coassoc.engines.cuda.device import has_device
from coassoc.ensemble.ensemble import lies_on_card
from coassoc.ensemble.gpu import ensemble_from_device
from twins.device import NumpyDevice, OnCard


class Twin(Cuda):
    """The engine over a stand-in for the card."""

    def __init__(self, *arguments, card=None, **options):
        super().__init__(*arguments, **options)
        self.card = card or NumpyDevice()

    def open(self):
        return self.card


@pytest.fixture(name="make", params=["twin", pytest.param("card", marks=pytest.mark.gpu)])
def engines(request):
    """Maker of engines, of either kind."""
    if request.param == "card" and not has_device():
        pytest.skip("no CUDA device, or no CuPy")
    kind = Twin if request.param == "twin" else Cuda

    def maker(**options):
        return kind(**{"skip": True} | options)  # so that the bounds are tested on few rows, too

    maker.kind = kind
    return maker


def on_card(make, host):
    """The same ensemble with its codes on a card, and an engine there."""
    engine = make()
    card = engine.open()
    return ensemble_from_device(card.put(host.codes), host.n_clusters, card), engine, card


class Watch:
    """Notes the bytes of every array that crosses between a card and the host, and the moves settled at a time."""

    def __init__(self, card, patch):
        self.fetched, self.sent, self.moves = [], [], []
        for name, noted in (("get", self.fetched), ("put", self.sent)):
            patch.setattr(card, name, self._noting(getattr(card, name), noted, lambda array: array.nbytes))
        patch.setattr(card, "settle_moves", self._noting(card.settle_moves, self.moves, lambda _, moves: len(moves)))

    @staticmethod
    def _noting(cross, noted, size):
        def crossing(*args):
            noted.append(size(*args[:2]))
            return cross(*args)

        return crossing

    def large(self, which, least=5000):
        """The crossings of at least so many bytes: more than any table here has."""
        return [size for size in which if size >= least]


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


def as_if_on_card(make, patch, card):
    """Have the twin's arrays pass for those of a card at the estimators' doors, and refused by NumPy's functions."""
    if make.kind is not Twin:
        return
    from coassoc.consensus import (
        base as _base,
    )
    from coassoc.consensus import (
        bisecting as _bisecting,
    )
    from coassoc.consensus import (
        grow as _grow,
    )
    from coassoc.consensus import (
        kmeans as _kmeans,
    )
    from coassoc.consensus import (
        lloyd as _lloyd,
    )
    from coassoc.consensus import (
        search as _search,
    )
    from coassoc.metrics import labels as _labels

    patch.setattr(_cuda_device, "device_of", lambda array: card)
    for module in (_base, _bisecting, _grow, _labels):
        patch.setattr(module, "lies_on_card", lambda array: isinstance(array, OnCard) or lies_on_card(array))
    for module in (_base, _bisecting, _grow, _kmeans, _labels, _lloyd, _search, _verbs):
        patch.setattr(module, "np", Guard())
