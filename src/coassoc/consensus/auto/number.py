"""The number of clusters: where the cuts of average linkage by strong ties agree, are stable, apart and balanced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

from ..merge import merged_counts
from .candidates import MicroFits
from .members import agreement
from .refits import Refits

# Weights of the curves in the score, within the range of the clusterings' own numbers and below it, chosen on the even
# seeds of benchmarks/k_families.py and on COASSOC_TRUTH. Many others do as well: a mean of 71.2 to 71.5 for weights
# within the range from 1 to 3 of agreement, 2 to 4 of stability, 1 to 3 of the eigengap. Neighbours that count twice
# change none of these families; four times and more costs digits.
WITHIN = {"agreement": 3.0, "stability": 4.0, "eigengap": 3.0, "balance": 2.0, "neighbours": 2.0}
BELOW = {"agreement": 1.0, "stability": 6.0, "eigengap": 2.0, "balance": 2.0, "neighbours": 2.0}
# The range of the clusterings' own numbers says nothing when its ends differ by more than the first factor, or when it
# is above a number by the second: they were made to differ, or to be joined.
VARIED, FAR = 2.0, 4.0
# Else a number below the range is taken when halves agree this much there, and when, at the best number within the
# range, stability and eigengap together are less than the second.
STEADY, CLEAR = 0.9, 1.0
# While the number is chosen, groups of less than this share of the mean size are no clusters: single outliers are none.
LEAST_SHARE = 0.02
MOST_NEIGHBOURS, N_NEAREST = 1500, 10  # items whose neighbours are found, and neighbours of each
RUNNER_UP_MARGIN = 0.5  # a runner-up has a score this close to the best
_MOST_RUNNERS_UP = 3


@dataclass(frozen=True)
class NumberOfClusters:
    """The suggested number, the runners-up, and the curves behind them."""

    k: int
    runners_up: list[int]  # other peaks of the score near the best, best first; then a number below the range
    ks: np.ndarray
    score: np.ndarray  # NaN for the numbers that were ruled out
    curves: dict[str, np.ndarray]


@dataclass(frozen=True)
class Neighbours:
    """Nearest neighbours, by features, among sampled items; where features are given, they vote on k."""

    leaf: np.ndarray  # (m,) micro-cluster of each item
    nearest: np.ndarray  # (m, q) positions of its nearest neighbours among them

    @classmethod
    def of(cls, X: Any, leaf: np.ndarray, rng: np.random.Generator) -> Neighbours:
        sample = np.sort(rng.permutation(np.flatnonzero(leaf >= 0))[:MOST_NEIGHBOURS])
        search = NearestNeighbors(n_neighbors=min(N_NEAREST, len(sample) - 1)).fit(X[sample])
        return cls(leaf[sample].astype(np.int64), search.kneighbors(return_distance=False))

    def together(self, of_leaf: np.ndarray) -> float:
        """Share of neighbours in the cluster of their item, less what chance gives, over the most that is possible."""
        labels = of_leaf[self.leaf]
        chance = float(((np.bincount(labels) / len(labels)) ** 2).sum())
        share = float((labels[self.nearest] == labels[:, None]).mean())
        return (share - chance) / (1.0 - chance) if chance < 1.0 else 0.0


def choose_k(
    fits: MicroFits,
    refits: Refits,
    ks: np.ndarray,
    least: float,
    neighbours: Neighbours | None = None,
) -> NumberOfClusters:
    """Where the clusterings agree, halves of them agree, the graph has a gap and the clusters are of similar size.

    The score is a weighted sum of curves in their own units. agreement: mean adjusted mutual information of the cut
    with the clusterings. stability: mean adjusted Rand index between the cuts from two halves. eigengap: of the graph
    of micro-clusters and base clusters. balance: exp(entropy) of the sizes over k, so that few outliers hardly count as
    a cluster. With features, neighbours: the share of neighbours in the same cluster. Groups of fewer than `least`
    items, or of less than LEAST_SHARE of the mean size, do not count as clusters.

    There are at least as many clusters as groups that no clustering joins. Numbers in the range of the clusterings' own
    are compared with the weights WITHIN. A number below it is taken when the score with BELOW is best there, and the
    range does not speak against it: see `_speaks_against`.
    """
    ks = ks[ks <= fits.n_leaves]
    if not len(ks):
        return NumberOfClusters(min(2, fits.n_leaves), [], ks, np.zeros(0), {})
    smallest = np.maximum(least, LEAST_SHARE * fits.sizes.sum() / ks)
    cuts = [fits.strong_tree.cut(k, size) for k, size in zip(ks.tolist(), smallest.tolist())]
    counts = replace(fits.counts, alpha=np.asfortranarray(fits.counts.alpha))  # leaf after leaf, as they are summed
    merged = (merged_counts(counts, cut, int(cut.max()) + 1).alpha for cut in cuts)
    values = fits.eigenvalues(int(ks[-1]) + 1)
    curves = {
        "agreement": agreement(merged, fits.counts.layout).mean(axis=1),
        "stability": refits.tree_stability(ks, smallest),
        "eigengap": values[ks - 1] - values[ks],
        "balance": np.array([_balance(cut, fits.sizes) for cut in cuts]),
    }
    if neighbours is not None:
        curves["neighbours"] = np.array([neighbours.together(cut) for cut in cuts])
    own = np.add.reduceat(counts.alpha.any(axis=1), counts.layout.offsets[:-1], dtype=np.int64)
    return _choose(ks, curves, own, _n_apart(fits, ks, smallest))


def _choose(ks: np.ndarray, curves: dict[str, np.ndarray], own: np.ndarray, n_apart: int) -> NumberOfClusters:
    """The number from its curves, the numbers of clusters `own` of the clusterings, and the least there can be."""
    stability = curves["stability"]
    possible = ks >= n_apart
    within = possible & (ks >= own.min())
    score = below = _score(curves, BELOW)
    best, fewer = _best(below, possible), []
    if within.any():
        inside = _score(curves, WITHIN)
        at, rival = _best(inside, within), _best(below, possible & ~within)
        clear = stability[at] + curves["eigengap"][at]
        if within[best] or _speaks_against(own, int(ks[best]), stability[best], clear):
            score, possible, best = inside, within, at
            if rival >= 0 and below[rival] >= below[at] - RUNNER_UP_MARGIN:
                fewer = [int(ks[rival])]
    score = np.where(possible, score, np.nan)
    padded = np.concatenate([[-np.inf], np.where(possible, score, -np.inf), [-np.inf]])
    peak = (score >= padded[:-2]) & (score >= padded[2:]) & (score >= score[best] - RUNNER_UP_MARGIN)
    others = [int(ks[i]) for i in np.argsort(-score, kind="stable") if peak[i] and i != best]
    return NumberOfClusters(int(ks[best]), (others + fewer)[:_MOST_RUNNERS_UP], ks, score, curves)


def _score(curves: dict[str, np.ndarray], weights: dict[str, float]) -> np.ndarray:
    return np.sum([weights[name] * curve for name, curve in curves.items()], axis=0)


def _best(score: np.ndarray, allowed: np.ndarray) -> int:
    """Position of the highest score, -1 where none is allowed."""
    return int(np.argmax(np.where(allowed, score, -np.inf))) if allowed.any() else -1


def _speaks_against(own: np.ndarray, k: int, stability: float, clear: float) -> bool:
    """Whether clusterings with `own` numbers of clusters rule out fewer, k, whose stability is given.

    `clear` is the sum of stability and eigengap at the best number within their range.
    """
    alike = own.max() <= VARIED * own.min() and own.min() < FAR * k
    return bool(alike and (stability < STEADY or clear >= CLEAR))


def _n_apart(fits: MicroFits, ks: np.ndarray, smallest: np.ndarray) -> int:
    """Groups of items that no clustering joins, as far as a number among `ks` gives each a cluster of its own."""
    _, group = connected_components(fits.gram > 0, directed=False)
    n_groups = (np.bincount(group, weights=fits.sizes)[:, None] >= smallest).sum(axis=0)
    return int(ks[n_groups >= ks].max(initial=ks[0]))


def _balance(of_leaf: np.ndarray, sizes: np.ndarray) -> float:
    """Effective number of clusters over their number: 1 for equal sizes."""
    share = np.bincount(of_leaf, weights=sizes) / sizes.sum()
    return float(np.exp(-(share * np.log(share)).sum())) / len(share)
