"""The shape of an ensemble, exact counts over it, and fixed-point score tables."""

from __future__ import annotations

from dataclasses import dataclass
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
    for name in ("uint8", "uint16", "uint32"):
        if n_values - 1 <= np.iinfo(name).max:
            return np.dtype(name)
    raise ValueError(f"a partition has {n_values} clusters; at most 2**32 - 1 are supported.")


@dataclass(frozen=True)
class Layout:
    """Shape of an ensemble: the numbers of base clusters and where each partition starts in H."""

    n_clusters: np.ndarray  # (p,) clusters of each partition
    offsets: np.ndarray  # (p + 1,) first column of H of each partition

    @classmethod
    def of(cls, ensemble: Any) -> Layout:
        return cls(np.ascontiguousarray(ensemble.n_clusters, dtype=np.int64), ensemble.offsets)

    @property
    def n_partitions(self) -> int:
        return len(self.n_clusters)

    @property
    def n_codes(self) -> int:
        return int(self.offsets[-1])

    def columns_of(self, codes: np.ndarray) -> np.ndarray:
        """Columns of H of one row of codes, missing labels left out."""
        seen = codes < self.n_clusters
        return (codes.astype(np.int64) + self.offsets[:-1])[seen]

    # Arithmetic on (d, k) tables, quick beside a pass over many rows. Engines may override it with the same results.

    def sums(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums of α and of α² over each partition, both (p, k)."""
        starts = self.offsets[:-1]
        return np.add.reduceat(alpha, starts, axis=0), np.add.reduceat(alpha * alpha, starts, axis=0)

    def mean_scores(self, counts: Counts, weights: np.ndarray) -> np.ndarray:
        """Scores v_j (2 μ_f − Σ_{f'∈j} μ_f'²) of k-means, μ = α / n_Cj (0 where nothing is observed)."""
        cells = np.maximum(counts.cells, 1)  # an unobserved cell has α = 0, so its scores are 0
        penalty = counts.squares / cells / cells
        repeats = self.n_clusters
        scores = 2.0 * counts.alpha / np.repeat(cells, repeats, axis=0) - np.repeat(penalty, repeats, axis=0)
        if (weights != 1.0).any():
            scores *= np.repeat(weights, repeats)[:, None]
        return scores

    def largest(self, scores: np.ndarray) -> np.ndarray:
        """Largest size of a score in each partition (p,)."""
        return np.maximum.reduceat(np.abs(scores), self.offsets[:-1], axis=0).max(axis=1)

    def rounded(self, scores: np.ndarray, scale: float) -> np.ndarray:
        """Scores times `scale`, rounded to even, as int32."""
        return np.rint(scores * scale).astype(np.int32)


class Counts:
    """α_f(C) for every base cluster f and consensus cluster C, and quantities derived from it.

    All integers: `alpha` (d, k), `sizes` (k,), `cells` (p, k) = items of C observed in partition j, `squares`
    (p, k) = Σ_{f∈j} α_f².
    """

    __slots__ = ("_cells", "_squares", "alpha", "layout", "sizes")

    def __init__(
        self,
        alpha: np.ndarray,
        sizes: np.ndarray,
        layout: Layout,
        cells: np.ndarray | None = None,
        squares: np.ndarray | None = None,
    ):
        self.alpha = alpha
        self.sizes = sizes
        self.layout = layout
        self._cells = cells  # computed when first read, unless given
        self._squares = squares

    @property
    def n_clusters(self) -> int:
        return self.alpha.shape[1]

    @property
    def cells(self) -> np.ndarray:
        if self._cells is None:
            self._cells, self._squares = self.layout.sums(self.alpha)
        return self._cells

    @property
    def squares(self) -> np.ndarray:
        if self._squares is None:
            self._cells, self._squares = self.layout.sums(self.alpha)
        return self._squares

    def of_cluster(self, cluster: int) -> Counts:
        """The counts of one cluster alone."""
        one = slice(cluster, cluster + 1)
        known = self._cells is not None and self._squares is not None
        sums = (self._cells[:, one].copy(), self._squares[:, one].copy()) if known else ()  # type: ignore[index]
        return Counts(self.alpha[:, one].copy(), self.sizes[one].copy(), self.layout, *sums)

    def with_rows(self, clusters: np.ndarray, rows: np.ndarray) -> Counts:
        """A copy in which each of `clusters` holds just one row of codes, which places its center on that row."""
        alpha, sizes = self.alpha.copy(), self.sizes.copy()
        for cluster, codes in zip(clusters, rows):
            alpha[:, cluster] = 0
            alpha[self.layout.columns_of(codes), cluster] = 1
            sizes[cluster] = 1
        return Counts(alpha, sizes, self.layout)

    @classmethod
    def of_rows(cls, rows: np.ndarray, layout: Layout) -> RowCounts:
        """Counts of clusters that hold one row of codes each."""
        return RowCounts(rows, layout)


class RowCounts(Counts):
    """Counts of clusters that hold one row of codes each; `alpha` is computed when first read."""

    __slots__ = ("_alpha", "rows")

    def __init__(self, rows: np.ndarray, layout: Layout):
        self.rows = rows  # (k, p)
        self.layout = layout
        self.sizes = np.ones(len(rows), np.int64)
        self._alpha: np.ndarray | None = None
        self._cells = self._squares = None

    @property
    def n_clusters(self) -> int:
        return len(self.rows)

    @property
    def alpha(self) -> np.ndarray:  # type: ignore[override]
        if self._alpha is None:
            self._alpha = np.zeros((self.layout.n_codes, len(self.rows)), np.int64)
            clusters, partitions = np.nonzero(self.rows < self.layout.n_clusters)
            self._alpha[self.rows[clusters, partitions] + self.layout.offsets[partitions], clusters] = 1
        return self._alpha


@dataclass(frozen=True)
class ScoreTable:
    """Fixed-point score table: `values[f, c]` (int32) is the score times ``2**bits``, rounded."""

    values: np.ndarray
    bits: int

    @property
    def n_clusters(self) -> int:
        return self.values.shape[1]
