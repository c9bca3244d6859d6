"""The registry of consensus methods: one line per method, read by the command line, reports and saving.

A method of another package joins by `register`, or by an entry point which that package declares (core/plugins.py).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any

from ..core.plugins import declared

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """What the package knows about a consensus method without importing it."""

    name: str  # for the command line and ``method="..."``
    path: str  # "module:Class" of the estimator; a module that begins with a dot is one of this package
    takes: str = "labels"  # or "features", "graph": input of `fit`. Only methods that take labels are offered by name
    compared: Mapping[str, Settings] = field(default_factory=dict)  # variants in ``compare``, in place of the method
    own: Any = None  # a class, function or estimator of the user's, in place of `path`

    @property
    def class_name(self) -> str:
        return self.path.partition(":")[2]

    @property
    def estimator(self) -> Any:
        """The class, imported on first use."""
        return self.own or getattr(import_module(self.path.partition(":")[0], __package__), self.class_name)

    def make(self, **settings: Any) -> Any:
        """An unfitted estimator; settings that it does not have, and those that are None, are left out."""
        given = {key: value for key, value in settings.items() if value is not None}
        if self.own is None:
            known = self.estimator._get_param_names()
            return self.estimator(**{key: value for key, value in given.items() if key in known})
        model = self.own() if callable(self.own) else copy.deepcopy(self.own)
        if not (hasattr(model, "get_params") and hasattr(model, "fit")):
            raise TypeError(f"method: {self.path} must make an estimator with fit and get_params, got {model!r}.")
        known = model.get_params(deep=False)
        if not callable(self.own):  # its own settings stay, but for the number of clusters, which all methods share
            known = [name for name in known if name == "n_clusters"]
        return model.set_params(**{key: value for key, value in given.items() if key in known})


_LINKAGES = ("average", "single", "complete")
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("auto", ".auto.estimator:Consensus"),
        Method("kmeans", ".kmeans:KMeansConsensus"),
        Method("bisecting", ".bisecting:BisectingConsensus"),
        Method("density", ".search:DensityConsensus"),
        Method("agreement", ".search:AgreementConsensus"),
        Method("hbgf", ".spectral:HBGF"),
        Method("lwgp", ".spectral:LWGP"),
        Method("ecpcs", ".spectral:ECPCS"),
        Method("lwea", ".eac:LWEA"),
        Method("sec", ".kmeans:SEC"),
        Method("ecc", ".kmeans:ECC"),
        Method("mcla", ".metis:MCLA"),
        Method("cspa", ".metis:CSPA"),
        Method("eac", ".eac:EAC", compared={
            "eac-micro": {"micro_clusters": "auto"},
            **{f"eac-{how}": {"linkage": how} for how in _LINKAGES},
            **{f"eac-enhanced-{how}": {"linkage": how, "enhanced": True} for how in _LINKAGES},
        }),
        Method("graph", ".leiden:GraphConsensus", takes="graph"),
        Method("features", ".features:ConsensusClustering", takes="features"),
    )
}  # fmt: skip


def register(name: str, path: str, **facts: Any) -> Method:
    """Add a method; it then has a name on the command line and takes part in comparisons, reports and saving.

    Parameters
    ----------
    name : str
        Short name, for ``method="..."`` and the command line.
    path : str
        ``"package.module:Class"``, imported when it is first used.
    **facts
        Other fields of `Method`, such as ``takes``.

    Returns
    -------
    Method

    Examples
    --------
    >>> from coassoc.consensus.registry import METHODS, make_method, register
    >>> method = register("three-means", "coassoc.consensus.kmeans:KMeansConsensus")
    >>> make_method("three-means", n_clusters=3)
    KMeansConsensus(n_clusters=3)
    >>> del METHODS["three-means"]
    """
    module, _, class_name = path.partition(":")
    if not (name and module and class_name.isidentifier()):
        raise ValueError(f"a method is registered as name and 'package.module:Class', got {name!r} and {path!r}.")
    method = Method(name, path, **facts)
    for other in METHODS.values():
        taken = {name, *method.compared} & {other.name, *other.compared}
        if taken:
            raise ValueError(f"there is a method {min(taken)!r} already; choose another name.")
    METHODS[name] = method
    return method


@cache
def _load_entry_points() -> None:
    """Register what other installed packages declare; their code is not imported before it is used."""
    for entry in declared("methods"):
        if entry.name not in METHODS:
            register(entry.name, entry.value)


def methods() -> dict[str, Method]:
    """Every method by its short name, those of other packages included."""
    _load_entry_points()
    return dict(METHODS)


def _by_name() -> dict[str, tuple[Method, Settings]]:
    """Every method that takes labels, and its variants, by short name."""
    by_name: dict[str, tuple[Method, Settings]] = {}
    for method in methods().values():
        if method.takes == "labels":
            by_name |= {method.name: (method, {})} | {name: (method, own) for name, own in method.compared.items()}
    return by_name


def method_names() -> list[str]:
    """Names of the methods that take labels, and of their variants: what the command line takes."""
    return list(_by_name())


def compared_methods() -> dict[str, tuple[Method, Settings]]:
    """What ``compare`` can run: its name, the method, and settings of its own."""
    return {
        name: (method, settings)
        for name, (method, settings) in _by_name().items()
        if name in (method.compared or {method.name})
    }


def named_method(name: str) -> tuple[Method, Settings]:
    """The method with this short name, variant or class name, in any case, or ``package.module:Estimator``."""
    if ":" in str(name):
        return own_method(import_estimator(name), name), {}
    names = _by_name()
    classes: dict[str, tuple[Method, Settings]] = {method.class_name: (method, {}) for method, _ in names.values()}
    by_name = {key.lower(): value for key, value in (names | classes).items()}
    if str(name).lower() not in by_name:
        close = get_close_matches(str(name).lower(), names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names)}."
        raise ValueError(f"method: there is no method {name!r}; {hint}")
    return by_name[str(name).lower()]


def own_method(estimator: Any, name: str | None = None) -> Method:
    """A method made of a class, a function that returns an estimator, or an estimator, which is copied."""
    kind = estimator if hasattr(estimator, "__name__") else type(estimator)
    if not (callable(estimator) or hasattr(estimator, "get_params")):
        raise TypeError(f"method: {estimator!r} is neither an estimator nor a class or function that makes one.")
    return Method(name or kind.__name__, f"{kind.__module__}:{kind.__name__}", own=estimator)


def import_estimator(spec: str) -> Any:
    """What ``package.module:Estimator`` names."""
    module, _, attribute = spec.partition(":")
    try:
        target: Any = import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"method {spec!r} cannot be imported: {error}; write package.module:Estimator.") from error
    if not callable(target):
        raise ValueError(f"method {spec!r} must name a class or a function that makes an estimator.")
    return target


def make_method(name: str, **settings: Any) -> Any:
    """An unfitted estimator by name; settings that it does not have, and those that are None, are left out."""
    method, own = named_method(name)
    return method.make(**settings, **own)
