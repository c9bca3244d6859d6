"""Stream engine."""

from .engine import Stream

__all__ = ["Stream"]
