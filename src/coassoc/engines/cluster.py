"""The connection to a Dask cluster: the futures of one fit, and clusters that the command line starts."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

FAN_IN = 32  # partial results added by one task; up to as many are sent and fetched without one
_PIECE_BYTES = 1 << 23  # data inside one task; Dask warns about larger ones


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
        while len(parts) > FAN_IN:
            parts = self.map(function, [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)])
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
