"""Dask: rows stay on the workers of a cluster; tables are sent to them and integers come back.

Every result is a task that can be run again: chunks are read or coded again from their source, and tables and given
labels are arguments of a task, which the scheduler keeps. Nothing is scattered, so a worker may die at any moment.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import check_integer
from ..core.counts import Layout, ScoreTable, check_total_copies
from ..core.moves import MoveTable
from .chunked import Arguments, Chunk, ChunkedLabelling, ChunkedRows, add_results, new_version
from .contract import Engine, Fit, Labelling, Loadable, Rows, missing_in

_PIECE_BYTES = 1 << 23  # data inside one task; Dask warns about larger ones
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

    def __getstate__(self) -> dict:
        # a connection cannot be pickled; its address opens a new one
        client = self.client
        if not isinstance(client, str | None):
            client = getattr(client.scheduler, "address", "a closed client")
        return self.__dict__ | {"client": client}

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

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> DaskRows:
        with Session(self.connect()) as session:
            source = ensemble.source  # of labels in a file or a Dask collection
            if source is not None and source.kind == "file" and source.n_rows is None:
                ensemble.codes  # noqa: B018  # text is read and coded here; the workers get codes
            if source is not None and not ensemble.is_coded:
                sizes, codes = self._code_blocks(session, ensemble)
            else:
                sizes, codes = self._cut_codes(session, ensemble.codes)
            kept, ends = np.flatnonzero(sizes).tolist(), np.cumsum(sizes)  # without empty blocks
            copies: list[Any] = [None] * len(kept)
            if multiplicity is not None:
                copies = [session.send(multiplicity[ends[c] - sizes[c] : ends[c]]) for c in kept]
            layout, missing, slots = Layout.of(ensemble), missing_in(ensemble), 2 * (self.n_starts or 4) + 2
            settings = layout, missing, self.worker_engine, slots
            futures = session.map(make_chunk, [codes[c] for c in kept], copies, [settings] * len(kept))
            counted = kept_sizes = [sizes[c] for c in kept]
            if multiplicity is not None or missing.all():
                counted = session.gather(session.map(Chunk.n_copies, futures))
            check_total_copies(sum(counted))
            target_rows = self.chunk_rows or max(*sizes, _LEAST_ROWS)
            return DaskRows(session, futures, kept_sizes, counted, layout, sizes, source is not None, target_rows)

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
            return session.reduce(source.merge, over_blocks(source.tally, source.names, missing))

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
        memory = sum(int(worker["memory_limit"] or 0) for worker in rows.session.workers())
        spare = memory // 2 - rows.n_rows * rows.layout.n_partitions
        return int(min(max(spare // max(1, _STATE_BYTES * rows.n_rows), 1), 4))

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """A task on rows of a single chunk runs on the chunk's worker; each other one is driven by a thread here."""

        def call(task: Any) -> Any:
            rows = getattr(task, "rows", None)
            if not isinstance(rows, DaskRows) or len(rows.futures) != 1:
                return function(task)
            key, version = new_version(), new_version()
            light = replace(task, rows=None)  # set again on the worker
            asked = rows.session.submit(run_on_chunk, rows.futures[0], function, light, key, version)
            fit = rows.session.gather(asked)
            if isinstance(fit, Fit):
                fit.labelling = ChunkedLabelling(rows, fit.counts.n_clusters, key)
                fit.labelling.set(version, fit.table, counted=fit.counts)
            return fit

        if len(tasks) < 2:
            return list(map(call, tasks))
        pool = ThreadPoolExecutor(min(len(tasks), 16), thread_name_prefix="coassoc-dask")
        try:
            return list(pool.map(call, tasks))
        except BaseException:
            for task in tasks:  # Ctrl-C reaches the main thread only
                if isinstance(getattr(task, "rows", None), DaskRows):
                    task.rows.session.cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class DaskRows(ChunkedRows):
    """Chunks as futures.

    `distributed` says whether labels stay on the cluster, as arrays of `all_sizes`: with the empty blocks of the input.
    """

    def __init__(self, session: Session, futures: list, sizes, copies, layout, all_sizes, distributed, target_rows):
        self.session, self.futures, self.layout = session, futures, layout
        self.all_sizes, self.distributed, self.target_rows = all_sizes, distributed, target_rows
        self._count(sizes, copies)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None:
            self.session.cancel()

    def each(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        return self.session.gather(self.pieces(function, arguments, which))

    def total(self, function: Callable, arguments: Arguments) -> tuple:
        return self.session.reduce(add_results, self.pieces(function, arguments))

    def pieces(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
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

    def cut(self, labels: Any, k: int) -> list:
        if hasattr(labels, "dask"):  # a Dask array: its blocks stay on the workers
            return self.session.compute(labels.rechunk((tuple(self.chunk_sizes.tolist()),)).to_delayed().tolist())
        return [self.session.send(piece) for piece in super().cut(labels, k)]

    def _array(self, futures: list, dtype: Any) -> Any:
        """The arrays of all chunks as one: of Dask, with the input's chunks, where labels stay on the cluster."""
        if not self.distributed:
            return np.concatenate(self.session.gather(futures)).astype(dtype, copy=False)
        import dask.array as da
        from dask import delayed

        sizes = self.chunk_sizes.tolist()
        parts = [da.from_delayed(delayed(future), (size,), dtype) for future, size in zip(futures, sizes)]
        return da.concatenate(parts).rechunk((tuple(self.all_sizes),))

    def labels(self, labelling: Any) -> Any:
        return self._labels(self.pieces(Chunk.labels, labelling.at))

    def _labels(self, futures: list) -> Any:
        return self._array(self.session.map(marked, self.futures, futures) if self.distributed else futures, np.int32)

    def map_scores(self, labelling: Any, table: ScoreTable, function: Callable, dtype: Any) -> tuple[Any, np.ndarray]:
        both = self.pieces(Chunk.verb, lambda c: (*labelling.at(c), "map_scores", table, function, dtype))
        values, sums = (self.session.map(getitem, both, [part] * len(both)) for part in (0, slice(1, 2)))
        return self._array(values, dtype), self.session.reduce(add_results, sums)[0]

    def move(self, labelling: ChunkedLabelling, moves: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """The new labels are tasks, from which chunks compute from now on."""
        labelling.set(new_version(), pieces=self.pieces(Chunk.moved, lambda c: (*labelling.at(c), *moves[c])))

    def split(self, labelling: Any) -> list[Rows]:
        # (chunks, 2, k): rows and copies of each label
        shares, submit = np.array(self.each(Chunk.shares, labelling.at)), self.session.submit
        starts = np.cumsum(self.chunk_sizes) - self.chunk_sizes
        children: list[Rows] = []
        for side in range(labelling.n_clusters):
            groups = groups_of(shares[:, 0, side].tolist(), self.target_rows)
            futures = []
            for group in groups:
                taken = [submit(Chunk.part, self.futures[c], *labelling.at(c), side, int(starts[c])) for c in group]
                futures.append(taken[0] if len(taken) == 1 else submit(join_chunks, taken))
            counted = [shares[group, :, side].sum(axis=0) for group in groups]
            sizes, copies = np.reshape(counted, (-1, 2)).T.tolist()
            shared = self.layout, sizes, self.distributed, self.target_rows
            children.append(DaskRows(self.session, futures, sizes, copies, *shared))
        return children

    def scatter(self, leaves: Sequence[Any]) -> Any:
        """Row numbers of the leaves are sorted by the chunk that holds the row; each chunk then fills in its labels."""
        numbers: list[Any] = []
        positions: list[int] = []
        for position, leaf in enumerate(leaves):
            starts = np.cumsum(leaf.chunk_sizes) - leaf.chunk_sizes
            numbers += self.session.map(Chunk.row_numbers, leaf.futures, starts.tolist())
            positions += [position] * len(leaf.futures)
        width = max(_FAN_IN, -(-len(numbers) // max(1, len(self.futures))))
        ends, groups = np.cumsum(self.chunk_sizes), range(0, len(numbers), width)
        submit = self.session.submit
        sorted_ = [submit(sort_ids, numbers[i : i + width], positions[i : i + width], ends) for i in groups]
        parts = [[submit(getitem, group, c) for group in sorted_] for c in range(len(self.futures))]
        return self._labels(self.session.map(fill_positions, self.futures, parts))


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


# -- functions that workers run beside those of `Chunk`: pure, so they may be run again ----------------------


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


def make_chunk(codes: np.ndarray, copies: np.ndarray | None, settings: tuple) -> Chunk:
    layout, *others = settings
    return Chunk(np.ascontiguousarray(codes), layout, copies, None, *others)


def marked(chunk: Chunk, labels: np.ndarray) -> np.ndarray:
    """Labels for the user: int32, −1 for rows without any base label."""
    labels, unlabelled = labels.astype(np.int32), chunk.unlabelled()
    if unlabelled is not None:
        labels[unlabelled] = -1
    return labels


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    copies = None if chunks[0].copies is None else np.concatenate([c.copies for c in chunks])
    codes, ids = (np.concatenate([getattr(c, name) for c in chunks]) for name in ("codes", "ids"))
    return replace(chunks[0], codes=codes, copies=copies, ids=ids)


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


def fill_positions(chunk: Chunk, parts: Sequence) -> np.ndarray:
    labels = np.zeros(len(chunk), dtype=np.int32)
    for rows, leaves in parts:
        labels[rows] = leaves
    return labels


def run_on_chunk(chunk: Chunk, function: Callable, task: Any, key: str, version: str) -> Any:
    """``function(task)`` with ``task.rows`` the rows of the chunk; a fit leaves its labels here, under `key`."""
    with chunk.lock:
        result = function(replace(task, rows=chunk.rows()))
        if not isinstance(result, Fit):
            return result
        chunk.remember(key, (version, result.labelling, None))
        return replace(result, labelling=Labelling(result.counts.n_clusters, None))


# -- the connection ------------------------------------------------------------------------------------------


class Session:
    """The futures of one fit. They are released when nothing refers to them, or all at once by `cancel`."""

    def __init__(self, client: Any):
        self.client = client
        self._futures: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()  # starts run side by side in threads
        self._cancelled = False
        self._latest: Any = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None:
            self.cancel()

    def submit(self, function: Callable, *arguments: Any) -> Any:
        return self._sent([self.client.submit(function, *arguments, pure=False)])[0]

    def map(self, function: Callable, *columns: Sequence) -> list:
        """One task for each row of the columns."""
        return self._sent(self.client.map(function, *columns, pure=False))

    def compute(self, delayed: Sequence) -> list:
        """Futures of delayed calls."""
        return self._sent(self.client.compute(delayed))

    def _sent(self, futures: list) -> list:
        with self._lock:
            self._futures.update(futures)
        # A client sends one message every 10 ms. The futures before these are dropped only now, so that the message
        # which releases them follows the new tasks instead of delaying them.
        self._latest = futures
        if self._cancelled:  # by another thread of this fit
            self.cancel()
            raise CancelledError("this fit was cancelled")
        return futures

    def gather(self, futures: Any) -> Any:
        """The results."""
        return self.client.gather(futures)

    def reduce(self, function: Callable, parts: list) -> Any:
        """``function`` of all results, which are combined as a tree: on the workers while they are many, then here."""
        while len(parts) > _FAN_IN:
            parts = self.map(function, [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)])
        return function(self.gather(parts))

    def send(self, array: np.ndarray) -> Any:
        """An array as a task that holds it: unlike scattered data, it outlives the workers."""
        pieces = np.array_split(array, -(-array.nbytes // _PIECE_BYTES) or 1)
        return self.submit(np.concatenate, [self.submit(np.asarray, piece) for piece in pieces])

    def cancel(self) -> None:
        """Release every future of this fit, although a traceback may still refer to it; no more tasks are accepted."""
        with self._lock:
            self._cancelled = True
            for future in self._futures:
                future.release()  # Client.cancel closes the connection when a task is only needed by other tasks

    def workers(self) -> list[dict]:
        """What the scheduler says about each worker."""
        return list(self.client.scheduler_info(n_workers=-1)["workers"].values())


def on_blocks(function: Callable, *columns: Iterable) -> Sequence[Any]:
    """``function`` of each row of the columns, by the workers of the current client; columns may be delayed blocks."""
    import dask

    call = dask.delayed(function, pure=False)
    return dask.compute(*(call(*row) for row in zip(*columns)))


@contextmanager
def open_client(address: str | None, n_workers: int | None) -> Iterator[Any]:
    """A client of the cluster at `address`, or of one of `n_workers` processes here; None when both are None."""
    if address is None and n_workers is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a Dask cluster needs dask and distributed: pip install 'coassoc[dask]'.") from None
    with ExitStack() as stack:
        where = stack.enter_context(local_cluster(n_workers)) if address is None else address
        yield stack.enter_context(Client(where))


def local_cluster(n_workers: int | None) -> Any:
    """A cluster of processes here, of one thread each, that leaves the cores to them.

    By default Dask looks at itself and at every thread 50 to 100 times a second: 12 % of a core with two workers.
    """
    import dask
    from distributed import LocalCluster

    settings = {"threads_per_worker": 1, "processes": True, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}):
        return LocalCluster(n_workers=n_workers, silence_logs=50, **settings)
