"""The number of clusters: one score over the cuts of average linkage by strong ties."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from ..merge import merged_counts
from .candidates import MicroFits
from .members import agreement
from .refits import Refits

# Weights of the curves in the score, chosen on the even seeds of benchmarks/k_families.py and on COASSOC_TRUTH. Their
# mean over twelve families is 81.2 to 81.8 for stability from 4 to 6 and balance from 1 to 3; 6 is best for shapes.
# Neighbours that count twice change none of these families; four times and more costs digits and unequal groups.
WEIGHTS = {"agreement": 1.0, "stability": 6.0, "eigengap": 2.0, "balance": 2.0, "neighbours": 2.0}
# While the number is chosen, groups of less than this share of the mean size are no clusters: single outliers are none.
LEAST_SHARE = 0.02
MOST_NEIGHBOURS, N_NEAREST = 1500, 10  # items whose neighbours are found, and neighbours of each
RUNNER_UP_MARGIN = 0.5  # a runner-up has a score this close to the best
_MOST_RUNNERS_UP = 3


@dataclass(frozen=True)
class NumberOfClusters:
    """The suggested number, the runners-up, and the curves behind them."""

    k: int
    runners_up: list[int]  # other peaks of the score within RUNNER_UP_MARGIN of the best, best first
    ks: np.ndarray
    score: np.ndarray
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

    The score is agreement + 6 · stability + 2 · eigengap + 2 · balance, each in its own units. agreement: mean adjusted
    mutual information of the cut with the clusterings. stability: mean adjusted Rand index between the cuts from two
    halves. eigengap: of the graph of micro-clusters and base clusters. balance: exp(entropy) of the sizes over k, so
    that few outliers hardly count as a cluster. With features, 2 times the share of neighbours in the same cluster is
    added. Groups of fewer than `least` items, or of less than LEAST_SHARE of the mean size, do not count as clusters.
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
    score = sum(WEIGHTS[name] * curve for name, curve in curves.items())
    assert isinstance(score, np.ndarray)
    order = np.argsort(-score, kind="stable")
    padded = np.concatenate([[-np.inf], score, [-np.inf]])
    peak = (score >= padded[:-2]) & (score >= padded[2:])
    others = [int(ks[i]) for i in order[1:] if peak[i] and score[i] >= score[order[0]] - RUNNER_UP_MARGIN]
    return NumberOfClusters(int(ks[order[0]]), others[:_MOST_RUNNERS_UP], ks, score, curves)


def _balance(of_leaf: np.ndarray, sizes: np.ndarray) -> float:
    """Effective number of clusters over their number: 1 for equal sizes."""
    share = np.bincount(of_leaf, weights=sizes) / sizes.sum()
    return float(np.exp(-(share * np.log(share)).sum())) / len(share)
