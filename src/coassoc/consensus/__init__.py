"""Ensemble in, labels out: one module a method."""

from ._bisecting import BisectingConsensus
from ._ecc import ECC
from ._kmeans import KMeansConsensus
from ._sec import SEC

__all__ = ["ECC", "SEC", "BisectingConsensus", "KMeansConsensus"]
