"""The distribution of co-association over pairs of items: CDF and PAC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ensemble import Ensemble

_ALL_PAIRS_UP_TO = 1000  # items; beyond, pairs are drawn
_DRAWN_PAIRS = 400_000
_GRID = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class Distribution:
    """Empirical CDF of the co-association of pairs of items."""

    grid: np.ndarray  # 101 values from 0 to 1
    cdf: np.ndarray  # share of pairs whose co-association is at most each of them
    pac: float  # proportion of ambiguously clustered pairs, CDF(0.9) − CDF(0.1)
    n_pairs: int  # pairs looked at
    exact: bool  # whether those are all pairs that some partition labels together


def pair_distribution(ensemble: Ensemble, seed: int = 0) -> Distribution:
    """CDF of co-association: over all pairs of a small ensemble, over random pairs of a large one."""
    n = ensemble.n_samples
    exact = n <= _ALL_PAIRS_UP_TO
    if exact:
        left, right = np.triu_indices(n, 1)
    else:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0x9A1,)))
        left = rng.integers(n, size=_DRAWN_PAIRS)
        right = (left + rng.integers(1, n, size=_DRAWN_PAIRS)) % n
    together, both = np.zeros((2, len(left)), dtype=np.int32)
    for j, k in enumerate(ensemble.n_clusters):
        a, b = ensemble.codes[left, j], ensemble.codes[right, j]
        seen = (a != k) & (b != k)
        together += seen & (a == b)
        both += seen
    values = together[both > 0] / both[both > 0]  # pairs that no partition labels together are left out
    counts = np.searchsorted(np.sort(values), _GRID + 1e-12, side="right")
    cdf = counts / max(len(values), 1)
    return Distribution(_GRID, cdf, float(cdf[90] - cdf[10]), len(values), exact)
