"""The CUDA kernels in plain NumPy, so that tests can run the host side of the engine without a GPU.

Methods carry the names and arguments of `CupyDevice`'s. They follow the kernels step by step, the 16-bit scores, the
gap bytes and the sums modulo 2**32 included, so that a wrong bound or a wrong difference shows here too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from coassoc.core.counts import Layout
from coassoc.core.moves import propose_chunk

_SEED_ROWS, _COMPACT_ROWS = 8192, 4096


class OnDevice(np.ndarray):
    """An array that counts as one on a device."""

    def get(self) -> np.ndarray:
        return np.array(self)


class NumpyDevice:
    """Twin of a GPU with `memory` bytes; `keep_counts=False` acts like a table too large for incremental counts."""

    def __init__(self, memory: int = 1 << 34, keep_counts: bool = True):
        self.number = 0
        self.memory = memory
        self.keep_counts = keep_counts
        self.jobs: list[SimpleNamespace] = []

    # -- memory --------------------------------------------------------------------------------------------

    def owns(self, array: Any) -> bool:
        return isinstance(array, OnDevice)

    def adopt(self, array: Any) -> Any:
        return array if self.owns(array) else np.asarray(array).view(OnDevice)

    def free_bytes(self) -> int:
        return self.memory

    def empty(self, shape: Any, dtype: Any) -> Any:
        if int(np.prod(shape)) * np.dtype(dtype).itemsize > self.memory:
            raise MemoryError("out of memory")
        return np.full(shape, 77, dtype).view(OnDevice)  # poison: what is read must have been written

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype).view(OnDevice)

    def put(self, array: np.ndarray) -> Any:
        return np.array(array).view(OnDevice)

    def get(self, array: Any) -> np.ndarray:
        return np.array(array)

    def contiguous(self, array: Any) -> Any:
        return np.ascontiguousarray(array).view(OnDevice)

    def take(self, codes: Any, indices: Any) -> Any:
        return codes[np.asarray(indices)]

    # -- passes --------------------------------------------------------------------------------------------

    def assign_job(self, narrow, values, starts, bound, narrow_shift, exact_shift, drift, *, count, fresh, few) -> Any:
        keep = count and (self.keep_counts or (few and not fresh))
        tables = {"narrow": narrow, "exact": values, "starts": starts, "drift": drift, "bound": bound}
        tables |= {"narrow_shift": narrow_shift, "exact_shift": exact_shift}
        job = SimpleNamespace(**tables, count=keep, fresh=fresh, n_moved=0, n_scored=0, n_redone=0)
        self.jobs.append(job)
        return job

    def assign_rows(self, job, codes, labels, gaps, copies, alpha) -> None:
        active = np.ones(len(codes), dtype=bool)
        if job.drift is not None:
            shift = job.drift[labels].view(np.ndarray)
            active = (gaps <= shift).view(np.ndarray)
            gaps[~active] -= shift[~active]
        columns = codes[active] + job.starts
        sums = job.narrow[columns].astype(np.int64).sum(axis=1)
        assert sums.max(initial=0) <= 0xFFFF, "narrow sums carry"
        new, gap = _best(sums)
        unsure = (gap <= job.bound) & (job.bound > 0)
        step = gap - job.bound
        step = step >> job.narrow_shift if job.narrow_shift >= 0 else step << -job.narrow_shift
        exact, exact_gap = _best(job.exact[columns[unsure]].astype(np.int64).sum(axis=1))
        new[unsure], step[unsure] = exact, exact_gap >> job.exact_shift
        job.n_scored += len(columns)
        job.n_redone += int(unsure.sum())
        old = labels[active].astype(np.int64)
        moved = np.ones(len(new), dtype=bool) if job.fresh else np.asarray(new != old)
        gaps[active] = np.minimum(step, 255)
        labels[active] = new
        job.n_moved += int(moved.sum())
        if job.count:
            weight = _weights(copies, len(codes))[active][moved]
            lines = np.column_stack([columns, np.full(len(columns), len(job.exact))])[moved]
            np.add.at(alpha, (lines, new[moved, None]), weight[:, None])
            if not job.fresh:
                np.subtract.at(alpha, (lines, old[moved, None]), weight[:, None])

    def moved(self, job) -> int:
        return job.n_moved

    def count_rows(self, codes, starts, table_rows, labels, copies, alpha) -> None:
        lines = np.column_stack([codes + starts, np.full(len(codes), table_rows)])
        np.add.at(alpha, (lines, labels.astype(np.int64)[:, None]), _weights(copies, len(codes))[:, None])

    def own_scores(self, codes, labels, starts, table, scores) -> None:
        scores[:] = table[codes + starts, labels.astype(np.int64)[:, None]].astype(np.int64).sum(axis=1)

    # -- exchange ------------------------------------------------------------------------------------------

    def propose_job(self, table, pad, starts, n_clusters) -> tuple:
        offsets = np.concatenate([[0], np.cumsum(n_clusters)]).astype(np.int64)
        assert pad(table.alpha).shape == (int(starts[-1]) + int(n_clusters[-1]) + 1, len(table.sizes))
        return table, Layout(n_clusters, offsets)

    def propose_rows(self, job, codes, labels, copies) -> tuple[Any, Any]:
        table, layout = job
        m = None if copies is None else np.asarray(copies).astype(np.int64)
        target = propose_chunk(np.asarray(codes), np.asarray(labels).astype(np.int64), m, table, layout)
        rows = np.flatnonzero(target >= 0)
        return rows.view(OnDevice), target[rows].view(OnDevice)

    # -- seeding -------------------------------------------------------------------------------------------

    def seed_rows(self, codes, chosen, rule, distance, copies, sums, *, add: bool, first: bool | None = None) -> None:
        weights, n_clusters = rule.weights, rule.n_clusters
        first = distance is None if first is None else first
        for c, row in enumerate(chosen):
            cost = np.where((codes < n_clusters) == (row < n_clusters), weights, weights // 64).astype(np.int64)
            apart = np.asarray(((codes != row) * cost).sum(axis=1))
            nearer = apart if first else np.minimum(distance, apart)
            terms = np.asarray(nearer).astype(np.uint64) * _weights(copies, len(codes)).astype(np.uint64)
            if add:
                distance[:] = nearer
                if len(codes):
                    block = np.add.reduceat(terms, np.arange(0, len(codes), _SEED_ROWS))
                    sums[: len(block)] = block
            else:
                sums[c] += terms.sum()

    def sum_copies(self, copies) -> Any:
        return np.add.reduceat(copies.astype(np.uint64), np.arange(0, len(copies), _SEED_ROWS))

    def running(self, sums) -> Any:
        sums[:] = np.cumsum(sums)
        return sums.view(np.int64)

    def locate_rows(self, running, targets, distance, copies, codes) -> Any:
        terms = _weights(copies, len(codes)).astype(np.int64) * (1 if distance is None else distance.astype(np.int64))
        rows = []
        for target in targets:
            block = int(np.searchsorted(running, target, side="right"))
            rest = target - (running[block - 1] if block else 0)
            inside = np.cumsum(terms[block * _SEED_ROWS : (block + 1) * _SEED_ROWS])
            rows.append(block * _SEED_ROWS + int(np.searchsorted(inside, rest, side="right")))
        return codes[np.array(rows)]

    # -- subsets and overlaps ------------------------------------------------------------------------------

    def compact_ends(self, labels, cluster: int) -> Any:
        starts = np.arange(0, max(len(labels), 1), _COMPACT_ROWS)
        return np.cumsum([np.count_nonzero(labels[a : a + _COMPACT_ROWS] == cluster) for a in starts])

    def compact_rows(self, codes, labels, cluster, ends, ids, copies, out_codes, out_ids, out_copies) -> None:
        rows = np.flatnonzero(labels == cluster)
        assert len(rows) == ends[-1] == len(out_ids)
        out_codes[:] = codes[rows]
        out_ids[:] = rows if ids is None else ids[rows]
        if copies is not None:
            out_copies[:] = copies[rows]

    def scatter_labels(self, ids, first: int, own, labels) -> None:
        labels[ids] = first if own is None else first + own.astype(np.int64)

    def map_labels(self, labels, numbers, out) -> None:
        assert numbers.dtype == out.dtype
        out[:] = numbers[labels]

    def mark_unlabelled(self, codes, n_clusters, copies) -> int:
        rows = np.flatnonzero(~(codes < n_clusters).any(axis=1))
        if copies is not None:
            copies[rows] = 0
        return len(rows)

    def overlap_rows(self, codes, pairs, n_cells, factor, flat) -> None:
        assert factor is None or factor.dtype == flat.dtype
        weights = np.ones(len(codes), flat.dtype) if factor is None else factor
        for j, g, width, at in pairs:
            np.add.at(flat, at + codes[:, j].astype(np.int64) * width + codes[:, g], weights)

    def row_shares(self, codes, starts, shares, units, copies) -> Any:
        sums = sum(units[first + codes[:, j].astype(np.int64)] for j, first in enumerate(starts)).tolist()
        share = [min((1 << shares.bits) // s, shares.most) if s else 0 for s in sums]
        return np.array(share, np.uint64) * (np.uint64(1) if copies is None else copies.astype(np.uint64))

    def count_codes(self, codes, n_clusters) -> np.ndarray:
        for j, k in enumerate(n_clusters):
            if codes[:, j].max() > k:
                raise ValueError(
                    f"codes of partition {j} must be at most n_clusters[{j}] = {k} (that value marks a "
                    "missing label), got a larger one."
                )
        return np.concatenate([np.bincount(codes[:, j], minlength=k + 1) for j, k in enumerate(n_clusters)])


def _best(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column of the largest score, lowest on ties, and its lead over the second."""
    if scores.shape[1] == 1:
        return np.zeros(len(scores), np.int64), np.full(len(scores), 1 << 31)
    label = scores.argmax(axis=1)
    two = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:]
    return label, two[:, 1] - two[:, 0]


def _weights(copies: Any, n: int) -> np.ndarray:
    return np.ones(n, np.uint32) if copies is None else np.asarray(copies)
