"""Features or label tables in, an `Ensemble` out."""

from ._ensemble import Ensemble, check_ensemble
from ._generate import make_ensemble

__all__ = ["Ensemble", "check_ensemble", "make_ensemble"]
