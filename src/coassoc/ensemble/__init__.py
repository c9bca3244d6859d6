"""Features or label tables in, an `Ensemble` out."""

from ._ensemble import Ensemble, check_ensemble

__all__ = ["Ensemble", "check_ensemble"]
