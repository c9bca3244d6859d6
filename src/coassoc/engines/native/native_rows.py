"""Rows of the native engine: each verb is a call or two of the compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.counts import Counts, RowShares, ScoreTable
from ...core.moves import Moves, MoveTable
from ..compiled import kernels as _kernels
from ..contract import Labelling, Rows, Seeding

_EXCHANGE_ROWS = 4096  # rows in one task of the exchange
# Deduplication: measured on two Zen 4 cores, 8 partitions of 2 to 8 clusters, k-means with 8 clusters.
_LEAST_ROWS = 1 << 15  # fewer rows are clustered faster than duplicates are found
_LEAST_COPIES = 3  # minimum mean number of copies of a row for deduplication to be faster, with many starts
_LEAST_COPIES_ONCE = 64  # the same with a single start


class NativeLabelling(Labelling):
    def __init__(self, n_clusters: int, labels: np.ndarray, labelled: bool):
        super().__init__(n_clusters, labels)
        self.core = _kernels.Labelling(labels, n_clusters, labelled)


class NativeRows(Rows):
    def __init__(self, codes, layout, missing, copies, ids, settings):
        self.codes = codes  # every row loaded; `ids` are the indices of these rows, None for all
        self.layout = layout
        self.missing = missing
        self.copies = copies
        self.ids = ids
        self.settings = settings
        self.n_rows = len(codes) if ids is None else len(ids)
        self.n_copies = self.n_rows if copies is None else int(copies.sum())
        self.sizes: np.ndarray | None = None  # of the base clusters, when they are known beforehand
        self.core = _kernels.Rows(codes, layout.n_clusters, missing, ids, copies, **settings)

    def labelling(self, k: int, labels: Any = None) -> NativeLabelling:
        if labels is None:
            return NativeLabelling(k, np.empty(self.n_rows, np.int32), False)  # the first pass fills it
        return NativeLabelling(k, np.array(labels, dtype=np.int32, order="C"), True)

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        return self.core.assign(labelling.core, np.ascontiguousarray(table.values), table.bits)

    def counts(self, labelling: Any) -> Counts:
        alpha = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int64)
        sizes = np.empty(labelling.n_clusters, dtype=np.int64)
        self.core.counts(labelling.core, alpha, sizes)
        return Counts(alpha, sizes, self.layout)

    def whole_counts(self) -> Counts:
        if self.sizes is None:
            return super().whole_counts()
        return Counts(self.sizes[:, None].copy(), np.array([self.n_copies]), self.layout)

    def set_sizes(self, sizes: np.ndarray) -> None:
        """Tell the sizes of the base clusters among these rows, copies counted."""
        self.sizes = np.ascontiguousarray(sizes, dtype=np.int64)
        self.core.set_sizes(self.sizes, self.n_copies)

    def last_table(self, labelling: Any) -> ScoreTable:
        """The table of the labelling's latest pass."""
        values = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int32)
        return ScoreTable(values, labelling.core.table(values))

    def labels(self, labelling: Any) -> np.ndarray:
        return labelling.labels

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        labelling.labels[indices] = targets
        labelling.core.relabelled()

    def own_scores(self, labelling: Any, table: ScoreTable, start: int = 0, stop: int | None = None) -> np.ndarray:
        stop = self.n_rows if stop is None else stop
        scores = np.empty(stop - start, dtype=np.int64)
        self.core.own_scores(labelling.core, np.ascontiguousarray(table.values), start, stop, scores)
        return scores

    def seeding(self, weights: np.ndarray) -> NativeSeeding:
        return NativeSeeding(self, weights)

    def distinct(self, n_starts: int) -> NativeRows:
        if self.ids is not None or self.copies is not None or not _LEAST_ROWS <= self.n_rows < (1 << 32) - 1:
            return self
        if not self.settings["blocked_copy"]:  # memory is short, and deduplication needs more
            return self
        limit = self.n_rows // max(_LEAST_COPIES, _LEAST_COPIES_ONCE // n_starts**2)
        groups = _kernels.distinct_rows(self.codes, limit, self.settings["n_threads"])
        if groups is None:
            return self
        first, copies, number = groups
        return DistinctRows(self.codes[first], self.layout, self.missing, copies, None, self.settings, number)

    def split(self, labelling: Any) -> list[Rows]:
        if self.n_rows >= 1 << 32 or (self.ids is None and len(self.codes) >= 1 << 32):
            raise ValueError(f"splitting works on fewer than 2**32 rows, got {self.n_rows}.")
        self.core.free_blocked()  # the children gather from the codes themselves
        ids = self._parts(labelling, True)
        shared = self.codes, self.layout, self.missing
        parts: list[Any] = (
            [NativeRows(*shared, None, own, self.settings) for own in ids]
            if self.copies is None
            else self._split_copies(labelling, ids)
        )
        alpha = self.counts(labelling).alpha
        for c, part in enumerate(parts):
            part.set_sizes(alpha[:, c])
        return parts

    def _split_copies(self, labelling: Any, ids: list[np.ndarray]) -> list[Any]:
        copies = [self.copies[own] for own in self._parts(labelling, False)]
        return [NativeRows(self.codes, self.layout, self.missing, *own, self.settings) for own in zip(copies, ids)]

    def _parts(self, labelling: Any, ids: bool) -> list[np.ndarray]:
        """The rows of each cluster: their ids, or their positions."""
        return self.core.split(labelling.core, ids)

    def scatter(self, leaves: Sequence[Any]) -> np.ndarray:
        if any(leaf.ids is None for leaf in leaves):  # it was never split
            return np.zeros(self.n_rows, dtype=np.int32)
        labels = np.empty(self.n_rows, np.int32)
        _kernels.scatter([leaf.ids for leaf in leaves], labels, self.settings["n_threads"])
        return labels

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        d = self.layout.n_codes
        total = np.empty((d, d), dtype=np.int64)
        weighted = (None, 0, 0) if shares is None else (self.layout.pad(shares.units), shares.bits, shares.most)
        self.core.overlap(*weighted, total)
        return total

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.codes[indices if self.ids is None else self.ids[indices]])

    def pair_counts(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        together, observed = np.empty(len(pairs), np.int32), np.empty(len(pairs), np.int32)
        self.core.pair_counts(np.ascontiguousarray(pairs, dtype=np.int64), together, observed)
        return together, observed

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        task_rows = self.settings["chunk_rows"] or _EXCHANGE_ROWS
        indices, targets, stop = self.core.propose_moves(labelling.core, table, start, limit, task_rows)
        copies = np.ones(len(indices), np.int64) if self.copies is None else self.copies[indices]
        return Moves(indices, labelling.labels[indices], targets, self.codes_at(indices), copies, stop)


class DistinctRows(NativeRows):
    """The different rows of an ensemble, each with the number of rows it stands for.

    `number` gives, for each original row in its order, the different row that stands for it: a random draw among the
    original rows depends on their order.
    """

    def __init__(self, codes, layout, missing, copies, ids, settings, number):
        super().__init__(codes, layout, missing, copies, ids, settings)
        self.number = number
        self.core.map_duplicates(number)

    def distinct(self, n_starts: int) -> NativeRows:
        return self

    def spread(self, labelling: Any) -> NativeLabelling:
        return NativeLabelling(labelling.n_clusters, self._spread(labelling.labels), True)

    def scatter(self, leaves: Sequence[Any]) -> np.ndarray:
        return self._spread(super().scatter(leaves))

    def _spread(self, labels: np.ndarray) -> np.ndarray:
        every = np.empty(len(self.number), np.int32)
        _kernels.spread_labels(labels, self.number, every, self.settings["n_threads"])
        return every

    def _split_copies(self, labelling: Any, ids: list[np.ndarray]) -> list[Any]:
        positions = self._parts(labelling, False)
        number = np.empty(self.n_rows, np.uint32)  # of each different row within its part
        for part in positions:
            number[part] = np.arange(len(part), dtype=np.uint32)
        label, number = labelling.labels[self.number], number[self.number]
        shared = self.codes, self.layout, self.missing
        return [
            DistinctRows(*shared, self.copies[part], own, self.settings, number[label == c])
            for c, (own, part) in enumerate(zip(ids, positions))
        ]


class NativeSeeding(Seeding):
    def __init__(self, rows: NativeRows, weights: np.ndarray):
        self.rows = rows
        self.core = _kernels.Seeding(rows.core, np.ascontiguousarray(weights, dtype=np.int64))

    @property
    def total(self) -> int:  # type: ignore[override]
        return self.core.total

    def locate(self, targets: np.ndarray) -> np.ndarray:
        rows = np.empty(len(targets), dtype=np.int64)
        self.core.locate(np.ascontiguousarray(targets, dtype=np.int64), rows)
        return self.rows.codes_at(rows)

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        totals = np.empty(len(candidates), dtype=np.int64)
        self.core.potentials(self._as_codes(candidates), totals)
        return totals

    def add(self, row: np.ndarray) -> None:
        self.core.add(self._as_codes(row[None, :]))

    def _as_codes(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, dtype=self.rows.codes.dtype)
