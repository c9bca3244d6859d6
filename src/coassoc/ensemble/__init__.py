"""Features or label tables in, an `Ensemble` out."""

from ._ensemble import Ensemble, check_ensemble
from ._generate import make_ensemble
from ._generate_large import make_ensemble_large
from ._io import read_ensemble
from ._io_write import write_ensemble, write_labels
from ._stored import StoredEnsemble

__all__ = [
    "Ensemble",
    "StoredEnsemble",
    "check_ensemble",
    "make_ensemble",
    "make_ensemble_large",
    "read_ensemble",
    "write_ensemble",
    "write_labels",
]
