"""Streaming: rows stay in a file and are read chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.checks import check_integer
from ..core.counts import Layout, check_total_copies
from .chunked import Arguments, Chunk, ChunkedLabelling, ChunkedRows, add_results, local_engine, new_version
from .contract import Engine, Loadable, Rows, missing_in
from .memory import Budget, format_size, parse_size
from .numpy import chunks_of

# bytes per row that the local engine keeps: for a labelling; for seeding, at most, with equal partition weights
_STATE = {"native": (6, 9), "numpy": (4, 16)}
_LEAN_SEEDING = {"native": 2, "numpy": 16}  # seeding when the totals of candidates are computed one by one


class Stream(Engine):
    """Work on codes in a file within a memory budget: the labels are those of the in-memory engines, bit for bit.

    Chunks of rows are mapped from the file, which the system reads ahead. What is kept for each row is chosen by
    the budget `memory`: the local engine's own state when it fits (6 bytes a row with the compiled kernels), else
    the labels alone (1 byte up to 256 clusters), in memory or in a temporary file. The page on scale has the formula.

    Parameters
    ----------
    memory : str or int, default="2GB"
        Memory the fit may use beyond the program itself. Pages of mapped files do not count, since the system drops
        them when memory is short.
    chunk_rows : int, optional
        Rows worked on at a time; chosen from `memory` when None. Never changes a result.
    directory : str, optional
        Folder for temporary files; the system's default when None. It should not be a file system in memory.
    local : {"auto", "native", "numpy"}, default="auto"
        Engine that works on a chunk.

    Examples
    --------
    >>> import numpy as np
    >>> import coassoc as ca
    >>> table = np.repeat(np.array([[0, 1], [1, 0]], dtype=np.uint8), 50, axis=0)
    >>> km = ca.KMeansConsensus(2, random_state=0, engine=ca.engines.Stream(memory="1MB", chunk_rows=10))
    >>> np.bincount(km.fit(table).labels_).tolist()
    [50, 50]
    """

    name = "stream"

    def __init__(
        self,
        memory: str | int = "2GB",
        *,
        chunk_rows: int | None = None,
        directory: str | None = None,
        local: str = "auto",
    ):
        self.memory = parse_size(memory)
        self.chunk_rows = None if chunk_rows is None else check_integer(chunk_rows, "chunk_rows")
        self.directory, self.local = directory, local

    def __repr__(self) -> str:
        rows = "" if self.chunk_rows is None else f", chunk_rows={self.chunk_rows}"
        return f"Stream(memory='{format_size(self.memory).replace(' ', '')}'{rows})"

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> StreamRows:
        codes, missing, local = ensemble.codes, missing_in(ensemble), local_engine(self.local)
        n, distance_bytes = len(codes), 1 + bool(missing.any())
        labels, seeding = _STATE.get(local.name, (8, 16))
        # all state of the local engine fits: the last start is labelled while the next is seeded
        warm = n * (labels + seeding + distance_bytes - 1) <= self.memory
        keep_distances = warm or n * distance_bytes * _LEAN_SEEDING.get(local.name, 16) <= self.memory
        if warm:  # mapped codes need no memory of their own: few, long chunks
            chunk_rows = min(max(n // 16, 1 << 20), 1 << 24)
        else:  # the state computed again for each chunk must be small beside the budget
            chunk_rows = min(max(self.memory // 256, 1), 1 << 22)
        allocate = Budget(self.memory, self.directory).allocate
        lean = None if warm else allocate
        empty = Chunk(codes[:0], Layout.of(ensemble), None, None, missing, local, None, lean, keep_distances)
        rows = StreamRows(empty, self.chunk_rows or chunk_rows, allocate, codes, multiplicity)
        check_total_copies(rows.n_copies)
        return rows


class StreamRows(ChunkedRows):
    """Chunks of one array of codes, in memory or mapped from a file; all but the rows is that of the chunk `empty`."""

    def __init__(
        self, empty: Chunk, chunk_rows: int, allocate: Callable, codes: np.ndarray, copies: Any = None, ids: Any = None
    ):
        self.shared = empty, chunk_rows, allocate  # with the rows these are split into
        self.layout, self.allocate = empty.layout, allocate
        self.codes, self.row_copies, self.ids = codes, copies, ids
        self.spans = list(chunks_of(len(codes), chunk_rows))
        own = [None if copies is None else copies[s] for s in self.spans]
        self.parts = [replace(empty, codes=codes[s], copies=c) for s, c in zip(self.spans, own)]
        self._backwards = False
        counted = sizes = [len(part) for part in self.parts]
        if copies is not None or empty.missing.all():
            counted = self.each(Chunk.n_copies, lambda c: ())
        self._count(sizes, counted)

    def each(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        wanted = range(len(self.parts)) if which is None else which
        # every other sweep runs backwards and starts with pages still in the system's cache
        order = -1 if self._backwards else 1
        self._backwards = not self._backwards and len(wanted) > 1
        return [function(self.parts[c], *arguments(c)) for c in wanted[::order]][::order]

    def total(self, function: Callable, arguments: Arguments) -> tuple:
        sums: list[tuple] = []

        def add(chunk: Chunk, *given: Any) -> None:  # one sum and one result are in memory
            sums[:] = [add_results([*sums, function(chunk, *given)])]

        self.each(add, arguments)
        return sums[0]

    def forget(self, key: str) -> None:
        for part in self.parts:
            part.states.pop(key, None)

    def labels(self, labelling: Any) -> np.ndarray:
        labels = self.allocate(self.n_rows, np.int32)
        for c, (part, span) in enumerate(zip(self.parts, self.spans)):
            labels[span] = part.labels(*labelling.at(c))
            if labelling.table is not None or labelling.pieces is not None:  # the chunk can find them again
                part.states.pop(labelling.key, None)
        return labels

    def move(self, labelling: ChunkedLabelling, moves: list[tuple[np.ndarray, np.ndarray]]) -> None:
        version = new_version()
        self.each(Chunk.relabel, lambda c: (*labelling.at(c), version, *moves[c]))
        labelling.set(version)  # from now on the chunks hold the labels

    def split(self, labelling: Any) -> list[Rows]:
        k, n = labelling.n_clusters, self.n_rows
        shares = [np.bincount(labels, minlength=k) for labels in self.each(Chunk.labels, labelling.at)]
        sizes = sum(shares, start=np.zeros(k, np.int64)).tolist()
        id_type = np.uint32 if n < 1 << 32 else np.int64
        codes = [self.allocate((size, self.codes.shape[1]), self.codes.dtype) for size in sizes]
        ids = [self.allocate(size, self.ids.dtype if self.ids is not None else id_type) for size in sizes]
        copies: list[Any] = [None if self.row_copies is None else self.allocate(size, np.int64) for size in sizes]
        filled = np.zeros(k, dtype=np.int64)
        for c, span in enumerate(self.spans):  # in row order
            labels = self.parts[c].labels(*labelling.at(c))
            for side in range(k):
                inside = np.flatnonzero(labels == side)
                place = slice(filled[side], filled[side] + len(inside))
                codes[side][place] = self.codes[span][inside]
                ids[side][place] = span.start + inside if self.ids is None else self.ids[span][inside]
                if self.row_copies is not None:
                    copies[side][place] = self.row_copies[span][inside]
                filled[side] += len(inside)
        return [StreamRows(*self.shared, *part) for part in zip(codes, copies, ids)]

    def scatter(self, leaves: Sequence[Any]) -> np.ndarray:
        labels = self.allocate(self.n_rows, np.int32)
        for position, leaf in enumerate(leaves):
            labels[slice(None) if leaf.ids is None else leaf.ids] = position
        return labels
