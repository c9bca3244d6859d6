"""h5ad: clusterings from the columns of ``.obs`` and the consensus back into it, with h5py alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ..encode import Dictionary
from .guard import RawTable, Selector, check_unpacked, replacing


def import_h5py() -> Any:
    """h5py, or the line that installs it."""
    try:
        import h5py
    except ImportError:
        raise ImportError("h5ad files need h5py: pip install 'coassoc[anndata]'.") from None
    return h5py


def read_h5ad(path: Path, select: Selector, *, max_bytes: int | None = None) -> RawTable:
    """Wanted columns of ``.obs``; the index column carries the names of the cells."""
    h5py = import_h5py()
    try:
        with h5py.File(path, "r") as file:
            obs = _obs(file, path)
            index = _text(obs.attrs.get("_index", "_index"))
            names = _column_names(obs, index)
            wanted = select(names)
            n_rows = _length(obs, index, path)
            check_unpacked(path, 8 * n_rows * (len(wanted) + 1), max_bytes, f"{n_rows:,} rows of .obs")
            columns = {name: _column(obs, name, n_rows, path) for name in wanted}
            ids = _strings(_dataset(obs, index, path), path, index)
    except (OSError, KeyError, RuntimeError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path.name} is a damaged h5ad file ({_one_line(error)}); write it again.") from None
    return RawTable(names, columns, n_rows, {"item_ids": ids})


def write_obs_column(source: Path, target: Path, name: str, labels: np.ndarray, *, force: bool = False) -> None:
    """A copy of `source` at `target` whose ``.obs`` has the categorical column `name`; −1 is missing."""
    h5py = import_h5py()
    with replacing(target, force=force) as partial:
        shutil.copyfile(source, partial)
        with h5py.File(partial, "r+") as file:
            obs = _obs(file, source)
            index = _text(obs.attrs.get("_index", "_index"))
            n_rows = _length(obs, index, source)
            if len(labels) != n_rows:
                raise ValueError(f"labels must have one entry per row of .obs ({n_rows}), got {len(labels)}.")
            order = _column_names(obs, index)
            if name in obs:
                if not force:
                    raise FileExistsError(
                        f".obs of {source.name} already has a column {name!r}; choose another name, or overwrite it "
                        "with force=True (--force)."
                    )
                del obs[name]
            _write_categorical(obs.create_group(name), labels, h5py)
            if name not in order:
                order.append(name)
            obs.attrs["column-order"] = np.array(order, dtype=h5py.string_dtype())


def write_new_h5ad(target: Path, columns: dict[str, np.ndarray], ids: list[str], *, force: bool = False) -> None:
    """A small h5ad of categorical ``.obs`` columns and nothing else."""
    h5py = import_h5py()
    text = h5py.string_dtype()
    with replacing(target, force=force) as partial, h5py.File(partial, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for name in ("obs", "var"):
            group = file.create_group(name)
            group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
            chosen = list(columns) if name == "obs" else []
            group.attrs["column-order"] = np.array(chosen, dtype=text)
            index = group.create_dataset(
                "_index", data=np.array(ids if name == "obs" else [], dtype=object), dtype=text
            )
            index.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
            for column in chosen:
                _write_categorical(group.create_group(column), columns[column], h5py)


def _write_categorical(group: Any, labels: np.ndarray, h5py: Any) -> None:
    if labels.dtype == object:
        nulls = np.array([label is None for label in labels])
    else:
        nulls = labels < 0 if labels.dtype.kind in "if" else np.zeros(len(labels), dtype=bool)
    present, codes = np.unique(labels[~nulls], return_inverse=True)
    width = np.int8 if len(present) < 127 else np.int16 if len(present) < 32767 else np.int32
    filled = np.full(len(labels), -1, dtype=width)
    filled[~nulls] = codes
    names = np.array([str(label) for label in present], dtype=object)
    group.attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False})
    categories = group.create_dataset("categories", data=names, dtype=h5py.string_dtype())
    categories.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    stored = group.create_dataset("codes", data=filled)
    stored.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


# -- looking inside, without trusting what is found ------------------------------------------------------------


def _obs(file: Any, path: Path) -> Any:
    h5py = import_h5py()
    if "obs" not in file or not isinstance(file.get("obs", getlink=True), (h5py.HardLink, h5py.SoftLink)):
        raise ValueError(f"{path.name} is an HDF5 file without .obs, so not an h5ad file; write it with anndata.")
    obs = file["obs"]
    if not isinstance(obs, h5py.Group):
        raise ValueError(f"{path.name} was written by a very old anndata; open and save it with a present one.")
    return obs


def _column_names(obs: Any, index: str) -> list[str]:
    listed = [_text(name) for name in obs.attrs.get("column-order", [])]
    return [name for name in (listed or list(obs)) if name in obs and name != index and name != "__categories"]


def _dataset(group: Any, name: str, path: Path) -> Any:
    """A dataset of this very file: links to other files and outside storage are refused."""
    h5py = import_h5py()
    link = group.get(name, getlink=True)
    found = group.get(name) if isinstance(link, (h5py.HardLink, h5py.SoftLink)) else None
    if not isinstance(found, h5py.Dataset) or found.external is not None or found.is_virtual:
        raise ValueError(f"{path.name}: {group.name}/{name} is not a plain array of this file; write it with anndata.")
    if found.ndim != 1:
        raise ValueError(f"{path.name}: {group.name}/{name} has shape {found.shape}; a column of .obs is a vector.")
    return found


def _length(obs: Any, index: str, path: Path) -> int:
    n_rows = int(_dataset(obs, index, path).shape[0])
    if n_rows == 0:
        raise ValueError(f"{path.name} has no rows in .obs.")
    return n_rows


def _column(obs: Any, name: str, n_rows: int, path: Path) -> Any:
    h5py = import_h5py()
    item = obs.get(name) if isinstance(obs.get(name, getlink=True), (h5py.HardLink, h5py.SoftLink)) else None
    if isinstance(item, h5py.Group):
        kind = _text(item.attrs.get("encoding-type", ""))
        if kind == "categorical" or {"codes", "categories"} <= set(item):
            codes, categories = _dataset(item, "codes", path), _dataset(item, "categories", path)
            _check_length(codes, n_rows, name, path)
            if categories.shape[0] > n_rows:
                raise ValueError(f"{path.name}: column {name!r} has more categories than rows; write it again.")
            labels = _strings(categories, path, name) if categories.dtype.kind in "OS" else categories[()]
            indices = codes[()].astype(np.int64)
            if indices.min(initial=0) < -1 or indices.max(initial=-1) >= len(labels):
                raise ValueError(f"{path.name}: column {name!r} has codes outside its categories; write it again.")
            return Dictionary(indices, _numbers_if_all(labels))
        if {"values", "mask"} <= set(item):  # nullable integers, booleans and strings
            stored, mask = _dataset(item, "values", path), _dataset(item, "mask", path)
            _check_length(stored, n_rows, name, path)
            _check_length(mask, n_rows, name, path)
            if stored.dtype.kind in "OS":
                cells = np.array(_strings(stored, path, name), dtype=object)
            else:
                cells = stored[()].astype(object)
            cells[mask[()].astype(bool)] = None
            return cells
        raise ValueError(
            f"{path.name}: column {name!r} of .obs is of kind {kind or 'unknown'!r}, which holds no labels."
        )
    dataset = _dataset(obs, name, path)
    _check_length(dataset, n_rows, name, path)
    if "categories" in dataset.attrs:
        raise ValueError(f"{path.name} was written by an old anndata; open and save it with a present one.")
    return np.array(_strings(dataset, path, name), dtype=object) if dataset.dtype.kind in "OS" else dataset[()]


def _check_length(dataset: Any, n_rows: int, name: str, path: Path) -> None:
    if dataset.shape[0] != n_rows:
        raise ValueError(
            f"{path.name}: column {name!r} has {dataset.shape[0]} rows, .obs has {n_rows}; write it again."
        )


def _strings(dataset: Any, path: Path, name: str) -> list[str]:
    if dataset.dtype.kind not in "OS":
        return [str(value) for value in dataset[()].tolist()]
    return [_text(value) for value in dataset[()]]


def _numbers_if_all(labels: Any) -> np.ndarray:
    """Categories of a clustering are often "0", "1", ...: then they are numbers, and −1 is missing."""
    if isinstance(labels, np.ndarray):
        return labels
    try:
        return np.array([int(label) for label in labels], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(labels, dtype=object)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120].rstrip(".")
