"""The verbs in plain NumPy: short, and the reference that every other engine is compared with by ``==``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.checks import check_integer
from ..core.counts import Counts, Layout, RowShares, ScoreTable
from ..core.moves import Moves, MoveTable, propose_chunk
from ..core.objectives import ONE_SIDED
from .contract import Engine, Labelling, Loadable, Rows, Seeding, participating_copies


class Numpy(Engine):
    """Plain NumPy engine: the reference, and the fallback where no compiled kernels are installed.

    Parameters
    ----------
    chunk_rows : int, default=65536
        Rows worked on at a time; bounds the temporary memory, never changes a result.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.engines.Numpy(chunk_rows=1000)
    Numpy(chunk_rows=1000)
    """

    name = "numpy"

    def __init__(self, chunk_rows: int = 65536):
        self.chunk_rows = check_integer(chunk_rows, "chunk_rows")

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> NumpyRows:
        copies = participating_copies(ensemble, multiplicity)
        return NumpyRows(ensemble.codes, Layout.of(ensemble), copies, self.chunk_rows)


class NumpyRows(Rows):
    def __init__(self, codes, layout, copies, chunk_rows, ids=None):
        self.codes = codes
        self.layout = layout
        self.copies = copies  # None: one each
        self.chunk_rows = chunk_rows
        self.ids = ids  # row numbers in the rows first loaded; None: the same
        self.n_rows = len(codes)
        self.n_copies = self.n_rows if copies is None else int(copies.sum())
        self._starts = layout.padded_starts

    def labelling(self, k: int, labels: Any = None) -> Labelling:
        return Labelling(k, np.full(self.n_rows, -1, np.int32) if labels is None else np.array(labels, np.int32))

    def assign(self, labelling: Labelling, table: ScoreTable) -> int:
        values, moved = self.layout.pad(table.values), 0
        for part in self._chunks():
            new = assign_chunk(self.codes[part], self._starts, values)
            moved += int(np.count_nonzero(new != labelling.labels[part]))
            labelling.labels[part] = new
        return moved

    def counts(self, labelling: Labelling) -> Counts:
        k = labelling.n_clusters
        alpha = np.zeros((self.layout.n_codes + self.layout.n_partitions) * k, dtype=np.int64)
        sizes = np.zeros(k, dtype=np.int64)
        for part in self._chunks():
            labels, copies = labelling.labels[part].astype(np.int64), 1 if self.copies is None else self.copies[part]
            for j, start in enumerate(self._starts):
                np.add.at(alpha, (self.codes[part, j] + start) * k + labels, copies)
            np.add.at(sizes, labels, copies)
        return Counts(self.layout.unpad(alpha.reshape(-1, k)), sizes, self.layout)

    def labels(self, labelling: Labelling) -> np.ndarray:
        return labelling.labels

    def own_scores(
        self, labelling: Labelling, table: ScoreTable, start: int = 0, stop: int | None = None
    ) -> np.ndarray:
        values, labels = self.layout.pad(table.values), labelling.labels[start:stop]
        scores = np.empty(len(labels), np.int64)
        for part in chunks_of(len(labels), self.chunk_rows):
            columns = self.codes[start:stop][part] + self._starts
            scores[part] = values[columns, labels[part, None]].sum(axis=1, dtype=np.int64)
        return scores

    def seeding(self, weights: np.ndarray) -> NumpySeeding:
        return NumpySeeding(self, weights)

    def split(self, labelling: Labelling) -> list[Rows]:
        return [self._take(np.flatnonzero(labelling.labels == c)) for c in range(labelling.n_clusters)]

    def _take(self, rows: np.ndarray) -> NumpyRows:
        copies = None if self.copies is None else self.copies[rows]
        ids = rows if self.ids is None else self.ids[rows]
        return NumpyRows(self.codes[rows], self.layout, copies, self.chunk_rows, ids)

    def scatter(self, leaves: Sequence[Rows]) -> np.ndarray:
        labels = np.zeros(self.n_rows, dtype=np.int32)
        for position, leaf in enumerate(leaves):
            assert isinstance(leaf, NumpyRows)
            labels[slice(None) if leaf.ids is None else leaf.ids] = position
        return labels

    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        p, width = self.layout.n_partitions, self.layout.n_codes + self.layout.n_partitions
        total = np.zeros(width * width, dtype=np.int64)
        for part in self._chunks():
            columns, factor = self.codes[part] + self._starts, 1 if self.copies is None else self.copies[part]
            if shares is not None:
                factor = factor * shares.of_sums(self.layout.pad(shares.units)[columns].sum(axis=1))
            for j in range(p):
                for g in range(p):
                    np.add.at(total, columns[:, j] * width + columns[:, g], factor)
        return self.layout.unpad(self.layout.unpad(total.reshape(width, width)).T)

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.codes[indices])

    def propose_moves(self, labelling: Labelling, table: MoveTable, start: int, limit: int) -> Moves:
        rows, targets, n_moves, stop = [], [], 0, self.n_rows
        for first in range(start, self.n_rows, self.chunk_rows):
            part = slice(first, min(first + self.chunk_rows, self.n_rows))
            copies = None if self.copies is None else self.copies[part]
            target = propose_chunk(self.codes[part], labelling.labels[part], copies, table, self.layout)
            moving = np.flatnonzero(target >= 0)[: limit - n_moves]
            rows.append(moving + first)
            targets.append(target[moving])
            n_moves += len(moving)
            if n_moves == limit:
                stop = int(rows[-1][-1]) + 1
                break
        indices = np.concatenate(rows)
        copies = np.ones(len(indices), np.int64) if self.copies is None else self.copies[indices]
        return Moves(indices, labelling.labels[indices], np.concatenate(targets), self.codes[indices], copies, stop)

    def apply_moves(self, labelling: Labelling, state: Any, moves: Moves, threshold: float) -> int:
        accepted = state.settle(moves, threshold)  # the plain loop, the reference for the compiled one
        self.relabel(labelling, moves.indices[accepted], moves.targets[accepted])
        return int(np.count_nonzero(accepted))

    def relabel(self, labelling: Labelling, indices: np.ndarray, targets: np.ndarray) -> None:
        labelling.labels[indices] = targets

    def _chunks(self) -> Iterator[slice]:
        return chunks_of(self.n_rows, self.chunk_rows)


class NumpySeeding(Seeding):
    def __init__(self, rows: NumpyRows, weights: np.ndarray):
        self.rows, self.weights = rows, weights
        self.total = rows.n_copies
        self._distance: np.ndarray | None = None  # None: no row chosen yet

    def locate(self, targets: np.ndarray) -> np.ndarray:
        now = np.ones(self.rows.n_rows, np.int64) if self._distance is None else self._distance
        return self.rows.codes_at(np.searchsorted(np.cumsum(self._terms(now)), targets, side="right"))

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        return np.array([self._terms(self._nearer(row)).sum() for row in candidates])

    def add(self, row: np.ndarray) -> None:
        self._distance = self._nearer(row)
        self.total = int(self._terms(self._distance).sum())

    def _nearer(self, row: np.ndarray) -> np.ndarray:
        distance = distances(self.rows.codes, row, self.rows.layout.n_clusters, self.weights)
        return distance if self._distance is None else np.minimum(self._distance, distance)

    def _terms(self, distance: np.ndarray) -> np.ndarray:
        return distance if self.rows.copies is None else distance * self.rows.copies


# -- kernels: plain functions on arrays --------------------------------------------------------------------


def assign_chunk(codes: np.ndarray, padded: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Label of each row: the column of `values` with the largest sum, the lowest one on ties."""
    scores = values[padded[0] + codes[:, 0]].copy()
    for j in range(1, codes.shape[1]):
        scores += values[padded[j] + codes[:, j]]
    return scores.argmax(axis=1).astype(np.int32)


def distances(codes, row, n_clusters, weights) -> np.ndarray:
    """Seeding distance (int64) of each row to `row`, as `Seeding` defines it."""
    distance = np.zeros(len(codes), dtype=np.int64)
    for j in range(codes.shape[1]):
        one_sided = (codes[:, j] < n_clusters[j]) != (row[j] < n_clusters[j])
        distance += np.where(one_sided, weights[j] // ONE_SIDED, weights[j]) * (codes[:, j] != row[j])
    return distance


def chunks_of(n: int, step: int) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
