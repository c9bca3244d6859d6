"""Ensemble in, labels out: one module a method."""

from ._bisecting import BisectingConsensus
from ._eac import EAC
from ._ecc import ECC
from ._kmeans import KMeansConsensus
from ._sec import SEC

__all__ = ["EAC", "ECC", "SEC", "BisectingConsensus", "KMeansConsensus"]
