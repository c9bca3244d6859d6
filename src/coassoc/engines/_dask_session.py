"""The tasks of one fit on a Dask cluster: how they are sent, named, gathered, added up and cancelled."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from ._dask_tasks import code_blocks, code_rows, join_pieces, same, tally_rows

FAN_IN = 8  # partial results added by one task
_PIECE_BYTES = 1 << 23  # data inside one task; larger ones draw a warning from Dask
_LET_GO_AFTER = 0.2  # seconds
_ASK_EVERY = 2.0  # seconds after which the workers are counted again


class Session:
    """The tasks of one fit: named, watched, and cancelled together when the fit is."""

    def __init__(self, client: Any):
        self.client = client
        self._name = uuid.uuid4().hex[:10]
        self._numbers = itertools.count()
        self._futures: weakref.WeakSet = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False
        self._gathered: deque[tuple[float, Any]] = deque()  # when, and what is not yet let go of
        self._workers: dict[str, dict] = {}
        self._asked = -_ASK_EVERY - 1.0

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.cancel()

    def submit(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        key = f"coassoc-{function.__name__}-{self._name}-{next(self._numbers)}"
        with self:  # an interrupt may come at any moment
            future = self.watch(self.client.submit(function, *args, key=key, pure=False, **kwargs))
        self._let_go()
        return future

    def map(self, function: Callable, *columns: Sequence, worker: str | None = None) -> list:
        """One task for each row of the columns, sent as one message; at `worker` while it lives."""
        return self.map_by_worker(function, {worker: columns})[0]

    def map_by_worker(self, function: Callable, columns: dict[Any, Any]) -> list[list]:
        """The same for several workers at once."""

        async def together() -> list:
            # where messages are sent from: they leave as one, while a second one would wait for 10 ms
            return [self._map(function, rows, worker) for worker, rows in columns.items()]

        with self:
            found = self.client.sync(together)
            futures = [[self.watch(future) for future in part] for part in found]
        self._let_go()
        return futures

    def _map(self, function: Callable, columns: Sequence[Sequence], worker: str | None) -> list:
        keys = [f"coassoc-{function.__name__}-{self._name}-{next(self._numbers)}" for _ in columns[0]]
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        return self.client.map(function, *columns, key=keys, pure=False, **where)

    def watch(self, future: Any) -> Any:
        with self._lock:
            self._futures.add(future)
            closed = self._closed
        if closed:  # another thread of this fit was stopped in the meantime
            self.cancel()
            raise CancelledError("this fit was cancelled")
        return future

    def send(self, array: np.ndarray) -> Any:
        """An array as a task that holds it: unlike scattered data it survives the workers."""
        n_pieces = -(-array.nbytes // _PIECE_BYTES) or 1
        if n_pieces == 1:
            return self.submit(same, array)
        pieces = [self.submit(same, piece) for piece in np.array_split(array, n_pieces)]
        return self.submit(join_pieces, pieces)

    def gather(self, futures: Any) -> Any:
        """The results."""
        with self:
            results = self.client.gather(futures)
        self._gathered.append((time.monotonic(), futures))
        return results

    def _let_go(self) -> None:
        """Forget results gathered a while ago.

        A client sends every 10 ms at most: a word that results are no longer needed would, sent at once, hold up the
        next tasks, for which everybody waits.
        """
        old = time.monotonic() - _LET_GO_AFTER
        while self._gathered and self._gathered[0][0] < old:
            self._gathered.popleft()

    def cancel(self) -> None:
        """Leave no task and no data of this fit on the cluster."""
        with self._lock:
            self._closed = True
            futures = [f for f in self._futures if not f.cancelled()]
        if futures:
            self.client.cancel(futures, force=True)

    def reduce(self, function: Callable, futures: list) -> Any:
        """``function([results])`` as a tree."""
        while len(futures) > 1:
            groups = [futures[i : i + FAN_IN] for i in range(0, len(futures), FAN_IN)]
            futures = [self.submit(function, group) if len(group) > 1 else group[0] for group in groups]
        return futures[0]

    def workers(self) -> dict[str, dict]:
        """Who works, by address; asked anew every few seconds."""
        now = time.monotonic()
        if now - self._asked > _ASK_EVERY:
            self._workers, self._asked = self.client.scheduler_info(n_workers=-1)["workers"], now
        return self._workers

    def n_threads(self) -> int:
        return max(1, sum(worker["nthreads"] for worker in self.workers().values()))

    def memory(self) -> int:
        return sum(int(worker["memory_limit"] or 0) for worker in self.workers().values())

    # -- tables that are not codes yet ---------------------------------------------------------------------------

    def tally(self, source: Any, missing: str) -> tuple:
        """The labels of every column, found by the workers."""
        from ..ensemble._blocks import merge_tallies

        parts = self._blocks(source, tally_rows, source.names, missing)
        return self.gather(self.reduce(merge_tallies, parts))

    def coded_blocks(self, source: Any, coding: Any, groups: list[list[int]] | None = None) -> list:
        """Codes of each block, or of each group of neighbouring blocks of a file."""
        if groups is None:
            return self._blocks(source, code_rows, coding)
        return [self.submit(code_blocks, [source.blocks[b] for b in group], coding) for group in groups]

    def _blocks(self, source: Any, function: Callable, *args: Any) -> list:
        if source.kind != "dask":
            return [self.submit(function, block, *args) for block in source.blocks]
        from dask import delayed

        name = f"coassoc-{function.__name__}-{self._name}"
        tasks = [
            delayed(function, pure=False)(block.delayed, *args, dask_key_name=f"{name}-{next(self._numbers)}")
            for block in source.blocks
        ]
        return [self.watch(future) for future in self.client.compute(tasks)]


def balanced(places: Sequence[str | None], workers: list[str]) -> list[str] | None:
    """A worker for each chunk: those they have where possible, no worker with two more than another."""
    if not workers:
        return None
    kept = [place if place in workers else None for place in places]
    held = {worker: kept.count(worker) for worker in workers}
    for c, place in enumerate(kept):
        if place is None:
            kept[c] = min(workers, key=lambda worker: held[worker])
            held[kept[c]] += 1  # type: ignore[index]
    while max(held.values()) - min(held.values()) > 1:
        most, least = max(workers, key=lambda w: held[w]), min(workers, key=lambda w: held[w])
        last = len(kept) - 1 - kept[::-1].index(most)
        kept[last] = least
        held[most], held[least] = held[most] - 1, held[least] + 1
    return kept  # type: ignore[return-value]


def groups_of(sizes: np.ndarray, most: int) -> list[list[int]]:
    """Neighbouring chunks that together hold at most `most` rows, empty ones left out; one empty group at least."""
    groups: list[list[int]] = []
    held = 0
    for c, size in enumerate(sizes.tolist()):
        if size == 0:
            continue
        if groups and held + size <= most:
            groups[-1].append(c)
            held += size
        else:
            groups.append([c])
            held = size
    return groups
