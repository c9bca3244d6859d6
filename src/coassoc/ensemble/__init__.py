"""Features or label tables in, an `Ensemble` out."""

from .ensemble import Ensemble, check_ensemble
from .generate import make_ensemble
from .generate_large import make_ensemble_large
from .gpu import DeviceEnsemble  # noqa: F401  Ensemble(array on a GPU) makes one
from .io.reading import read_ensemble
from .io.writing import write_ensemble, write_labels
from .stored import StoredEnsemble

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
