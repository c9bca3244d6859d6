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

from ..core.checks import check_choice, check_integer
from ..core.counts import Counts, Layout, RowShares, ScoreTable, check_total_copies, smallest_unsigned
from ..core.moves import Moves, MoveTable
from .chunked import (
    Chunk,
    Past,
    add_results,
    fill_positions,
    join_chunks,
    make_chunk,
    marked,
    new_version,
    read_rows,
    run_on_chunk,
    sort_ids,
)
from .cluster import FAN_IN, Session
from .contract import Engine, Fit, Labelling, Loadable, Rows, Seeding, first_different, missing_in

Arguments = Callable[[int], tuple]  # the arguments of a call for the chunk with this number

_CHUNKS_PER_THREAD = 2  # enough to balance the load, few enough to schedule
_LEAST_ROWS = 1 << 17  # below this, scheduling a chunk takes longer than working on it
_MOST_ROWS = 1 << 23
_MOST_STARTS = 4  # at the same time
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

    Notes
    -----
    Input may be a Dask array or data frame, a path that all workers can read, or anything in memory, which is then
    sent once. Labels of distributed input are a Dask array with the input's chunks; call ``compute()`` for NumPy.
    Workers hold the codes (a byte per label in the common case) and 6 bytes per item for each start in progress: as
    many starts as half of their memory allows, 4 at most.
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
    ):
        if not isinstance(worker_engine, Engine):
            check_choice(worker_engine, "worker_engine", ("auto", "cuda", "native", "numpy"))
        self.client, self.worker_engine = client, worker_engine
        self.chunk_rows = None if chunk_rows is None else check_integer(chunk_rows, "chunk_rows")

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
            layout, missing = Layout.of(ensemble), missing_in(ensemble)
            settings = layout, missing, self.worker_engine, 2 * _MOST_STARTS + 2
            futures = session.map(make_chunk, [codes[c] for c in kept], copies, [settings] * len(kept))
            counted = kept_sizes = [sizes[c] for c in kept]
            if multiplicity is not None or missing.all():
                counted = session.gather(session.map(Chunk.n_copies, futures))
            check_total_copies(sum(counted))
            target_rows = self.chunk_rows or max(*sizes, _LEAST_ROWS)
            return DaskRows(session, futures, kept_sizes, counted, layout, sizes, source is not None, target_rows)

    def _code_blocks(self, session: Session, ensemble: Any) -> tuple[list[int], list]:
        """Sizes of the chunks and their codes, which the workers compute from labels in two passes."""
        from dask import delayed

        source, distributed = ensemble.source, ensemble.source.kind == "dask"
        groups = [[block] for block in source.blocks]  # of a Dask collection; small blocks of a file are put together
        if not distributed:
            together = groups_of([block.rows for block in source.blocks], self._step(session, source.n_rows))
            groups = [[source.blocks[b] for b in group] for group in together]

        def over_blocks(function: Callable, *arguments: Any) -> list:
            call = delayed(function, pure=False)
            return session.compute([call(group, *arguments) for group in groups])

        def tally(source: Any, missing: str) -> tuple:
            return session.reduce(source.merge, over_blocks(source.tally, source.names, missing))

        ensemble.scan(tally)
        sizes = ensemble.block_sizes if distributed else [sum(block.rows for block in group) for group in groups]
        return sizes, over_blocks(ensemble.scan().codes_of_blocks)

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
        memory = sum(int(worker["memory_limit"] or 0) for worker in rows.session.workers())
        spare = memory // 2 - rows.n_rows * rows.layout.n_partitions
        return int(min(max(spare // max(1, _STATE_BYTES * rows.n_rows), 1), _MOST_STARTS))

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """A task on rows of a single chunk runs on the chunk's worker; each other one is driven by a thread here."""

        def call(task: Any) -> Any:
            rows = getattr(task, "rows", None)
            if not isinstance(rows, DaskRows) or len(rows.futures) != 1:
                return function(task)
            version, light = new_version(), replace(task, rows=None)  # set again on the worker
            fit = rows.session.gather(rows.session.submit(run_on_chunk, rows.futures[0], function, light, version))
            if isinstance(fit, Fit):
                fit.labelling = DaskLabelling(fit.counts.n_clusters)
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


class DaskLabelling(Labelling):
    """The table or given labels from which the labels of any chunk can be computed again."""

    def __init__(self, n_clusters: int):
        super().__init__(n_clusters, None)
        self.set(new_version())

    def set(self, version: str, table: Any = None, pieces: list | None = None, counted: Counts | None = None) -> None:
        """The labels are now those of `table`, or those given in one piece per chunk; nothing yet without either."""
        self.version, self.table, self.pieces, self.counted = version, table, pieces, counted

    def at(self, chunk: int) -> tuple[int, Past]:
        """The first arguments of functions that work on the labels of a chunk."""
        piece = None if self.pieces is None else self.pieces[chunk]
        return self.n_clusters, (self.version, self.table, piece)


class DaskRows(Rows):
    """Chunks as futures: each verb runs a function on every chunk and adds the results.

    `distributed` says whether labels stay on the cluster, as arrays of `all_sizes`: with the empty blocks of the input.
    """

    def __init__(self, session: Session, futures: list, sizes, copies, layout, all_sizes, distributed, target_rows):
        self.session, self.futures, self.layout = session, futures, layout
        self.all_sizes, self.distributed, self.target_rows = all_sizes, distributed, target_rows
        self.chunk_sizes, self.chunk_copies = np.array(sizes, np.int64), np.array(copies, np.int64)
        self.n_rows, self.n_copies = int(self.chunk_sizes.sum()), int(self.chunk_copies.sum())

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None:
            self.session.cancel()

    def each(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        """``function(chunk, *arguments(c))`` for every chunk c, or those in `which`, in order."""
        return self.session.gather(self.pieces(function, arguments, which))

    def total(self, function: Callable, arguments: Arguments) -> tuple:
        """The sum of the results for every chunk, element by element."""
        return self.session.reduce(add_results, self.pieces(function, arguments))

    def pieces(self, function: Callable, arguments: Arguments, which: Sequence[int] | None = None) -> list:
        """The results for every chunk, as tasks."""
        wanted = range(len(self.futures)) if which is None else which
        given = [arguments(c) for c in wanted]
        if len(given) > FAN_IN:
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
        """Labels of all rows as one piece per chunk, stored with the chunks."""
        if hasattr(labels, "dask"):  # a Dask array: its blocks stay on the workers
            return self.session.compute(labels.rechunk((tuple(self.chunk_sizes.tolist()),)).to_delayed().tolist())
        pieces = np.split(np.asarray(labels), np.cumsum(self.chunk_sizes)[:-1])
        return [self.session.send(piece.astype(smallest_unsigned(k))) for piece in pieces]

    def labelling(self, k: int, labels: Any = None) -> DaskLabelling:
        labelling = DaskLabelling(k)
        if labels is not None:
            labelling.set(labelling.version, pieces=self.cut(labels, k))
        return labelling

    def renumbered(self, labelling: Any, numbers: np.ndarray, k: int) -> DaskLabelling:
        new, numbers = DaskLabelling(k), np.asarray(numbers).astype(smallest_unsigned(k))
        new.set(new.version, pieces=self.pieces(Chunk.renumbered, lambda c: (*labelling.at(c), numbers)))
        return new

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        version = new_version()
        moved, alpha, sizes = self.total(Chunk.counts, lambda c: (*labelling.at(c), version, table))
        labelling.set(version, table, counted=Counts(alpha, sizes, self.layout))
        return int(moved)

    def counts(self, labelling: Any) -> Counts:
        if labelling.counted is None:
            _, alpha, sizes = self.total(Chunk.counts, labelling.at)
            labelling.counted = Counts(alpha, sizes, self.layout)
        return labelling.counted

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

    def own_scores(self, labelling: Any, table: ScoreTable, start: int = 0, stop: int | None = None) -> Any:
        scores = self.pieces(Chunk.verb, lambda c: (*labelling.at(c), "own_scores", table))
        return self._array(scores, np.int64)[start:stop]

    def map_scores(self, labelling: Any, table: ScoreTable, function: Callable, dtype: Any) -> tuple[Any, np.ndarray]:
        both = self.pieces(Chunk.verb, lambda c: (*labelling.at(c), "map_scores", table, function, dtype))
        values, sums = (self.session.map(getitem, both, [part] * len(both)) for part in (0, slice(1, 2)))
        return self._array(values, dtype), self.session.reduce(add_results, sums)[0]

    def worst_rows(self, labelling: Any, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        of_chunks = self.each(Chunk.verb, lambda c: (*labelling.at(c), "worst_rows", cost, m))
        rows, costs = (np.concatenate(part) for part in zip(*of_chunks))
        # chunks come in row order and each is sorted, so that the lowest index is first among equals
        best = first_different(rows.__getitem__, costs, m)
        return rows[best], costs[best]

    def seeding(self, weights: np.ndarray) -> DaskSeeding:
        return DaskSeeding(self, weights)

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        return self.total(Chunk.overlap, lambda c: (shares,))[0]

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return self.look_up(self.chunk_sizes, indices, Chunk.codes_at)

    def look_up(self, sizes: np.ndarray, targets: np.ndarray, function: Callable, *arguments: Any) -> np.ndarray:
        """Rows found by ``function(chunk, *arguments, targets)``, in the order of the targets.

        Targets count over all chunks; `sizes` says how many belong to each.
        """
        where, inside = _place(sizes, np.asarray(targets, dtype=np.int64))
        which = np.unique(where)
        of_chunks = self.each(function, lambda c: (*arguments, inside[where == c]), which.tolist())
        out = np.empty((len(where), of_chunks[0].shape[1]), dtype=of_chunks[0].dtype)
        for c, rows in zip(which, of_chunks):
            out[where == c] = rows
        return out

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        of_chunks, left, stop, first = [], limit, self.n_rows, 0
        for c, size in enumerate(self.chunk_sizes.tolist()):
            if start < first + size:
                asked = (*labelling.at(c), "propose_moves", table, max(start - first, 0), left)
                moves = self.each(Chunk.verb, {c: asked}.__getitem__, [c])[0]
                of_chunks.append((moves.indices + first, moves.sources, moves.targets, moves.codes, moves.copies))
                left -= len(moves)
                if left == 0:
                    stop = first + moves.stop
                    break
            first += size
        indices, sources, targets, codes, copies = (np.concatenate(part) for part in zip(*of_chunks))
        return Moves(indices, sources, targets, codes, copies, stop)

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        """The new labels are tasks, from which chunks compute from now on."""
        if len(indices):
            where, inside = _place(self.chunk_sizes, indices)
            moves = [(inside[where == c], targets[where == c]) for c in range(len(self.futures))]
            pieces = self.pieces(Chunk.moved, lambda c: (*labelling.at(c), *moves[c]))
            labelling.set(new_version(), pieces=pieces)

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
        width = max(FAN_IN, -(-len(numbers) // max(1, len(self.futures))))
        ends, groups = np.cumsum(self.chunk_sizes), range(0, len(numbers), width)
        submit = self.session.submit
        sorted_ = [submit(sort_ids, numbers[i : i + width], positions[i : i + width], ends) for i in groups]
        parts = [[submit(getitem, group, c) for group in sorted_] for c in range(len(self.futures))]
        return self._labels(self.session.map(fill_positions, self.futures, parts))


class DaskSeeding(Seeding):
    """k-means++ distances by chunk. Two rounds per chosen row: one finds the candidates, one computes their totals.

    The second also gives each chunk's total after any candidate is added, so `add` needs no third round.
    """

    def __init__(self, rows: DaskRows, weights: np.ndarray):
        self.rows, self.weights = rows, weights
        self.key = new_version()
        self._totals = rows.chunk_copies  # of each chunk
        self._chosen = np.zeros((0, rows.layout.n_partitions), np.uint8)
        self._measured: dict[bytes, np.ndarray] = {}  # the totals of each chunk with a candidate added

    @property
    def total(self) -> int:  # type: ignore[override]
        return int(self._totals.sum())

    def locate(self, targets: np.ndarray) -> np.ndarray:
        return self.rows.look_up(self._totals, targets, Chunk.locate, self.key, self.weights, self._chosen)

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        totals = self._measure(candidates)
        self._measured = {row.tobytes(): own for row, own in zip(candidates, totals.T)}
        return totals.sum(axis=0)

    def add(self, row: np.ndarray) -> None:
        known = self._measured.get(row.tobytes())
        self._measured, self._chosen = {}, np.vstack([self._chosen, row])
        self._totals = self._measure(None)[:, 0] if known is None else known

    def _measure(self, candidates: np.ndarray | None) -> np.ndarray:
        asked = self.key, self.weights, self._chosen, candidates
        return np.array(self.rows.each(Chunk.potentials, lambda c: asked))


def _place(sizes: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chunk of each target, and its place there."""
    ends = np.cumsum(sizes)
    where = np.searchsorted(ends, targets, side="right")
    return where, targets - (ends - sizes)[where]


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
