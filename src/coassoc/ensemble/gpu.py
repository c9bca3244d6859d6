"""Label tables and new rows in the memory of a GPU: validated and coded there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.counts import smallest_unsigned
from ..engines.cuda import device as cuda_device
from ..engines.cuda.engine import Cuda
from .ensemble import Ensemble, is_on_gpu
from .tables import Vocabulary

_MOST = 1 << 22  # labels on a GPU must be below: a lookup table has one entry for each


class DeviceEnsemble(Ensemble):
    """An ensemble whose codes are on a GPU: what `Ensemble(table)` gives for a table of integers on a GPU.

    An unsigned C-ordered table in the smallest type that holds its labels is used as it is. Labels of a partition may
    have gaps: a number that does not occur is an empty cluster.

    Parameters
    ----------
    table : CuPy array, or any object with ``__cuda_array_interface__`` or DLPack, of shape (n_samples, n_partitions)
        Integer labels; negative ones are missing.
    missing : {"negative"}, default="negative"
        For other rules copy the table to the host.
    device : object, default=None
        The CUDA device; that of `table` when None.
    """

    device: Any
    takes = staticmethod(is_on_gpu)

    def __init__(self, table: Any, *, missing: str = "negative", device: Any = None):
        if isinstance(table, DeviceEnsemble):
            self.__dict__.update(table.__dict__)
            return
        self.device = device or cuda_device.device_of(table)
        self._store_codes(*_coded(table, missing, self.device))

    @classmethod
    def from_codes(
        cls, codes: Any, n_clusters: Any, device: Any = None, *, names: Any = None, categories: Any = None
    ) -> DeviceEnsemble:
        """Ensemble over codes on a GPU, without a copy; other parameters as for `Ensemble.from_codes`."""
        self: DeviceEnsemble = object.__new__(DeviceEnsemble)
        self.device = device or cuda_device.device_of(codes)
        self._store_codes(self.device.adopt(codes), n_clusters, names, categories)
        return self

    def _count_codes(self, codes: Any, n_clusters: np.ndarray) -> Any:
        return np.split(self.device.count_codes(codes, n_clusters), np.cumsum(n_clusters + 1)[:-1])

    def unlabelled(self) -> Any:
        """Indices (on the GPU) of the items that no partition labels, or None when there are none."""
        if not self.has_missing:
            return None
        copies = self.device.zeros(self.n_samples, np.uint32)
        copies.fill(1)
        n_unlabelled = self.device.mark_unlabelled(self.codes, self.n_clusters, copies)
        return (copies == 0).nonzero()[0] if n_unlabelled else None

    def preferred_engine(self) -> Any:
        """The engine for the GPU that holds the codes."""
        return Cuda(device=self.device.number)

    def to_host(self) -> Ensemble:
        """The same ensemble with its codes in the host's memory, for other engines and reports."""
        host: Ensemble = object.__new__(Ensemble)  # the codes were validated and counted on the GPU
        host._store(self.device.get(self.codes), self.n_clusters, self.sizes, self.names, self.categories)
        return host


def _coded(table: Any, missing: str, device: Any) -> tuple[Any, np.ndarray]:
    """Codes of a table of labels, computed on the GPU, and the number of clusters of each partition."""
    table = device.adopt(table)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"partitions must have shape (n_samples, n_partitions), got {table.shape}.")
    if table.dtype.kind not in "iu" or missing != "negative":
        raise TypeError(
            f"a table on a GPU must hold integers, with missing='negative', got {table.dtype} and {missing!r}; "
            "copy it to the host for other labels."
        )
    highest = device.get(table.max(axis=0)).astype(np.int64)
    has_missing = table.dtype.kind == "i" and int(device.get(table.min())) < 0
    n_clusters = np.maximum(highest + 1, 1)
    if int(n_clusters.max()) > _MOST:
        raise ValueError(f"labels on a GPU must be below {_MOST}, got {highest.max()}; recode them or use the host.")
    dtype = smallest_unsigned(int(n_clusters.max()) + has_missing)
    if table.dtype == dtype and table.flags.c_contiguous:
        return table, n_clusters
    codes = device.empty(table.shape, dtype)
    for j, k in enumerate(n_clusters):  # a column at a time: no second table of the input's width
        column = table[:, j].astype(np.int32)
        column[table[:, j] < 0] = k
        codes[:, j] = column.astype(dtype)
    return codes, n_clusters


def look_up(table: np.ndarray, items: Any) -> Any:
    """``table[items]``, computed on the GPU that holds `items`."""
    device = cuda_device.device_of(items)
    return device.take(device.put(table), items)


def beside(array: np.ndarray, items: Any) -> Any:
    """An array, copied to where `items` are: to their GPU, or to the blocks of a Dask array."""
    if is_on_gpu(items):
        device = cuda_device.device_of(items)
        return array if device.owns(array) else device.put(array)
    return items * 0 + array if hasattr(items, "dask") else array


def through_host(array: Any, check: Callable[[np.ndarray], Any], dtype: Any) -> Any:
    """What `check` gives for an array on a GPU, copied to the host for it; its result goes back as `dtype`."""
    device = cuda_device.device_of(array)
    checked = check(device.get(device.adopt(array)))
    return None if checked is None else device.put(checked.astype(dtype))


def known_rows(vocabulary: Vocabulary, X: Any) -> DeviceEnsemble | None:
    """`Vocabulary.ensemble_of` for rows on a GPU."""
    if not isinstance(X, DeviceEnsemble):
        device = cuda_device.device_of(X)
        X = device.adopt(X)
        if X.size and X.dtype.kind == "i" and int(device.get(X.max())) < 0:
            return None
        X = DeviceEnsemble(X, device=device)
    device, any_known = X.device, False
    codes = device.empty(X.codes.shape, smallest_unsigned(int(vocabulary.n_clusters.max()) + 1))
    for j, labels in enumerate(X.categories):
        lookup = vocabulary.lookup(j, labels)
        occurs = np.append(X.sizes[X.offsets[j] : X.offsets[j + 1]] > 0, X.has_missing)
        any_known = any_known or bool((lookup[occurs] < vocabulary.n_clusters[j]).any())
        codes[:, j] = device.take(device.put(lookup.astype(codes.dtype)), X.codes[:, j].astype(np.int32))
    if not any_known:
        return None
    names, categories = vocabulary.names, vocabulary.categories
    return DeviceEnsemble.from_codes(codes, vocabulary.n_clusters, device, names=names, categories=categories)


def no_labels(X: Any) -> Any:
    """−1 for every row of `X`, on its GPU."""
    device = X.device if isinstance(X, DeviceEnsemble) else cuda_device.device_of(X)
    labels = device.zeros(X.n_samples if isinstance(X, DeviceEnsemble) else X.shape[0], np.int32)
    labels.fill(-1)
    return labels
