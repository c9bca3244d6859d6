"""Memory of a GPU: copies of arrays in both directions, and pieces of host codes copied while kernels run.

The only module that imports CuPy, and only when a device is opened.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
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

    def held_bytes(self) -> int:
        """GPU memory held by this process, including blocks kept for reuse."""
        return sum(int(pool.total_bytes()) for pool in self.pools)

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
                    _copy_with_threads(piece, stage[b][: len(piece)], pool)
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

    def joined(self, parts: Sequence[Any]) -> Any:
        return self.cupy.concatenate(parts)

    def pin(self, codes: np.ndarray, keeper: Any) -> bool:
        """Lock the pages of host codes while `keeper` lives, so that copies need no buffer; whether it worked."""
        if isinstance(codes, np.memmap) or not codes.flags.c_contiguous:
            return False
        runtime, address = self.cupy.cuda.runtime, codes.ctypes.data
        try:
            runtime.hostRegister(address, codes.nbytes, 0)
        except runtime.CUDARuntimeError:
            return False  # pages of a file, or locked already: copies then go through a buffer
        weakref.finalize(keeper, _unpin, runtime, address, codes)
        return True

    def stream(self, codes: np.ndarray, parts: list[slice], pinned: bool) -> Iterator[tuple[slice, Any]]:
        """Pieces of host codes on the GPU, in two buffers, so that copies run while kernels work."""
        cuda, step = self.cupy.cuda, parts[0].stop - parts[0].start
        shape = (step, codes.shape[1])
        row_bytes = codes.shape[1] * codes.dtype.itemsize
        held = [] if pinned else [cuda.alloc_pinned_memory(step * row_bytes) for _ in range(2)]
        locked = [np.frombuffer(h, codes.dtype, step * codes.shape[1]).reshape(shape) for h in held]
        buffers = [self.empty(shape, codes.dtype) for _ in range(2)]
        copied, used = ([cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2))
        main, copier = cuda.get_current_stream(), cuda.Stream(non_blocking=True)
        # the buffers may be memory that queued kernels still use
        copier.wait_event(main.record(cuda.Event(disable_timing=True)))

        def send(i: int) -> None:
            part, b = parts[i], i % 2
            source = codes[part]
            if i >= 2:
                copied[b].synchronize()  # the host's buffer is free again
                copier.wait_event(used[b])
            if not pinned:
                with ThreadPoolExecutor(_COPIERS) as pool:
                    source = _copy_with_threads(source, locked[b][: len(source)], pool)
            address = ctypes.c_void_p(source.ctypes.data)
            buffers[b].data.copy_from_host_async(address, len(source) * row_bytes, copier)
            copied[b].record(copier)

        try:
            send(0)
            for i, part in enumerate(parts):
                main.wait_event(copied[i % 2])
                yield part, buffers[i % 2][: part.stop - part.start]
                used[i % 2].record(main)
                if i + 1 < len(parts):
                    send(i + 1)
        finally:  # buffers are freed when no copy or kernel uses them, even if the caller stopped early
            copier.synchronize()
            main.synchronize()


def _unpin(runtime: Any, address: int, codes: np.ndarray) -> None:
    runtime.hostUnregister(address)
    del codes  # referenced until now, so that the address stayed valid


def _copy_with_threads(source: np.ndarray, into: np.ndarray, pool: ThreadPoolExecutor) -> np.ndarray:
    """Copy with several threads: one cannot read memory as fast as the bus to the GPU."""
    edges = np.linspace(0, len(source), _COPIERS + 1).astype(int)
    list(pool.map(lambda a, b: np.copyto(into[a:b], source[a:b]), edges[:-1], edges[1:]))
    return into
