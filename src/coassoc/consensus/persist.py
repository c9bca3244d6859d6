"""Fitted models as files, by skops: zip archives of arrays and a JSON tree of types, without pickle."""

from __future__ import annotations

import copy
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..engines import Engine
from ..ensemble.io.writing import replacing
from .registry import methods

# what fitted estimators keep beside arrays and plain values
_PARTS = ["numpy.dtype"] + [
    f"coassoc.{name}"
    for name in (
        "core.counts.ScoreTable", "ensemble.tables.Vocabulary", "ensemble.ensemble.Ensemble",
        "consensus.bisecting.Tree", "consensus.linkage.Merges", "consensus.auto.estimator.NearestPartition",
        "consensus.leiden.Resolution",
    )
]  # fmt: skip
# base clusterers of ConsensusClustering; skops trusts all of scikit-learn, some of which reads arrays unchecked
_SKLEARN = tuple(f"sklearn.{name}." for name in ("cluster", "mixture", "preprocessing", "decomposition", "pipeline"))
# kinds of nodes that skops may build, with the classes of builtins and NumPy that they may name; other classes are
# rebuilt from their attributes only, since some constructors open files
_PLAIN = {"int", "float", "str", "bool", "list", "tuple", "dict", "ndarray", "dtype", "RandomState", "Generator"}
_PLAIN |= {np.dtype(code).type.__name__ for code in "?bBhHiIlLqQefdU"}
_LOADERS = {"JsonNode", "ListNode", "TupleNode", "DictNode", "NdArrayNode", "DTypeNode", "TypeNode"}
_LOADERS |= {"RandomStateNode", "RandomGeneratorNode"}
_SCHEMA = "schema.json"
_NODE_FACTOR = 64  # bytes in memory for a byte of the JSON tree, at most
_FREE_BYTES, _EXPANSION = 1 << 28, 200  # a file may unpack to the first, or to this many times its size


class SaveMixin:
    """`save` for estimators."""

    def save(self, path: Any, *, force: bool = False) -> None:
        """Write the fitted model to a file without pickle; ``coassoc.load(path)`` reads it back.

        Parameters and attributes are kept; of an engine, its name. Needs skops.

        Parameters
        ----------
        path : str or path
            Where to; the name must end in ``.skops``.
        force : bool, default=False
            Overwrite an existing file.
        """
        check_is_fitted(self)
        check_model_path(path)
        data = _skops().dumps(_portable(self), compression=zipfile.ZIP_DEFLATED)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            refused = _untrusted(_classes_in(archive, math.inf)[0])
        if refused:
            raise TypeError(f"{type(self).__name__} holds {refused}, which a model file cannot hold; {_WAY_OUT}")
        with replacing(path, force=force) as partial:
            partial.write_bytes(data)


_WAY_OUT = (
    "methods of coassoc, those of coassoc.consensus.registry.register, and clusterers, mixtures and scalers of "
    "scikit-learn can be saved."
)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ImportError("saved models need skops: pip install 'coassoc[models]'.") from None
    return skops.io


def _portable(model: Any) -> Any:
    """A shallow copy with the names of engines in place of engines, and arrays and lists in place of Series, ranges."""
    model = copy.copy(model)
    for name, value in vars(model).items():
        if isinstance(value, Engine):  # other engines may be absent where the model is loaded
            value = value.name if value.name in ("numpy", "native") else "auto"
        elif isinstance(value, BaseEstimator):
            value = _portable(value)
        elif hasattr(value, "to_numpy"):  # parameters may be Series
            value = value.to_numpy()
        elif isinstance(value, range):
            value = list(value)
        setattr(model, name, value)
    return model


def check_model_path(path: Any) -> None:
    """Refuse a name that says the file is something other than a model, and saving without skops."""
    _skops()
    if Path(path).suffix.lower() != ".skops":
        raise ValueError(f"a model is saved by skops; give it a name in .skops, got {str(path)!r}.")


def load(path: Any, *, max_bytes: int | None = None) -> Any:
    """Read back an estimator written by ``model.save(path)``.

    Parameters
    ----------
    path : str or path
        The file. It is data, not a program: nothing in it is executed, and it can name no other file.
    max_bytes : int or None, default=None
        Refuse a file that unpacks to more. None is 256 MiB, or 200 times the file's size if that is more.

    Returns
    -------
    estimator
        As it was when saved; its engine is ``"auto"`` when it was an instance other than NumPy's or the native one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> model = ca.KMeansConsensus(2, random_state=0).fit([[0, 1], [0, 1], [1, 0], [1, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder, "model.skops"))
    ...     again = ca.load(pathlib.Path(folder, "model.skops"))
    >>> bool((again.predict([[0, 1], [1, 0]]) == model.predict([[0, 1], [1, 0]])).all())
    True
    """
    skops, path = _skops(), Path(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is not a regular file; name a model saved by coassoc.")
    allowed = max(_FREE_BYTES, _EXPANSION * path.stat().st_size) if max_bytes is None else max_bytes
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                classes, needed = _classes_in(archive, allowed)
            refused = _untrusted(classes)
            if needed <= allowed and not refused:
                model = skops.load(file, trusted=_trusted(classes))
                _check_sizes(model)
        except Exception as error:  # of the parsers of zip, JSON and arrays, which raise a dozen kinds
            reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
            raise ValueError(f"{path} is no model saved by coassoc, or damaged ({reason}); save it again.") from error
    if needed > allowed:
        raise ValueError(
            f"{path}: it declares {needed:,} bytes in memory, more than the {allowed:,} allowed; if you trust it, pass "
            f"max_bytes={needed}."
        )
    if refused:
        raise ValueError(f"{path} holds {refused}, which coassoc.load does not build; {_WAY_OUT}")
    return model


def _classes_in(archive: zipfile.ZipFile, allowed: float) -> tuple[set[str], int]:
    """Classes that a model file names, those of plain values left out, and the bytes that it takes in memory."""
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    classes: set[str] = set()
    needed = _NODE_FACTOR * sizes[_SCHEMA]

    def visit(node: dict[str, Any]) -> dict[str, Any]:
        nonlocal needed
        if "__loader__" in node:
            loader, module, name = node["__loader__"], node["__module__"], node["__class__"]
            plain = module.partition(".")[0] in ("builtins", "numpy") and name in _PLAIN
            if loader not in (_LOADERS if plain else ("ObjectNode", "TupleNode")):
                classes.add(f"{module}.{name} ({loader})")  # never trusted
            elif not plain:
                classes.add(f"{module}.{name}")
            if "file" in node:  # read again for each node that names it
                needed += sizes[node["file"]]
                _check_array(archive, node["file"], sizes[node["file"]])
        return node

    if needed <= allowed:
        json.loads(archive.read(_SCHEMA), object_hook=visit)
    return classes, needed


def _check_array(archive: zipfile.ZipFile, name: str, size: int) -> None:
    """Check the shape that an array declares against the bytes it has: NumPy takes the memory before it reads."""
    with archive.open(name) as member:
        np.lib.format.read_magic(member)
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        fits = dtype.itemsize and dtype.itemsize * math.prod(shape) == size - member.tell()
        if not fits or max(shape, default=0) > size:
            raise ValueError(f"{name} declares shape {shape} of {dtype} and has {size} bytes")


def _trusted(classes: set[str]) -> list[str]:
    """Names of our classes among `classes`; the modules of other methods are not imported."""
    used = [m.estimator for m in methods().values() if any(name.endswith(f".{m.class_name}") for name in classes)]
    return _PARTS + [f"{estimator.__module__}.{estimator.__name__}" for estimator in used]


def _untrusted(classes: set[str]) -> str:
    """The classes that are not built from a file, as a list in words."""
    known = _trusted(classes)
    known += [name for name in classes if name.startswith(_SKLEARN) and not name.endswith(")")]
    return ", ".join(sorted(classes.difference(known)))


def _check_sizes(model: Any) -> None:
    """Check what memory at `predict` follows from, and lengths that compiled code of scikit-learn takes on trust."""
    if not isinstance(model, SaveMixin):
        raise ValueError(f"it holds a {type(model).__name__}, not a fitted estimator")
    for part in _nested(model):
        if hasattr(part, "_vocabulary") and part._vocabulary.n_clusters.sum() != len(part._alpha):
            raise ValueError("the base clusters of _vocabulary do not fit the counts")
        if hasattr(part, "cluster_centers_") and np.shape(part.cluster_centers_)[1:] != (part.n_features_in_,):
            raise ValueError("cluster_centers_ does not fit n_features_in_")


def _nested(value: Any) -> Iterator[Any]:
    """An estimator and those in its attributes."""
    if isinstance(value, BaseEstimator):
        yield value
        value = list(vars(value).values())
    for item in value if isinstance(value, (list, tuple)) else ():
        yield from _nested(item)
