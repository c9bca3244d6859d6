"""Ensemble in, labels out: one module a method."""

from .agreement_search import AgreementConsensus
from .bisecting import BisectingConsensus
from .choose_k import SelectK, select_k
from .density_search import DensityConsensus
from .eac import EAC
from .ecc import ECC
from .features import ConsensusClustering
from .graph import CSPA, MCLA
from .kmeans import KMeansConsensus
from .persist import load
from .sec import SEC
from .spectral import ECPCS, HBGF, LWGP
from .weights import cluster_uncertainty

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
