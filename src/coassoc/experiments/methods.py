"""The consensus methods of the evaluation by the names the paper prints, and methods of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ..ensemble import Ensemble

# above the largest set the paper linked (landstat) a linkage is marked; it stays exact while its different rows fit
PAPER_LINKAGE_LIMIT = 6435
DISTINCT_ROWS_LIMIT = 15000
MICRO_CLUSTERS = 100
DISTINCT = "distinct rows"


Builder = Callable[[Ensemble, int, int], tuple[Any, str]]


@dataclass(frozen=True)
class Method:
    """One column of the tables.

    `build(ensemble, n_clusters, seed)` returns an unfitted estimator and a word on how it goes beyond what the paper
    ran ("" when it does not).
    """

    name: str
    spec: str
    build: Builder

    def run(self, ensemble: Ensemble, n_clusters: int, seed: int) -> tuple[np.ndarray, str]:
        """Labels of the consensus, and the variant that made them."""
        estimator, variant = self.build(ensemble, n_clusters, seed)
        labels = (
            estimator.fit_predict(ensemble) if hasattr(estimator, "fit_predict") else estimator.fit(ensemble).labels_
        )
        return np.asarray(labels), variant


def _plain(class_name: str, **settings: Any) -> Builder:
    def build(ensemble: Ensemble, n_clusters: int, seed: int) -> tuple[Any, str]:
        return _estimator(_class(class_name), n_clusters, seed, settings), ""

    return build


def _linkage(linkage: str, enhanced: bool) -> Builder:
    def build(ensemble: Ensemble, n_clusters: int, seed: int) -> tuple[Any, str]:
        settings: dict[str, Any] = {"linkage": linkage, "enhanced": enhanced}
        variant = ""
        if ensemble.n_samples > PAPER_LINKAGE_LIMIT:
            variant = DISTINCT
            if len(ensemble.distinct()[1]) > DISTINCT_ROWS_LIMIT:
                settings["micro_clusters"] = MICRO_CLUSTERS
                variant = f"micro_clusters={MICRO_CLUSTERS}"
        return _estimator(_class("EAC"), n_clusters, seed, settings), variant

    return build


def _random_labels(class_name: str, **settings: Any) -> Builder:
    """Starts from labels drawn at random, one start."""

    def build(ensemble: Ensemble, n_clusters: int, seed: int) -> tuple[Any, str]:
        start = np.random.default_rng(seed).integers(n_clusters, size=ensemble.n_samples)
        return _estimator(_class(class_name), n_clusters, seed, {"init": start, "n_init": 1, **settings}), ""

    return build


# name in the tables -> (class it needs, how it is built)
_BUILDERS: dict[str, tuple[str, Builder]] = {
    "KM": ("KMeansConsensus", _plain("KMeansConsensus", n_init=10)),
    "H-KM": ("BisectingConsensus", _plain("BisectingConsensus", criterion="size")),
    # one k-means++ start: over 13 sets it is 0.7 NMI points from the printed column, ten starts 1.3, a random one 2.8
    "SEC": ("SEC", _plain("SEC", init="k-means++", n_init=1)),
    "MCLA": ("MCLA", _plain("MCLA")),
    # random labels to start from: 1.4 points from the printed column over 13 sets, random rows 3.3, k-means++ 4.8
    "ECC": ("ECC", _random_labels("ECC", smoothing="additive", epsilon=1e-3)),
    "CSPA": ("CSPA", _plain("CSPA")),
    "R-SL": ("EAC", _linkage("single", False)),
    "R-AL": ("EAC", _linkage("average", False)),
    "R-ML": ("EAC", _linkage("complete", False)),
    "E-SL": ("EAC", _linkage("single", True)),
    "E-AL": ("EAC", _linkage("average", True)),
    "E-ML": ("EAC", _linkage("complete", True)),
    "Density": ("DensityConsensus", _plain("DensityConsensus")),
    "Agreement": ("AgreementConsensus", _plain("AgreementConsensus")),
    "HBGF": ("HBGF", _plain("HBGF")),
    "LWGP": ("LWGP", _plain("LWGP")),
    "ECPCS": ("ECPCS", _plain("ECPCS")),
}
PAPER_METHODS = tuple(_BUILDERS)[:12]
FURTHER_METHODS = tuple(_BUILDERS)[12:]
QUICK_METHODS = PAPER_METHODS
LINKAGE_METHODS = tuple(name for name, (needs, _) in _BUILDERS.items() if needs == "EAC")


def known_methods() -> tuple[str, ...]:
    """Names of all methods the evaluation knows, installed or not."""
    return tuple(_BUILDERS)


def find_method(name: str) -> Method:
    """The method called `name`, or written ``name=package.module:Estimator``.

    Raises
    ------
    ImportError
        The method is known, but this installation lacks what it needs.
    ValueError
        There is no such method.
    """
    if "=" in name:
        return _own_method(name)
    if name not in _BUILDERS:
        raise ValueError(
            f"method must be one of {', '.join(_BUILDERS)}, or name=package.module:Estimator; got {name!r}."
        )
    needs, build = _BUILDERS[name]
    _class(needs)
    if name in ("MCLA", "CSPA"):
        _needs_metis(name)
    return Method(name, name, build)


def _own_method(text: str) -> Method:
    name, _, spec = text.partition("=")
    module, _, attribute = spec.partition(":")
    if not (name and module and attribute) or name in (*_BUILDERS, "Max", "Mean"):
        raise ValueError(
            "a method of your own is written name=package.module:Estimator, with a name that is not taken; "
            f"got {text!r}."
        )
    try:
        target: Any = import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"method {text!r} cannot be imported: {error}.") from error
    if not callable(target):
        raise ValueError(f"method {text!r} must name a class or a function that makes an estimator.")

    def build(ensemble: Ensemble, n_clusters: int, seed: int) -> tuple[Any, str]:
        return _estimator(target, n_clusters, seed, {}), ""

    return Method(name, spec, build)


def _estimator(kind: Callable[..., Any], n_clusters: int, seed: int, settings: dict[str, Any]) -> Any:
    """An estimator with its settings, number of clusters and seed, where it has parameters of those names."""
    estimator = kind(**settings)
    known = estimator.get_params(deep=False)
    wanted = {"n_clusters": n_clusters, "random_state": seed}
    return estimator.set_params(**{name: value for name, value in wanted.items() if name in known})


def _class(name: str) -> Any:
    package = import_module("coassoc.consensus")
    if not hasattr(package, name):
        raise ImportError(f"coassoc.consensus has no {name} in this installation.")
    return getattr(package, name)


def _needs_metis(name: str) -> None:
    try:
        import_module("pymetis")
    except ImportError as error:
        raise ImportError(f"{name} needs METIS: pip install 'coassoc[metis]'.") from error
