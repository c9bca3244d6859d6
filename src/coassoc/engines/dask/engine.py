"""Dask: rows stay on the workers of a cluster; tables are sent to them and integers come back.

Every result is a task that can be run again: chunks are read or coded again from their source, and tables and given
labels are arguments of a task, which the scheduler keeps. Nothing is scattered, so a worker may die at any moment.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from operator import getitem
from typing import Any

import numpy as np

from ...core.checks import check_integer
from ...core.counts import Layout, ScoreTable, check_total_copies
from ...core.moves import MoveTable
from ..contract import Engine, Fit, missing_in
from ..stream.chunked import Arguments, ChunkedLabelling, ChunkedRows, Chunks
from ..stream.chunks import add_results, chunk_copies, chunk_labels, new_version
from .session import FAN_IN, Session, balanced, by_place, groups_of
from .tasks import (
    fill_positions,
    join_chunks,
    label_shares,
    make_chunk,
    moved_labels,
    on_chunks,
    presented_labels,
    read_rows,
    row_numbers,
    run_on_chunk,
    same,
    sort_ids,
    sum_on_chunks,
    take_label,
)

_CHUNKS_PER_THREAD = 4  # enough to balance the load, few enough to schedule
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
    local : {"auto", "cuda", "native", "numpy"} or Engine, default="auto"
        Engine that works on a chunk. Each worker chooses for itself with ``"auto"``: its GPU if it has one and CuPy is
        installed there, else the compiled kernels with one thread, else NumPy.
    n_starts : int, optional
        K-means starts run at the same time. None: as many as the workers' memory allows, 4 at most.

    Notes
    -----
    Input may be a Dask array or data frame, a path that all workers can read, or anything in memory, which is then
    sent once. Labels of distributed input are a Dask array with the input's chunks; call ``compute()`` for NumPy.
    Workers hold the codes (a byte per label in the common case) and 6 bytes per item for each start in progress.
    The chunks of a worker that dies are computed again; a worker that joins is given a share of the chunks.

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
        local: str = "auto",
        n_starts: int | None = None,
    ):
        self.client, self.local = client, local
        self.chunk_rows = None if chunk_rows is None else check_integer(chunk_rows, "chunk_rows")
        self.n_starts = None if n_starts is None else check_integer(n_starts, "n_starts")
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()  # fits in progress

    def __repr__(self) -> str:
        given = [] if self.client is None else [repr(_address(self.client))]
        given += [f"{name}={v!r}" for name in ("chunk_rows", "n_starts") if (v := getattr(self, name)) is not None]
        return f"Dask({', '.join(given)})"

    def __getstate__(self) -> dict:
        # a connection cannot be pickled; its address opens a new one
        state = {**self.__dict__, "client": None if self.client is None else _address(self.client)}
        del state["_sessions"]
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, _sessions=weakref.WeakSet())

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

    def load(self, ensemble: Any, multiplicity: np.ndarray | None = None) -> ChunkedRows:
        session = Session(self.connect())
        self._sessions.add(session)
        with session:
            source = getattr(ensemble, "source", None)  # of labels in a file or a Dask collection
            if source is not None and not ensemble.is_coded:
                sizes, places, rows = self._code_blocks(session, ensemble)
            else:
                sizes, places, rows = self._cut_codes(session, ensemble.codes)
            kept, ends = np.flatnonzero(sizes).tolist(), np.cumsum(sizes)  # without empty blocks
            copies: list[Any] = [None] * len(kept)
            if multiplicity is not None:
                copies = [session.send(multiplicity[ends[c] - sizes[c] : ends[c]]) for c in kept]
            layout, missing, slots = Layout.of(ensemble), missing_in(ensemble), 2 * (self.n_starts or 4) + 2
            settings = {"layout": layout, "missing": missing, "engine": self.local, "slots": slots}
            places = None if places is None else [places[c] for c in kept]
            futures = session.map(make_chunk, [rows[c] for c in kept], copies, [settings] * len(kept), places=places)
            counted = kept_sizes = [sizes[c] for c in kept]
            if multiplicity is not None or missing.all():
                counted = session.gather(session.map(chunk_copies, futures))
            check_total_copies(sum(counted))
            chunks = DaskChunks(session, futures, kept_sizes, counted, layout)
            chunks.all_sizes, chunks.places, chunks.distributed = list(sizes), places, source is not None
            chunks.target_rows = self.chunk_rows or max(*sizes, _LEAST_ROWS)
            return ChunkedRows(chunks)

    def _code_blocks(self, session: Session, ensemble: Any) -> tuple[list[int], list[str] | None, list]:
        """Sizes of the chunks, their workers, and their codes, which the workers compute from labels in two passes."""
        source = ensemble.source
        # chunks of a collection are its blocks; those of a file can be chosen
        groups = [] if source.kind == "dask" else self._groups(session, source)
        sizes = [sum(block.rows for block in group) for group in groups]
        places = session.place(sizes)
        ensemble.scan(lambda source, missing: session.tally(source, missing, groups, places))
        if source.kind == "dask":
            places = session.place(sizes := ensemble.block_sizes)
        return sizes, places, session.over_blocks(ensemble.scan().codes_of_blocks, source, groups, places)

    def _groups(self, session: Session, source: Any) -> list[list]:
        """The blocks of a file that form each chunk; those of an NPY file are cut into chunks of equal size."""
        sizes, step = np.array([block.rows for block in source.blocks]), self._step(session, source.n_rows)
        if source.kind != "npy":
            return [[source.blocks[b] for b in group] for group in groups_of(sizes, step)]
        first, most, groups = source.blocks[0], int(sizes.max()), []
        for start in range(0, source.n_rows, step):
            stop = min(start + step, source.n_rows)
            cuts = range(start, stop, most)
            groups.append([replace(first, start=cut, rows=min(most, stop - cut)) for cut in cuts])
        return groups

    def _cut_codes(self, session: Session, codes: np.ndarray) -> tuple[list[int], list[str] | None, list]:
        """Sizes of the chunks, their workers, and their codes: read from a file by the workers, or sent."""
        n, row_bytes = len(codes), codes.shape[1] * codes.dtype.itemsize
        step = self._step(session, n)
        starts = range(0, n, step)
        sizes = [min(step, n - start) for start in starts]
        places = session.place(sizes)
        path = getattr(codes, "filename", None)
        if path is not None and codes.flags.c_contiguous and isinstance(codes, np.memmap):
            begins = [codes.offset + start * row_bytes for start in starts]
            fixed = [[value] * len(sizes) for value in (str(path), codes.dtype.str, codes.shape[1])]
            return sizes, places, session.map(read_rows, *fixed, begins, sizes, places=places)
        return sizes, places, [session.send(np.asarray(codes[s : s + size])) for s, size in zip(starts, sizes)]

    def _step(self, session: Session, n: int) -> int:
        """Rows of a chunk, so that each thread gets a few chunks and the same number as the others."""
        if self.chunk_rows is not None:
            return self.chunk_rows
        n_threads = session.n_threads()
        step = min(max(-(-n // (_CHUNKS_PER_THREAD * n_threads)), _LEAST_ROWS), _MOST_ROWS)
        n_chunks = -(-n // step)
        if n_chunks > n_threads:
            n_chunks = -(-n_chunks // n_threads) * n_threads
        return -(-n // n_chunks)

    def starts_at_once(self, rows: Any) -> int:
        if self.n_starts is not None:
            return self.n_starts
        chunks = rows.chunks
        spare = chunks.session.memory() // 2 - rows.n_rows * rows.layout.n_partitions
        return int(min(max(spare // max(1, _STATE_BYTES * rows.n_rows), 1), 4))

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """A task on rows of a single chunk runs on the chunk's worker; each other one is driven by a thread here."""

        def call(task: Any) -> Any:
            chunks = getattr(getattr(task, "rows", None), "chunks", None)
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
            return [call(task) for task in tasks]
        pool = ThreadPoolExecutor(min(len(tasks), 16), thread_name_prefix="coassoc-dask")
        try:
            return list(pool.map(call, tasks))
        except BaseException:
            for session in list(self._sessions):  # Ctrl-C reaches the main thread only
                session.cancel()
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
        self.places: list[str] | None = None  # the worker of each chunk; None: the scheduler chooses

    def each(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        wanted = range(len(self.futures)) if which is None else which
        groups, found = self._ask(on_chunks, function, arguments, wanted)
        if found is None:
            return self.session.gather(self._tasks(function, arguments, wanted))
        results = dict(zip(chain(*groups), chain(*found)))
        return [results[c] for c in wanted]

    def total(self, function: Callable, arguments: Arguments) -> tuple:
        wanted = range(len(self.futures))
        _, found = self._ask(sum_on_chunks, function, arguments, wanted)
        if found is None:
            tasks = self._tasks(function, arguments, wanted)
            if len(tasks) > FAN_IN:  # fewer are fetched sooner than added by one more task
                tasks = [self.session.reduce(add_results, tasks)]
            found = self.session.gather(tasks)
        return add_results(found)

    def _ask(self, how: Callable, function: Callable, arguments: Arguments, wanted: Sequence[int]) -> tuple:
        """One call per thread of each worker, over the chunks it holds: the chunks of each call, and the results.

        The results are None where tasks are needed: they alone take futures as arguments, and recover from faults.
        """
        given = {c: arguments(c) for c in wanted}
        if self.places is None or _has_future(list(given.values())):
            return [], None
        workers, jobs, groups = self._workers(), {}, []
        for worker, here in by_place([self.places[c] for c in wanted]).items():
            n_threads = min(workers.get(worker, {}).get("nthreads", 1), len(here))
            own = [[wanted[i] for i in part] for part in np.array_split(here, n_threads)]
            jobs[worker] = [([self.futures[c].key for c in g], function, [given[c] for c in g]) for g in own]
            groups += own
        return groups, self.session.ask(how, jobs)

    def _workers(self) -> dict[str, dict]:
        """The workers; chunks are distributed again when one has joined or left."""
        workers = self.session.workers()
        if self.places is not None and workers and set(workers) != set(self.places) and len(self.futures) > 1:
            self.places = balanced(self.places, list(workers), self.sizes.tolist()) or self.places
        return workers

    def _tasks(self, function: Callable, arguments: Arguments, wanted: Sequence[int]) -> list:
        """A task for each chunk."""
        sent: dict[int, Any] = {}
        given = [arguments(c) for c in wanted]
        if len(given) > FAN_IN:
            given = [self._with_sent(own, sent) for own in given]
        self._workers()
        places = None if self.places is None else [self.places[c] for c in wanted]
        return self.session.map(function, [self.futures[c] for c in wanted], *map(list, zip(*given)), places=places)

    def _with_sent(self, value: Any, sent: dict[int, Any]) -> Any:
        """`value` with the tables in it replaced by tasks that hold them: sent once, not with each task."""
        if isinstance(value, tuple):
            return tuple(self._with_sent(part, sent) for part in value)
        if isinstance(value, (ScoreTable, MoveTable)) and id(value) not in sent:
            sent[id(value)] = self.session.submit(same, value)
        return sent.get(id(value), value)

    def abandon(self) -> None:
        self.session.cancel()

    def cut(self, labels: np.ndarray, k: int) -> list:
        return [self.session.send(piece) for piece in super().cut(labels, k)]

    def forget(self, key: str) -> None:
        pass  # a chunk caches a few states and drops the oldest

    def gather(self, labelling: ChunkedLabelling) -> Any:
        if not self.distributed:
            return np.concatenate(self.each(chunk_labels, labelling.at)).astype(np.int32)
        return self._present(self._tasks(presented_labels, labelling.at, range(len(self.futures))))

    def _present(self, futures: list) -> Any:
        """Label arrays on the workers as one Dask array with the input's chunks."""
        import dask.array as da
        from dask import delayed
        from dask.highlevelgraph import HighLevelGraph

        waiting = iter(futures)
        parts = [
            da.from_delayed(delayed(next(waiting)), (size,), np.int32) if size else da.zeros(0, dtype=np.int32)
            for size in self.all_sizes
        ]
        # da.concatenate would drop the empty blocks
        name = f"coassoc-labels-{new_version()}"
        same_blocks: dict[Any, Any] = {(name, i): (part.name, 0) for i, part in enumerate(parts)}
        graph = HighLevelGraph.from_collections(name, same_blocks, dependencies=parts)
        return da.Array(graph, name, (tuple(self.all_sizes),), dtype=np.int32)

    def divide(self, labelling: ChunkedLabelling) -> list[Chunks]:
        # (chunks, 2, k): rows and copies of each label
        shares = np.array(self.each(label_shares, labelling.at))
        starts = np.cumsum(self.sizes) - self.sizes
        children = []
        for side in range(labelling.n_clusters):
            groups = groups_of(shares[:, 0, side], self.target_rows)
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
        width = max(FAN_IN, -(-len(numbers) // max(1, len(self.futures))))
        ends, groups = np.cumsum(self.sizes), range(0, len(numbers), width)
        sorted_ = [
            self.session.submit(sort_ids, numbers[i : i + width], positions[i : i + width], ends) for i in groups
        ]
        filled = []
        for c, chunk in enumerate(self.futures):
            parts = [self.session.submit(getitem, group, c) for group in sorted_]
            filled.append(self.session.submit(fill_positions, chunk, parts, self.distributed))
        return self._present(filled) if self.distributed else np.concatenate(self.session.gather(filled))

    def relabel(self, labelling: ChunkedLabelling, moves: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """The new labels are tasks, from which chunks compute from now on."""
        pieces = [
            self.session.submit(moved_labels, chunk, *labelling.at(c), *moves[c])
            for c, chunk in enumerate(self.futures)
        ]
        labelling.set(new_version(), pieces=pieces)


def _has_future(value: Any) -> bool:
    """Whether `value`, or tuples and lists in it, hold a future: only tasks accept these as arguments."""
    if isinstance(value, (tuple, list)):
        return any(_has_future(part) for part in value)
    return hasattr(value, "key") and hasattr(value, "client")
