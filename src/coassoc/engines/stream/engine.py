"""Streaming: rows stay in a file and are read chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.checks import check_integer
from ...core.counts import Layout, check_total_copies
from ..contract import Engine, Loadable, missing_in
from ..memory import Budget, format_size, parse_size
from ..numpy import chunks_of
from .chunked import Arguments, ChunkedLabelling, ChunkedRows, Chunks
from .chunks import Chunk, add_results, chunk_copies, chunk_labels, chunk_relabel, local_engine, new_version

# bytes per row that the local engine keeps: for a labelling; for seeding, at most, with equal partition weights
_STATE = {"native": (6, 9), "numpy": (4, 16)}
_LEAN_SEEDING = {"native": 2, "numpy": 16}  # seeding when the totals of candidates are computed one by one


class Stream(Engine):
    r"""Work on codes in a file within a memory budget: the labels are those of the in-memory engines, bit for bit.

    Chunks of rows are mapped from the file, which the system reads ahead. What is kept for each row is chosen by
    the budget `memory`: the local engine's own state when it fits (6 bytes a row with the compiled kernels), else
    the labels alone (1 byte up to 256 clusters), in memory or in a temporary file.

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

    Notes
    -----
    With n rows, p partitions of d base clusters and k clusters, one start takes about
    :math:`n\,s + 16\,d\,k` bytes, with s bytes of state per row; the page on scale lists s for each case.

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

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> ChunkedRows:
        plan = _Plan(self, ensemble.codes, missing_in(ensemble), Layout.of(ensemble))
        chunks = StreamChunks(plan, ensemble.codes, multiplicity, None)
        rows = ChunkedRows(chunks)
        check_total_copies(rows.n_copies)
        return rows


class _Plan:
    """How one ensemble is streamed: rows per chunk, state kept per row, where arrays are allocated."""

    def __init__(self, engine: Stream, codes: np.ndarray, missing: np.ndarray, layout: Layout):
        self.engine = local_engine(engine.local)
        self.budget = Budget(engine.memory, engine.directory)
        n, wide = len(codes), bool(missing.any())  # wide: distances of 2 bytes instead of 1
        labels, seeding = _STATE.get(self.engine.name, (8, 16))
        seeding += wide
        self.warm = n * (labels + seeding) <= engine.memory  # the last start is labelled while the next is seeded
        self.keep_distances = self.warm or n * (1 + wide) * _LEAN_SEEDING.get(self.engine.name, 16) <= engine.memory
        if self.warm:  # mapped codes need no memory of their own: few, long chunks
            rows = min(max(n // 16, 1 << 20), 1 << 24)
        else:  # the state computed again for each chunk must be small beside the budget
            rows = min(max(engine.memory // 256, 1), 1 << 22)
        self.chunk_rows = engine.chunk_rows or rows
        lean = None if self.warm else self.budget.allocate
        self.nothing = Chunk(codes[:0], layout, None, None, missing, self.engine, None, lean, self.keep_distances)


class StreamChunks(Chunks):
    """Chunks of one array of codes, in memory or mapped from a file."""

    def __init__(self, plan: _Plan, codes: np.ndarray, copies: np.ndarray | None, ids: np.ndarray | None):
        super().__init__(plan.nothing.layout)
        self.plan, self.codes, self.ids, self.row_copies = plan, codes, ids, copies
        self.spans = list(chunks_of(len(codes), plan.chunk_rows))
        own = [None if copies is None else copies[s] for s in self.spans]
        self.parts = [replace(plan.nothing, codes=codes[s], copies=c) for s, c in zip(self.spans, own)]
        self._backwards = False
        self.sizes = np.array([len(part) for part in self.parts], dtype=np.int64)
        self.copies = self.sizes
        if copies is not None or plan.nothing.missing.all():
            self.copies = np.array(self.each(chunk_copies, lambda c: ()), dtype=np.int64)

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
            part.forget(key)

    def gather(self, labelling: ChunkedLabelling) -> np.ndarray:
        """Labels as int32; the state of a chunk is dropped once they are copied, if it can be computed again."""
        labels = self.plan.budget.allocate(int(self.sizes.sum()), np.int32)
        for c, (part, span) in enumerate(zip(self.parts, self.spans)):
            labels[span] = chunk_labels(part, *labelling.at(c))
            if labelling.recomputable:
                part.forget(labelling.key)
        return labels

    def divide(self, labelling: ChunkedLabelling) -> list[Chunks]:
        k, total = labelling.n_clusters, int(self.sizes.sum())
        sizes = np.zeros(k, dtype=np.int64)
        for labels in self.each(chunk_labels, labelling.at):
            sizes += np.bincount(labels, minlength=k)
        allocate, id_type = self.plan.budget.allocate, np.uint32 if total < 1 << 32 else np.int64
        counts = sizes.tolist()
        codes = [allocate((size, self.codes.shape[1]), self.codes.dtype) for size in counts]
        ids = [allocate(size, self.ids.dtype if self.ids is not None else id_type) for size in counts]
        copies = [None if self.row_copies is None else allocate(size, np.int64) for size in counts]
        filled = np.zeros(k, dtype=np.int64)
        for c, span in enumerate(self.spans):  # in row order
            labels = chunk_labels(self.parts[c], *labelling.at(c))
            for side in range(k):
                inside = np.flatnonzero(labels == side)
                place = slice(filled[side], filled[side] + len(inside))
                codes[side][place] = self.codes[span][inside]
                ids[side][place] = span.start + inside if self.ids is None else self.ids[span][inside]
                if copies[side] is not None:
                    copies[side][place] = self.row_copies[span][inside]  # type: ignore[index]
                filled[side] += len(inside)
        return [StreamChunks(self.plan, *part) for part in zip(codes, copies, ids)]

    def scatter(self, leaves: Sequence[Chunks]) -> np.ndarray:
        labels = self.plan.budget.allocate(int(self.sizes.sum()), np.int32)
        for position, leaf in enumerate(leaves):
            assert isinstance(leaf, StreamChunks)
            labels[slice(None) if leaf.ids is None else leaf.ids] = position
        return labels

    def relabel(self, labelling: ChunkedLabelling, moves: list[tuple[np.ndarray, np.ndarray]]) -> None:
        version = new_version()
        self.each(chunk_relabel, lambda c: (*labelling.at(c), version, *moves[c]))
        labelling.set(version)  # from now on the chunks hold the labels
