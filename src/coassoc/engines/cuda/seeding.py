"""k-means++ on the GPU: one distance per row, one running sum per block of rows, exact int64 totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.objectives import ONE_SIDED
from ..contract import Seeding

if TYPE_CHECKING:
    from .engine import CudaRows

SEED_ROWS = 8192  # rows behind one running sum, as in the kernels


class SeedRule:
    """How rows are compared: what every round needs of the weights and numbers of clusters, computed once."""

    def __init__(self, weights: np.ndarray, n_clusters: np.ndarray, has_missing: bool, codes: Any):
        self.weights = np.asarray(weights).astype(np.uint32)
        self.n_clusters = n_clusters
        self.has_missing = has_missing
        p, most = len(n_clusters), int(n_clusters.max())
        self.low = most < 128  # bit 7 of a byte code is free
        #: four partitions per word; with more than 255 clusters no byte value is left for a missing label
        self.in_bytes = bool(
            codes.dtype == np.uint8
            and p % 4 == 0
            and p <= 128
            and (self.weights == (ONE_SIDED if has_missing else 1)).all()
            and not (has_missing and most > 255)
        )
        self._missing = np.minimum(n_clusters, 255).astype(np.uint8)

    def pack(self, chosen: np.ndarray) -> np.ndarray:
        """Rows of byte codes as the kernel reads them: the codes, 0x80 where there is a label, k_j."""
        chosen = np.asarray(chosen, dtype=np.uint8)
        seen = (chosen < self.n_clusters).view(np.uint8) << 7
        packed = np.concatenate((chosen, seen, self._missing), axis=None)
        return packed.view([("bytes", np.uint8, (packed.nbytes,))])


class CudaSeeding(Seeding):
    def __init__(self, rows: CudaRows, weights: np.ndarray):
        self.rows = rows
        self._rule = SeedRule(weights, rows.layout.n_clusters, rows.has_missing, rows.codes)
        self.total = rows.n_copies
        largest = int(np.sum(weights))
        self._dtype = next(t for t in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(t).max)
        self._distance: Any = None  # None: no row chosen yet
        self._running: Any = None  # running sums over blocks of SEED_ROWS rows
        self._sums: Any = None  # the array behind them

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
        device.seed_rows(rows.codes, candidates, self._rule, self._distance, rows.copies, sums, add=False)
        return device.get(sums).astype(np.int64)

    def add(self, row: np.ndarray) -> None:
        device, rows = self.rows.device, self.rows
        first = self._distance is None
        distance = rows._empty(rows.n_rows, self._dtype) if first else self._distance
        if self._sums is None:
            self._sums = device.zeros(-(-rows.n_rows // SEED_ROWS), np.uint64)
        device.seed_rows(rows.codes, row[None], self._rule, distance, rows.copies, self._sums, add=True, first=first)
        self._distance, self._running = distance, device.running(self._sums)
        self.total = int(device.get(self._running[-1:])[0])
