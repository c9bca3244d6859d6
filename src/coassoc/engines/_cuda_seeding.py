"""k-means++ on the card: one distance per row, one running sum per block of rows, exact int64 totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._verbs import Seeding

if TYPE_CHECKING:
    from ._cuda import CudaRows

SEED_ROWS = 8192  # rows behind one running sum, as in the kernels


class CudaSeeding(Seeding):
    def __init__(self, rows: CudaRows, weights: np.ndarray):
        self.rows = rows
        self.weights = np.asarray(weights).astype(np.uint32)
        self.total = rows.n_copies
        largest = int(np.sum(weights))
        self._dtype = next(t for t in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(t).max)
        self._distance: Any = None  # None: no row chosen yet
        self._running: Any = None  # running sums over blocks of SEED_ROWS rows

    def locate(self, targets: np.ndarray) -> np.ndarray:
        rows, targets = self.rows, np.asarray(targets, dtype=np.int64)
        if self._distance is None and rows.copies is None:
            return rows.codes_at(targets)
        device = rows.device
        if self._running is None:
            self._running = device.running(device.sum_copies(rows.copies))
        return rows.codes_at(device.locate_rows(self._running, targets, self._distance, rows.copies, rows.n_rows))

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        device, rows = self.rows.device, self.rows
        sums = device.zeros(len(candidates), np.uint64)
        for part, codes in rows._pieces():
            now = None if self._distance is None else self._distance[part]
            device.seed_rows(codes, candidates, self._rule(), now, rows._copies(part), sums, add=False)
        return device.get(sums).astype(np.int64)

    def add(self, row: np.ndarray) -> None:
        device, rows = self.rows.device, self.rows
        first = self._distance is None
        distance = rows._empty(rows.n_rows, self._dtype) if first else self._distance
        sums = device.zeros(-(-rows.n_rows // SEED_ROWS), np.uint64)
        for part, codes in rows._pieces():
            blocks = slice(part.start // SEED_ROWS, None)
            device.seed_rows(
                codes, row[None], self._rule(), distance[part], rows._copies(part), sums[blocks], add=True, first=first
            )
        self._distance, self._running = distance, device.running(sums)
        self.total = int(device.get(self._running[-1:])[0])

    def _rule(self) -> tuple[np.ndarray, np.ndarray, bool]:
        return self.weights, self.rows.layout.n_clusters, self.rows.has_missing
