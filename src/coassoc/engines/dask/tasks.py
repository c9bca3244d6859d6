"""Functions that Dask workers run beside those of `stream/chunks.py`: pure, so they may be run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..contract import Fit, Labelling
from ..stream.chunks import CachedLabels, Chunk, Past, chunk_labels

# -- rows ----------------------------------------------------------------------------------------------------------


def read_rows(path: str, dtype: str, p: int, offset: int, rows: int) -> np.ndarray:
    """Codes from a file of codes."""
    kind = np.dtype(dtype)
    try:
        size = Path(path).stat().st_size
    except FileNotFoundError:
        raise FileNotFoundError(
            f"a worker cannot see {path!r}; put the file where every worker can read it, or load it into memory first "
            "(np.asarray) to have it sent."
        ) from None
    if offset + rows * p * kind.itemsize > size:
        raise ValueError(f"{path!r} is shorter on this worker than where the fit was started; is it the same file?")
    return np.fromfile(path, dtype=kind, count=rows * p, offset=offset).reshape(rows, p)


def make_chunk(codes: np.ndarray, copies: np.ndarray | None, settings: dict[str, Any]) -> Chunk:
    return Chunk(np.ascontiguousarray(codes), copies=copies, ids=None, **settings)


# -- labels --------------------------------------------------------------------------------------------------------


def presented_labels(chunk: Chunk, key: str, k: int, past: Past) -> np.ndarray:
    """Labels for the user: int32, −1 for rows without any base label."""
    return _marked(chunk, chunk_labels(chunk, key, k, past).astype(np.int32))


def _marked(chunk: Chunk, labels: np.ndarray) -> np.ndarray:
    unlabelled = chunk.unlabelled()
    if unlabelled is not None:
        labels[unlabelled] = -1
    return labels


def moved_labels(chunk: Chunk, key: str, k: int, past: Past, where: np.ndarray, to: np.ndarray) -> np.ndarray:
    labels = chunk_labels(chunk, key, k, past).copy()
    labels[where] = to
    return labels


def label_shares(chunk: Chunk, key: str, k: int, past: Past) -> np.ndarray:
    """Rows and participating copies of each label, shape (2, k)."""
    with chunk.labelled(key, k, past) as (rows, labelling):
        return np.array([np.bincount(np.asarray(rows.labels(labelling)), minlength=k), rows.counts(labelling).sizes])


# -- subsets -------------------------------------------------------------------------------------------------------


def take_label(chunk: Chunk, key: str, k: int, past: Past, side: int, start: int) -> Chunk:
    """The rows of one label as a chunk; `start` as for `row_numbers`."""
    rows = np.flatnonzero(chunk_labels(chunk, key, k, past) == side)
    ids = row_numbers(chunk, start)[rows].astype(np.uint32 if start + len(chunk) <= 1 << 32 else np.int64, copy=False)
    copies = None if chunk.copies is None else chunk.copies[rows]
    return replace(chunk, codes=chunk.codes[rows], copies=copies, ids=ids)


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    copies = None if chunks[0].copies is None else np.concatenate([c.copies for c in chunks])
    codes, ids = (np.concatenate([getattr(c, name) for c in chunks]) for name in ("codes", "ids"))
    return replace(chunks[0], codes=codes, copies=copies, ids=ids)


def row_numbers(chunk: Chunk, start: int) -> np.ndarray:
    """Row numbers in the rows first loaded; `start` is that of the first row of a chunk which was never split."""
    return np.arange(start, start + len(chunk)) if chunk.ids is None else chunk.ids


def sort_ids(ids: Sequence[np.ndarray], positions: Sequence[int], ends: np.ndarray) -> list:
    """Row numbers and the position of their leaf, by the chunk (ending at `ends`) that holds the row."""
    every = np.concatenate([part.astype(np.int64) for part in ids])
    leaf = np.repeat(np.array(positions, dtype=np.int32), [len(part) for part in ids])
    order = np.argsort(every, kind="stable")
    every, leaf = every[order], leaf[order]
    cuts = np.searchsorted(every, ends)
    starts = np.concatenate([[0], cuts[:-1]])
    begins = np.concatenate([[0], ends[:-1]])
    return [(every[a:b] - begin, leaf[a:b]) for a, b, begin in zip(starts, cuts, begins)]


def fill_positions(chunk: Chunk, parts: Sequence, marked: bool) -> np.ndarray:
    labels = np.zeros(len(chunk), dtype=np.int32)
    for rows, leaves in parts:
        labels[rows] = leaves
    return _marked(chunk, labels) if marked else labels


# -- whole tasks on one chunk --------------------------------------------------------------------------------------


def run_on_chunk(chunk: Chunk, function: Callable, task: Any, key: str, version: str) -> Any:
    """``function(task)`` with ``task.rows`` the rows of the chunk; a fit leaves its labels here, under `key`."""
    with chunk.lock:
        result = function(replace(task, rows=chunk.rows()))
        if not isinstance(result, Fit):
            return result
        chunk.remember(key, CachedLabels(version, result.labelling))
        return replace(result, labelling=Labelling(result.counts.n_clusters, None))
