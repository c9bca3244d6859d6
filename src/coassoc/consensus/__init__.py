"""Ensemble in, labels out: one module a method."""

from ._bisecting import BisectingConsensus
from ._kmeans import KMeansConsensus

__all__ = ["BisectingConsensus", "KMeansConsensus"]
