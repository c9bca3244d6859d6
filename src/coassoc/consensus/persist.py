"""Fitted models as plain files: numbers in an NPZ archive, structure as JSON beside them. No pickle, no code."""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..ensemble.io.arrays import read_member, read_shape
from ..ensemble.io.guard import replacing
from ..ensemble.io.limits import check_unpacked

_KIND = "coassoc model"
_VERSION = 1
_STRUCTURE = "model.json"
_LARGEST_STRUCTURE = 1 << 26
# only classes of these packages are ever named in a file, and only their plain state is stored
_PACKAGES = ("coassoc", "sklearn")


def save(model: Any, path: Any, *, force: bool = False) -> None:
    """Write a fitted estimator to `path` as an archive of arrays and JSON; see :func:`load`.

    Parameters
    ----------
    model : estimator
        Fitted; parameters and attributes are kept. A live engine is kept by its name only.
    path : str or path
        Where to, for example ``"model.npz"``.
    force : bool, default=False
        Overwrite an existing file.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    arrays: list[np.ndarray] = []
    structure = {"kind": _KIND, "version": _VERSION, "model": _describe(model, arrays, type(model).__name__)}
    with replacing(path, force=force) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_STRUCTURE, json.dumps(structure, ensure_ascii=False))
        for i, array in enumerate(arrays):
            with archive.open(f"array_{i}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def load(path: Any, *, max_bytes: int | None = None) -> Any:
    """Read back an estimator written by ``model.save(path)``.

    Parameters
    ----------
    path : str or path
        The file. It is data, not a program: loading one from a stranger runs nothing of theirs.
    max_bytes : int or None, default=None
        Refuse a file that unpacks to more. None is 256 MiB, or 200 times the file's size if that is more.

    Returns
    -------
    estimator
        As it was when saved; its engine is ``"auto"`` when a live one was in use.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> model = ca.KMeansConsensus(2, random_state=0).fit([[0, 1], [0, 1], [1, 0], [1, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder, "model.npz"))
    ...     again = ca.load(pathlib.Path(folder, "model.npz"))
    >>> bool((again.predict([[0, 1], [1, 0]]) == model.predict([[0, 1], [1, 0]])).all())
    True
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            check_unpacked(path, sum(info.file_size for info in members.values()), max_bytes, "its arrays")
            if _STRUCTURE not in members or members[_STRUCTURE].file_size > _LARGEST_STRUCTURE:
                raise ValueError(f"{path.name} is not a model saved by coassoc; use read_ensemble for label files.")
            structure = json.loads(archive.read(_STRUCTURE))
            arrays = {}
            for name, info in members.items():
                if name.startswith("array_"):
                    read_shape(archive, info, path)
                    arrays[name] = read_member(archive, info, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name} is not a readable model file ({error}); save it again.") from None
    if not isinstance(structure, dict) or structure.get("kind") != _KIND:
        raise ValueError(f"{path.name} is not a model saved by coassoc; use read_ensemble for label files.")
    if structure.get("version") != _VERSION:
        raise ValueError(
            f"{path.name} has version {structure.get('version')}, this coassoc reads {_VERSION}; update it."
        )
    try:
        return _rebuild(structure["model"], arrays)
    except (KeyError, TypeError, AttributeError, ImportError, RecursionError, IndexError) as error:
        raise ValueError(f"{path.name} is a damaged model file ({error}); save it again.") from None


class SaveMixin:
    """`save` for estimators."""

    def save(self, path: Any, *, force: bool = False) -> None:
        """Write the fitted model to a plain file without pickle; ``coassoc.load(path)`` reads it back.

        Parameters
        ----------
        path : str or path
            Where to, for example ``"model.npz"``.
        force : bool, default=False
            Overwrite an existing file.
        """
        save(self, path, force=force)


# -- values as JSON with arrays aside --------------------------------------------------------------------------


def _describe(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    from ..engines import Engine

    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"@float": repr(value)}
    if isinstance(value, np.ndarray):
        return _describe_array(value, arrays, where)
    if isinstance(value, np.generic):
        return {"@scalar": value.dtype.str, "value": _describe(value.item(), arrays, where)}
    if isinstance(value, np.dtype):
        return {"@dtype": value.str}
    if isinstance(value, Engine):
        return value.name if value.name in ("numpy", "native") else "auto"
    if isinstance(value, (list, tuple)):
        items = [_describe(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, list):
            return items
        return {"@tuple": items, **_class_of(value, where)} if hasattr(value, "_fields") else {"@tuple": items}
    if isinstance(value, dict):
        pairs = [[_describe(k, arrays, where), _describe(v, arrays, f"{where}[{k!r}]")] for k, v in value.items()]
        return {"@dict": pairs}
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.SeedSequence):
        return None  # a stream that has been drawn from cannot be continued from a file
    if isinstance(value, type):
        return {"@type": _class_of(value, where, of=value)["class"]}
    named = _class_of(value, where)
    return {"@object": {key: _describe(item, arrays, f"{where}.{key}") for key, item in _state(value).items()}, **named}


def _describe_array(value: np.ndarray, arrays: list[np.ndarray], where: str) -> dict[str, Any]:
    if value.dtype.kind in "biufcUSmM":
        arrays.append(value)
        return {"@array": len(arrays) - 1}
    if value.dtype == object:
        return {"@objects": [_describe(item, arrays, where) for item in value.ravel().tolist()], "shape": value.shape}
    raise TypeError(f"{where} is an array of {value.dtype}, which a model file cannot hold.")


def _state(value: Any) -> dict[str, Any]:
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    state = {name: getattr(value, name) for name in slots if hasattr(value, name) and name != "__weakref__"}
    return {**state, **getattr(value, "__dict__", {})}


def _class_of(value: Any, where: str, of: type | None = None) -> dict[str, str]:
    cls = type(value) if of is None else of
    if cls.__module__.split(".")[0] not in _PACKAGES or "<" in cls.__qualname__ or not isinstance(cls, type):
        raise TypeError(
            f"{where} holds a {cls.__module__}.{cls.__qualname__}, which a model file cannot hold; "
            "only estimators and values of coassoc and scikit-learn can be saved."
        )
    return {"class": f"{cls.__module__}:{cls.__qualname__}"}


def _rebuild(stored: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(stored, list):
        return [_rebuild(item, arrays) for item in stored]
    if not isinstance(stored, dict):
        return stored
    if "@float" in stored:
        return float(stored["@float"])
    if "@array" in stored:
        return arrays[f"array_{int(stored['@array'])}.npy"]
    if "@objects" in stored:
        items = np.empty(len(stored["@objects"]), dtype=object)
        items[:] = [_rebuild(item, arrays) for item in stored["@objects"]]
        return items.reshape(stored["shape"])
    if "@scalar" in stored:
        return np.dtype(stored["@scalar"]).type(_rebuild(stored["value"], arrays))
    if "@dtype" in stored:
        return np.dtype(stored["@dtype"])
    if "@tuple" in stored:
        members = [_rebuild(item, arrays) for item in stored["@tuple"]]
        return _find_class(stored["class"])(*members) if "class" in stored else tuple(members)
    if "@dict" in stored:
        return {_rebuild(key, arrays): _rebuild(item, arrays) for key, item in stored["@dict"]}
    if "@type" in stored:
        return _find_class(stored["@type"])
    cls = _find_class(stored["class"])
    value: Any = object.__new__(cls)
    for key, item in stored["@object"].items():
        object.__setattr__(value, key, _rebuild(item, arrays))  # frozen dataclasses too
    return value


def _find_class(name: str) -> type:
    """A class of ours or of scikit-learn whose instances are plain state."""
    module, _, qualname = str(name).partition(":")
    parts = module.split(".")
    if parts[0] not in _PACKAGES or {"tests", "conftest", "__main__", "cli"} & set(parts) or "." in qualname:
        raise TypeError(f"{name!r} is not a class a model file may name")
    from sklearn.base import BaseEstimator

    cls = getattr(import_module(module), qualname)
    plain = isinstance(cls, type) and (
        issubclass(cls, BaseEstimator)
        or (
            parts[0] == "coassoc"
            and (dataclasses.is_dataclass(cls) or issubclass(cls, tuple) or cls.__name__ in ("Counts", "Ensemble"))
        )
    )
    if not plain:
        raise TypeError(f"{name!r} is not a class a model file may name")
    return cls
