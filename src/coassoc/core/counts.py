"""The shape of an ensemble, exact counts over it, and fixed-point score tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

# Σα² of one partition is at most (Σ copies)², which must stay inside int64
MAX_COPIES = 3_037_000_499


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
