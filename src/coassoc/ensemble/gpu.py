"""Ensembles of label tables that are in the memory of a GPU; nothing is copied to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.counts import smallest_unsigned
from ..engines.cuda import device as cuda_device
from ..engines.cuda.engine import Cuda
from .ensemble import Ensemble, add_kind, is_on_gpu


class DeviceEnsemble(Ensemble):
    """An ensemble whose codes are on a GPU: what `Ensemble(table)` gives for a table of integers on a GPU.

    Negative labels are missing. An unsigned C-ordered table in the smallest type that holds its labels is used as it
    is. Labels of a partition may have gaps: a number that does not occur is an empty cluster.

    Parameters
    ----------
    table : CuPy array, or any object with ``__cuda_array_interface__`` or DLPack, of shape (n_samples, n_partitions)
        Integer labels.
    missing : {"negative"}, default="negative"
        What a missing label is; for the other rules copy the table to the host.
    device : object, default=None
        The CUDA device; that of `table` when None.
    """

    device: Any

    def __init__(self, table: Any, *, missing: str = "negative", device: Any = None):
        if isinstance(table, DeviceEnsemble):
            self.__dict__.update(table.__dict__)
            return
        self.__dict__.update(_coded(table, missing, device or cuda_device.device_of(table)).__dict__)

    @classmethod
    def from_codes(cls, codes: Any, n_clusters: Any, **settings: Any) -> DeviceEnsemble:
        """Ensemble over codes on a GPU, without a copy."""
        return ensemble_from_device(codes, n_clusters, **settings)

    def unlabelled(self) -> Any:
        """Indices (on the GPU) of the items that no partition labels, or None when there are none."""
        if not self.has_missing or not self.device.mark_unlabelled(self.codes, self.n_clusters, None):
            return None
        copies = self.device.zeros(self.n_samples, np.uint32)
        copies.fill(1)
        self.device.mark_unlabelled(self.codes, self.n_clusters, copies)
        return (copies == 0).nonzero()[0]

    def preferred_engine(self) -> Any:
        """The engine for the GPU that holds the codes."""
        return Cuda(device=self.device.number)

    def to_host(self) -> Ensemble:
        """The same ensemble with its codes in the host's memory, for other engines and reports."""
        host: Ensemble = object.__new__(Ensemble)  # the codes were validated and counted on the GPU
        sizes = np.split(self.sizes, self.offsets[1:-1])
        host._store(self.device.get(self.codes), self.n_clusters, sizes, self.names, self.categories)
        return host


def ensemble_from_device(
    codes: Any,
    n_clusters: Any,
    device: Any = None,
    *,
    names: Sequence[str] | None = None,
    categories: list[np.ndarray] | None = None,
) -> DeviceEnsemble:
    """Ensemble over codes on a GPU, without a copy; what `Ensemble.from_codes` calls for such codes.

    Parameters
    ----------
    codes : CuPy array, or any object with ``__cuda_array_interface__`` or DLPack, of shape (n_samples, n_partitions)
        uint8, uint16 or uint32; ``0..n_clusters[j]-1`` are clusters, ``n_clusters[j]`` is a missing label.
    n_clusters : array-like of shape (n_partitions,)
        Clusters in each partition.
    device : object, default=None
        The CUDA device; that of `codes` when None.
    names, categories : list, optional
        Names of partitions; original labels behind the codes.
    """
    device = device or cuda_device.device_of(codes)
    self: DeviceEnsemble = object.__new__(DeviceEnsemble)
    self.device = device

    def count(codes: Any, n_clusters: np.ndarray) -> list[np.ndarray]:
        return np.split(device.count_codes(codes, n_clusters), np.cumsum(n_clusters + 1)[:-1])

    self._store_codes(device.adopt(codes), n_clusters, names, categories, count)
    return self


def _coded(table: Any, missing: str, device: Any) -> DeviceEnsemble:
    """The ensemble of a table of labels, coded on the GPU."""
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
    if int(n_clusters.max()) > 1 << 22:
        raise ValueError(
            f"labels on a GPU must be below {1 << 22}, got {int(highest.max())}; recode them, or copy to the host."
        )
    dtype = smallest_unsigned(int(n_clusters.max()) + has_missing)
    if table.dtype == dtype and table.flags.c_contiguous:
        return ensemble_from_device(table, n_clusters, device)
    codes = device.empty(table.shape, dtype)
    for j, k in enumerate(n_clusters):  # a column at a time: no second table of the input's width
        column = table[:, j].astype(np.int32)
        column[table[:, j] < 0] = k
        codes[:, j] = column.astype(dtype)
    return ensemble_from_device(codes, n_clusters, device)


def look_up(table: np.ndarray, items: Any) -> Any:
    """``table[items]``, computed on the GPU that holds `items`."""
    device = cuda_device.device_of(items)
    return device.take(device.put(table), items)


add_kind(is_on_gpu, DeviceEnsemble)
