"""Ensemble in, labels out: one module a method."""

from ._agreement_search import AgreementConsensus
from ._bisecting import BisectingConsensus
from ._density_search import DensityConsensus
from ._eac import EAC
from ._ecc import ECC
from ._features import ConsensusClustering
from ._graph import CSPA, MCLA
from ._kmeans import KMeansConsensus
from ._persist import load
from ._sec import SEC
from ._select_k import SelectK, select_k
from ._spectral import ECPCS, HBGF, LWGP
from ._weights import cluster_uncertainty

__all__ = [
    "CSPA",
    "EAC",
    "ECC",
    "ECPCS",
    "HBGF",
    "LWGP",
    "MCLA",
    "SEC",
    "AgreementConsensus",
    "BisectingConsensus",
    "ConsensusClustering",
    "DensityConsensus",
    "KMeansConsensus",
    "SelectK",
    "cluster_uncertainty",
    "load",
    "select_k",
]
