"""coassoc: many clusterings in, one trustworthy partition out, in linear time."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# public name -> the package that exports it; loaded on first use, so that importing coassoc is quick
_EXPORTS = {
    "Ensemble": "ensemble",
    "read_ensemble": "ensemble",
    "write_ensemble": "ensemble",
    "write_labels": "ensemble",
    "make_ensemble": "ensemble",
    "make_ensemble_large": "ensemble",
    "KMeansConsensus": "consensus",
    "BisectingConsensus": "consensus",
    "ConsensusClustering": "consensus",
    "load": "consensus",
    "SEC": "consensus",
    "ECC": "consensus",
    "MCLA": "consensus",
    "CSPA": "consensus",
    "EAC": "consensus",
    "DensityConsensus": "consensus",
    "AgreementConsensus": "consensus",
    "HBGF": "consensus",
    "LWGP": "consensus",
    "ECPCS": "consensus",
    "cluster_uncertainty": "consensus",
    "select_k": "consensus",
    "density": "metrics",
    "cluster_density": "metrics",
    "cluster_weight": "metrics",
    "inter_density": "metrics",
    "inter_weight": "metrics",
    "split_gain": "metrics",
    "kmeans_loss": "metrics",
    "nmi": "metrics",
    "ensemble_nmi": "metrics",
    "zero_effort": "metrics",
    "member_scores": "metrics",
    "pairwise_nmi": "metrics",
    "align_labels": "metrics",
    "best_member": "metrics",
    "item_stability": "metrics",
    "item_memberships": "metrics",
    "cluster_stability": "metrics",
    "partition_agreement": "metrics",
    "warn_if_worse_than_member": "metrics",
    "WorseThanMemberWarning": "metrics",
    "order_by_size": "metrics",
    "compare": "report",
    "show_config": "engines.config",
}
_PACKAGES = ("consensus", "datasets", "engines", "ensemble", "experiments", "metrics", "report")

__all__ = ["__version__", "engines", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name == "__version__":
        try:
            return import_module("._version", __name__).version
        except ImportError:
            return "0+unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
