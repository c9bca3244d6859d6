"""Fitted models as files: arrays in an NPZ archive, the structure beside them as JSON, a digest over both."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
import tokenize
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..ensemble.io.output import replacing
from ..ensemble.io.table import Options
from .model_state import ARRAY_KINDS, BadModel, describe, rebuild

_KIND = "coassoc model"
_VERSION = 2  # 1: classes by module path, no digest
_STRUCTURE, _DIGEST = "model.json", "sha256.txt"
_JSON_FACTOR = 48  # bytes that a byte of JSON takes as Python objects, at most


class SaveMixin:
    """`save` for estimators."""

    def save(self, path: Any, *, force: bool = False) -> None:
        """Write the fitted model to a plain file without pickle; ``coassoc.load(path)`` reads it back.

        Parameters and attributes are kept; of an engine, its name.

        Parameters
        ----------
        path : str or path
            Where to; the name must end in ``.npz``.
        force : bool, default=False
            Overwrite an existing file.
        """
        check_is_fitted(self)
        check_model_path(path)
        arrays: list[np.ndarray] = []
        structure = {"kind": _KIND, "version": _VERSION, "model": describe(self, arrays, type(self).__name__)}
        digest = hashlib.sha256()
        with replacing(path, force=force) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in _members(structure, arrays):
                with archive.open(name, "w", force_zip64=True) as member:
                    member.write(data)
                _add(digest, name, data)
            archive.writestr(_DIGEST, digest.hexdigest())


def _members(structure: Any, arrays: list[np.ndarray]) -> Iterator[tuple[str, Any]]:
    """Name and content of each member of a model file, the digest apart."""
    yield _STRUCTURE, json.dumps(structure, ensure_ascii=False).encode()
    for i, array in enumerate(arrays):
        member = io.BytesIO()
        np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
        yield f"array_{i}.npy", member.getbuffer()


def _add(digest: Any, name: str, data: Any) -> None:
    digest.update(f"{name} {len(data)}\n".encode())
    digest.update(data)


def check_model_path(path: Any) -> None:
    """Refuse a name that says the file is something other than a model."""
    if Path(path).suffix.lower() != ".npz":
        raise ValueError(f"a model is saved as an archive of arrays; give it a name in .npz, got {str(path)!r}.")


def load(path: Any, *, max_bytes: int | None = None) -> Any:
    """Read back an estimator written by ``model.save(path)``.

    Parameters
    ----------
    path : str or path
        The file. It is data, not a program: nothing in it is executed, and it can name no other file. A file that was
        changed after it was saved is refused.
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
    ...     model.save(pathlib.Path(folder, "model.npz"))
    ...     again = ca.load(pathlib.Path(folder, "model.npz"))
    >>> bool((again.predict([[0, 1], [1, 0]]) == model.predict([[0, 1], [1, 0]])).all())
    True
    """
    path = Path(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is not a regular file; name a model saved by coassoc.")
    try:
        with zipfile.ZipFile(path) as archive:
            return _load(archive, path, max_bytes)
    except _Refused as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # whatever a damaged file leads to: the parsers below raise a dozen kinds
        if isinstance(error, OSError) and error.filename is not None:
            raise
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise ValueError(f"{path} is a damaged model file ({reason}); save the model again.") from None


class _Refused(ValueError):
    """The file is whole but not a model for this version."""


def _load(archive: zipfile.ZipFile, path: Path, max_bytes: int | None) -> Any:
    members = {info.filename: info for info in archive.infolist()}
    if _STRUCTURE not in members:
        raise _Refused(f"{path} is not a model saved by coassoc; use read_ensemble for label files.")
    needed = sum(info.file_size for info in members.values()) + _JSON_FACTOR * members[_STRUCTURE].file_size
    allowed = Options(max_bytes=max_bytes).allowed([path])
    if needed > allowed:
        raise _Refused(
            f"{path.name} declares its arrays, which take {needed:,} bytes, more than the {allowed:,} allowed; "
            f"if you trust it, pass max_bytes={needed}."
        )
    names = [_STRUCTURE, *(f"array_{i}.npy" for i in range(len(members) - 1 - (_DIGEST in members)))]
    if len(members) != len(archive.infolist()) or set(members) - {_DIGEST} != set(names):
        raise BadModel("it has members that do not belong to a model")
    if _DIGEST in members:  # detects edits; it does not prove who wrote the file
        digest = hashlib.sha256()
        for name in names:
            _add(digest, name, archive.read(name))
        if archive.read(_DIGEST) != digest.hexdigest().encode():
            raise BadModel("its content does not match its digest: it was changed after it was saved")
    structure = json.loads(archive.read(_STRUCTURE))
    if not isinstance(structure, dict) or structure.get("kind") != _KIND:
        raise _Refused(f"{path} is not a model saved by coassoc; use read_ensemble for label files.")
    version: Any = structure.get("version")
    if version not in range(1, _VERSION + 1):
        raise _Refused(f"{path} has version {version!r}, this coassoc reads 1 to {_VERSION}; update coassoc.")
    if version > 1 and _DIGEST not in members:
        raise BadModel("its digest is missing")
    model = rebuild(structure["model"], [_array(archive, members[name], path) for name in names[1:]])
    if not isinstance(model, SaveMixin):
        raise BadModel(f"it holds a {type(model).__name__}, not a fitted estimator")
    return model


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> np.ndarray:
    shape, dtype = _read_shape(archive, info, path)  # checks the declared size against the member's
    if dtype.kind not in ARRAY_KINDS or not dtype.isnative or not dtype.itemsize or len(shape) > 4:
        raise BadModel(f"{info.filename} has dtype {dtype} and shape {shape}")
    if 0 in shape and max(shape) > 1 << 20:
        raise BadModel(f"{info.filename} has shape {shape}")
    found = np.asarray(_read_member(archive, info, path), order="C")
    if dtype.kind == "U" and found.size and found.reshape(-1).view(np.uint32).max() > 0x10FFFF:
        raise BadModel(f"{info.filename} holds characters that do not exist")
    return found


def _header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape and type that an NPY header declares; objects are refused, since they need pickle."""
    try:
        version = np.lib.format.read_magic(file)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in reader:
            raise ValueError(f"version {version} of the format is not supported")
        shape, fortran, dtype = reader[version](file, max_header_size=10_000)
    except (ValueError, SyntaxError, TypeError, EOFError, tokenize.TokenError, MemoryError, RecursionError) as error:
        raise ValueError(f"{what} is not a readable NPY array ({error}); write it again.") from None
    if dtype.hasobject:
        raise ValueError(
            f"{what} holds Python objects, which only pickle could read; save labels as integers or strings "
            "(table.astype(str))."
        )
    if dtype.names is not None or dtype.subdtype is not None:
        raise ValueError(f"{what} holds records; save a plain table of shape (n_samples, n_partitions).")
    return shape, fortran, dtype


def _check_size(available: int, shape: tuple[int, ...], dtype: np.dtype, what: str) -> None:
    declared = math.prod(shape) * dtype.itemsize
    if any(isinstance(length, bool) or length < 0 for length in shape) or declared != available:
        raise ValueError(
            f"{what} declares an array of shape {shape} ({declared:,} bytes) but holds {available:,} bytes: "
            "it is truncated or damaged; write it again."
        )


def _read_shape(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array in an archive, checked against its size."""
    with archive.open(info) as file:
        shape, _, dtype = _header(file, f"{info.filename} in {path.name}")
        _check_size(info.file_size - file.tell(), shape, dtype, f"{info.filename} in {path.name}")
    return shape, dtype


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> np.ndarray:
    """An array in an archive."""
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
