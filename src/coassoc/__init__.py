"""coassoc: many clusterings in, one partition out, with a statement of how reliable it is, in linear time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .consensus.registry import METHODS

if TYPE_CHECKING:  # what type checkers and editors see; at run time names are imported on first use
    import coassoc.consensus.single_cell as tl  # noqa: F401
    import coassoc.report.single_cell as pl  # noqa: F401

    from . import consensus as consensus
    from . import engines as engines
    from . import ensemble as ensemble
    from . import metrics as metrics
    from . import report as report
    from .consensus.auto.estimator import Consensus as Consensus
    from .consensus.auto.select_k import select_k as select_k
    from .consensus.base import ConsensusEstimator as ConsensusEstimator
    from .consensus.bisecting import BisectingConsensus as BisectingConsensus
    from .consensus.eac import EAC as EAC
    from .consensus.eac import LWEA as LWEA
    from .consensus.features import ConsensusClustering as ConsensusClustering
    from .consensus.kmeans import ECC as ECC
    from .consensus.kmeans import SEC as SEC
    from .consensus.kmeans import KMeansConsensus as KMeansConsensus
    from .consensus.leiden import GraphConsensus as GraphConsensus
    from .consensus.leiden import stable_leiden as stable_leiden
    from .consensus.metis import CSPA as CSPA
    from .consensus.metis import MCLA as MCLA
    from .consensus.persist import load as load
    from .consensus.search import AgreementConsensus as AgreementConsensus
    from .consensus.search import DensityConsensus as DensityConsensus
    from .consensus.spectral import ECPCS as ECPCS
    from .consensus.spectral import HBGF as HBGF
    from .consensus.spectral import LWGP as LWGP
    from .engines.config import show_config as show_config
    from .ensemble import Ensemble as Ensemble
    from .ensemble import make_ensemble as make_ensemble
    from .ensemble import read_ensemble as read_ensemble
    from .ensemble import write_ensemble as write_ensemble
    from .ensemble import write_labels as write_labels
    from .metrics import align_labels as align_labels
    from .metrics import best_partition as best_partition
    from .metrics import cluster_density as cluster_density
    from .metrics import cluster_recovery as cluster_recovery
    from .metrics import density as density
    from .metrics import ensemble_nmi as ensemble_nmi
    from .metrics import inter_density as inter_density
    from .metrics import item_consensus as item_consensus
    from .metrics import kmeans_loss as kmeans_loss
    from .metrics import nmi as nmi
    from .metrics import partition_nmi as partition_nmi
    from .metrics import profile as profile
    from .metrics import zero_effort as zero_effort
    from .report.comparison import compare as compare
    from .report.summary import summarize as summarize

    __version__: str
    _kernels: Any

# package -> the public names it exports; imported on first use, so that `import coassoc` is quick
_EXPORTED_BY = {
    "ensemble": ("Ensemble", "read_ensemble", "write_ensemble", "write_labels", "make_ensemble"),
    "consensus": (
        *(method.class_name for method in METHODS.values()),
        "ConsensusEstimator", "load", "select_k", "stable_leiden",
    ),
    "report": ("compare", "summarize"),
    "metrics": (
        "density", "cluster_density", "inter_density", "kmeans_loss", "nmi", "ensemble_nmi", "zero_effort",
        "best_partition", "item_consensus", "cluster_recovery", "partition_nmi", "profile", "align_labels",
    ),
    "engines.config": ("show_config",),
}  # fmt: skip
_EXPORTS = {name: package for package, names in _EXPORTED_BY.items() for name in names}
# tl and pl as in scanpy: they change an AnnData object and draw it
_PACKAGES = {"tl": "consensus.single_cell", "pl": "report.single_cell"}
_PACKAGES |= dict(zip(*[("consensus", "engines", "ensemble", "metrics", "report")] * 2))

__all__ = ["__version__", "engines", *_EXPORTS]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _EXPORTS:
            value = getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
            globals()[name] = value
            return value
        if name in _PACKAGES:
            return import_module(f".{_PACKAGES[name]}", __name__)
        if name == "__version__":
            try:
                return import_module("._version", __name__).version
            except ImportError:
                return "0+unknown"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # not `consensus` and `ensemble`: what users need of these packages has a name here
    return sorted({*__all__, *_PACKAGES} - {"consensus", "ensemble"})
