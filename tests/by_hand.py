"""k-means on codes written out in Python integers and fractions, and ensembles to try it on."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from coassoc.engines.native import engine as _native
from coassoc.ensemble import Ensemble

LEVELS = _native.simd_levels()
WIDTHS = [np.uint8, np.uint16, np.uint32]


def natives(threads=(1, 3)):
    """Every instruction set, by threads, with default chunks and with chunks of one block."""
    return [
        _native.Native(n_threads=t, chunk_rows=rows, simd=level, blocked_copy=level != "baseline" or rows is None)
        for level in LEVELS
        for t in threads
        for rows in (None, 64)
    ]


def make_ensemble(rng, n, p, most, *, missing=0.0, width=np.uint8, groups=4, noise=0.3):
    n_clusters = rng.integers(1, most + 1, size=p)
    group = rng.integers(groups, size=n)
    codes = np.empty((n, p), width)
    for j, k in enumerate(n_clusters):
        column = np.where(rng.random(n) < noise, rng.integers(k, size=n), rng.integers(k, size=groups)[group])
        codes[:, j] = np.where(rng.random(n) < missing, k, column)
    codes[0] = 0
    return Ensemble.from_codes(codes, n_clusters)


class ByHand:
    """k-means on rows of codes in Python numbers: the counts whole, the sums fractions, nothing of the library."""

    def __init__(self, ensemble, copies, v):
        self.rows = [[int(x) for x in row] for row in ensemble.codes]
        self.sizes = [int(x) for x in ensemble.n_clusters]
        labelled = [any(x < k for x, k in zip(row, self.sizes)) for row in self.rows]
        times = [1] * len(self.rows) if copies is None else [int(x) for x in copies]
        self.copies = [t if some else 0 for t, some in zip(times, labelled)]
        self.v = [float(x) for x in v]

    def counts(self, labels, k):
        """α as (partition, code, cluster), and sizes."""
        alpha = [[[0] * k for _ in range(size)] for size in self.sizes]
        for row, times, c in zip(self.rows, self.copies, labels):
            for j, x in enumerate(row):
                if x < self.sizes[j]:
                    alpha[j][x][c] += times
        sizes = [sum(t for t, own in zip(self.copies, labels) if own == c) for c in range(k)]
        return alpha, sizes

    def table(self, alpha):
        """Scores in double precision, then whole numbers at the largest scale whose sums stay below 2**31."""
        scores = []
        for part, weight in zip(alpha, self.v):
            columns = list(zip(*part))
            cells = [max(sum(column), 1) for column in columns]
            penalty = [sum(x * x for x in column) / n / n for column, n in zip(columns, cells)]
            scores.append([[weight * (2.0 * x / n - q) for x, n, q in zip(line, cells, penalty)] for line in part])
        tops = [Fraction(max(abs(x) for line in part for x in line)) for part in scores]
        total, p = Fraction(float(sum(tops))), len(self.v)
        bits = 0
        if total:
            bits = max(b for b in range(-80, 120) if total * Fraction(2) ** b + p < 2**31)
        scale = Fraction(2) ** bits
        return [[[round(Fraction(x) * scale) for x in line] for line in part] for part in scores], bits

    def assigned(self, table, k):
        out = []
        for row in self.rows:
            seen = [table[j][x] for j, x in enumerate(row) if x < self.sizes[j]]
            sums = [sum(line[c] for line in seen) for c in range(k)]
            out.append(sums.index(max(sums)))
        return out

    def loss(self, alpha):
        """The exact sum of the rounded terms, rounded once."""
        total = Fraction(0)
        for part, weight in zip(alpha, self.v):
            for column in zip(*part):
                cells = sum(column)
                total += Fraction(weight * float(cells))
                total -= Fraction(weight * (float(sum(x * x for x in column)) / float(max(cells, 1))))
        return float(total)

    def passes(self, labels, k, alpha, limit, before=math.inf):
        """Moved rows, losses, labels, counts and the last two tables."""
        moves, losses, tables = [], [], []
        while len(losses) < limit:
            table = self.table(alpha)
            after = self.assigned(table[0], k)
            moves.append(sum(a != b for a, b in zip(after, labels)))
            labels = after
            alpha, sizes = self.counts(labels, k)
            losses.append(self.loss(alpha))
            tables = [*tables, table][-2:]
            better = math.isinf(before) or (moves[-1] > 0 and losses[-1] < before)
            before = losses[-1]
            if not better or 0 in sizes:
                break
        return moves, losses, labels, (alpha, sizes), tables


def flat(alpha):
    return [line for part in alpha for line in part]
