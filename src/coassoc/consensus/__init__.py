"""Ensemble in, labels out: one module a method."""

from ._bisecting import BisectingConsensus
from ._eac import EAC
from ._ecc import ECC
from ._features import ConsensusClustering
from ._kmeans import KMeansConsensus
from ._persist import load
from ._sec import SEC

__all__ = ["EAC", "ECC", "SEC", "BisectingConsensus", "ConsensusClustering", "KMeansConsensus", "load"]
