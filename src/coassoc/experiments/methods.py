"""The consensus methods of the evaluation, by the names in the paper, and methods of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..consensus.base import fit_to
from ..consensus.metis import load_pymetis
from ..consensus.registry import columns, import_estimator
from ..ensemble import Ensemble

# linkage of more items than the paper linked (landstat) is marked; it is exact up to so many different rows
PAPER_LINKAGE_LIMIT = 6435
DISTINCT_ROWS_LIMIT = 15000
MICRO_CLUSTERS = 100
DISTINCT = "distinct rows"
NON_HIERARCHICAL = ("SEC", "MCLA", "ECC", "CSPA")
HIERARCHICAL = ("R-SL", "R-AL", "R-ML", "E-SL", "E-AL", "E-ML")
PAPER_METHODS = ("KM", "H-KM", *NON_HIERARCHICAL, *HIERARCHICAL)


@dataclass(frozen=True)
class Method:
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
    return (*PAPER_METHODS, *(name for name in columns() if name not in PAPER_METHODS))


def find_method(name: str) -> Method:
    """The method called `name`, or written ``name=package.module:Estimator``; ImportError where it is not installed."""
    if "=" in name:
        return _own_method(name)
    if name not in columns():
        raise ValueError(
            f"method must be one of {', '.join(known_methods())}, or name=package.module:Estimator; got {name!r}."
        )
    method, settings = columns()[name]
    if method.needs == "metis":
        load_pymetis()
    return Method(name, name, method.estimator, settings)


def _own_method(text: str) -> Method:
    name, _, spec = text.partition("=")
    module, _, attribute = spec.partition(":")
    if not (name and module and attribute) or name in (*columns(), "Max", "Mean"):
        raise ValueError(
            "a method of your own is written name=package.module:Estimator, with a name that is not taken; "
            f"got {text!r}."
        )
    return Method(name, spec, import_estimator(spec), {})
