"""The tasks of one fit on a Dask cluster: naming, sending, gathering, adding and cancelling them."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from .tasks import answer, same

FAN_IN = 8  # partial results added by one task
_PIECE_BYTES = 1 << 23  # data inside one task; Dask warns about larger ones
_RELEASE_AFTER = 0.2  # seconds
_ASK_EVERY = 2.0  # seconds after which the list of workers is fetched again
_CONNECT_WITHIN = 2.0  # seconds for a connection to a worker; tasks are used if there is none


class Session:
    """The tasks of one fit, which share a name and are cancelled together."""

    def __init__(self, client: Any):
        self.client = client
        self._name = uuid.uuid4().hex[:10]
        self._numbers = itertools.count()
        self._closed = False
        self._gathered: deque[tuple[float, Any]] = deque()  # time, and futures not yet released
        self._workers: dict[str, dict] = {}
        self._asked = -_ASK_EVERY - 1.0
        self._reachable = True  # whether this process can talk to the workers itself

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.cancel()

    def submit(self, function: Callable, *args: Any) -> Any:
        key = f"coassoc-{function.__name__}-{self._name}-{next(self._numbers)}"
        with self:  # an interrupt may come at any moment
            future = self.client.submit(function, *args, key=key, pure=False)
        self._sent()
        return future

    def map(self, function: Callable, *columns: Sequence, places: Sequence[str] | None = None) -> list:
        """One task for each row of the columns, sent as one message; each on its worker while that one lives."""
        by_worker: dict[Any, Any] = {None: range(len(columns[0]))} if places is None else by_place(places)

        async def together() -> dict[int, Any]:
            # inside the client's event loop they leave as one message; a second one would wait for 10 ms
            futures: dict[int, Any] = {}
            for worker, here in by_worker.items():
                keys = [f"coassoc-{function.__name__}-{self._name}-{next(self._numbers)}" for _ in here]
                # Tasks bound to the only worker would wait forever if it died: the scheduler does not unbind them.
                free = worker is None or len(self._workers) < 2
                where = {} if free else {"workers": [worker], "allow_other_workers": True}
                own = [[column[i] for i in here] for column in columns]
                futures.update(zip(here, self.client.map(function, *own, key=keys, pure=False, **where)))
            return futures

        with self:
            found = self.client.sync(together)
        self._sent()
        return [found[i] for i in range(len(found))]

    def ask(self, how: Callable, jobs: dict[str, list[tuple]]) -> list | None:
        """``how(chunks, *arguments)`` of each job of each worker, called without a task: the results in order.

        A job holds the keys of chunks on that worker, and the arguments. This takes 2 to 4 ms, where creating, sending
        and gathering tasks takes 10 to 13. None when it fails (a chunk is elsewhere, a worker has died or cannot be
        reached): the caller then uses tasks, which recover from all of these.
        """
        if not self._reachable or self._closed:
            return None

        async def together() -> list:
            return await asyncio.gather(*(self._ask(how, *job) for job in jobs.items()), return_exceptions=True)

        with self:
            found = self.client.sync(together)
        if any(isinstance(part, BaseException) for part in found):
            self._reachable = False
            return None
        return None if any(part is None for part in found) else [result for part in found for result in part]

    async def _ask(self, how: Callable, worker: str, jobs: list[tuple]) -> list | None:
        from distributed.protocol.pickle import dumps

        pool = self.client.rpc
        pool.reuse(worker, await pool.connect(worker, timeout=_CONNECT_WITHIN))
        said = await pool(worker).run(function=dumps(answer), args=dumps((how, jobs)), kwargs=dumps({}))
        return said["result"] if said["status"] == "OK" else None  # a task will raise the error

    def send(self, array: np.ndarray) -> Any:
        """An array as a task that holds it: unlike scattered data, it outlives the workers."""
        n_pieces = -(-array.nbytes // _PIECE_BYTES) or 1
        if n_pieces == 1:
            return self.submit(same, array)
        pieces = [self.submit(same, piece) for piece in np.array_split(array, n_pieces)]
        return self.submit(np.concatenate, pieces)

    def gather(self, futures: Any) -> Any:
        """The results."""
        with self:
            results = self.client.gather(futures)
        self._gathered.append((time.monotonic(), futures))
        return results

    def _sent(self) -> None:
        """Release results gathered a while ago: a client sends one message every 10 ms, and new tasks go first."""
        if self._closed:  # another thread of this fit was stopped in the meantime
            self.cancel()
            raise CancelledError("this fit was cancelled")
        old = time.monotonic() - _RELEASE_AFTER
        while self._gathered and self._gathered[0][0] < old:
            self._gathered.popleft()

    def cancel(self) -> None:
        """Remove all tasks and data of this fit from the cluster, also those whose futures are still referenced."""
        self._closed = True
        if self.client.status == "running":
            self.client.sync(self._release)

    async def _release(self) -> None:
        """Runs in the client's event loop, after everything that was started there before."""
        # by name: an interrupt may come after a task was sent and before its future was stored here
        for key in list(self.client.futures):
            if isinstance(key, str) and self._name in key:
                # Client.cancel closes the connection when a task is only needed by other tasks
                self.client._release_key(key)

    def reduce(self, function: Callable, futures: list) -> Any:
        """``function(list of results)`` applied as a tree."""
        while len(futures) > 1:
            groups = [futures[i : i + FAN_IN] for i in range(0, len(futures), FAN_IN)]
            futures = [self.submit(function, group) if len(group) > 1 else group[0] for group in groups]
        return futures[0]

    def workers(self) -> dict[str, dict]:
        """The workers by address, fetched again every few seconds."""
        now = time.monotonic()
        if now - self._asked > _ASK_EVERY:
            self._workers, self._asked = self.client.scheduler_info(n_workers=-1)["workers"], now
        return self._workers

    def place(self, sizes: Sequence[int]) -> list[str] | None:
        """A worker for each chunk of these sizes; None while there are no workers."""
        return balanced([None] * len(sizes), list(self.workers()), sizes)

    def n_threads(self) -> int:
        return max(1, sum(worker["nthreads"] for worker in self.workers().values()))

    def memory(self) -> int:
        return sum(int(worker["memory_limit"] or 0) for worker in self.workers().values())

    # -- tables that are not codes yet ---------------------------------------------------------------------------

    def over_blocks(
        self, function: Callable, source: Any, groups: Sequence, places: Sequence[str] | None, *args: Any
    ) -> list:
        """``function(blocks, *args)`` for each block of a collection, or each group of blocks of a file."""
        if source.kind != "dask":
            return self.map(function, groups, *([one] * len(groups) for one in args), places=places)
        from dask import delayed

        name = f"coassoc-{function.__name__}-{self._name}"
        tasks = [
            delayed(function, pure=False)([block.delayed], *args, dask_key_name=f"{name}-{next(self._numbers)}")
            for block in source.blocks
        ]
        with self:
            futures = self.client.compute(tasks)
        self._sent()
        return futures

    def tally(self, source: Any, missing: str, groups: Sequence, places: Sequence[str] | None) -> tuple:
        """The labels of every column, found by the workers."""
        parts = self.over_blocks(source.tally, source, groups, places, source.names, missing)
        if len(parts) <= FAN_IN:
            return source.merge(self.gather(parts))
        return self.gather(self.reduce(source.merge, parts))


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


def balanced(places: Sequence[str | None], workers: Sequence[str], sizes: Sequence[int]) -> list[str] | None:
    """A worker for each chunk: its present one up to an equal share of the rows, then the one with the fewest rows."""
    if not workers:
        return None
    held, share = dict.fromkeys(workers, 0), sum(sizes) / len(workers)
    kept = list(places)
    for c, (place, size) in enumerate(zip(places, sizes)):
        if place in held and held[place] + size / 2 <= share:
            held[place] += size
        else:
            kept[c] = None
    for c, size in enumerate(sizes):
        if kept[c] is None:
            kept[c] = least = min(held, key=held.__getitem__)
            held[least] += size
    return kept  # type: ignore[return-value]


def by_place(places: Sequence[str]) -> dict[str, list[int]]:
    """The positions of each place."""
    here: dict[str, list[int]] = {}
    for i, place in enumerate(places):
        here.setdefault(place, []).append(i)
    return here


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
