"""Consensus methods by a short name: for the command line, reports, and `ConsensusClustering(method="...")`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# short name -> estimator of this package
METHODS = {
    "kmeans": "KMeansConsensus",
    "bisecting": "BisectingConsensus",
    "density": "DensityConsensus",
    "agreement": "AgreementConsensus",
    "sec": "SEC",
    "ecc": "ECC",
    "eac": "EAC",
    "mcla": "MCLA",
    "cspa": "CSPA",
    "hbgf": "HBGF",
    "lwgp": "LWGP",
    "ecpcs": "ECPCS",
}


def method_names() -> list[str]:
    """Names of the methods this installation has."""
    package = import_module(__package__)
    return [name for name, estimator in METHODS.items() if hasattr(package, estimator)]


def make_method(name: str, **settings: Any) -> Any:
    """An unfitted estimator; settings it does not have, and those that are None, are left out."""
    known = {key.lower(): key for key in (*METHODS, *METHODS.values())}
    key = known.get(str(name).lower())
    if key is None:
        from difflib import get_close_matches

        close = get_close_matches(str(name).lower(), method_names(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(method_names())}."
        raise ValueError(f"method: there is no method {name!r}; {hint}")
    package = import_module(__package__)
    estimator = getattr(package, METHODS.get(key, key), None)
    if estimator is None:
        raise ValueError(f"method {name!r} is not part of this installation; it has {', '.join(method_names())}.")
    parameters = estimator._get_param_names()
    return estimator(**{k: v for k, v in settings.items() if v is not None and k in parameters})
