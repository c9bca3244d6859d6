"""Choice of the method and of the number of clusters, on micro-clusters: refits on halves of the partitions, curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.linalg import eigh

from ..core.checks import stream
from ..engines import Engine, Rows
from ..ensemble import Ensemble
from ..metrics.counting import member_tables
from .micro import MICRO_PASSES, MicroClusters, micro_clusters
from .micro_fits import CANDIDATES, WeightedMicro
from .support import MemberPairs, Support, centrality, compare_members, find_support, information

N_MICRO = 300
N_SPLITS = 5  # random halves of the partitions: 10 refits
MOST_CLUSTERS = 30  # tried when the number of clusters is not given
# Constants below were tuned on the design half of benchmarks/truth.py.
FINE = 2.5  # partitions with this many times more clusters than k count as fine
COARSER = 0.3  # added to the score of every k that is small beside the partitions' numbers of clusters, see FINE
NEAR = 0.3  # a runner-up has a score this close to the best (scores range over 0..2.55)
_MOST_RUNNERS_UP = 3
_OTHER_HALF = 1e-9  # weight of the partitions left out: it decides ties only


class Refits:
    """Fits of the candidate methods to all partitions and to random halves of them, at any number of clusters."""

    def __init__(self, micro: MicroClusters, pairs: MemberPairs, seed: int):
        self.micro, weights = micro, micro.weights
        self.left_out: list[np.ndarray] = []  # (p,) True for the partitions a refit does not use
        counted = np.flatnonzero(weights > 0)  # partitions without weight must not make the halves unequal
        for split in range(N_SPLITS):
            first = np.zeros(len(weights), dtype=bool)
            first[stream(seed, 3, split).permutation(counted)[: len(counted) // 2]] = True
            self.left_out += [~first, first | (weights == 0)]
        halves = [np.where(absent, 0.0, weights) + _OTHER_HALF for absent in self.left_out]
        self.whole, *self.halves = [WeightedMicro(micro, w, pairs.cluster_entropy, seed) for w in (weights, *halves)]
        self._fits = cache(self._fit_halves)
        self._entropy = pairs.entropy

    def labels(self, name: str, k: int) -> np.ndarray:
        """Cluster of each micro-cluster, from all partitions."""
        return self.whole.fit(name, k)

    def refits(self, name: str, k: int) -> list[np.ndarray]:
        """The same from each half."""
        return self._fits(name, k)

    def _fit_halves(self, name: str, k: int) -> list[np.ndarray]:
        return [half.fit(name, k) for half in self.halves]

    def stability(self, name: str, k: int) -> float:
        """Mean adjusted Rand index between the two halves of each split."""
        return halves_agreement(self.refits(name, k), self.micro.sizes)

    def choose_method(self, k: int) -> tuple[str, dict[str, float]]:
        """The candidate whose answers from two halves agree most (the first one on ties), and all stabilities.

        K-means is left out where partitions are much finer than k: there it divides the items evenly, and does so
        stably.
        """
        stability = {name: self.stability(name, k) for name in CANDIDATES if name != "kmeans" or not self.fine(k)}
        return max(stability, key=stability.__getitem__), stability

    def fine(self, k: int) -> bool:
        """Whether a typical partition has many more clusters than k: exp(mean entropy) of them, effectively."""
        return bool(np.exp(np.average(self._entropy, weights=self.micro.weights)) / k > FINE)

    def release(self) -> None:
        """Free the matrices; no further fits are possible."""
        self.halves.clear()
        self._fits.cache_clear()
        del self.whole

    def passes_from(self, of_leaf: np.ndarray, k: int) -> list[np.ndarray]:
        """K-means passes from a given partition, with each half: refits of a method that is not a candidate."""
        return [half.passes_from(of_leaf, k) for half in self.halves]

    def agreement(self, of_leaf: np.ndarray) -> float:
        """Mean NMI with the partitions, weighted."""
        return float(np.average(member_nmi(self.micro, of_leaf), weights=self.micro.weights))


def member_nmi(micro: MicroClusters, of_leaf: np.ndarray) -> np.ndarray:
    """NMI of a partition of the micro-clusters with each partition of the ensemble (p,)."""
    return information(micro.merged(of_leaf, int(of_leaf.max()) + 1).alpha, micro.layout).nmi


def halves_agreement(refits: Sequence[np.ndarray], sizes: np.ndarray) -> float:
    """Mean adjusted Rand index between the two refits of each split, which follow one another."""
    return float(np.mean([rand_index(a, b, sizes) for a, b in zip(refits[::2], refits[1::2])]))


def rand_index(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> float:
    """Adjusted Rand index of two partitions of micro-clusters, items counted."""
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1), np.int64)
    np.add.at(table, (a, b), sizes)
    n = int(table.sum())
    together, rows, columns = (int((t * (t - 1)).sum()) for t in (table, table.sum(axis=1), table.sum(axis=0)))
    expected = rows * columns / max(n * (n - 1), 1)
    highest = (rows + columns) / 2
    return (together - expected) / (highest - expected) if highest > expected else 1.0


@dataclass(frozen=True)
class Evidence:
    """What an answer is made from: micro-clusters, support and refits."""

    micro: MicroClusters
    support: Support
    refits: Refits


def gather_evidence(ensemble: Ensemble, rows: Rows, engine: Engine, most_clusters: int, seed: int) -> Evidence:
    """One k-means start and one overlap pass over the items; the rest works on micro-clusters.

    Partitions are weighted by their centrality. With a single one, its clusters are the micro-clusters.
    """
    n_micro = max(N_MICRO, 5 * most_clusters)
    if rows.layout.n_partitions == 1:
        n_micro = max(n_micro, rows.layout.n_codes)
    micro = micro_clusters(rows, engine, min(n_micro, rows.n_rows), MICRO_PASSES, seed, ensemble=ensemble)
    columns = np.split(micro.codes, micro.layout.offsets[1:-1])
    tables = member_tables(ensemble, rows, micro.partitions.tolist())
    ordered = (
        np.ascontiguousarray(alpha[np.ix_(micro.codes, own - rows.layout.offsets[j])])
        for alpha, own, j in zip(tables, columns, micro.partitions)
    )
    pairs = compare_members(ordered, micro.layout)
    kept, weights = micro.weights > 0, np.zeros(len(micro.weights))
    weights[kept] = centrality(pairs.agreement[np.ix_(kept, kept)])
    micro = replace(micro, weights=weights / weights.mean())
    return Evidence(micro, find_support(pairs), Refits(micro, pairs, seed))


@dataclass(frozen=True)
class NumberOfClusters:
    """The suggested number, the runners-up, and the curves behind them."""

    k: int
    runners_up: list[int]  # up to 3 other peaks of `score` within NEAR of the best, best first
    ks: np.ndarray
    score: np.ndarray
    curves: dict[str, np.ndarray]


def choose_k(refits: Refits, ks: Sequence[int] | None = None) -> NumberOfClusters:
    """Where agreement, gaps, stability and balance are high together, over the cuts of the average linkage tree.

    agreement: mean NMI of the cut with the partitions. eigengap: of the graph of micro-clusters and base clusters.
    linkage_gap: fall of the similarity of merges. stability: mean adjusted Rand index between the cuts of the trees of
    two halves. Each of these is brought to 0..1. balance: exp(entropy) of the sizes over k, so that few outliers hardly
    count as a cluster. Agreement and stability count half, the gaps an eighth each. Agreement is highest near the
    number of clusters of the partitions, which says little about much smaller k: those gain COARSER.

    None for `ks` is 2 to MOST_CLUSTERS; numbers larger than that of the micro-clusters are left out. So is their number
    itself, whose gaps are large by definition, unless some partition has as many clusters.
    """
    micro = refits.micro
    most = micro.n_leaves - (micro.n_leaves > max(2, int(micro.layout.n_clusters.max())))
    tried = np.array([k for k in ks or range(2, MOST_CLUSTERS + 1) if 2 <= k <= most], dtype=np.int64)
    if not len(tried):
        return NumberOfClusters(min(2, micro.n_leaves), [], tried, np.zeros(0), {})
    tree, *halves = [one.plain_tree() for one in (refits.whole, *refits.halves)]
    cuts = [tree.cut(int(k)) for k in tried]
    values = graph_eigenvalues(micro, refits.whole.weights, int(tried[-1]) + 1)
    curves = {
        "agreement": np.array([refits.agreement(cut) for cut in cuts]),
        "eigengap": values[tried - 1] - values[tried],
        "linkage_gap": tree.similarity[tried - 1] - tree.similarity[tried - 2],
        "stability": np.array([halves_agreement([half.cut(int(k)) for half in halves], micro.sizes) for k in tried]),
        "balance": np.array([_balance(cut, micro.sizes) for cut in cuts]),
    }
    unit = {name: _unit_range(curve) for name, curve in curves.items()}
    score = (unit["agreement"] + unit["stability"]) / 2 + (unit["eigengap"] + unit["linkage_gap"]) / 8
    score += curves["balance"] + COARSER * np.array([refits.fine(int(k)) for k in tried])
    order = np.argsort(-score, kind="stable")
    padded = np.concatenate([[-np.inf], score, [-np.inf]])
    peak = (score >= padded[:-2]) & (score >= padded[2:])
    others = [int(tried[i]) for i in order[1:] if peak[i] and score[i] >= score[order[0]] - NEAR]
    return NumberOfClusters(int(tried[order[0]]), others[:_MOST_RUNNERS_UP], tried, score, curves)


def _unit_range(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / max(float(np.ptp(values)), 1e-12)


def _balance(of_leaf: np.ndarray, sizes: np.ndarray) -> float:
    """Effective number of clusters over their number: 1 for equal sizes."""
    share = np.bincount(of_leaf, weights=sizes) / sizes.sum()
    return float(np.exp(-(share * np.log(share)).sum())) / len(share)


def graph_eigenvalues(micro: MicroClusters, weights: np.ndarray, count: int) -> np.ndarray:
    """Leading eigenvalues, largest first, of the normalised graph of micro-clusters and base clusters, squared.

    Base clusters tied by shared micro-clusters have the same ones other than 0.
    """
    ties = weights[micro.partition_of][:, None] * micro.counts.alpha
    rows, columns = ties.sum(axis=1), ties.sum(axis=0)
    ties = ties[rows > 0][:, columns > 0]
    scaled = ties / np.sqrt(rows[rows > 0])[:, None] / np.sqrt(columns[columns > 0])
    square = scaled.T @ scaled
    n = len(square)
    keep = min(count, n)
    found = eigh((square + square.T) / 2.0, eigvals_only=True, subset_by_index=(n - keep, n - 1))
    return np.concatenate([found[::-1], np.zeros(count - keep)])
