"""The consensus methods of the evaluation, by the names in the paper, and methods of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coassoc import Ensemble
from coassoc.consensus.base import fit_to
from coassoc.consensus.metis import load_pymetis
from coassoc.consensus.registry import import_estimator, methods

# linkage of more items than the paper linked (landstat) is marked; it is exact up to so many different rows
PAPER_LINKAGE_LIMIT = 6435
DISTINCT_ROWS_LIMIT = 15000
MICRO_CLUSTERS = 100
DISTINCT = "distinct rows"
NON_HIERARCHICAL = ("SEC", "MCLA", "ECC", "CSPA")
HIERARCHICAL = ("R-SL", "R-AL", "R-ML", "E-SL", "E-AL", "E-ML")
PAPER_METHODS = ("KM", "H-KM", *NON_HIERARCHICAL, *HIERARCHICAL)
_LINKAGES = {"SL": "single", "AL": "average", "ML": "complete"}

# column -> (class, settings); methods that are not here have a column under the name of their class
_COLUMNS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "KM": ("KMeansConsensus", {"n_init": 10}),
    "H-KM": ("BisectingConsensus", {"criterion": "size"}),
    # one k-means++ start is 0.7 NMI points from the paper's column over 13 sets, ten starts 1.3, a random one 2.8
    "SEC": ("SEC", {"init": "k-means++", "n_init": 1}),
    "ECC": ("ECC", {"n_init": 1, "smoothing": "additive"}),
    "MCLA": ("MCLA", {"at_most": True}),
    "Density": ("DensityConsensus", {}),
    "Agreement": ("AgreementConsensus", {}),
    **{name: ("EAC", {"linkage": _LINKAGES[name[2:]], "enhanced": name[0] == "E"}) for name in HIERARCHICAL},
}


@dataclass(frozen=True)
class Column:
    """One column of the tables: its name, how the user wrote it, an estimator class and its settings."""

    name: str
    spec: str
    make: Callable[..., Any]
    settings: Mapping[str, Any]

    def run(self, ensemble: Ensemble, n_clusters: int, seed: int) -> tuple[np.ndarray, str]:
        """Labels of the consensus, and the variant of the method where the paper could not run it ("" otherwise)."""
        settings, variant = dict(self.settings), ""
        if self.name in HIERARCHICAL:
            variant = _linkage_variant(ensemble)
            if variant not in ("", DISTINCT):
                settings["micro_clusters"] = MICRO_CLUSTERS
        elif self.name == "ECC":
            # mean distance to the paper's column over 13 sets: 1.4 points from random labels, 3.3 from random rows,
            # 4.8 from k-means++
            settings["init"] = np.random.default_rng(seed).integers(n_clusters, size=ensemble.n_samples)
        estimator = self.make(**settings)
        known = estimator.get_params(deep=False)
        wanted = {"n_clusters": n_clusters, "random_state": seed}
        estimator.set_params(**{name: value for name, value in wanted.items() if name in known})
        return np.asarray(fit_to(estimator, ensemble).labels_), variant


def _linkage_variant(ensemble: Ensemble) -> str:
    """How linkage runs: as in the paper, over different rows, or over micro-clusters."""
    if ensemble.n_samples <= PAPER_LINKAGE_LIMIT:
        return ""
    few = len(ensemble.distinct()[1]) <= DISTINCT_ROWS_LIMIT
    return DISTINCT if few else f"micro_clusters={MICRO_CLUSTERS}"


def known_methods() -> tuple[str, ...]:
    """Names of all methods the evaluation knows, those of the paper first."""
    named = {class_name for class_name, _ in _COLUMNS.values()}
    others = [m.class_name for m in methods().values() if m.takes == "labels" and m.class_name not in named]
    return tuple(dict.fromkeys([*PAPER_METHODS, *_COLUMNS, *others]))


def find_method(name: str) -> Column:
    """The method called `name`, or written ``name=package.module:Estimator``; ImportError where it is not installed."""
    if "=" in name:
        return _own_method(name)
    if name not in known_methods():
        raise ValueError(
            f"method must be one of {', '.join(known_methods())}, or name=package.module:Estimator; got {name!r}."
        )
    class_name, settings = _COLUMNS.get(name, (name, {}))
    method = next(method for method in methods().values() if method.class_name == class_name)
    if class_name in ("MCLA", "CSPA"):
        load_pymetis()
    return Column(name, name, method.estimator, settings)


def _own_method(text: str) -> Column:
    name, _, spec = text.partition("=")
    module, _, attribute = spec.partition(":")
    if not (name and module and attribute) or name in (*known_methods(), "Max", "Mean"):
        raise ValueError(
            "a method of your own is written name=package.module:Estimator, with a name that is not taken; "
            f"got {text!r}."
        )
    return Column(name, spec, import_estimator(spec), {})
