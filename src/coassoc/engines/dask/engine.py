"""Dask: rows stay on the workers of a cluster; tables are sent to them and integers come back.

Every result is a task that can be run again: chunks are read or coded again from their source, and tables and given
labels are arguments of a task, which the scheduler keeps. Nothing is scattered, so a worker may die at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import getitem
from typing import Any

import numpy as np

from ...core.checks import check_integer
from ...core.counts import Layout, ScoreTable, check_total_copies
from ...core.moves import MoveTable
from ..contract import Engine, Fit, Loadable, missing_in
from ..stream.chunked import Arguments, ChunkedLabelling, ChunkedRows, Chunks
from ..stream.chunks import add_results, chunk_copies, chunk_labels, chunk_renumbered, chunk_verb, new_version
from .session import Session
from .tasks import (
    fill_positions,
    join_chunks,
    label_shares,
    make_chunk,
    moved_labels,
    presented_labels,
    read_rows,
    row_numbers,
    run_on_chunk,
    sort_ids,
    take_label,
)

_FAN_IN = 32  # partial results added by one task; up to as many are sent and fetched without one
_CHUNKS_PER_THREAD = 2  # enough to balance the load, few enough to schedule
_LEAST_ROWS = 1 << 17  # below this, scheduling a chunk takes longer than working on it
_MOST_ROWS = 1 << 23
_STATE_BYTES = 15  # per row and start: labels, bounds, seeding distances


class Dask(Engine):
    """Work on a Dask cluster: labels equal those of the in-memory engines, bit for bit, also when workers die.

    Parameters
    ----------
    client : distributed.Client, str or None, default=None
        The cluster: a client, the address of a scheduler (``"tcp://host:8786"``), or None for the client that is
        current where `fit` is called.
    chunk_rows : int, optional
        Rows of a chunk, where the input leaves the choice (arrays in memory, mapped codes). None: a few chunks for
        each thread of the cluster. Never changes a result.
    worker_engine : {"auto", "cuda", "native", "numpy"} or Engine, default="auto"
        Engine that works on a chunk. Each worker chooses for itself with ``"auto"``: its GPU if it has one and CuPy is
        installed there, else the compiled kernels with one thread, else NumPy.
    n_starts : int, optional
        K-means starts run at the same time. None: as many as the workers' memory allows, 4 at most.

    Notes
    -----
    Input may be a Dask array or data frame, a path that all workers can read, or anything in memory, which is then
    sent once. Labels of distributed input are a Dask array with the input's chunks; call ``compute()`` for NumPy.
    Workers hold the codes (a byte per label in the common case) and 6 bytes per item for each start in progress.
    The chunks of a worker that dies are computed again; Dask gives a worker that joins its share of the work.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.engines.Dask(chunk_rows=1000)
    Dask(chunk_rows=1000)
    """

    name = "dask"

    def __init__(
        self,
        client: Any = None,
        *,
        chunk_rows: int | None = None,
        worker_engine: str | Engine = "auto",
        n_starts: int | None = None,
    ):
        self.client, self.worker_engine = client, worker_engine
        self.chunk_rows = None if chunk_rows is None else check_integer(chunk_rows, "chunk_rows")
        self.n_starts = None if n_starts is None else check_integer(n_starts, "n_starts")

    def __repr__(self) -> str:
        given = [] if self.client is None else [repr(_address(self.client))]
        given += [f"{name}={v!r}" for name in ("chunk_rows", "n_starts") if (v := getattr(self, name)) is not None]
        return f"Dask({', '.join(given)})"

    def __getstate__(self) -> dict:
        # a connection cannot be pickled; its address opens a new one
        return {**self.__dict__, "client": None if self.client is None else _address(self.client)}

    @classmethod
    def at_hand(cls) -> Dask | None:
        """An engine on the current client; None when there is none."""
        try:
            from distributed import get_client

            return cls(get_client())
        except (ImportError, ValueError):
            return None

    def connect(self) -> Any:
        """The client."""
        try:
            from distributed import Client, get_client
        except ImportError:
            raise ImportError("engine Dask needs dask and distributed: pip install 'coassoc[dask]'.") from None
        if isinstance(self.client, str):
            self.client = Client(self.client, set_as_default=False)
        if self.client is not None:
            return self.client
        try:
            return get_client()
        except ValueError:
            raise ValueError(
                "engine Dask has no cluster: pass Dask(client) or Dask('tcp://host:port'), or start one in this "
                "program with distributed.Client()."
            ) from None

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> ChunkedRows:
        with Session(self.connect()) as session:
            source = ensemble.source  # of labels in a file or a Dask collection
            if source is not None and not ensemble.is_coded:
                sizes, codes = self._code_blocks(session, ensemble)
            else:
                sizes, codes = self._cut_codes(session, ensemble.codes)
            kept, ends = np.flatnonzero(sizes).tolist(), np.cumsum(sizes)  # without empty blocks
            copies: list[Any] = [None] * len(kept)
            if multiplicity is not None:
                copies = [session.send(multiplicity[ends[c] - sizes[c] : ends[c]]) for c in kept]
            layout, missing, slots = Layout.of(ensemble), missing_in(ensemble), 2 * (self.n_starts or 4) + 2
            settings = {"layout": layout, "missing": missing, "engine": self.worker_engine, "slots": slots}
            futures = session.map(make_chunk, [codes[c] for c in kept], copies, [settings] * len(kept))
            counted = kept_sizes = [sizes[c] for c in kept]
            if multiplicity is not None or missing.all():
                counted = session.gather(session.map(chunk_copies, futures))
            check_total_copies(sum(counted))
            chunks = DaskChunks(session, futures, kept_sizes, counted, layout)
            chunks.all_sizes, chunks.distributed = list(sizes), source is not None
            chunks.target_rows = self.chunk_rows or max(*sizes, _LEAST_ROWS)
            return ChunkedRows(chunks)

    def _code_blocks(self, session: Session, ensemble: Any) -> tuple[list[int], list]:
        """Sizes of the chunks and their codes, which the workers compute from labels in two passes."""
        source = ensemble.source

        def over_blocks(function: Callable, *arguments: Any) -> list:
            if source.kind != "dask":
                return session.map(function, groups, *([argument] * len(groups) for argument in arguments))
            from dask import delayed

            call = delayed(function, pure=False)
            return session.compute([call([block], *arguments) for block in source.blocks])

        def tally(source: Any, missing: str) -> tuple:
            parts = over_blocks(source.tally, source.names, missing)
            while len(parts) > _FAN_IN:
                parts = session.map(source.merge, _grouped(parts))
            return source.merge(session.gather(parts))

        if source.kind == "dask":  # its blocks are the chunks
            ensemble.scan(tally)
            return ensemble.block_sizes, over_blocks(ensemble.scan().codes_of_blocks)
        together = groups_of([block.rows for block in source.blocks], self._step(session, source.n_rows))
        groups = [[source.blocks[b] for b in group] for group in together]
        ensemble.scan(tally)
        return [sum(b.rows for b in group) for group in groups], over_blocks(ensemble.scan().codes_of_blocks)

    def _cut_codes(self, session: Session, codes: np.ndarray) -> tuple[list[int], list]:
        """Sizes of the chunks and their codes: read from a file by the workers, or sent."""
        n, row_bytes = len(codes), codes.shape[1] * codes.dtype.itemsize
        step = self._step(session, n)
        starts = range(0, n, step)
        sizes = [min(step, n - start) for start in starts]
        path = getattr(codes, "filename", None)
        if path is not None and codes.flags.c_contiguous and isinstance(codes, np.memmap):
            begins = [codes.offset + start * row_bytes for start in starts]
            fixed = [[value] * len(sizes) for value in (str(path), codes.dtype.str, codes.shape[1])]
            return sizes, session.map(read_rows, *fixed, begins, sizes)
        return sizes, [session.send(np.asarray(codes[s : s + size])) for s, size in zip(starts, sizes)]

    def _step(self, session: Session, n: int) -> int:
        """Rows of a chunk, so that each thread gets a few chunks and the same number as the others."""
        if self.chunk_rows is not None:
            return self.chunk_rows
        n_threads = max(1, sum(worker["nthreads"] for worker in session.workers()))
        step = min(max(-(-n // (_CHUNKS_PER_THREAD * n_threads)), _LEAST_ROWS), _MOST_ROWS)
        n_chunks = -(-n // step)
        if n_chunks > n_threads:
            n_chunks = -(-n_chunks // n_threads) * n_threads
        return -(-n // n_chunks)

    def starts_at_once(self, rows: Any) -> int:
        if self.n_starts is not None:
            return self.n_starts
        memory = sum(int(worker["memory_limit"] or 0) for worker in rows.chunks.session.workers())
        spare = memory // 2 - rows.n_rows * rows.layout.n_partitions
        return int(min(max(spare // max(1, _STATE_BYTES * rows.n_rows), 1), 4))

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """A task on rows of a single chunk runs on the chunk's worker; each other one is driven by a thread here."""
        held = [getattr(getattr(task, "rows", None), "chunks", None) for task in tasks]

        def call(task: Any, chunks: Any) -> Any:
            if not isinstance(chunks, DaskChunks) or len(chunks.futures) != 1:
                return function(task)
            session, key, version = chunks.session, new_version(), new_version()
            light = replace(task, rows=None)  # set again on the worker
            fit = session.gather(session.submit(run_on_chunk, chunks.futures[0], function, light, key, version))
            if isinstance(fit, Fit):
                fit.labelling = ChunkedLabelling(chunks, fit.counts.n_clusters, key)
                fit.labelling.set(version, fit.table, counted=fit.counts)
            return fit

        if len(tasks) < 2:
            return list(map(call, tasks, held))
        pool = ThreadPoolExecutor(min(len(tasks), 16), thread_name_prefix="coassoc-dask")
        try:
            return list(pool.map(call, tasks, held))
        except BaseException:
            for chunks in held:  # Ctrl-C reaches the main thread only
                if isinstance(chunks, DaskChunks):
                    chunks.abandon()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _address(client: Any) -> str:
    if isinstance(client, str):
        return client
    return "a closed client" if client.scheduler is None else str(client.scheduler.address)


class DaskChunks(Chunks):
    """Chunks as futures."""

    distributed = False  # whether labels stay on the cluster
    target_rows = _MOST_ROWS

    def __init__(self, session: Session, futures: list, sizes, copies, layout: Layout):
        super().__init__(layout)
        self.session, self.futures = session, futures
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.copies = np.asarray(copies, dtype=np.int64)
        self.all_sizes: list[int] = self.sizes.tolist()  # including empty blocks of the input

    def each(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        return self.session.gather(self._tasks(function, arguments, which))

    def total(self, function: Callable, arguments: Arguments) -> tuple:
        return self._added(self._tasks(function, arguments))

    def _added(self, parts: list) -> tuple:
        while len(parts) > _FAN_IN:
            parts = self.session.map(add_results, _grouped(parts))
        return add_results(self.session.gather(parts))

    def _tasks(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        """A task for each chunk."""
        wanted = range(len(self.futures)) if which is None else which
        given = [arguments(c) for c in wanted]
        if len(given) > _FAN_IN:
            sent: dict[int, Any] = {}
            given = [self._with_sent(own, sent) for own in given]
        return self.session.map(function, [self.futures[c] for c in wanted], *map(list, zip(*given)))

    def _with_sent(self, value: Any, sent: dict[int, Any]) -> Any:
        """`value` with the tables in it replaced by tasks that hold them: sent once, not with each task."""
        if isinstance(value, tuple):
            return tuple(self._with_sent(part, sent) for part in value)
        if isinstance(value, (ScoreTable, MoveTable)) and id(value) not in sent:
            sent[id(value)] = self.session.submit(replace, value)
        return sent.get(id(value), value)

    def abandon(self) -> None:
        self.session.cancel()

    def cut(self, labels: Any, k: int) -> list:
        if hasattr(labels, "dask"):  # a Dask array: its blocks stay on the workers
            return self.session.compute(labels.rechunk((tuple(self.sizes.tolist()),)).to_delayed().tolist())
        return [self.session.send(piece) for piece in super().cut(labels, k)]

    def renumber(self, labelling: ChunkedLabelling, numbers: np.ndarray) -> list:
        return self._tasks(chunk_renumbered, lambda c: (*labelling.at(c), numbers))

    def scored(self, arguments: Arguments) -> tuple[Any, np.ndarray]:
        both = self._tasks(chunk_verb, arguments)
        values, sums = (self.session.map(getitem, both, [part] * len(both)) for part in (0, slice(1, 2)))
        if self.distributed:
            return self._present(values, arguments(0)[-1]), self._added(sums)[0]
        return np.concatenate(self.session.gather(values)), self._added(sums)[0]

    def forget(self, key: str) -> None:
        pass  # a chunk caches a few states and drops the oldest

    def gather(self, labelling: ChunkedLabelling) -> Any:
        if not self.distributed:
            return np.concatenate(self.each(chunk_labels, labelling.at)).astype(np.int32)
        return self._present(self._tasks(presented_labels, labelling.at), np.int32)

    def rowwise(self, function: Callable, arguments: Arguments, which: Sequence[int]) -> Any:
        if self.distributed and len(which) == len(self.futures):
            return self._present(self._tasks(function, arguments), np.int64)
        return super().rowwise(function, arguments, which)

    def _present(self, futures: list, dtype: type) -> Any:
        """Arrays on the workers, one for each chunk, as one Dask array with the input's chunks."""
        import dask.array as da
        from dask import delayed

        sizes = self.sizes.tolist()
        parts = [da.from_delayed(delayed(future), (size,), dtype) for future, size in zip(futures, sizes)]
        return da.concatenate(parts).rechunk((tuple(self.all_sizes),))  # which has its empty blocks again

    def divide(self, labelling: ChunkedLabelling) -> list[Chunks]:
        # (chunks, 2, k): rows and copies of each label
        shares = np.array(self.each(label_shares, labelling.at))
        starts = np.cumsum(self.sizes) - self.sizes
        children = []
        for side in range(labelling.n_clusters):
            groups = groups_of(shares[:, 0, side].tolist(), self.target_rows)
            futures = []
            for group in groups:
                pieces = [
                    self.session.submit(take_label, self.futures[c], *labelling.at(c), side, int(starts[c]))
                    for c in group
                ]
                futures.append(pieces[0] if len(pieces) == 1 else self.session.submit(join_chunks, pieces))
            rows = [int(shares[g, 0, side].sum()) for g in groups]
            copies = [int(shares[g, 1, side].sum()) for g in groups]
            child = DaskChunks(self.session, futures, rows, copies, self.layout)
            child.distributed, child.target_rows = self.distributed, self.target_rows
            children.append(child)
        return children  # type: ignore[return-value]

    def scatter(self, leaves: Sequence[Chunks]) -> Any:
        """Row numbers of the leaves are sorted by the chunk that holds the row; each chunk then fills in its labels."""
        numbers: list[Any] = []
        positions: list[int] = []
        for position, leaf in enumerate(leaves):
            assert isinstance(leaf, DaskChunks)
            starts = np.cumsum(leaf.sizes) - leaf.sizes
            numbers += self.session.map(row_numbers, leaf.futures, starts.tolist())
            positions += [position] * len(leaf.futures)
        width = max(_FAN_IN, -(-len(numbers) // max(1, len(self.futures))))
        ends, groups = np.cumsum(self.sizes), range(0, len(numbers), width)
        sorted_ = [
            self.session.submit(sort_ids, numbers[i : i + width], positions[i : i + width], ends) for i in groups
        ]
        filled = []
        for c, chunk in enumerate(self.futures):
            parts = [self.session.submit(getitem, group, c) for group in sorted_]
            filled.append(self.session.submit(fill_positions, chunk, parts, self.distributed))
        return self._present(filled, np.int32) if self.distributed else np.concatenate(self.session.gather(filled))

    def relabel(self, labelling: ChunkedLabelling, moves: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """The new labels are tasks, from which chunks compute from now on."""
        given = [(*labelling.at(c), *moved) for c, moved in enumerate(moves)]
        labelling.set(new_version(), pieces=self.session.map(moved_labels, self.futures, *map(list, zip(*given))))


def groups_of(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Neighbouring chunks that together hold at most `most` rows, empty ones left out."""
    groups: list[list[int]] = []
    held = 0
    for c, size in enumerate(sizes):
        if size and groups and held + size <= most:
            groups[-1].append(c)
            held += size
        elif size:
            groups.append([c])
            held = size
    return groups


def _grouped(futures: list) -> list[list]:
    return [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
