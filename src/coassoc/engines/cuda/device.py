"""The GPU behind the CUDA engine: which kernel, which instance of it, which grid.

Each method named after a kernel chooses its instance and grid and launches it; only `get` and `moved` wait for the
GPU. Methods take the arguments of their kernel. Kernels are compiled at first use by
NVRTC, for the types and sizes needed, and cached by CuPy. CuPy is imported when a device is opened.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

_ALIGNED = 256
_COPIERS = 8  # threads that fill a page-locked buffer
_LARGE = 1 << 24  # arrays of at least so many bytes come from the pool of large ones
_STAGED = 1 << 26  # arrays of at least so many bytes are copied through page-locked buffers, in pieces
_STAGE = 1 << 25  # bytes of such a piece
_NAMES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_THREADS = 1024
_QUEUE_BYTES = (_THREADS // 32) * 160 * 4
_STATE_ROWS = 1 << 22  # rows scored at a time when a table needs several launches
_MAX_FIXED = 32  # longest row whose codes stay in registers
_MAX_SEEDS = 8  # candidate rows per seeding launch
SEED_ROWS, _COMPACT_ROWS = 8192, 4096  # rows of a block, as in the kernels
_MOST_CHANGES = 1 << 25  # bytes of a table of changes of the agreement: more do not stay in the cache

_MOVING = np.dtype(
    [("n", "i8"), ("p", "i4"), ("k", "i4"), ("bits", "i4"), ("least", "i8"), ("threshold", "f8"), ("unit", "f8")],
    align=True,
)  # fmt: skip
_i4, _i8 = np.int32, np.int64
_TARGETS = np.dtype([("at", "i8", (_MAX_SEEDS,))])
_STARTS = np.dtype([("at", "i4", (32,))])
_POINTERS = np.dtype([("at", "u8", (10,))])
_PASS = np.dtype(
    [("n", "i8"), ("p", "i4"), ("k", "i4"), ("rows", "i4"), ("tiles", "i4"), ("tile0", "i4"), ("bound", "u4"),
     ("narrow_shift", "i4"), ("exact_shift", "i4"), ("filter", "i4"), ("first_group", "i4"), ("last_group", "i4")],
    align=True,
)  # fmt: skip


@cache
def has_device() -> bool:
    """Whether CuPy is installed and the driver sees a GPU; does not import CuPy."""
    if find_spec("cupy") is None:
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@cache
def open_device(number: int) -> CupyDevice:
    if find_spec("cupy") is None:
        raise ImportError(
            "engine 'cuda' needs CuPy: pip install 'coassoc[gpu]' (CUDA 12) or 'coassoc[gpu13]' (CUDA 13)."
        )
    return CupyDevice(number)


def device_of(array: Any) -> CupyDevice:
    """The device that holds an array."""
    if hasattr(array, "__dlpack_device__"):
        return open_device(int(array.__dlpack_device__()[1]))
    return open_device(0)


@dataclass
class Job:
    """A pass: its tables on the GPU and how they are cut."""

    starts: Any
    fixed: np.ndarray
    narrow: Any  # (tiles, rows, width) uint32, two or four clusters a word
    exact: Any
    drift: Any
    settings: np.ndarray
    width: int  # words of a tile row
    in_bytes: bool  # four clusters a word
    tiles: int
    per_group: int  # tiles held in shared memory at once; 0: read from global memory
    count: int  # 0 none, 1 in shared memory, 2 straight to the counts
    fresh: bool
    shared: int
    n_moved: Any


class CupyDevice:
    """One GPU: allocation, copies of arrays in both directions, and kernels."""

    def __init__(self, number: int):
        import cupy

        self.cupy = cupy
        self.number = number
        self._device = cupy.cuda.Device(number)
        self._device.use()
        attributes = self._device.attributes
        self.n_blocks = int(attributes["MultiProcessorCount"])
        self.shared_limit = int(attributes["MaxSharedMemoryPerBlockOptin"])
        names = ("kernels.cu", "rows.cu", "moves.cu")
        self._source = "".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in names)
        self._kernels: dict[str, Any] = {}
        self._constants: dict[tuple, Any] = {}
        self._piece = np.empty(0, np.uint8)
        self.pools = (cupy.get_default_memory_pool(), cupy.cuda.MemoryPool())  # for small arrays, for large ones

    # -- memory --------------------------------------------------------------------------------------------

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

    # -- passes --------------------------------------------------------------------------------------------

    def assign_job(self, narrow, values, starts, bound, narrow_shift, exact_shift, drift, *, count, fresh, few) -> Job:
        """The tables of a pass on the GPU, cut to fit its memory. More than 8 parameters: those of the kernel."""
        rows, k = values.shape
        tiles = -(-k // 32)
        a_word = 4 // narrow.dtype.itemsize
        width = -(-k // (a_word * tiles))
        if k < tiles * a_word * width:
            narrow = np.pad(narrow, ((0, 0), (0, tiles * a_word * width - k)))
        packed = np.ascontiguousarray(narrow.reshape(rows, tiles, a_word * width).swapaxes(0, 1))
        tile_bytes = rows * (width | 1) * 4
        hist_bytes = (rows + 1) * k * 4
        available = self.shared_limit - _QUEUE_BYTES
        if hist_bytes + tiles * tile_bytes <= available:
            per_group, way, shared = tiles, 1, hist_bytes + tiles * tile_bytes
        else:
            per_group = min(tiles, available // tile_bytes)
            way, shared = (2 if few and not fresh else 0), per_group * tile_bytes
        way = way if count else 0
        settings = _struct(_PASS, p=len(starts), k=k, rows=rows, bound=bound, narrow_shift=narrow_shift)
        settings["exact_shift"], settings["filter"] = exact_shift, drift is not None
        fixed = _struct(_STARTS)
        fixed["at"][0, : min(32, len(starts))] = starts[:32]
        n_moved, narrow, exact, *rest = self.put_together(
            [np.zeros(1, np.uint64), packed.view(np.uint32), values] + ([] if drift is None else [drift])
        )
        return Job(
            self._constant(starts), fixed, narrow, exact, rest[0] if rest else None, settings, width, a_word == 4,
            tiles, per_group, way, fresh, shared + _QUEUE_BYTES, n_moved,
        )  # fmt: skip

    def assign_rows(self, job: Job, codes, labels, gaps, copies, alpha) -> None:
        settings = job.settings
        name = (
            f"assign_rows<{_type(codes)}, {_type(labels)}, {self._fixed_length(codes)}, {job.width}, "
            f"{_bool(job.in_bytes)}, {_bool(job.per_group > 0)}, {job.count}, {_bool(job.fresh)}>"
        )
        per_group = job.per_group or job.tiles
        step = max(len(codes), 1) if per_group >= job.tiles else _STATE_ROWS
        state = None if per_group >= job.tiles else self.empty(min(step, len(codes)), np.uint64)
        for start in range(0, len(codes), step):
            part = slice(start, min(start + step, len(codes)))
            for tile in range(0, job.tiles, per_group):
                settings["n"], settings["tile0"] = part.stop - part.start, tile
                settings["tiles"] = min(per_group, job.tiles - tile)
                settings["first_group"], settings["last_group"] = tile == 0, tile + per_group >= job.tiles
                rows_per_block = 128 * _THREADS // 32
                grid = min(self.n_blocks, -(-(part.stop - part.start) // rows_per_block))
                args = (
                    codes[part], settings, job.fixed, job.starts, job.narrow, job.exact, labels[part], gaps[part],
                    job.drift, None if copies is None else copies[part], alpha, state, job.n_moved,
                )  # fmt: skip
                self._launch(name, grid, _THREADS, args, job.shared)

    def moved(self, job: Job) -> int:
        return int(job.n_moved.get()[0])

    def count_rows(self, codes, starts, table_rows, labels, copies, alpha) -> None:
        k, there = alpha.shape[1], self._constant(starts)
        for first, last, shared in self._groups(np.append(starts.astype(np.int64), table_rows + 1) * k * 4):
            name = f"count_rows<{_type(codes)}, {_type(labels)}, {_bool(shared > 0)}>"
            parts = _i4(first), _i4(last), _i4(table_rows), _i4(k)
            self._run(name, len(codes), (*_rows(codes), *parts, there, labels, copies, alpha), shared)

    def own_scores(self, codes, labels, starts, table, scores) -> None:
        args = (*_rows(codes), _i4(table.shape[1]), self._constant(starts), table, labels, scores)
        self._run(f"own_scores<{_type(codes)}, {_type(labels)}>", len(codes), args)

    # -- exchange ------------------------------------------------------------------------------------------

    def propose_job(self, table, pad, starts, n_clusters) -> tuple:
        """The tables of a frozen state on the GPU."""
        numbers = {name: getattr(table, name) for name in ("bits", "least", "threshold", "unit")}
        settings = _struct(_MOVING, p=len(starts), k=len(table.sizes), **numbers)
        arrays = [starts, n_clusters.astype(np.uint32)]
        if table.kind == "density":
            tables = [pad(table.alpha), table.cells, table.sizes, table.steps, table.together, table.observed]
            starts, widths, *there = self.put_together([*arrays, *tables, table.values])
            return table.kind, settings, (starts, widths), there
        tables = [pad(table.alpha), table.cells, pad(table.enter), pad(table.leave), table.enter_cells]
        tables += [table.leave_cells, table.shared, table.entropy, table.double, table.values]
        starts, widths, sizes, *there = self.put_together([*arrays, table.sizes, *tables])
        pointers = _struct(_POINTERS, at=[array.data.ptr for array in there])
        rows, k, changes = len(tables[0]), len(table.sizes), None
        if rows * k * k * 8 <= _MOST_CHANGES:
            changes = self.empty(rows * k * k, np.float64)
            args = settings, starts, widths, pointers, _i8(rows), changes
            self._run("tabulate_agreement", len(changes), args, threads=256, blocks_per_unit=8)
        return table.kind, settings, (starts, widths), (sizes, pointers, _i8(rows), changes, there)

    def propose_rows(self, job, codes, labels, copies) -> tuple[Any, Any]:
        """Rows that gain by moving, in order, and where to."""
        kind, settings, arrays, tables = job
        settings["n"] = len(codes)
        targets = self.empty(len(codes), np.int32)
        if kind == "agreement":
            tables = tables[:-1]  # the arrays behind the pointers
        args = (codes, settings, *arrays, labels, copies, *tables, targets)
        name = f"propose_{kind}<{_type(codes)}, {_type(labels)}>"
        self._run(name, len(codes) * 32, args, threads=256, blocks_per_unit=8)
        rows = self.cupy.flatnonzero(targets >= 0)
        return rows, targets[rows]

    # -- seeding -------------------------------------------------------------------------------------------

    def seed_rows(self, codes, chosen, rule, distance, copies, sums, *, add: bool, first: bool | None = None) -> None:
        first = distance is None if first is None else first
        n, p = codes.shape
        if rule.in_bytes and codes.data.ptr % 4 == 0:
            staged = p <= 32 and codes.data.ptr % 16 == 0
            for at in range(0, len(chosen), _MAX_SEEDS):
                some = chosen[at : at + _MAX_SEEDS]
                flags = f"{p // 4}, {len(some)}, {_bool(rule.has_missing)}, {_bool(add)}, {_bool(first)}, "
                flags += f"{_bool(staged)}, {_bool(rule.low)}"
                packed = rule.pack(some)
                words = (codes, _i8(n), packed, distance, copies, sums[at:] if at else sums)
                self._run(f"seed_bytes<{flags}>", n, words, threads=256, per_block=SEED_ROWS, blocks_per_unit=8)
            return
        held = np.dtype(np.uint8) if distance is None else distance.dtype
        name = f"seed_any<{_type(codes)}, {_NAMES[held.itemsize]}, {_bool(add)}, {_bool(first)}>"
        weights, n_clusters = self._constant(rule.weights), self._constant(rule.n_clusters.astype(np.uint32))
        some = self.put(chosen.astype(codes.dtype)), _i4(len(chosen))
        args = (*_rows(codes), *some, weights, n_clusters, distance, copies, sums)
        self._run(name, n, args, threads=256, per_block=SEED_ROWS, blocks_per_unit=8)

    def sum_copies(self, copies) -> Any:
        sums = self.zeros(-(-len(copies) // SEED_ROWS), np.uint64)
        self._run("sum_copies", len(copies), (copies, _i8(len(copies)), sums), threads=256, per_block=SEED_ROWS)
        return sums

    def running(self, sums) -> Any:
        """Running sums, in place."""
        self._launch("run_sums", 1, _THREADS, (sums, _i8(len(sums))))
        return sums.view(np.int64)

    def locate_rows(self, running, targets, distance, copies, codes) -> Any:
        """Codes of the rows where the running sums exceed each target."""
        few, m, (n, p) = len(targets) <= _MAX_SEEDS, len(targets), codes.shape
        given = _struct(_TARGETS)
        if few:
            given["at"][0, :m] = targets
        held, located = "unsigned char" if distance is None else _type(distance), self.empty((m, p), codes.dtype)
        args = (
            running, _i8(len(running)), given, None if few else self.put(targets), _i8(n), distance, copies, codes,
            _i4(p), located,
        )  # fmt: skip
        self._launch(f"locate_rows<{held}, {_bool(distance is None)}, {_type(codes)}>", m, _THREADS, args)
        return located

    # -- subsets and overlaps ------------------------------------------------------------------------------

    def compact_ends(self, labels, cluster: int) -> Any:
        blocks = max(1, -(-len(labels) // _COMPACT_ROWS))
        counts = self.zeros(blocks, np.int64)
        args = (labels, _i8(len(labels)), np.uint32(cluster), counts)
        self._launch(f"compact_counts<{_type(labels)}>", blocks, 256, args)
        return self.cupy.cumsum(counts)

    def compact_rows(self, codes, labels, cluster, ends, ids, copies, out_codes, out_ids, out_copies) -> None:
        """Gather the rows of a cluster. More than 8 parameters: those of the kernel."""
        args = (*_rows(codes), labels, np.uint32(cluster), ends, ids, copies, out_codes, out_ids, out_copies)
        self._launch(f"compact_rows<{_type(codes)}, {_type(labels)}>", len(ends), _THREADS, args)

    def scatter_labels(self, ids, first: int, own, labels) -> None:
        """Give the rows `ids` the label `first`, plus their own one where there is one."""
        name = f"scatter_labels<{_type(labels if own is None else own)}, {_type(labels)}>"
        self._run(name, len(ids), (ids, _i8(len(ids)), _i4(first), own, labels), threads=256)

    def map_labels(self, labels, numbers: np.ndarray, out) -> None:
        """``out = numbers[labels]``, with `numbers` of the type of `out`."""
        args = (labels, _i8(len(labels)), self.put(numbers), out)
        self._run(f"map_labels<{_type(labels)}, {_type(out)}>", len(labels), args, threads=256, blocks_per_unit=8)

    def mark_unlabelled(self, codes, n_clusters, copies) -> int:
        """How many rows no partition labels; those are set to 0 in `copies`."""
        unlabelled = self.zeros(1, np.uint64)
        args = (*_rows(codes), self.put(n_clusters.astype(np.uint32)), copies, unlabelled)
        self._run(f"mark_unlabelled<{_type(codes)}>", len(codes), args, threads=256)
        return int(unlabelled.get()[0])

    def overlap_rows(self, codes, pairs, n_cells, factor, flat) -> None:
        """Add `factor` of every row (None: 1), of the type of `flat`, to the cells of its pairs of labels."""
        cells = np.append(pairs[:, 3], n_cells)
        for first, last, shared in self._groups(cells * flat.dtype.itemsize):
            some = self.put(pairs[first:last].astype(np.uint32)), _i4(last - first)
            span = np.uint32(cells[first]), np.uint32(cells[last] - cells[first])
            args = (*_rows(codes), *some, *span, factor, flat)
            self._run(f"overlap_rows<{_type(codes)}, {_type(flat)}, {_bool(shared > 0)}>", len(codes), args, shared)

    def _groups(self, ends: np.ndarray) -> Iterator[tuple[int, int, int]]:
        """Neighbouring parts that fit a block's shared memory together, and their bytes; 0 where a part does not."""
        first = 0
        while first < len(ends) - 1:
            last = first + 1
            while last < len(ends) - 1 and ends[last + 1] - ends[first] <= self.shared_limit:
                last += 1
            n_bytes = int(ends[last] - ends[first])
            yield first, last, n_bytes if n_bytes <= self.shared_limit else 0
            first = last

    def row_shares(self, codes, starts, shares, units, copies) -> Any:
        """What each row counts by `shares` (uint64); `units` are padded."""
        out, there = self.empty(len(codes), np.uint64), self.put(units.astype(np.uint64))
        rule = self._constant(starts), there, _i4(shares.bits), np.uint64(shares.most)
        args = (*_rows(codes), *rule, copies, out)
        self._run(f"row_shares<{_type(codes)}>", len(codes), args, threads=256, blocks_per_unit=8)
        return out

    def count_codes(self, codes, n_clusters) -> np.ndarray:
        """How often each code occurs, missing ones included, partition after partition."""
        starts = np.concatenate([[0], np.cumsum(n_clusters + 1)]).astype(np.int32)
        cells, bad = int(starts[-1]), self.zeros(1, np.uint32)
        counts, fits = self.zeros(cells, np.uint32), cells * 4 <= self.shared_limit
        tables = self.put(starts), self.put(n_clusters.astype(np.uint32))
        args = (*_rows(codes), *tables, _i4(cells), counts, bad)
        self._run(f"count_codes<{_type(codes)}, {_bool(fits)}>", len(codes), args, cells * 4 if fits else 0)
        j = int(bad.get()[0]) - 1
        if j >= 0:
            raise ValueError(
                f"codes of partition {j} must be at most n_clusters[{j}] = {n_clusters[j]} (that value marks a "
                "missing label), got a larger one."
            )
        return counts.get()

    def _constant(self, array: np.ndarray) -> Any:
        """A small array on the GPU, copied there once."""
        key = (array.dtype.str, array.tobytes())
        if key not in self._constants:
            if len(self._constants) > 64:
                self._constants.clear()
            self._constants[key] = self.put(array)
        return self._constants[key]

    # -- launching -----------------------------------------------------------------------------------------

    def _fixed_length(self, codes: Any) -> int:
        words = codes.shape[1] * codes.dtype.itemsize
        whole = words % 4 == 0 and codes.data.ptr % 4 == 0
        return codes.shape[1] if whole and codes.shape[1] <= _MAX_FIXED else 0

    def _run(self, name, n, args, shared=0, *, threads=_THREADS, per_block=0, blocks_per_unit=2) -> None:
        if n:
            grid = min(-(-n // (per_block or threads)), self.n_blocks * blocks_per_unit)
            self._launch(name, grid, threads, args, shared)

    def _launch(self, name: str, grid: int, threads: int, args: tuple, shared: int = 0) -> None:
        """Run a kernel, compiled at first use; None among its arguments is a null pointer."""
        self._device.use()
        kernel = self._kernels.get(name)
        if kernel is None:
            module = self.cupy.RawModule(
                code=self._source, options=("--std=c++17", "--fmad=false"), name_expressions=(name,)
            )
            kernel = self._kernels[name] = module.get_function(name)
        if shared > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel((grid,), (threads,), tuple(np.uint64(0) if a is None else a for a in args), shared_mem=shared)


def _struct(dtype: np.dtype, **values: Any) -> np.ndarray:
    """A structure for a kernel, zero where no value is given."""
    struct = np.zeros(1, dtype)
    for name, value in values.items():
        struct[name] = value
    return struct


def _rows(codes: Any) -> tuple:
    """The arguments with which most kernels begin."""
    return codes, _i8(len(codes)), _i4(codes.shape[1])


def _type(array: Any) -> str:
    return _NAMES[array.dtype.itemsize]


def _bool(flag: bool) -> str:
    return "true" if flag else "false"
