"""Dask engine."""

from .engine import Dask

__all__ = ["Dask"]
