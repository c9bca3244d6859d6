"""Whether the partitions of an ensemble agree more than chance: a cheap check before a consensus is believed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..core.checks import seed_from, stream
from ..ensemble import Ensemble

LEAST_Z = 3.0  # standard deviations of the permuted ensembles by which the real one must exceed their mean
_ITEMS, _PARTITIONS = 2000, 12  # at most so many are looked at, which keeps the check near 0.1 s


@dataclass(frozen=True)
class Chance:
    """Mean NMI between partitions, and what it is after the labels of each partition are permuted."""

    statistic: float
    references: np.ndarray

    @property
    def z_score(self) -> float:
        return (self.statistic - float(self.references.mean())) / max(float(self.references.std(ddof=1)), 1e-12)

    @property
    def p_value(self) -> float:
        """Share of permuted ensembles, this one included, whose mean NMI is as large."""
        return (1 + int(np.count_nonzero(self.references >= self.statistic))) / (len(self.references) + 1)

    @property
    def exceeded(self) -> bool:
        """Whether the partitions agree clearly more than all permuted ones."""
        return bool(self.statistic > self.references.max() and self.z_score >= LEAST_Z)

    @property
    def warning(self) -> str | None:
        """One sentence when the agreement is no more than chance, else None."""
        if self.exceeded:
            return None
        return (
            f"the clusterings agree no more than chance (mean NMI {self.statistic:.3f}, with permuted labels "
            f"{self.references.mean():.3f}): this consensus shows no structure, whatever the other numbers say."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "exceeded": self.exceeded,
            "mean_nmi": self.statistic,
            "permuted_nmi": float(self.references.mean()),
            "z_score": self.z_score,
        }


def check_chance(ensemble: Ensemble, *, n_references: int = 20, random_state: Any = 0) -> Chance | None:
    """Compare the agreement of (a sample of) the partitions with that of permuted labels.

    Returns None for a single partition, which has nothing to agree with.
    """
    if ensemble.n_partitions < 2:
        return None
    seed = seed_from(random_state)
    items = _sample(ensemble.n_samples, _ITEMS, stream(seed, 10))
    columns = _sample(ensemble.n_partitions, _PARTITIONS, stream(seed, 11))
    codes = ensemble.codes[items][:, columns]
    codes = (codes.get() if hasattr(codes, "get") else codes).astype(np.int64)  # `get` copies from a GPU
    n_clusters = ensemble.n_clusters[columns]
    others = []
    for b in range(n_references):
        rng = stream(seed, 7, b)
        shuffled = np.stack([rng.permutation(column) for column in codes.T], axis=1)
        others.append(_mean_nmi(shuffled, n_clusters))
    return Chance(_mean_nmi(codes, n_clusters), np.array(others))


def _sample(n: int, most: int, rng: np.random.Generator) -> np.ndarray:
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _mean_nmi(codes: np.ndarray, n_clusters: np.ndarray) -> float:
    """Mean NMI over pairs of columns, in plain floats: `metrics` has the exact one, which takes far longer."""
    return float(np.mean([
        _nmi(codes[:, i], codes[:, j], int(n_clusters[i]), int(n_clusters[j]))
        for i, j in combinations(range(codes.shape[1]), 2)
    ]))  # fmt: skip


def _nmi(a: np.ndarray, b: np.ndarray, k_a: int, k_b: int) -> float:
    both = (a < k_a) & (b < k_b)
    a, b = a[both], b[both]
    if not len(a):
        return 0.0
    pairs = a * k_b + b
    joint = np.bincount(pairs) if k_a * k_b <= 20 * len(a) else np.unique(pairs, return_counts=True)[1]
    first, second, together = (_entropy(counts, len(a)) for counts in (np.bincount(a), np.bincount(b), joint))
    return 2 * (first + second - together) / (first + second) if first + second > 0 else 1.0


def _entropy(counts: np.ndarray, n: int) -> float:
    shares = counts[counts > 0] / n
    return float(-(shares * np.log(shares)).sum())
