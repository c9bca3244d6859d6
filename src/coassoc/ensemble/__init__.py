"""Features or label tables in, an `Ensemble` out.

The names below are imported when one of them is first asked for, so that the process which reads a file that is not
trusted (`io.guard`) starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ensemble import Ensemble as Ensemble
    from .ensemble import check_ensemble as check_ensemble
    from .generate import make_ensemble as make_ensemble
    from .io.reading import read_ensemble as read_ensemble
    from .io.writing import write_ensemble as write_ensemble
    from .io.writing import write_labels as write_labels
    from .stored import StoredEnsemble as StoredEnsemble

_MODULES = {
    "Ensemble": "ensemble",
    "check_ensemble": "ensemble",
    "DeviceEnsemble": "gpu",  # Ensemble(array on a GPU) makes one
    "StoredEnsemble": "stored",  # Ensemble(path) makes one
    "make_ensemble": "generate",
    "read_ensemble": "io.reading",
    "write_ensemble": "io.writing",
    "write_labels": "io.writing",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        for module in dict.fromkeys(_MODULES.values()):  # all of them: Ensemble looks for its kinds among subclasses
            import_module(f".{module}", __name__)
        globals().update({key: getattr(import_module(f".{module}", __name__), key) for key, module in _MODULES.items()})
        return globals()[name]
