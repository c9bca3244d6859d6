"""Functions that Dask workers run beside those of `stream/chunks.py`: pure, so they may be run again."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.counts import Layout
from ..stream.chunked import ChunkedRows, Chunks, arguments_for
from ..stream.chunks import Chunk, Past, add_results, chunk_describe, chunk_labels


def same(value: Any) -> Any:
    """The argument: a task that holds data, which the scheduler can run again."""
    return value


def join_pieces(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces)


# -- rows ----------------------------------------------------------------------------------------------------------


def read_rows(path: str, dtype: str, offset: int, rows: int, p: int) -> np.ndarray:
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


def make_chunk(codes: np.ndarray, layout: Layout, copies: np.ndarray | None, settings: dict[str, Any]) -> Chunk:
    return Chunk(np.ascontiguousarray(codes), layout, copies, **settings)


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
    labels = chunk_labels(chunk, key, k, past)
    rows = np.bincount(labels, minlength=k)
    unlabelled = chunk.unlabelled()
    if chunk.copies is None and unlabelled is None:
        return np.array([rows, rows])
    copies = np.ones(len(labels), np.int64) if chunk.copies is None else chunk.copies.copy()
    if unlabelled is not None:
        copies[unlabelled] = 0
    return np.array([rows, np.bincount(labels, weights=copies, minlength=k).astype(np.int64)])


# -- subsets -------------------------------------------------------------------------------------------------------


def take_label(chunk: Chunk, key: str, k: int, past: Past, side: int, start: int) -> Chunk:
    """The rows of one label as a chunk; `start` is the number of the first row of a chunk without row numbers."""
    rows = np.flatnonzero(chunk_labels(chunk, key, k, past) == side)
    last = start + len(chunk)
    ids = (start + rows).astype(np.uint32 if last <= 1 << 32 else np.int64) if chunk.ids is None else chunk.ids[rows]
    copies = None if chunk.copies is None else chunk.copies[rows]
    return Chunk(
        chunk.codes[rows], chunk.layout, copies, ids, missing=chunk.missing, engine=chunk.engine, slots=chunk.slots
    )


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    first = chunks[0]
    copies = None if first.copies is None else np.concatenate([c.copies for c in chunks])
    ids = np.concatenate([c.ids for c in chunks])
    codes = np.concatenate([c.codes for c in chunks])
    return Chunk(codes, first.layout, copies, ids, missing=first.missing, engine=first.engine, slots=first.slots)


def own_ids(chunk: Chunk) -> np.ndarray:
    assert chunk.ids is not None
    return chunk.ids


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


def fill_positions(chunk: Chunk, parts: Sequence, marked: bool = False) -> np.ndarray:
    labels = np.zeros(len(chunk), dtype=np.int32)
    for part in parts:
        if len(part):
            labels[part[0]] = part[1]
    return _marked(chunk, labels) if marked else labels


# -- several chunks at once ----------------------------------------------------------------------------------------


def on_chunks(chunks: Sequence[Chunk], function: Callable, args: Sequence, pieces: Sequence) -> list:
    """``function(chunk, *args)`` for each chunk; `EACH` among the arguments is replaced by the chunk's piece."""
    return [function(chunk, *arguments_for(args, piece)) for chunk, piece in zip(chunks, pieces)]


def sum_on_chunks(chunks: Sequence[Chunk], function: Callable, args: Sequence, pieces: Sequence) -> tuple:
    return add_results(on_chunks(chunks, function, args, pieces))


async def answer(how: Callable, jobs: Sequence[tuple], dask_worker: Any = None) -> list | None:
    """``how(chunks, *arguments)`` of each job, run in the worker's task threads; None if a chunk is not held here."""
    held, loop = dask_worker.data, asyncio.get_running_loop()
    if not all(key in held for keys, *_ in jobs for key in keys):
        return None
    ready = [([held[key] for key in keys], *args) for keys, *args in jobs]
    return await asyncio.gather(*(loop.run_in_executor(dask_worker.executors["default"], how, *job) for job in ready))


# -- whole tasks on one chunk --------------------------------------------------------------------------------------


class _OneChunk(Chunks):
    """A single chunk in this process, for tasks that run entirely on its worker."""

    def __init__(self, chunk: Chunk):
        super().__init__(chunk.layout)
        self.chunk = chunk
        n_rows, n_copies = chunk_describe(chunk)
        self.sizes, self.copies = np.array([n_rows]), np.array([n_copies])

    def each(self, function: Callable, *args: Any, per_chunk: Sequence | None = None, which: Any = None) -> list:
        return [function(self.chunk, *arguments_for(args, None if per_chunk is None else per_chunk[0]))]

    def forget(self, key: str) -> None:
        pass  # the caller, who gets the labelling, will ask for its labels

    def gather(self, labelling: Any) -> np.ndarray:
        return chunk_labels(self.chunk, *labelling.arguments_of(0)).astype(np.int32)

    def divide(self, labelling: Any) -> list[Chunks]:
        raise NotImplementedError("a task on one chunk returns a labelling; its caller splits the rows.")

    def scatter(self, leaves: Sequence[Chunks]) -> Any:
        raise NotImplementedError("a task on one chunk returns a labelling; its caller gathers the leaves.")

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        raise NotImplementedError("a task on one chunk labels rows by tables only.")


def run_on_chunk(chunk: Chunk, function: Callable, task: Any) -> Any:
    """``function(task)`` with ``task.rows`` the rows of the chunk, in this process."""
    task = copy.copy(task)  # Dask may pass the same argument again
    task.rows = ChunkedRows(_OneChunk(chunk))
    return function(task)
