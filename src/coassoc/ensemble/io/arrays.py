"""NPY and NPZ -> arrays, their declared sizes checked before any memory is taken, nothing unpickled."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from .guard import RawTable, Selector, check_unpacked

_LONGEST_HEADER = 10_000


def read_npy(path: Path, select: Selector) -> RawTable:
    """A label table, memory-mapped: compact codes are then used without a copy."""
    with open(path, "rb") as file:
        shape, _, dtype = _header(file, path, path.name)
        _check_size(path.stat().st_size - file.tell(), shape, dtype, path.name)
    return _as_table(np.load(path, mmap_mode="r", allow_pickle=False), select, path.name)


def read_npz(path: Path, select: Selector, *, max_bytes: int | None = None) -> RawTable:
    """One 2-D array is a label table; several 1-D arrays are one partition each, by name.

    An archive written by `write_ensemble` holds ``codes`` and ``n_clusters`` and keeps missing labels.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {_stem(info.filename): info for info in archive.infolist() if info.filename.endswith(".npy")}
            if not members:
                raise ValueError(f"{path.name} holds no array; write it with numpy.savez(path, labels=table).")
            check_unpacked(path, sum(info.file_size for info in members.values()), max_bytes, "its arrays")
            shapes = {name: read_shape(archive, info, path) for name, info in members.items()}
            if "codes" in members and "n_clusters" in members:
                return _stored_ensemble(archive, members, select, path)
            tables = [name for name, (shape, _) in shapes.items() if len(shape) == 2]
            if len(tables) == 1:
                return _as_table(read_member(archive, members[tables[0]], path), select, path.name)
            if tables:
                raise ValueError(
                    f"{path.name} holds several tables ({', '.join(tables)}); keep one, or store partitions as "
                    "one-dimensional arrays."
                )
            return _vectors(archive, members, shapes, select, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path.name} is a damaged or protected archive ({error}); write it again.") from None


def _vectors(archive, members, shapes, select: Selector, path: Path) -> RawTable:
    vectors = [name for name, (shape, _) in shapes.items() if len(shape) == 1]
    if not vectors:
        raise ValueError(f"{path.name} holds neither a table nor vectors of labels, only {dict(shapes)}.")
    lengths = {shapes[name][0][0] for name in vectors}
    if len(lengths) > 1:
        raise ValueError(
            f"{path.name}: the arrays have different lengths {sorted(lengths)}; every item needs a label in each."
        )
    columns = {name: read_member(archive, members[name], path) for name in select(vectors)}
    return RawTable(vectors, columns, lengths.pop())


def _stored_ensemble(archive, members, select: Selector, path: Path) -> RawTable:
    """What `write_ensemble` wrote: codes, cluster counts, names and the labels behind the codes."""
    codes, k = read_member(archive, members["codes"], path), read_member(archive, members["n_clusters"], path)
    if codes.ndim != 2 or k.shape != (codes.shape[1],) or codes.dtype.kind != "u":
        raise ValueError(f"{path.name}: codes and n_clusters do not fit together; write the ensemble again.")
    named = read_member(archive, members["names"], path).tolist() if "names" in members else range(codes.shape[1])
    names = [str(name) for name in named]
    if len(names) != codes.shape[1]:
        raise ValueError(f"{path.name}: {len(names)} names for {codes.shape[1]} partitions; write the ensemble again.")
    from ..encode import Dictionary

    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        member = members.get(f"labels_{j}")
        labels = read_member(archive, member, path) if member is not None else np.arange(int(k[j]))
        indices = codes[:, j].astype(np.int64)
        if len(labels) < int(k[j]) or int(indices.max(initial=0)) > int(k[j]):
            raise ValueError(f"{path.name}: partition {name!r} has codes without a label; write the ensemble again.")
        indices[indices == int(k[j])] = -1
        columns[name] = Dictionary(indices, labels if labels.dtype.kind in "iu" else labels.astype(object))
    extras = {name: read_member(archive, members[name], path) for name in ("item_ids", "classes") if name in members}
    wanted = select(names)
    return RawTable(names, {name: columns[name] for name in wanted}, codes.shape[0], extras)


def _as_table(array: np.ndarray, select: Selector, name: str) -> RawTable:
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2:
        raise ValueError(f"{name} holds an array of shape {array.shape}; a label table is (n_samples, n_partitions).")
    if 0 in array.shape:
        raise ValueError(f"{name} holds an empty table of shape {array.shape}.")
    names = [str(j) for j in range(array.shape[1])]
    wanted = select(names)
    table = {column: array[:, int(column)] for column in wanted}
    return RawTable(names, table, array.shape[0], {"array": array if wanted == names else None})


# -- headers ---------------------------------------------------------------------------------------------------


def _header(file: IO[bytes], path: Path, what: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape and type an NPY header declares; objects are refused, they would need pickle."""
    try:
        version = np.lib.format.read_magic(file)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in reader:
            raise ValueError(f"version {version} of the format is not supported")
        shape, fortran, dtype = reader[version](file, max_header_size=_LONGEST_HEADER)
    except (ValueError, SyntaxError, TypeError, EOFError, tokenize.TokenError, MemoryError) as error:
        raise ValueError(f"{what} is not a readable NPY array ({_one_line(error)}); write it again.") from None
    if dtype.hasobject:
        raise ValueError(
            f"{what} holds Python objects, which only pickle could read; save labels as integers or strings "
            "(table.astype(str))."
        )
    if dtype.names is not None:
        raise ValueError(f"{what} holds records; save a plain table of shape (n_samples, n_partitions).")
    return shape, fortran, dtype


def _check_size(available: int, shape: tuple[int, ...], dtype: np.dtype, what: str) -> None:
    declared = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or declared != available:
        raise ValueError(
            f"{what} declares an array of shape {shape} ({declared:,} bytes) but holds {available:,} bytes: "
            "it is truncated or damaged; write it again."
        )


def read_shape(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> tuple[tuple[int, ...], np.dtype]:
    with archive.open(info) as file:
        shape, _, dtype = _header(file, path, f"{info.filename} in {path.name}")
        _check_size(info.file_size - file.tell(), shape, dtype, f"{info.filename} in {path.name}")
    return shape, dtype


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> np.ndarray:
    with archive.open(info) as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"{info.filename} in {path.name} cannot be read ({_one_line(error)}).") from None


def _stem(name: str) -> str:
    return name[: -len(".npy")]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120].rstrip(".")
