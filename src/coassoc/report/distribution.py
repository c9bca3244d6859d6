"""The distribution of co-association over pairs of items: CDF, PAC, and how both change with k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..ensemble import Ensemble, make_ensemble

_ALL_PAIRS_UP_TO = 1000  # items; beyond, pairs are drawn
_DRAWN_PAIRS = 400_000
_GRID = np.linspace(0.0, 1.0, 101)
_LOW, _HIGH = 0.1, 0.9
_LEAST_PARTITIONS = 5


@dataclass(frozen=True)
class Distribution:
    """Empirical CDF of the co-association of pairs of items.

    Attributes
    ----------
    grid, cdf : ndarray of shape (101,)
        Share of pairs whose co-association is at most each grid value.
    pac : float
        Proportion of ambiguously clustered pairs, CDF(0.9) − CDF(0.1): co-association above 0.1 and at most 0.9.
    area : float
        Area under the CDF.
    n_pairs : int
        Pairs looked at.
    exact : bool
        Whether those are all pairs that some partition labels together.
    k : int or None
        Clusters of the partitions, when they share that number.
    """

    grid: np.ndarray
    cdf: np.ndarray
    pac: float
    area: float
    n_pairs: int
    exact: bool
    k: int | None = None


def pair_distribution(ensemble: Ensemble, seed: int = 0, k: int | None = None) -> Distribution:
    """CDF of co-association: over all pairs of a small ensemble, over random pairs of a large one."""
    n = ensemble.n_samples
    exact = n <= _ALL_PAIRS_UP_TO
    if exact:
        left, right = np.triu_indices(n, 1)
    else:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0x9A1,)))
        left = rng.integers(n, size=_DRAWN_PAIRS)
        right = (left + rng.integers(1, n, size=_DRAWN_PAIRS)) % n
    values = _values(ensemble, left, right)
    counts = np.searchsorted(np.sort(values), _GRID + 1e-12, side="right")
    cdf = counts / max(len(values), 1)
    area = float(np.sum((cdf[1:] + cdf[:-1]) / 2 * np.diff(_GRID)))
    at = {level: int(np.flatnonzero(np.isclose(_GRID, level))[0]) for level in (_LOW, _HIGH)}
    return Distribution(_GRID, cdf, float(cdf[at[_HIGH]] - cdf[at[_LOW]]), area, len(values), exact, k)


def _values(ensemble: Ensemble, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Co-association of given pairs, those never labelled together left out."""
    together = np.zeros(len(left), dtype=np.int32)
    both = np.zeros(len(left), dtype=np.int32)
    for j, k in enumerate(ensemble.n_clusters):
        a, b = ensemble.codes[left, j], ensemble.codes[right, j]
        seen = (a != k) & (b != k)
        together += seen & (a == b)
        both += seen
    return together[both > 0] / both[both > 0]


def distribution_over_k(
    ensemble: Ensemble, features: Any, k_range: Any, seed: int, say: Callable[[str], None]
) -> tuple[list[Distribution], str]:
    """One distribution for each k, and a note on how they were made, or why there are none."""
    if features is not None:
        return _from_features(features, k_range, seed, say)
    groups = {
        int(k): np.flatnonzero(ensemble.n_clusters == k)
        for k in np.unique(ensemble.n_clusters)
        if int((ensemble.n_clusters == k).sum()) >= _LEAST_PARTITIONS
    }
    if len(groups) < 2:
        many = "no number of clusters is" if not groups else f"only k = {next(iter(groups))} is"
        return [], (
            f"Not shown: {many} shared by at least {_LEAST_PARTITIONS} of the base partitions, and no features were "
            "given. Comparing k needs several clusterings at each k; pass features= (--features), or base clusterings "
            "made that way."
        )
    curves = []
    for k, members in groups.items():
        say(f"pairs at k = {k}")
        part = Ensemble.from_codes(np.ascontiguousarray(ensemble.codes[:, members]), ensemble.n_clusters[members])
        curves.append(pair_distribution(part, seed, k))
    listed = ", ".join(f"{k} ({len(members)})" for k, members in groups.items())
    return curves, f"From the base partitions that share a number of clusters: k (how many partitions) {listed}."


def _from_features(features: Any, k_range: Any, seed: int, say) -> tuple[list[Distribution], str]:
    n = features.shape[0] if hasattr(features, "shape") else len(features)
    wanted = range(2, 11) if k_range is None else k_range
    ks = sorted({int(k) for k in wanted if 2 <= int(k) <= 0.8 * n})
    if not ks:
        return [], f"Not shown: no k of the range asked for fits {n} items."
    curves = []
    for k in ks:
        say(f"new ensemble at k = {k}")
        made = make_ensemble(
            features, 20, k, sample_fraction=0.8, n_init=1, random_state=np.random.SeedSequence(seed, spawn_key=(k,))
        )
        curves.append(pair_distribution(made, seed, k))
    return curves, "From the features: for each k, 20 k-means clusterings of random 80 % samples of the items."


def delta_area(curves: list[Distribution]) -> list[float]:
    """Relative gain of the area under the CDF from one k to the next; the area itself at the first k."""
    areas = [curve.area for curve in curves]
    gains = [areas[0]] if areas else []
    return gains + [(now - before) / before if before > 0 else 0.0 for before, now in pairwise(areas)]
