"""Rows of the native engine: the verbs, each a call or two of the kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.counts import Counts, Layout, ScoreTable
from ...core.moves import Moves, MoveTable
from ...core.overlaps import RowShares
from ..compiled import kernels as _kernels
from ..contract import Labelling, Rows, Seeding
from ..numpy import first_different

_EXCHANGE_ROWS = 4096  # rows in one task of the exchange
_FEW_ROWS = 1 << 15  # so few are labelled sooner than equal ones are found
_ALIKE, _ALIKE_ONCE = 3, 64  # rows that must be alike, in the mean, to pay for looking: for many starts, for one
_WORST_ROWS = 1 << 18  # rows ranked at a time when clusters are refilled; bounds the temporary memory


class NativeLayout(Layout):
    """The same arithmetic on tables, compiled: a pass over few rows would otherwise be spent in it."""

    def sums(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, squares = np.empty((2, len(self.n_clusters), alpha.shape[1]), np.int64)
        _kernels.partition_sums(as_array(alpha, np.int64), self.n_clusters, cells, squares)
        return cells, squares

    def mean_scores(self, counts: Counts, weights: np.ndarray) -> np.ndarray:
        scores = np.empty(counts.alpha.shape)
        alpha, cells = as_array(counts.alpha, np.int64), counts.cells
        _kernels.mean_scores(alpha, self.n_clusters, cells, counts.squares, as_array(weights, np.float64), scores)
        return scores

    def largest(self, scores: np.ndarray) -> np.ndarray:
        largest = np.empty(len(self.n_clusters))
        _kernels.largest_scores(as_array(scores, np.float64), self.n_clusters, largest)
        return largest

    def rounded(self, scores: np.ndarray, scale: float) -> np.ndarray:
        values = np.empty(scores.shape, np.int32)
        _kernels.rounded_scores(as_array(scores, np.float64), scale, values)
        return values


class NativeLabelling(Labelling):
    def __init__(self, n_clusters: int, labels: np.ndarray, labelled: bool):
        super().__init__(n_clusters)
        self.labels = labels
        self.core = _kernels.Labelling(labels, n_clusters, labelled)


class NativeRows(Rows):
    def __init__(self, codes, layout, missing, copies, ids, settings):
        self.codes = codes  # every row loaded; `ids` says which are ours
        self.layout = layout
        self.missing = missing
        self.copies = copies
        self.ids = ids
        self.settings = settings
        self.n_rows = len(codes) if ids is None else len(ids)
        self.n_copies = self.n_rows if copies is None else int(copies.sum())
        self.core = _kernels.Rows(codes, layout.n_clusters, missing, ids, copies, **settings)

    def labelling(self, k: int, labels: Any = None) -> NativeLabelling:
        if labels is None:
            return NativeLabelling(k, room(self.n_rows, np.int32), False)  # the first pass fills it
        return NativeLabelling(k, np.array(labels, dtype=np.int32, order="C"), True)

    def assign(self, labelling: Any, table: ScoreTable) -> int:
        return self.core.assign(labelling.core, np.ascontiguousarray(table.values), table.bits)

    def last_table(self, labelling: Any) -> ScoreTable:
        """The table of the labelling's latest pass."""
        values = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int32)
        return ScoreTable(values, labelling.core.table(values))

    def counts(self, labelling: Any) -> Counts:
        alpha = np.empty((self.layout.n_codes, labelling.n_clusters), dtype=np.int64)
        sizes = np.empty(labelling.n_clusters, dtype=np.int64)
        sums = np.empty((2, self.layout.n_partitions, labelling.n_clusters), dtype=np.int64)
        known = self.core.counts(labelling.core, alpha, sizes, sums[0], sums[1])
        return Counts(alpha, sizes, self.layout, *(sums if known else ()))

    def whole_counts(self) -> Counts:
        alpha = np.empty((self.layout.n_codes, 1), dtype=np.int64)
        size = np.empty(1, dtype=np.int64)
        return Counts(alpha, size, self.layout) if self.core.whole(alpha, size) else super().whole_counts()

    def labels(self, labelling: Any) -> np.ndarray:
        return labelling.labels

    def worst_rows(self, labelling: Any, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        rows, costs = np.empty(0, np.int64), np.empty(0, np.int64)
        for start in range(0, self.n_rows, _WORST_ROWS):
            stop = min(start + _WORST_ROWS, self.n_rows)
            here = np.empty(stop - start, dtype=np.int64)
            self.core.own_scores(labelling.core, np.ascontiguousarray(cost.values), start, stop, here)
            taking_part = np.arange(start, stop)
            if self.copies is not None:
                taking_part = taking_part[self.copies[start:stop] > 0]
                here = here[taking_part - start]
            best = self._worst_of(taking_part, here, m)
            rows, costs = (np.concatenate(x) for x in zip((rows, costs), best))
            rows, costs = self._worst_of(rows, costs, m)
        return self.codes_at(rows), costs

    def _worst_of(self, rows: np.ndarray, costs: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Of `rows`, the m with the largest cost whose codes differ; looks at a few top rows first."""
        top = 4 * m
        while top < len(rows):
            least = np.partition(costs, len(costs) - top)[len(costs) - top]
            high = np.flatnonzero(costs >= least)
            found = self._different(rows[high], costs[high], m)
            if len(found[0]) == m:
                return found
            top = max(8 * top, len(high) + 1)
        return self._different(rows, costs, m)

    def _different(self, rows: np.ndarray, costs: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        kept, kept_costs = first_different(self.codes_at(rows), np.arange(len(rows)), costs, m)
        return rows[kept], kept_costs

    def seeding(self, weights: np.ndarray) -> NativeSeeding:
        return NativeSeeding(self, weights)

    def distinct(self, n_starts: int) -> NativeRows:
        if self.ids is not None or self.copies is not None or not _FEW_ROWS <= self.n_rows < (1 << 32) - 1:
            return self
        if not self.settings["blocked_copy"]:  # memory is short, and this takes more
            return self
        limit = self.n_rows // max(_ALIKE, _ALIKE_ONCE // n_starts**2)
        found = _kernels.distinct_rows(self.codes, limit, self.settings["n_threads"])
        if found is None:
            return self
        first, copies, places = found
        return DistinctRows(self.codes[first], self.layout, self.missing, copies, None, self.settings, places)

    def split(self, labelling: Any) -> list[Rows]:
        if self.n_rows >= 1 << 32 or (self.ids is None and len(self.codes) >= 1 << 32):
            raise ValueError(f"splitting works on fewer than 2**32 rows, got {self.n_rows}.")
        self.core.free_blocked()  # the children gather from the codes themselves
        parts = [room(size, np.uint32) for size in self.core.split_sizes(labelling.core)]
        copies: list[Any] = [None] * len(parts)
        more: list[tuple] = [()] * len(parts)
        if self.copies is not None:
            self.core.split(labelling.core, parts, False)
            copies = [self.copies[part] for part in parts]
            more = self._split_more(parts, copies)
        self.core.split(labelling.core, parts, True)
        children: list[Rows] = []
        for cluster, (ids, own) in enumerate(zip(parts, copies)):
            child = type(self)(self.codes, self.layout, self.missing, own, ids, self.settings, *more[cluster])
            child.core.descend(self.core, labelling.core, cluster)
            children.append(child)
        return children

    def _split_more(self, parts: Sequence[np.ndarray], copies: Sequence[np.ndarray]) -> list[tuple]:
        """What else each part is made of, given the positions and copies of its rows."""
        return [()] * len(parts)

    def scatter(self, leaves: Sequence[Any]) -> np.ndarray:
        self.core.free_spare()  # the splitting is over
        if any(leaf.ids is None for leaf in leaves):  # it was never split
            return np.zeros(self.n_rows, dtype=np.int32)
        labels = room(self.n_rows, np.int32)
        self.core.scatter([leaf.ids for leaf in leaves], labels)
        return labels

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        d = self.layout.n_codes
        total = np.empty((d, d), dtype=np.int64)
        if shares is None:
            self.core.overlap(total)
        else:
            self.core.weighted_overlap(as_array(shares.units, np.int64), shares.bits, shares.most, total)
        return total

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.codes[indices if self.ids is None else self.ids[indices]])

    def propose_moves(self, labelling: Any, table: MoveTable, start: int, limit: int) -> Moves:
        indices, targets, stop = _kernels.propose_moves(
            self.codes,
            self.ids,
            self.copies,
            labelling.labels,
            np.ascontiguousarray(self.layout.n_clusters, dtype=np.int64),
            np.ascontiguousarray(self.layout.offsets, dtype=np.int64),
            table,
            start,
            limit,
            self.settings["n_threads"],
            self.settings["chunk_rows"] or _EXCHANGE_ROWS,
        )
        copies = np.ones(len(indices), np.int64) if self.copies is None else self.copies[indices]
        return Moves(indices, labelling.labels[indices], targets, self.codes_at(indices), copies, stop)

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        labelling.labels[indices] = targets
        labelling.core.relabelled()


class DistinctRows(NativeRows):
    """The different ones among many rows, and where they stood, which decides what a draw among all of them finds."""

    def __init__(self, codes, layout, missing, copies, ids, settings, places):
        super().__init__(codes, layout, missing, copies, ids, settings)
        self.places = places
        self.core.stood(places)

    def distinct(self, n_starts: int) -> NativeRows:
        return self

    def spread(self, labelling: Any) -> NativeLabelling:
        return NativeLabelling(labelling.n_clusters, self._spread(labelling.labels), True)

    def scatter(self, leaves: Sequence[Any]) -> np.ndarray:
        return self._spread(super().scatter(leaves))

    def _spread(self, labels: np.ndarray) -> np.ndarray:
        every = room(len(self.places), np.int32)
        _kernels.spread(labels, self.places, every, self.settings["n_threads"])
        return every

    def _split_more(self, parts: Sequence[np.ndarray], copies: Sequence[np.ndarray]) -> list[tuple]:
        if len(parts) != 2:
            raise NotImplementedError(f"rows that stand for several are split in two, got {len(parts)} parts.")
        number = np.empty(self.n_rows, np.uint32)
        for part, mark in zip(parts, (0, 1 << 31)):
            number[part] = np.arange(mark, mark + len(part), dtype=np.uint32)
        first, second = (room(int(own.sum()), np.uint32) for own in copies)
        _kernels.split_places(self.places, number, first, second, self.settings["n_threads"])
        return [(first,), (second,)]


class NativeSeeding(Seeding):
    def __init__(self, rows: NativeRows, weights: np.ndarray):
        self.rows = rows
        self.core = _kernels.Seeding(rows.core, np.ascontiguousarray(weights, dtype=np.int64))

    @property
    def total(self) -> int:  # type: ignore[override]
        return self.core.total

    def locate(self, targets: np.ndarray) -> np.ndarray:
        found = np.empty(len(targets), dtype=np.int64)
        self.core.locate(np.ascontiguousarray(targets, dtype=np.int64), found)
        return self.rows.codes_at(found)

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        totals = np.empty(len(candidates), dtype=np.int64)
        self.core.potentials(self._as_codes(candidates), totals)
        return totals

    def add(self, row: np.ndarray) -> None:
        self.core.add(self._as_codes(row[None, :]))

    def choose(self, targets: np.ndarray) -> np.ndarray:
        row = np.empty((1, self.rows.layout.n_partitions), dtype=self.rows.codes.dtype)
        self.core.choose(as_array(targets, np.int64), row)
        return row[0]

    def choose_all(self, k: int, n_candidates: int, rng: np.random.Generator) -> np.ndarray:
        if not draws_like_numpy():
            return super().choose_all(k, n_candidates, rng)
        chosen = np.empty((k, self.rows.layout.n_partitions), dtype=self.rows.codes.dtype)
        return chosen[: self.core.choose_all(rng.bit_generator.capsule, chosen, n_candidates)]

    def _as_codes(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, dtype=self.rows.codes.dtype)


def room(n: int, dtype: Any) -> np.ndarray:
    """An array of n numbers to be filled."""
    return _kernels.memory(n * np.dtype(dtype).itemsize).view(dtype)


@functools.cache
def draws_like_numpy() -> bool:
    """Whether compiled draws still are those of this NumPy's `Generator.integers`."""
    ours, theirs = np.random.default_rng(0), np.random.default_rng(0)
    drawn = np.empty(8, np.uint64)
    for end in (1, 3, 1_000_003, (1 << 31) + 11, 1 << 32, (1 << 32) + 5, (1 << 62) + 1):
        _kernels.draws(ours.bit_generator.capsule, end, drawn)
        if drawn.tolist() != theirs.integers(end, size=len(drawn)).tolist():
            return False
    return True


def as_array(values: np.ndarray, dtype: Any) -> np.ndarray:
    if values.dtype == dtype and values.flags.c_contiguous:
        return values
    return np.ascontiguousarray(values, dtype=dtype)
