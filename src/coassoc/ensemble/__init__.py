"""Features or label tables in, an `Ensemble` out."""

from .ensemble import Ensemble, check_ensemble
from .generate import make_ensemble
from .gpu import DeviceEnsemble  # what Ensemble(array on a GPU) makes
from .io.reading import read_ensemble
from .io.writing import write_ensemble, write_labels
from .stored import StoredEnsemble  # what Ensemble(path) makes

__all__ = ["DeviceEnsemble", "Ensemble", "StoredEnsemble", "check_ensemble"]
__all__ += ["make_ensemble", "read_ensemble", "write_ensemble", "write_labels"]
