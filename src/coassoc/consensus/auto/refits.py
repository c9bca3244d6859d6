"""Refits to random halves of the clusterings: what stability means here."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...core.checks import stream
from ...core.counts import Layout
from ...ensemble import Ensemble
from ...metrics.labels import contingency
from ..base import mark_unlabelled
from ..micro import MICRO_PASSES, local_rows, micro_clusters
from ..registry import make_method
from .candidates import MicroFits
from .chance import find_used
from .members import MemberPairs

N_SPLITS = 5  # random halves of the clusterings: 10 refits
MOST_ITEMS = 2000  # items that a refit works on


class Half:
    """Fits to one half of the clusterings: micro-clusters, choice of clusterings and seed are its own."""

    def __init__(self, codes: np.ndarray, layout: Layout, pairs: MemberPairs, members: np.ndarray, n_micro: int, seed):
        members = members[find_used(pairs, members)[members]]
        self.members, self.seed = members, seed
        own = Layout.of_sizes(layout.n_clusters[members])
        self.ensemble = Ensemble.from_codes(np.ascontiguousarray(codes[:, members]), own.n_clusters)
        rows, engine = local_rows(self.ensemble.codes, own)
        micro = micro_clusters(rows, engine, min(n_micro, len(codes)), MICRO_PASSES, seed)
        self.leaf = mark_unlabelled(rows.labels(micro.labelling), self.ensemble).astype(np.int64)
        positions = np.concatenate([np.arange(layout.offsets[j], layout.offsets[j + 1]) for j in members])
        entropy = pairs.cluster_entropy[np.ix_(positions, members)]
        self.fits = MicroFits.of(micro, np.ones(len(members), dtype=bool), entropy, seed)

    def labels(self, name: str, k: int, least: float, by_library: bool) -> np.ndarray:
        """Label of each item by a candidate or by a method of the library; −1 for items without one."""
        if not by_library:
            return np.append(self.fits.fit(name, k, least), -1)[self.leaf]
        k = min(k, self.fits.n_leaves)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
            return np.asarray(make_method(name, n_clusters=k, random_state=self.seed).fit(self.ensemble).labels_)


class Refits:
    """N_SPLITS random divisions of the clusterings into halves, each half fitted on its own.

    `codes` (n, p) are those of sampled items, `order` the positions of the clusterings in use, in an order that does
    not depend on that of the columns.
    """

    def __init__(
        self, codes: np.ndarray, layout: Layout, pairs: MemberPairs, order: np.ndarray, n_micro: int, seed: int,
        n_items: int,
    ):  # fmt: skip
        self.share = min(1.0, MOST_ITEMS / n_items)  # of all items, that refits work on
        if len(codes) > MOST_ITEMS:
            codes = codes[np.sort(stream(seed, 7).choice(len(codes), MOST_ITEMS, replace=False))]
        self.splits: list[tuple[Half, Half]] = []
        for split in range(N_SPLITS if len(order) > 1 else 0):
            parts = np.split(stream(seed, 3, split).permutation(order), [len(order) // 2])
            seeds = [int(stream(seed, 8, split, side).integers(2**63)) for side in (0, 1)]
            first, second = (Half(codes, layout, pairs, own, n_micro, s) for own, s in zip(parts, seeds))
            self.splits.append((first, second))
        self.stability = cache(self._stability)

    def _stability(self, name: str, k: int, least: float = 0.0, by_library: bool = False) -> float:
        """Mean adjusted Rand index between the two halves of each split; NaN where there is one clustering."""
        if not self.splits:
            return float("nan")
        scores = []
        for split in self.splits:
            first, second = (half.labels(name, k, least * self.share, by_library) for half in split)
            scores.append(rand_index(contingency(first, second)))
        return float(np.mean(scores))

    def tree_stability(self, ks: np.ndarray, least: np.ndarray) -> np.ndarray:
        """The same for the cuts of average linkage, for many k and the smallest size of a cluster at each."""
        total = np.zeros(len(ks))
        for a, b in self.splits:
            table = contingency(a.leaf, b.leaf, (a.fits.n_leaves, b.fits.n_leaves))
            filled = np.nonzero(table)
            for i, (k, size) in enumerate(zip(ks.tolist(), (least * self.share).tolist())):
                first, second = (half.fits.strong_tree.cut(k, size) for half in (a, b))
                total[i] += rand_index(contingency(first[filled[0]], second[filled[1]], copies=table[filled]))
        return total / max(len(self.splits), 1)


def rand_index(table: np.ndarray) -> float:
    """Adjusted Rand index from a contingency table."""
    n = int(table.sum())
    together, rows, columns = (int((t * (t - 1)).sum()) for t in (table, table.sum(axis=1), table.sum(axis=0)))
    expected = rows * columns / max(n * (n - 1), 1)
    highest = (rows + columns) / 2
    return (together - expected) / (highest - expected) if highest > expected else 1.0
