"""A small engine with the mandatory verbs alone: proof that the contract is enough, and an independent truth.

It multiplies with the one-hot matrix H written out, so it shares no code with the engines it is compared with.
Float64 products of integers below 2**53 are exact. Only for small inputs: H takes 8 n d bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coassoc.core.counts import Counts, Layout
from coassoc.core.moves import Moves, propose_chunk
from coassoc.engines import Engine, Labelling, Rows, Seeding


class Toy(Engine):
    """Rows as a dense one-hot matrix."""

    name = "toy"

    def load(self, ensemble: Any, multiplicity: Any = None) -> ToyRows:
        layout = Layout(np.asarray(ensemble.n_clusters), np.asarray(ensemble.offsets))
        copies = np.ones(ensemble.n_samples) if multiplicity is None else np.array(multiplicity, float)
        unlabelled = ensemble.unlabelled()
        if unlabelled is not None:
            copies[unlabelled] = 0
        return ToyRows(np.asarray(ensemble.codes), layout, copies, np.arange(ensemble.n_samples))


class ToyLabelling(Labelling):
    def one_hot(self) -> np.ndarray:
        return (self.labels[:, None] == np.arange(self.n_clusters)).astype(float)


class ToyRows(Rows):
    def __init__(self, codes: np.ndarray, layout: Layout, copies: np.ndarray, ids: np.ndarray):
        self.codes, self.layout, self.copies, self.ids = codes, layout, copies, ids
        self.n_rows, self.n_copies = len(codes), int(copies.sum())
        self.H = self.one_hot(codes)

    def one_hot(self, codes: np.ndarray) -> np.ndarray:
        blocks = [codes[:, j, None] == np.arange(k) for j, k in enumerate(self.layout.n_clusters)]
        return np.concatenate(blocks, axis=1).astype(float)  # a missing label has no column

    def labelling(self, k: int, labels: Any = None) -> ToyLabelling:
        return ToyLabelling(k, np.full(self.n_rows, -1) if labels is None else np.array(labels, int))

    def assign(self, labelling: Any, table: Any) -> int:
        new = (self.H @ table.values).argmax(axis=1)  # the first of equals
        moved, labelling.labels = int((new != labelling.labels).sum()), new
        return moved

    def counts(self, labelling: Any) -> Counts:
        members = labelling.one_hot() * self.copies[:, None]
        alpha, sizes = self.H.T @ members, members.sum(axis=0)
        return Counts(alpha.astype(np.int64), sizes.astype(np.int64), self.layout)

    def labels(self, labelling: Any) -> np.ndarray:
        return labelling.labels.astype(np.int32)

    def relabel(self, labelling: Any, indices: np.ndarray, targets: np.ndarray) -> None:
        labelling.labels[indices] = targets

    def own_scores(self, labelling: Any, table: Any, start: int = 0, stop: Any = None) -> np.ndarray:
        return ((self.H @ table.values) * labelling.one_hot()).sum(axis=1).astype(np.int64)[start:stop]

    def propose_moves(self, labelling: Any, table: Any, start: int, limit: int) -> Moves:
        copies = self.copies.astype(np.int64)
        target = propose_chunk(self.codes, labelling.labels, copies, table, self.layout)
        found = start + np.flatnonzero(target[start:] >= 0)[:limit]
        stop = int(found[-1]) + 1 if len(found) == limit else self.n_rows
        return Moves(found, labelling.labels[found], target[found], self.codes[found], copies[found], stop)

    def seeding(self, weights: np.ndarray) -> ToySeeding:
        return ToySeeding(self, weights)

    def split(self, labelling: Any) -> list[Rows]:
        inside = [labelling.labels == c for c in range(labelling.n_clusters)]
        return [ToyRows(self.codes[i], self.layout, self.copies[i], self.ids[i]) for i in inside]

    def scatter(self, leaves: Any) -> np.ndarray:
        labels = np.zeros(self.n_rows, np.int32)
        for position, leaf in enumerate(leaves):
            labels[leaf.ids] = position
        return labels

    def overlap(self, shares: Any = None) -> np.ndarray:
        factor = [int(c) for c in self.copies]
        if shares is not None:
            sums = [int(s) for s in self.H.astype(np.int64) @ shares.units]
            factor = [c * min(2**shares.bits // s, shares.most) if s else 0 for c, s in zip(factor, sums)]
        onehot = self.H.astype(int).astype(object)
        return (onehot.T @ (onehot * np.array(factor, dtype=object)[:, None])).astype(np.int64)

    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        return self.codes[indices]


class ToySeeding(Seeding):
    def __init__(self, rows: ToyRows, weights: np.ndarray):
        self.rows, self.weights = rows, np.asarray(weights, float)
        self.distance = np.ones(rows.n_rows)
        self.nothing_chosen = True
        self.total = rows.n_copies

    def to(self, row: np.ndarray) -> np.ndarray:
        """Weights of the partitions that label both, less those that agree, and 1/64 of those that label one."""
        k, rows = self.rows.layout.n_clusters, self.rows
        both, one = ((rows.codes < k) & (row < k)) @ self.weights, ((rows.codes < k) ^ (row < k)) @ (self.weights // 64)
        found = both + one - rows.H @ (rows.one_hot(row[None])[0] * np.repeat(self.weights, k))
        return found if self.nothing_chosen else np.minimum(found, self.distance)

    def locate(self, targets: np.ndarray) -> np.ndarray:
        running = np.cumsum(self.rows.copies * self.distance)
        return self.rows.codes[np.searchsorted(running, targets, side="right")]

    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        return np.array([self.rows.copies @ self.to(row) for row in candidates]).astype(np.int64)

    def add(self, row: np.ndarray) -> None:
        self.distance, self.nothing_chosen = self.to(row), False
        self.total = int(self.rows.copies @ self.distance)
