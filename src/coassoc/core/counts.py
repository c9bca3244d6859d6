"""The shape of an ensemble, exact counts over it, densities and losses from counts, and fixed-point score tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

# Σα² of one partition is at most (Σ copies)², which must stay inside int64
MAX_COPIES = 3_037_000_499
_SUM_BITS = 34  # the weights of a row's labels sum to at most 2**34 units
_LOW_BITS = 26  # rows whose weights sum to fewer than 2**26 units may count less than they should, if items are many


def check_total_copies(total: int) -> None:
    """Reject more items, copies counted, than exact counts can hold."""
    if total > MAX_COPIES:
        raise ValueError(f"the ensemble has {total} items, copies counted; exact counts hold for at most {MAX_COPIES}.")


def smallest_unsigned(n_values: int) -> np.dtype:
    """Smallest unsigned type that holds `n_values` different codes or labels."""
    if n_values > 1 << 32:
        raise ValueError(f"a partition has {n_values} clusters; at most 2**32 - 1 are supported.")
    return np.min_scalar_type(max(int(n_values) - 1, 0))


@dataclass(frozen=True)
class Layout:
    """Shape of an ensemble: the numbers of base clusters and where each partition starts in H."""

    n_clusters: np.ndarray  # (p,) clusters of each partition
    offsets: np.ndarray  # (p + 1,) first column of H of each partition

    @classmethod
    def of(cls, ensemble: Any) -> Layout:
        return cls(np.ascontiguousarray(ensemble.n_clusters, dtype=np.int64), ensemble.offsets)

    @classmethod
    def of_sizes(cls, n_clusters: np.ndarray) -> Layout:
        """From the numbers of clusters (p,)."""
        n_clusters = np.ascontiguousarray(n_clusters, dtype=np.int64)
        return cls(n_clusters, np.concatenate([[0], np.cumsum(n_clusters)]).astype(np.int64))

    @property
    def n_partitions(self) -> int:
        return len(self.n_clusters)

    @property
    def n_codes(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def padded_starts(self) -> np.ndarray:
        """Where each partition starts in a padded table, in which a row of zeros, for missing labels, follows each."""
        return self.offsets[:-1] + np.arange(self.n_partitions)

    @cached_property
    def _in_padded(self) -> np.ndarray:
        return np.arange(self.n_codes) + np.repeat(np.arange(self.n_partitions), self.n_clusters)

    def pad(self, values: np.ndarray) -> np.ndarray:
        """A padded copy of a table (d, ...)."""
        padded = np.zeros((self.n_codes + self.n_partitions, *values.shape[1:]), values.dtype)
        padded[self._in_padded] = values
        return padded

    def unpad(self, padded: np.ndarray) -> np.ndarray:
        """The table (d, ...) in a padded one, which may be longer."""
        return padded.take(self._in_padded, axis=0)

    def columns_of(self, codes: np.ndarray) -> np.ndarray:
        """Columns of H of one row of codes, missing labels left out."""
        seen = codes < self.n_clusters
        return (codes.astype(np.int64) + self.offsets[:-1])[seen]


@dataclass(eq=False)
class Counts:
    """α_f(C) for every base cluster f and consensus cluster C, and quantities derived from it.

    All integers: `alpha` (d, k), `sizes` (k,), `cells` (p, k) = items of C observed in partition j, `squares`
    (p, k) = Σ_{f∈j} α_f².
    """

    alpha: np.ndarray
    sizes: np.ndarray
    layout: Layout

    @property
    def n_clusters(self) -> int:
        return self.alpha.shape[1]

    @cached_property
    def cells(self) -> np.ndarray:
        return np.add.reduceat(self.alpha, self.layout.offsets[:-1], axis=0)

    @cached_property
    def squares(self) -> np.ndarray:
        return np.add.reduceat(self.alpha * self.alpha, self.layout.offsets[:-1], axis=0)

    def of_cluster(self, cluster: int) -> Counts:
        """The counts of one cluster alone."""
        return Counts(self.alpha[:, [cluster]], self.sizes[[cluster]], self.layout)

    def with_rows(self, clusters: np.ndarray, rows: np.ndarray) -> Counts:
        """A copy in which each of `clusters` holds just one row of codes, which places its center on that row."""
        alpha, sizes = self.alpha.copy(), self.sizes.copy()
        alpha[:, clusters], sizes[clusters] = Counts.of_rows(rows, self.layout).alpha, 1
        return Counts(alpha, sizes, self.layout)

    @classmethod
    def of_rows(cls, rows: np.ndarray, layout: Layout) -> Counts:
        """Counts of clusters that hold one row of codes each."""
        alpha = np.zeros((layout.n_codes, len(rows)), np.int64)
        clusters, partitions = np.nonzero(rows < layout.n_clusters)
        alpha[rows[clusters, partitions] + layout.offsets[partitions], clusters] = 1
        return cls(alpha, np.ones(len(rows), np.int64), layout)


@dataclass(frozen=True)
class ScoreTable:
    """Fixed-point score table: `values[f, c]` (int32) is the score times ``2**bits``, rounded."""

    values: np.ndarray
    bits: int

    @property
    def n_clusters(self) -> int:
        return self.values.shape[1]


@dataclass(frozen=True)
class RowShares:
    r"""What each row counts in :math:`\sum_i h_i h_i^T / \sum_{f \in i} u_f`, in fixed point.

    Base cluster f weighs `units[f]`, a whole number. A row counts ``min(2**bits // Σ units of its labels, most)`` for
    each of its copies, and 0 without a label. The sum over all copies stays below 2**63.
    """

    units: np.ndarray  # (d,) int64, at least 1 where the weight is positive
    bits: int
    most: int
    scale: float  # 1 / Σ u, for a row that counts 1

    @classmethod
    def of(cls, weights: np.ndarray, n_partitions: int, n_copies: int) -> RowShares:
        """Shares for `weights` u >= 0 (d,) of base clusters and rows that are `n_copies` items in all."""
        u = np.asarray(weights, dtype=np.float64)
        unit = 2.0 ** (_SUM_BITS - 1) / (n_partitions * (float(u.max()) or 1.0))
        units = np.where(u > 0, np.maximum(np.rint(u * unit), 1.0), 0.0).astype(np.int64)
        bits = min(62, 62 + _LOW_BITS - max(1, n_copies).bit_length())
        return cls(units, bits, (1 << 62) // max(1, n_copies), unit / 2.0**bits)

    def of_sums(self, sums: np.ndarray) -> np.ndarray:
        """What one copy of each row counts, given the summed units of its labels (int64)."""
        return np.where(sums > 0, np.minimum((1 << self.bits) // np.maximum(sums, 1), self.most), 0)


# -- densities and losses of a partition -------------------------------------------------------------------------


def cluster_densities(counts: Counts, v: np.ndarray) -> np.ndarray:
    """D(C) of each cluster."""
    cells = counts.cells
    together = weighted_columns(counts.squares - cells, v)
    observed = weighted_columns(cells * (cells - 1), v)
    return np.array([t / o if o > 0 else 0.0 for t, o in zip(together, observed)])


def density_from_counts(counts: Counts, v: np.ndarray) -> float:
    """S of the partition with these counts."""
    return mean_density(counts.sizes, cluster_densities(counts, v))


def mean_density(sizes: np.ndarray, densities: np.ndarray) -> float:
    """S of clusters with these sizes and densities."""
    n = int(sizes.sum())
    return math.fsum((sizes * densities).tolist()) / n if n else 0.0


def gain_of_split(sizes: np.ndarray, densities: np.ndarray, before: float) -> float:
    """n·ΔS of splitting a cluster of density `before` into pieces of these sizes and densities."""
    return math.fsum([*(sizes * densities).tolist(), -(float(sizes.sum()) * before)])


def loss_from_counts(counts: Counts, v: np.ndarray) -> float:
    """k-means loss on H of the partition with these counts."""
    cells = counts.cells
    kept = counts.squares / np.maximum(cells, 1)
    # fsum is exactly rounded, so the order of partitions and clusters does not matter
    return math.fsum((v[:, None] * np.concatenate([cells, -kept], axis=1)).ravel().tolist())


def inter_densities(counts: Counts, v: np.ndarray) -> np.ndarray:
    """D(C, C') for every two clusters, D(C) on the diagonal."""
    layout, k = counts.layout, counts.n_clusters
    together = np.zeros((k, k))
    observed = np.zeros((k, k))
    for j in np.argsort(v, kind="stable"):
        block = counts.alpha[layout.offsets[j] : layout.offsets[j + 1]].astype(np.float64)
        cell = counts.cells[j].astype(np.float64)
        together += v[j] * (block.T @ block)
        observed += v[j] * np.outer(cell, cell)
    result = np.divide(together, observed, out=np.zeros((k, k)), where=observed > 0)
    np.fill_diagonal(result, cluster_densities(counts, v))
    return result


def weighted_columns(values: np.ndarray, v: np.ndarray) -> list:
    """Σ_j v_j values[j] for each column: in Python integers when all weights are 1, else exactly rounded."""
    columns = values.T.tolist()
    if (v == 1.0).all():
        return [sum(column) for column in columns]
    weights = v.tolist()
    return [math.fsum(w * x for w, x in zip(weights, column)) for column in columns]
