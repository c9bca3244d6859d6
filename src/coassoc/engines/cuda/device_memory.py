"""Memory of a GPU: allocation, and copies of arrays in both directions.

The only module that imports CuPy, and only when a device is opened.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_ALIGNED = 256
_COPIERS = 8  # threads that fill a page-locked buffer
_LARGE = 1 << 24  # arrays of at least so many bytes come from the pool of large ones
_STAGED = 1 << 26  # arrays of at least so many bytes are copied through page-locked buffers, in pieces
_STAGE = 1 << 25  # bytes of such a piece


class DeviceMemory:
    def __init__(self, number: int):
        import cupy

        self.cupy = cupy
        self.number = number
        self._device = cupy.cuda.Device(number)
        self._device.use()
        self._piece = np.empty(0, np.uint8)
        self.pools = (cupy.get_default_memory_pool(), cupy.cuda.MemoryPool())  # for small arrays, for large ones

    def owns(self, array: Any) -> bool:
        return isinstance(array, self.cupy.ndarray)

    def adopt(self, array: Any) -> Any:
        """A CuPy view of any array on a GPU."""
        if self.owns(array):
            return array
        if hasattr(array, "__cuda_array_interface__"):
            return self.cupy.asarray(array)
        return self.cupy.from_dlpack(array)

    def free_bytes(self) -> int:
        return int(self._device.mem_info[0]) + sum(int(pool.free_bytes()) for pool in self.pools)

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self._allocate(self.cupy.empty, shape, dtype)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return self._allocate(self.cupy.zeros, shape, dtype)

    def _allocate(self, make: Any, shape: Any, dtype: Any) -> Any:
        self._device.use()
        # small arrays must not split blocks that the next labelling needs whole
        large = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize >= _LARGE
        refused = self.cupy.cuda.memory.OutOfMemoryError
        with self.cupy.cuda.using_allocator(self.pools[large].malloc):
            try:
                return make(shape, dtype=dtype)
            except refused:
                for pool in self.pools:
                    pool.free_all_blocks()
            try:
                return make(shape, dtype=dtype)
            except refused as error:
                raise MemoryError(str(error)) from error

    def put(self, array: np.ndarray) -> Any:
        out, array = self.empty(array.shape, array.dtype), np.ascontiguousarray(array)
        if array.nbytes >= _STAGED:
            self._send(array.reshape(-1).view(np.uint8), out)
        elif array.size:
            out.set(array)
        return out

    def _send(self, source: np.ndarray, out: Any) -> None:
        """Copy bytes to the GPU through two page-locked buffers: several threads fill one while the other is sent.

        A plain copy from pages that are not locked uses one thread of the driver and takes several times as long.
        """
        cuda = self.cupy.cuda
        held = [cuda.alloc_pinned_memory(_STAGE) for _ in range(2)]
        stage = [np.frombuffer(h, np.uint8, _STAGE) for h in held]
        crossed = [cuda.Event(disable_timing=True) for _ in range(2)]
        copier = cuda.Stream(non_blocking=True)
        # `out` may be memory that queued kernels still use
        copier.wait_event(cuda.get_current_stream().record(cuda.Event(disable_timing=True)))
        try:
            with ThreadPoolExecutor(_COPIERS) as pool:
                for i, start in enumerate(range(0, len(source), _STAGE)):
                    b, piece = i % 2, source[start : start + _STAGE]
                    if i >= 2:
                        crossed[b].synchronize()  # the host's buffer is free again
                    parts = np.array_split(stage[b][: len(piece)], _COPIERS), np.array_split(piece, _COPIERS)
                    list(pool.map(np.copyto, *parts))
                    (out.data + start).copy_from_host_async(ctypes.c_void_p(stage[b].ctypes.data), len(piece), copier)
                    crossed[b].record(copier)
        finally:  # the buffers must not be freed while a copy reads them
            copier.synchronize()

    def put_together(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        """Small arrays sent to the GPU in one copy, since the latency of a copy exceeds its transfer time."""
        ends = np.cumsum([-(-array.nbytes // _ALIGNED) * _ALIGNED for array in arrays]).tolist()
        if len(self._piece) < ends[-1]:  # reused: new pages take longer than the copy
            self._piece = np.empty(ends[-1], np.uint8)
        piece, starts = self._piece[: ends[-1]], [0, *ends[:-1]]
        for array, start in zip(arrays, starts):
            piece[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        there = self.put(piece)
        return [
            there[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            for array, start in zip(arrays, starts)
        ]

    def get(self, array: Any) -> np.ndarray:
        return self.cupy.asnumpy(array) if self.owns(array) else np.asarray(array)

    def contiguous(self, array: Any) -> Any:
        return self.cupy.ascontiguousarray(array)

    def take(self, codes: Any, indices: Any) -> Any:
        return codes[self.cupy.asarray(indices)]
