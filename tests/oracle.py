"""Slow truths: every quantity from its definition, over all pairs, sharing no code with the library.

Tables here are lists of rows or integer arrays in which a negative label is missing.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np


class Case:
    """A random ensemble: table (negative = missing), a partition, multiplicities and weights (or None)."""

    def __init__(self, table, labels, copies, weights):
        self.table, self.labels, self.copies, self.weights = table, labels, copies, weights

    @property
    def v(self) -> list[float]:
        p = self.table.shape[1]
        return [1.0] * p if self.weights is None else [w * p / math.fsum(self.weights) for w in self.weights]

    def repeated(self) -> tuple[np.ndarray, np.ndarray]:
        """Table and labels with every row written out as often as it counts."""
        times = np.ones(len(self.table), int) if self.copies is None else self.copies
        return np.repeat(self.table, times, axis=0), np.repeat(self.labels, times)

    def kwargs(self) -> dict:
        return {"sample_weight": self.copies, "partition_weights": self.weights}


def random_case(rng, *, missing=None, copies=None, weights=None, most_items=12, most_partitions=4) -> Case:
    """One small ensemble; None lets chance decide whether it has that feature."""
    n, p = int(rng.integers(1, most_items + 1)), int(rng.integers(1, most_partitions + 1))
    table = np.stack([_random_partition(rng, n) for _ in range(p)], axis=1)
    if rng.random() < 0.4 if missing is None else missing:
        hole = rng.random((n, p)) < rng.choice([0.1, 0.4])
        hole[rng.integers(n, size=p), np.arange(p)] = False  # a column must keep one label
        table[hole] = -rng.integers(1, 4)
    labels = _random_partition(rng, n)
    if rng.random() < 0.15:
        labels[1:][rng.random(n - 1) < 0.3] = -1
    times = None
    if rng.random() < 0.4 if copies is None else copies:
        times = rng.integers(0, 4, size=n)
        times[rng.integers(n)] = 2
    v = None
    if rng.random() < 0.4 if weights is None else weights:
        v = rng.random(p) * rng.choice([1.0, 100.0]) + 0.01
        if p > 1 and rng.random() < 0.2:
            v[rng.integers(p)] = 0.0
    return Case(table, labels, times, v)


def _random_partition(rng, n: int) -> np.ndarray:
    kind = rng.integers(6)
    if kind == 0:
        return np.full(n, int(rng.integers(3)))  # one cluster
    if kind == 1:
        return rng.permutation(n)  # singletons
    labels = rng.integers(0, rng.integers(1, 5), size=n)
    return labels * 7 + 3 if kind == 2 else labels  # gaps


def taking_part(table, labels) -> list[int]:
    """Items with a consensus label and at least one base label."""
    return [i for i in range(len(table)) if labels[i] >= 0 and any(x >= 0 for x in table[i])]


def clusters_of(table, labels) -> dict[int, list[int]]:
    """Items of each cluster, clusters in the order of their labels (those left without items included)."""
    members: dict[int, list[int]] = {int(c): [] for c in sorted(set(labels)) if c >= 0}
    for i in taking_part(table, labels):
        members[int(labels[i])].append(i)
    return members


def mean_coassociation(table, v, pairs) -> float:
    """Pairs seen together over pairs observed together, weighted by partition."""
    together, observed = [], []
    for i, k in pairs:
        for j in range(len(v)):
            if table[i][j] >= 0 and table[k][j] >= 0:
                observed.append(v[j])
                if table[i][j] == table[k][j]:
                    together.append(v[j])
    total = math.fsum(observed)
    return math.fsum(together) / total if total > 0 else 0.0


def densities(table, labels, v, order=None) -> list[float]:
    members = clusters_of(table, labels)
    return [mean_coassociation(table, v, itertools.combinations(members[c], 2)) for c in order or members]


def inter_densities(table, labels, v) -> np.ndarray:
    groups = list(clusters_of(table, labels).values())
    out = np.zeros((len(groups), len(groups)))
    for a, b in itertools.product(range(len(groups)), repeat=2):
        pairs = itertools.combinations(groups[a], 2) if a == b else itertools.product(groups[a], groups[b])
        out[a, b] = mean_coassociation(table, v, pairs)
    return out


def density(table, labels, v) -> float:
    members = clusters_of(table, labels)
    n = sum(len(m) for m in members.values())
    return sum(len(m) * d for m, d in zip(members.values(), densities(table, labels, v))) / n if n else 0.0


def loss(table, labels, v) -> float:
    """Squared distances of the observed one-hot blocks to the mean of their cluster's observed blocks."""
    terms = []
    for members in clusters_of(table, labels).values():
        for j, weight in enumerate(v):
            seen = [int(table[i][j]) for i in members if table[i][j] >= 0]
            if seen:
                block = np.zeros((len(seen), max(seen) + 1))
                block[np.arange(len(seen)), seen] = 1.0
                terms.append(weight * float(((block - block.mean(axis=0)) ** 2).sum()))
    return math.fsum(terms)


def exact_loss(table, labels) -> Fraction:
    """The unweighted loss as a fraction: nothing is rounded."""
    total = Fraction(0)
    for members in clusters_of(table, labels).values():
        for j in range(len(table[0])):
            seen = [int(table[i][j]) for i in members if table[i][j] >= 0]
            if seen:
                total += len(seen) - Fraction(sum(seen.count(x) ** 2 for x in set(seen)), len(seen))
    return total


def nmi(a, b) -> float:
    """2 I / (H(a) + H(b)) over the items both label, from probabilities."""
    pairs = [(x, y) for x, y in zip(a, b) if x >= 0 and y >= 0]
    n = len(pairs)
    if not n:
        return 1.0  # nothing to disagree on, as scikit-learn says of empty labels
    pa = {x: sum(u == x for u, _ in pairs) / n for x, _ in pairs}
    pb = {y: sum(w == y for _, w in pairs) / n for _, y in pairs}
    if len(pa) == 1 and len(pb) == 1:
        return 1.0
    joint = {pair: pairs.count(pair) / n for pair in set(pairs)}
    shared = sum(q * math.log(q / (pa[x] * pb[y])) for (x, y), q in joint.items())
    entropies = -sum(q * math.log(q) for q in pa.values()) - sum(q * math.log(q) for q in pb.values())
    return 2.0 * shared / entropies


def set_partitions(n: int, most: int):
    """Every way to put n items into at most `most` clusters, each once."""

    def grow(labels, used):
        if len(labels) == n:
            yield list(labels)
            return
        for c in range(min(used + 1, most)):
            yield from grow([*labels, c], max(used, c + 1))

    yield from grow([], 0)


# -- a materialised k-means pass -----------------------------------------------------------------------------


class Dense:
    """H written out in full, and one k-means pass on it with the rounded table of the design."""

    def __init__(self, table, v=None, copies=None):
        table = np.asarray(table)
        n, p = table.shape
        self.v = np.ones(p) if v is None else np.asarray(v, float)
        self.copies = np.ones(n, np.int64) if copies is None else np.asarray(copies)
        self.owner, columns = [], []
        for j in range(p):
            for label in np.unique(table[:, j][table[:, j] >= 0]):
                columns.append(table[:, j] == label)
                self.owner.append(j)
        self.owner = np.array(self.owner)
        self.H = np.array(columns).T.astype(np.int64)  # (n, d)
        self.copies = np.where(self.H.any(axis=1), self.copies, 0)

    def counts(self, labels, k: int) -> np.ndarray:
        alpha = np.zeros((self.H.shape[1], k), np.int64)
        for i, c in enumerate(labels):
            if c >= 0:
                alpha[:, c] += self.copies[i] * self.H[i]
        return alpha

    def scores(self, alpha) -> np.ndarray:
        """v_j (2μ_f − Σ μ²), 0 where a cell is empty."""
        out = np.zeros(alpha.shape)
        for j in range(len(self.v)):
            block = self.owner == j
            cell = alpha[block].sum(axis=0)
            for c in np.flatnonzero(cell):
                mu = alpha[block, c] / cell[c]
                out[block, c] = self.v[j] * (2 * mu - (mu**2).sum())
        return out

    def rounded(self, scores) -> tuple[np.ndarray, int]:
        """int32 at the largest power of two with Σ_j max|T_j|·2^b + p < 2³¹."""
        p = len(self.v)
        total = math.fsum(np.abs(scores[self.owner == j]).max() for j in range(p))
        if total == 0:
            return np.zeros(scores.shape, np.int64), 0
        bits = max(b for b in range(-64, 64) if total * 2.0**b + p < 2**31)
        return np.rint(scores * 2.0**bits).astype(np.int64), bits

    def step(self, labels, k: int) -> np.ndarray:
        """Labels after one more pass from the centres of `labels`."""
        table, _ = self.rounded(self.scores(self.counts(labels, k)))
        return (self.H @ table).argmax(axis=1)

    def distances(self, labels, k: int) -> np.ndarray:
        """Squared distances (n, k) of the observed blocks to the centres, without any table."""
        alpha = self.counts(labels, k).astype(float)
        out = np.zeros((len(self.H), k))
        for j in range(len(self.v)):
            block = self.owner == j
            seen = self.H[:, block].any(axis=1)
            mean = alpha[block] / np.maximum(alpha[block].sum(axis=0), 1)
            gap = self.H[:, block][:, :, None] - mean[None]
            out += self.v[j] * np.where(seen[:, None], (gap**2).sum(axis=1), 0.0)
        return out


def planted(rng, n=60, p=6, k=3, noise=0.2, most=5) -> np.ndarray:
    """A table of p noisy copies of one partition, each with its own number of clusters."""
    truth = rng.integers(k, size=n)
    table = np.empty((n, p), np.int64)
    for j in range(p):
        names = rng.permutation(most)
        table[:, j] = np.where(rng.random(n) < noise, rng.integers(most, size=n), names[truth % most])
    return table


def blocks(seed=0, n=300, p=10, k=4, noise=0.2, missing=0.0) -> tuple[np.ndarray, np.ndarray]:
    """A table of p noisy copies of one partition under its own names, and that partition."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, size=n)
    table = np.stack([np.where(rng.random(n) < noise, rng.integers(0, k + 2, size=n), truth) for _ in range(p)], axis=1)
    return np.where(rng.random(table.shape) < missing, -1, table), truth


def table_with_holes(rng, n=80, p=6, *, holes=True) -> np.ndarray:
    """A planted table; with holes, some labels are missing and item 7 has none."""
    table = planted(rng, n=n, p=p, k=4, noise=0.35, most=6)
    if holes:
        table[rng.random(table.shape) < 0.1] = -1
        table[7] = -1
    return table


def same_partition(a, b) -> bool:
    """Equal up to the names of clusters."""
    a, b = list(a), list(b)
    return len(a) == len(b) and len(set(zip(a, b))) == len(set(a)) == len(set(b))


def label_rows(ensemble):
    """The labels behind an ensemble as Python values, None where missing."""
    columns = []
    for j in range(ensemble.n_partitions):
        known = ensemble.categories[j].tolist()
        columns.append([None if code < 0 else known[code] for code in ensemble.partition(j)])
    return list(zip(*columns))
