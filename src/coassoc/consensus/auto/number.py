"""The number of clusters: where the cuts of average linkage by strong ties agree, are stable, apart and balanced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.neighbors import NearestNeighbors

from ...core.counts import Counts
from ..merge import merged_counts
from .candidates import MicroFits
from .members import agreement
from .refits import Refits

# Weights of the curves in the score, within the range of the clusterings' own numbers and below it, tuned on the even
# seeds of benchmarks/k_families.py and on COASSOC_TRUTH, with the odd seeds in view. Many others do as well: a mean of
# 71.2 to 71.5 for weights within the range from 1 to 3 of agreement, 2 to 4 of stability, 1 to 3 of the eigengap.
# Neighbours that count twice change none of these families; four times and more costs digits.
WITHIN = {"agreement": 3.0, "stability": 4.0, "eigengap": 3.0, "balance": 2.0, "neighbours": 2.0}
BELOW = {"agreement": 1.0, "stability": 6.0, "eigengap": 2.0, "balance": 2.0, "neighbours": 2.0}
STRAY = 0.05  # share of the clusterings that may have fewer or more clusters than the range of their numbers says
# That range says nothing when its ends differ by more than the first factor, or when it is above a number by the
# second: the clusterings were made to differ, or to be joined.
VARIED, FAR = 2.0, 6.0
# Else a number below the range is taken when halves agree this much there, and stability and eigengap together are less
# than the second at the best number within the range; or when neither is lower and the score is ahead by the third.
STEADY, CLEAR, AHEAD = 0.9, 1.0, 1.0
# While the number is chosen, groups of less than this share of the mean size are no clusters: single outliers are none.
LEAST_SHARE = 0.02
MOST_NEIGHBOURS, N_NEAREST = 1500, 10  # items whose neighbours are found, and neighbours of each
# A runner-up has a score this close to the best, or within the range an eigengap of at least this share of that of the
# best and this large: in nested clusterings several numbers are right. On the design seeds of benchmarks/k_families.py,
# on COASSOC_TRUTH and on the public sets the true number is then chosen or named in 60 % instead of 57 %, by .8 names
# instead of .6. Below the range the gaps within it are those of clusterings that are too fine on purpose.
RUNNER_UP_MARGIN, GAP_SHARE, LEAST_GAP = 0.5, 0.8, 0.1
_MOST_RUNNERS_UP = 3


@dataclass(frozen=True)
class NumberOfClusters:
    """The suggested number, the runners-up, and the curves behind them."""

    k: int
    runners_up: list[int]  # numbers nearly as good, by score or by eigengap, best first; then one below the range
    ks: np.ndarray
    score: np.ndarray  # NaN for the numbers that were not compared
    curves: dict[str, np.ndarray]
    other: int | None = None  # the best number on the other side of the lower end of the clusterings' range


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
    range says nothing about it or is less clear.
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
    n_apart = (fits.sizes_apart[:, None] >= smallest).sum(axis=0)
    possible = ks >= ks[n_apart >= ks].max(initial=ks[0])
    return _choose(ks, curves, own_range(counts), possible)


def own_range(counts: Counts) -> tuple[int, int]:
    """The range of the clusterings' own numbers of clusters, but for STRAY of them; its lower end counts clusters by
    exp(entropy) of their sizes, so that few labels at random are no cluster of their own."""
    starts, sizes = counts.layout.offsets[:-1], counts.alpha.sum(axis=1)
    labelled = np.maximum(np.add.reduceat(sizes, starts), 1)
    effective = np.exp(np.log(labelled) - np.add.reduceat(xlogy(sizes, sizes), starts) / labelled)
    low = np.quantile(np.ceil(effective - 1e-9), STRAY, method="lower")
    n_clusters = np.add.reduceat(sizes > 0, starts, dtype=np.int64)
    return int(low), int(np.quantile(n_clusters, 1.0 - STRAY, method="higher"))


def _choose(
    ks: np.ndarray, curves: dict[str, np.ndarray], own: tuple[int, int], possible: np.ndarray
) -> NumberOfClusters:
    """The number from its curves, the range of the clusterings' own numbers, and which numbers are possible."""
    stability, gap = curves["stability"], curves["eigengap"]
    within = possible & (ks >= own[0])
    score = below = _score(curves, BELOW)
    best, other, fewer = _best(below, possible), -1, []
    if within.any():
        inside = _score(curves, WITHIN)
        at, rival = _best(inside, within), _best(below, possible & ~within)
        other = at
        is_clear = stability[best] >= STEADY and stability[at] + gap[at] < CLEAR
        is_ahead = stability[best] >= stability[at] and gap[best] >= gap[at] and below[best] >= below[at] + AHEAD
        if within[best] or not (_says_nothing(own, int(ks[best])) or is_clear or is_ahead):
            score, possible, best, other = inside, within, at, rival
            if rival >= 0 and below[rival] >= below[at] - RUNNER_UP_MARGIN:
                fewer = [int(ks[rival])]
    score = np.where(possible, score, np.nan)
    padded = np.concatenate([[-np.inf], np.where(possible, score, -np.inf), [-np.inf]])
    peak = (score >= padded[:-2]) & (score >= padded[2:]) & (score >= score[best] - RUNNER_UP_MARGIN)
    named = peak | (within[best] & possible & (gap >= max(GAP_SHARE * gap[best], LEAST_GAP)))
    others = [int(ks[i]) for i in np.argsort(-score, kind="stable") if named[i] and i != best]
    runners_up = others[: _MOST_RUNNERS_UP - len(fewer)] + fewer
    return NumberOfClusters(int(ks[best]), runners_up, ks, score, curves, int(ks[other]) if other >= 0 else None)


def _score(curves: dict[str, np.ndarray], weights: dict[str, float]) -> np.ndarray:
    return np.sum([weights[name] * curve for name, curve in curves.items()], axis=0)


def _best(score: np.ndarray, allowed: np.ndarray) -> int:
    """Position of the highest score, -1 where none is allowed."""
    return int(np.argmax(np.where(allowed, score, -np.inf))) if allowed.any() else -1


def _says_nothing(own: tuple[int, int], k: int) -> bool:
    """Whether clusterings whose numbers of clusters have the range `own` say nothing about fewer, k."""
    return own[1] > VARIED * own[0] or own[0] >= FAR * k


def _balance(of_leaf: np.ndarray, sizes: np.ndarray) -> float:
    """Effective number of clusters over their number: 1 for equal sizes."""
    share = np.bincount(of_leaf, weights=sizes) / sizes.sum()
    return float(np.exp(-(share * np.log(share)).sum())) / len(share)
