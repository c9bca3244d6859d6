"""Counts of a partition on an ensemble, and NMI from counts: what scores and weights are computed from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.counts import Counts, Layout
from ..engines import Rows, resolve
from ..ensemble import Ensemble

_OVERLAP_BYTES = 1 << 29  # HᵀH up to this size; beyond, one counting pass per partition


def counts_of(ensemble: Ensemble, codes: np.ndarray, k: int, copies: np.ndarray | None, engine: Any) -> Counts:
    """Counts by one pass over the items; those with a negative label are left out."""
    absent = codes < 0
    if absent.any():
        copies = np.ones(len(codes), np.int64) if copies is None else copies.copy()
        copies[absent] = 0
        codes = np.where(absent, 0, codes)
    with resolve(engine, ensemble).load(ensemble, copies) as rows:
        return rows.counts(rows.labelling(k, codes))


def member_tables(ensemble: Ensemble, rows: Rows, order: Iterable[int]) -> Iterator[np.ndarray]:
    """α (d, k_j) of each clustering j taken as a consensus: columns of HᵀH, or a pass each when d² is too large."""
    layout = rows.layout
    small = layout.n_codes**2 * 8 <= _OVERLAP_BYTES
    overlap = rows.overlap() if small else None
    for j in order:
        k = int(layout.n_clusters[j])
        if overlap is not None:
            yield overlap[:, layout.offsets[j] : layout.offsets[j + 1]]
        else:  # items without a label in j form one more cluster, which is dropped
            labels = ensemble.partition(j)
            yield rows.counts(rows.labelling(k + 1, np.where(labels < 0, k, labels).astype(np.int32))).alpha[:, :k]


def member_counts(ensemble: Ensemble, copies: np.ndarray | None, engine: Any) -> Iterator[Counts]:
    """Counts of each clustering taken as a consensus."""
    layout = Layout.of(ensemble)
    with resolve(engine, ensemble).load(ensemble, copies) as rows:
        for j, alpha in enumerate(member_tables(ensemble, rows, range(layout.n_partitions))):
            sizes = np.diagonal(alpha[layout.offsets[j] : layout.offsets[j + 1]])
            yield Counts(np.ascontiguousarray(alpha), sizes.copy(), layout)


def member_nmi(ensemble: Ensemble, copies: np.ndarray | None, engine: Any) -> np.ndarray:
    """NMI between every two clusterings, shape (n_partitions, n_partitions)."""
    return np.array([nmi_from_counts(counts) for counts in member_counts(ensemble, copies, engine)])


class ZeroEffort(NamedTuple):
    """Scores of taking one base partition instead of computing a consensus."""

    mean: float
    best: float

    @classmethod
    def of(cls, scores: np.ndarray) -> ZeroEffort:
        """From the scores of all base partitions."""
        return cls(math.fsum(scores.tolist()) / len(scores), float(scores.max()))


def mean_with_others(nmi: np.ndarray) -> np.ndarray:
    """Mean of each row of a square without its diagonal; 1 for a single partition."""
    p = len(nmi)
    if p == 1:
        return np.ones(1)
    return np.array([math.fsum(np.delete(row, j).tolist()) / (p - 1) for j, row in enumerate(nmi)])


def nmi_from_counts(counts: Counts) -> np.ndarray:
    """NMI of a partition with each clustering, from its counts, shape (n_partitions,)."""
    offsets = counts.layout.offsets
    return np.array([nmi_from_table(counts.alpha[start:stop]) for start, stop in itertools.pairwise(offsets)])


def mean_nmi(counts: Counts, weights: np.ndarray) -> float:
    """Mean of these NMI, weighted."""
    return math.fsum((weights * nmi_from_counts(counts)).tolist()) / len(weights)


def contingency(
    a: np.ndarray, b: np.ndarray, shape: tuple[int, int] | None = None, copies: np.ndarray | None = None
) -> np.ndarray:
    """How many items have each label of `a` and of `b`; those with a negative label in either do not count."""
    k_a, k_b = shape or (int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1)
    both = (a >= 0) & (b >= 0)
    cells = a[both].astype(np.int64) * k_b + b[both]
    weights = None if copies is None else copies[both]
    return np.bincount(cells, weights=weights, minlength=k_a * k_b).astype(np.int64).reshape(k_a, k_b)


def nmi_from_table(table: np.ndarray) -> float:
    """NMI from a contingency table of integers. Sums are exactly rounded, so no order of clusters matters."""
    n = int(table.sum())
    rows, cols = table.sum(axis=1), table.sum(axis=0)
    if n == 0 or (np.count_nonzero(rows) == 1 and np.count_nonzero(cols) == 1):
        return 1.0
    whole = _xlogx(np.array([n]))
    minus_rows, minus_cols = [-x for x in _xlogx(rows)], [-x for x in _xlogx(cols)]
    entropy_rows = math.fsum(whole + minus_rows)
    entropy_cols = math.fsum(whole + minus_cols)
    shared = math.fsum(whole + _xlogx(table[table > 0]) + minus_rows + minus_cols)
    return min(1.0, max(0.0, 2.0 * shared / (entropy_rows + entropy_cols)))


def _xlogx(values: np.ndarray) -> list[float]:
    values = values[values > 0].astype(np.float64)
    return (values * np.log(values)).tolist()
