"""Native engine."""

from .engine import Native

__all__ = ["Native"]
