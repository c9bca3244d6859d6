"""Features or label tables in, an `Ensemble` out."""

from ._ensemble import Ensemble, check_ensemble
from ._generate import make_ensemble
from ._io import read_ensemble
from ._io_write import write_ensemble, write_labels

__all__ = ["Ensemble", "check_ensemble", "make_ensemble", "read_ensemble", "write_ensemble", "write_labels"]
