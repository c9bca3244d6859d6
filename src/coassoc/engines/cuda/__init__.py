"""Cuda engine."""

from .engine import Cuda

__all__ = ["Cuda"]
