"""The verbs on one GPU, which holds rows, labels and gaps; tables, counts, scalars and proposed moves are copied.

This module is the host side and contains no CUDA. It works through a small device object, `CupyDevice` on a GPU and
`NumpyDevice` in tests, whose methods have the names of the kernels. Labels are those of `Numpy`, bit for bit:

- Scores are first summed from a table rounded to 8 or 16 bits. The gap between best and second is compared with a
  bound on the summed rounding, and rows it cannot decide are scored again with the int32 table.
- Each row keeps one byte, a lower bound of that gap. A new table can lower the gap of a row of cluster a by at
  most Σ_j max_{f∈j} max_c (Δ_fc − Δ_fa), Δ the change of the table; rows whose byte exceeds it are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.counts import Counts, Layout, RowShares, ScoreTable, check_total_copies, smallest_unsigned
from ...core.moves import Moves, MoveTable
from ...core.objectives import ONE_SIDED
from ..contract import Engine, Labelling, Loadable, Rows, Seeding
from .device import SEED_ROWS, open_device

_GAP_BITS = 21  # a gap byte counts steps of 2**21 / 2**bits of the first table
_BYTES_LEAD = 4.0  # the byte table is used when gaps are at least this many times its error bound
_SPARE_BYTES = 1 << 28  # tables, counts, sums and scratch: the constant of the memory formula
_PROPOSE_ROWS = 1 << 21  # rows examined in one launch of `propose_rows`
_SCORED_ROWS = 1 << 22  # rows whose scores are in memory at once in `map_scores`
_SHARE_ROWS = 1 << 26  # rows whose shares in a weighted overlap are in memory at once
_MAX_CLUSTERS = 65_535
CUDA_PAYS = 1_000_000  # items from which a GPU is faster, copy included; on an H200 beside 16 cores, see docs/gpu.md


class Cuda(Engine):
    """Engine on one NVIDIA GPU, through CuPy.

    Needs the extra ``coassoc[gpu]`` (CUDA 12) or ``coassoc[gpu13]`` (CUDA 13). Ensembles built over CuPy arrays, or
    other arrays on the GPU, are used in place; labels are returned in the memory that holds the codes.

    Parameters
    ----------
    device : int, default=0
        Number of the GPU.

    Notes
    -----
    Device memory: the codes, 2 to 6 bytes per item and 256 MiB; 4 more bytes per item when items have multiplicities
    or no label at all. Bisecting copies the codes of a node's halves. The page on GPUs has the formula.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.engines.Cuda(device=1)
    Cuda(device=1)
    """

    name = "cuda"
    skip: bool | None = None  # leave rows out of a pass whose label provably stays; None: where that is faster

    def __init__(self, device: int = 0):
        self.device = int(device)

    def open(self) -> Any:
        """The device object the rows work with."""
        return open_device(self.device)

    def load(self, ensemble: Loadable, multiplicity: Any = None) -> CudaRows:
        device = self.open()
        codes, on_host = ensemble.codes, not device.owns(ensemble.codes)
        if on_host:
            if not self.fits(codes):
                raise MemoryError(_memory_message(codes, device.free_bytes()))
            codes = device.put(np.ascontiguousarray(codes))
        elif not codes.flags.c_contiguous:
            codes = device.contiguous(codes)
        copies, n_copies = _copies_on_device(device, ensemble, multiplicity)
        shared = self, device, Layout.of(ensemble), ensemble.has_missing, on_host
        return CudaRows(shared, codes, copies, n_copies)

    def fits(self, codes: np.ndarray) -> bool:
        """Whether codes of the host, and what a fit keeps for each item, fit in the free memory of the GPU."""
        return _bytes_needed(codes) <= self.open().free_bytes()


class CudaLabelling(Labelling):
    """Labels on the GPU, with the counts and gap bounds that save work in the next pass."""

    def __init__(self, n_clusters: int, labels: Any, alpha: Any, fresh: bool):
        super().__init__(n_clusters, labels)
        self.gaps: Any = None  # a byte per row from the first pass on
        self.alpha = alpha  # (table rows + 1, k) uint32; the last row holds sizes
        self.counted = False  # whether alpha holds the counts of labels
        self.fresh = fresh  # no labels yet
        self.moved = len(labels)  # rows that moved in the last pass
        self.table: ScoreTable | None = None  # the table whose gaps `gaps` bounds
        self.unit = 0  # a gap byte counts steps of 2**unit
        self.drifted = np.zeros(n_clusters)  # Σ of drifts since the first pass, per cluster, in steps

    def relabelled(self) -> None:
        """Labels were changed outside a pass: counts and gaps are out of date."""
        self.counted, self.table = False, None


class CudaRows(Rows):
    def __init__(self, shared: tuple, codes: Any, copies: Any, n_copies: int, ids: Any = None):
        self.shared = shared  # with the subsets that these rows are split into
        self.engine, self.device, self.layout, self.has_missing, self.on_host = shared  # on_host: where results go
        layout = self.layout
        self.codes = codes
        self.copies = copies  # uint32 on the GPU; None: one each
        self.n_copies = n_copies
        # bounds take the host about 10 ns per table entry, scores take an H200 0.1 ps per row, partition and cluster
        enough = len(codes) * layout.n_partitions > 100_000 * layout.n_codes
        self.skipping = enough if self.engine.skip is None else self.engine.skip
        self.ids = ids  # uint32 row numbers in the rows first loaded; None: the same
        self.n_rows = len(codes)
        self.starts = layout.padded_starts.astype(np.int32)
        self.table_rows = layout.n_codes + layout.n_partitions

    # -- passes --------------------------------------------------------------------------------------------

    def labelling(self, k: int, labels: Any = None) -> CudaLabelling:
        dtype = _label_type(k)
        if labels is None:
            return self._labelling(k, self._empty(self.n_rows, dtype), fresh=True)
        if self.device.owns(labels):
            return self._labelling(k, labels.astype(dtype))
        return self._labelling(k, self.device.put(np.asarray(labels).astype(dtype)))

    def _labelling(self, k: int, labels: Any, fresh: bool = False) -> CudaLabelling:
        return CudaLabelling(k, labels, self.device.zeros((self.table_rows + 1, k), np.uint32), fresh)

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        if labelling.gaps is None:
            labelling.gaps = self._empty(self.n_rows, np.uint8)
        drift = self._drift(labelling, table) if self.skipping else None
        narrow, bound, shift = self._narrow(labelling, table, drift)
        if drift is None:  # new bounds, on the scale of this table
            labelling.unit = _GAP_BITS - table.bits
            labelling.drifted[:] = 0
        device, exact_shift = self.device, table.bits + labelling.unit
        tables, shifts = map(self.layout.pad, (narrow, table.values)), (max(exact_shift - shift, -8), exact_shift)
        known, few = labelling.fresh or labelling.counted, labelling.moved * 20 < self.n_rows
        job = device.assign_job(
            *tables, self.starts, bound, *shifts, drift, count=known, fresh=labelling.fresh, few=few
        )
        device.assign_rows(job, self.codes, labelling.labels, labelling.gaps, self.copies, labelling.alpha)
        labelling.moved = device.moved(job)
        labelling.counted = bool(job.count)
        labelling.table, labelling.fresh = table, False
        return labelling.moved

    def _narrow(self, labelling: CudaLabelling, table: ScoreTable, drift: np.ndarray | None):
        """The byte table, which is twice as fast, unless too many rows would have to be scored again."""

        def pays(bound: float) -> bool:  # bound: largest error of a gap in the byte table
            if drift is None:
                return labelling.moved * 2 < self.n_rows  # few rows move, so most gaps are wide
            # rows with a gap up to the drift are scored; most of those gaps should exceed the bound
            return float(np.median(drift)) * 2.0 ** (labelling.unit + table.bits) >= _BYTES_LEAD * bound

        return narrow_table(table.values, self.layout.offsets, pays)

    def _drift(self, labelling: CudaLabelling, table: ScoreTable) -> np.ndarray | None:
        """Steps (k,) by which a gap byte of each cluster may have shrunk; None when there are no valid bytes."""
        old = labelling.table
        if old is None or not 0 <= table.bits + labelling.unit <= 31:
            return None
        before = np.ceil(labelling.drifted)
        labelling.drifted = labelling.drifted + table_drift(table, old, self.layout.offsets) * 2.0**-labelling.unit
        # bytes are rounded down by up to one step: rounding the running sum up, not each drift, stays safe
        return np.minimum(np.ceil(labelling.drifted) - before, 255).astype(np.uint8)

    def counts(self, labelling: Any) -> Counts:
        if not labelling.counted:
            labelling.alpha.fill(0)
            rows = self.codes, self.starts, self.table_rows, labelling.labels, self.copies
            self.device.count_rows(*rows, labelling.alpha)
            labelling.counted = True
        alpha = self.device.get(labelling.alpha)
        return Counts(self.layout.unpad(alpha).astype(np.int64), alpha[-1].astype(np.int64), self.layout)

    def whole_counts(self) -> Counts:
        return self.counts(self._labelling(1, self.device.zeros(self.n_rows, _label_type(1))))

    def labels(self, labelling: Any) -> Any:
        return self._returned(labelling.labels)

    def own_scores(self, labelling: Any, table: ScoreTable, start: int = 0, stop: int | None = None) -> Any:
        codes, labels = self.codes[start:stop], labelling.labels[start:stop]
        values, scores = self.device.put(self.layout.pad(table.values)), self._empty(len(labels), np.int64)
        self.device.own_scores(codes, labels, self.starts, values, scores)
        return self.device.get(scores) if self.on_host else scores

    def map_scores(self, labelling: Any, table: ScoreTable, function: Any, dtype: Any) -> tuple[Any, np.ndarray]:
        if self.on_host:
            return super().map_scores(labelling, table, function, dtype)
        values, tallies = self._empty(self.n_rows, dtype), {}
        for start in range(0, self.n_rows, _SCORED_ROWS):
            part = slice(start, min(start + _SCORED_ROWS, self.n_rows))
            values[part], *numbers = function(self.own_scores(labelling, table, part.start, part.stop))
            for i, number in enumerate(numbers):  # how often each byte of the numbers has each value, per cluster
                in_bytes = number.view(np.uint8).reshape(len(number), number.dtype.itemsize)
                firsts = 256 * np.arange(in_bytes.shape[1], dtype=np.int32)
                if i not in tallies:
                    tallies[i] = self.device.zeros((256 * len(firsts) + 1, labelling.n_clusters), np.uint32)
                rows = in_bytes, firsts, 256 * len(firsts), labelling.labels[part], self._copies(part)
                self.device.count_rows(*rows, tallies[i])
        sums = []
        for tally in tallies.values():
            counts = self.device.get(tally)[:-1].astype(np.int64).reshape(-1, 256, labelling.n_clusters)
            sums.append(np.einsum("b,v,bvk->k", 256 ** np.arange(len(counts)), np.arange(256), counts))
        return values, np.array(sums)

    def seeding(self, weights: np.ndarray) -> CudaSeeding:
        return CudaSeeding(self, weights)

    # -- subsets, overlaps, single rows --------------------------------------------------------------------

    def split(self, labelling: Any) -> list[Rows]:
        device = self.device
        leaves: list[Rows] = []
        for cluster in range(labelling.n_clusters):
            ends = device.compact_ends(labelling.labels, cluster)
            size = int(device.get(ends[-1:])[0])
            codes = self._empty((size, self.layout.n_partitions), self.codes.dtype)
            ids = self._empty(size, np.uint32)
            copies = None if self.copies is None else self._empty(size, np.uint32)
            if size:
                own, out = (self.ids, self.copies), (codes, ids, copies)
                device.compact_rows(self.codes, labelling.labels, cluster, ends, *own, *out)
            n_copies = size if copies is None else int(device.get(copies.sum(dtype=np.uint64)))
            leaves.append(CudaRows(self.shared, codes, copies, n_copies, ids))
        return leaves

    def scatter(self, leaves: Sequence[Rows]) -> Any:
        labels = self.device.zeros(self.n_rows, np.int32)
        for position, leaf in enumerate(leaves):
            assert isinstance(leaf, CudaRows)
            if leaf.ids is None:
                labels.fill(position)
            else:
                self.device.scatter_labels(leaf.ids, position, None, labels)
        return self._returned(labels)

    def renumbered(self, labelling: Any, numbers: np.ndarray, k: int) -> CudaLabelling:
        new = self._labelling(k, self._empty(self.n_rows, _label_type(k)))
        self.device.map_labels(labelling.labels, np.asarray(numbers).astype(new.labels.dtype), new.labels)
        return new

    def joined(self, parts: Sequence[Rows], labellings: Sequence[Labelling | None]) -> CudaLabelling:
        ends = np.cumsum([1 if own is None else own.n_clusters for own in labellings])
        k = int(ends[-1])
        new = self._labelling(k, self._empty(self.n_rows, _label_type(k)))
        for part, own, first in zip(parts, labellings, [0, *ends.tolist()]):
            assert isinstance(part, CudaRows)
            self.device.scatter_labels(part.ids, first, None if own is None else own.labels, new.labels)
        return new

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        d, p = self.layout.n_codes, self.layout.n_partitions
        widths = self.layout.n_clusters + 1
        first, second = np.triu_indices(p)
        ends = np.cumsum(widths[first] * widths[second])
        pairs = np.stack([first, second, widths[second], ends - widths[first] * widths[second]], axis=1)
        flat = self.device.zeros(int(ends[-1]), np.uint32 if shares is None else np.uint64)
        units = None if shares is None else self.layout.pad(shares.units)
        for start in range(0, self.n_rows, _SHARE_ROWS):
            part = slice(start, start + _SHARE_ROWS)
            factor = self._copies(part)
            if shares is not None:
                factor = self.device.row_shares(self.codes[part], self.starts, shares, units, factor)
            self.device.overlap_rows(self.codes[part], pairs, int(ends[-1]), factor, flat)
        counts = self.device.get(flat)
        total = np.zeros((d, d), dtype=np.int64)
        columns = [slice(a, b) for a, b in zip(self.layout.offsets[:-1], self.layout.offsets[1:])]
        for j, g, _, at in pairs:
            block = counts[at : at + widths[j] * widths[g]].reshape(widths[j], widths[g])[:-1, :-1]
            total[columns[j], columns[g]] = block
            total[columns[g], columns[j]] = total[columns[j], columns[g]].T
        return total

    def codes_at(self, indices: Any) -> np.ndarray:
        return self.device.get(self.device.take(self.codes, indices))

    # -- exchange ------------------------------------------------------------------------------------------

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        device, moves, stop, left = self.device, [], self.n_rows, limit
        job = device.propose_job(table, self.layout.pad, self.starts, self.layout.n_clusters)
        for first in range(start, self.n_rows, _PROPOSE_ROWS):
            part = slice(first, first + _PROPOSE_ROWS)
            rows, targets = device.propose_rows(job, self.codes[part], labelling.labels[part], self._copies(part))
            moves.append((device.get(rows[:left]).astype(np.int64) + first, device.get(targets[:left])))
            left -= len(moves[-1][0])
            if left == 0:
                stop = int(moves[-1][0][-1]) + 1
                break
        rows, targets = (np.concatenate(column) for column in zip(*moves))
        there = device.put(rows)
        sources = device.get(device.take(labelling.labels, there)).astype(np.int32)
        copies = np.ones(len(rows), np.int64) if self.copies is None else device.get(device.take(self.copies, there))
        return Moves(rows, sources, targets.astype(np.int32), self.codes_at(there), copies.astype(np.int64), stop)

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        if len(indices):
            labelling.labels[self.device.put(indices)] = self.device.put(targets.astype(labelling.labels.dtype))
            labelling.relabelled()

    def _copies(self, part: slice) -> Any:
        return None if self.copies is None else self.copies[part]

    def _returned(self, labels: Any) -> Any:
        """Labels where the caller keeps its arrays."""
        return self.device.get(labels).astype(np.int32) if self.on_host else labels.astype(np.int32)

    def _empty(self, shape: Any, dtype: Any) -> Any:
        try:
            return self.device.empty(shape, dtype)
        except MemoryError as error:
            raise MemoryError(_memory_message(self.codes, self.device.free_bytes())) from error


# -- k-means++: one distance per row, one running sum per block of rows, exact int64 totals --------------------


class CudaSeeding(Seeding):
    """Distances on the GPU, and what its kernels need of the weights and numbers of clusters to compare rows."""

    def __init__(self, rows: CudaRows, weights: np.ndarray):
        self.rows, self.total = rows, rows.n_copies
        self.weights = np.asarray(weights).astype(np.uint32)
        self.n_clusters, self.has_missing = rows.layout.n_clusters, rows.has_missing
        p, most, largest = rows.layout.n_partitions, int(self.n_clusters.max()), int(np.sum(weights))
        self.low = most < 128  # bit 7 of a byte code is free
        #: four partitions per word; with more than 255 clusters no byte value is left for a missing label
        self.in_bytes = bool(
            rows.codes.dtype == np.uint8
            and p % 4 == 0
            and p <= 128
            and (self.weights == (ONE_SIDED if self.has_missing else 1)).all()
            and not (self.has_missing and most > 255)
        )
        self._missing = np.minimum(self.n_clusters, 255).astype(np.uint8)
        self._dtype = next(t for t in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(t).max)
        self._distance: Any = None  # None: no row chosen yet
        self._running: Any = None  # running sums over blocks of SEED_ROWS rows
        self._sums: Any = None  # the array behind them

    def pack(self, chosen: np.ndarray) -> np.ndarray:
        """Rows of byte codes as the kernel reads them: the codes, 0x80 where there is a label, k_j."""
        chosen = np.asarray(chosen, dtype=np.uint8)
        seen = (chosen < self.n_clusters).view(np.uint8) << 7
        packed = np.concatenate((chosen, seen, self._missing), axis=None)
        return packed.view([("bytes", np.uint8, (packed.nbytes,))])

    def locate(self, targets: np.ndarray) -> np.ndarray:
        rows, targets = self.rows, np.asarray(targets, dtype=np.int64)
        if self._distance is None and rows.copies is None:
            return rows.codes_at(targets)
        device = rows.device
        if self._running is None:
            self._running = device.running(device.sum_copies(rows.copies))
        return device.get(device.locate_rows(self._running, targets, self._distance, rows.copies, rows.codes))

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        device, rows = self.rows.device, self.rows
        sums = device.zeros(len(candidates), np.uint64)
        device.seed_rows(rows.codes, candidates, self, self._distance, rows.copies, sums, add=False)
        return device.get(sums).astype(np.int64)

    def add(self, row: np.ndarray) -> None:
        device, rows = self.rows.device, self.rows
        first = self._distance is None
        distance = rows._empty(rows.n_rows, self._dtype) if first else self._distance
        if self._sums is None:
            self._sums = device.zeros(-(-rows.n_rows // SEED_ROWS), np.uint64)
        device.seed_rows(rows.codes, row[None], self, distance, rows.copies, self._sums, add=True, first=first)
        self._distance, self._running = distance, device.running(self._sums)
        self.total = int(device.get(self._running[-1:])[0])


# -- score tables on the host before a pass ------------------------------------------------------------------


def narrow_table(
    values: np.ndarray, offsets: np.ndarray, bytes_pay: Callable[[float], bool]
) -> tuple[np.ndarray, int, int]:
    """Table of 8 or 16 bits whose sums over partitions stay below 2**16, the largest error of a gap, and the shift.

    Entries are (values − the smallest of their partition) >> shift, so a gap of narrow sums is wrong by less than
    one step per partition: a gap above `bound` proves the order of exact sums, and ``(gap - bound) << shift`` bounds
    the exact gap from below. A table of multiples of 2**shift, such as that of single rows, has bound 0. Bytes are
    used when they are exact, or when `bytes_pay` of their bound, in units of `values`, says so.
    """
    flat, firsts = values.reshape(-1), offsets[:-1] * values.shape[1]  # rows of a partition lie together
    lowest, highest = np.minimum.reduceat(flat, firsts), np.maximum.reduceat(flat, firsts)
    spans = highest.astype(np.int64) - lowest
    # differences of int32 fit uint32, where they are taken modulo 2**32
    raised = values.view(np.uint32) - np.repeat(lowest, np.diff(offsets))[:, None].view(np.uint32)
    used = int(np.bitwise_or.reduce(raised, axis=None))
    for bits in (8, 16):
        shift = max(0, int(spans.sum()).bit_length() - 16, int(spans.max()).bit_length() - bits)
        while int((spans >> shift).sum()) > 0xFFFF:
            shift += 1
        bound = len(firsts) if used & ((1 << shift) - 1) else 0
        if bits == 16 or bound == 0 or bytes_pay(bound * 2.0**shift):
            break
    return (raised >> np.uint32(shift)).astype(f"uint{bits}"), bound, shift


def table_drift(new: ScoreTable, old: ScoreTable, offsets: np.ndarray) -> np.ndarray:
    """Upper bound on how much the lead of a row's own cluster a has shrunk, for each a (k,), in score units.

    Σ_j max_{f∈j} max_c (Δ_fc − Δ_fa) with Δ = new − old, which is exact: both are integers over powers of two. The
    sum is increased by more than its rounding error.
    """
    # in float64, since a difference of two int32 may not fit int32; clusters first, so that what follows is contiguous
    change = np.subtract(new.values.T, old.values.T * 2.0 ** (new.bits - old.bits), order="C")
    lead = change.max(axis=0) - change
    return np.maximum.reduceat(lead, offsets[:-1], axis=1).sum(axis=1) * (2.0**-new.bits * (1 + 1e-12))


# -- memory --------------------------------------------------------------------------------------------------


def _copies_on_device(device: Any, ensemble: Any, multiplicity: Any) -> tuple[Any, int]:
    """`participating_copies` on the GPU, and their sum."""
    copies, total = None, ensemble.n_samples
    multiplicity, unlabelled = (
        array if array is None or device.owns(array) else device.put(np.asarray(array))
        for array in (multiplicity, ensemble.unlabelled())
    )
    if multiplicity is not None:
        copies = multiplicity.astype(np.uint32)  # a copy, in which rows without a label are set to 0
    elif unlabelled is not None:
        copies = device.zeros(total, np.uint32)
        copies.fill(1)
    if copies is not None:
        if unlabelled is not None:
            copies[unlabelled] = 0
        total = int(device.get(copies.sum(dtype=np.uint64)))
    check_total_copies(total)
    return copies, total


def _label_type(k: int) -> np.dtype:
    if k > _MAX_CLUSTERS:
        raise ValueError(f"the CUDA engine holds at most {_MAX_CLUSTERS} clusters, got {k}; use engine='native'.")
    return smallest_unsigned(k)


def _bytes_needed(codes: Any) -> int:
    return len(codes) * (codes.shape[1] * codes.dtype.itemsize + 2) + _SPARE_BYTES


def _memory_message(codes: Any, free: int) -> str:
    n, p = codes.shape
    return (
        f"the GPU has {free} bytes free, but {n} items of {p} codes need about {_bytes_needed(codes)}: n (p b + l + g) "
        f"+ {_SPARE_BYTES} with b = {codes.dtype.itemsize} bytes per code, l = 1 or 2 per label, g = 1 per gap or "
        "distance; use engine='native', or engine='dask' with several GPUs."
    )
