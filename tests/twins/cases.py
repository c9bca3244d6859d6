"""Random ensembles, label tables, counts by brute force, and settings of the compiled kernels, for tests of engines."""

from __future__ import annotations

import numpy as np
import pytest

import coassoc as ca
from coassoc.engines import native as _native
from coassoc.ensemble import Ensemble

WIDTHS = (np.uint8, np.uint16, np.uint32)
LEVELS = _native.simd_levels()
needs_kernels = pytest.mark.skipif(_native._kernels is None, reason="the kernels are not compiled")


def noisy_table(seed, n, p=5, k=4, missing=0.0):
    """Labels (n, p) that agree with hidden classes more often than not; -1 where missing."""
    rng = np.random.default_rng(seed)
    group = rng.integers(k, size=n)
    table = np.where(rng.random((n, p)) < 0.6, group[:, None], rng.integers(k, size=(n, p)))
    table[rng.random((n, p)) < missing] = -1
    table[0] = 0
    return table


def planted(seed, n=None, p=None, width=None, most=None, missing=None):
    """An ensemble whose partitions blur the same hidden classes; chance decides what is not given."""
    rng = np.random.default_rng(seed)
    n = n or int(rng.choice([40, 333, 1500, 9000], p=[0.3, 0.5, 0.15, 0.05]))
    p = p or int(rng.choice([1, 3, 4, 7, 8, 20, 40]))
    width = WIDTHS[rng.integers(3)] if width is None else width
    most = most or int(rng.choice([3, 12, 100, 255 if width == np.uint8 else 700]))
    missing = rng.choice([0.0, 0.0, 0.2, 0.8]) if missing is None else missing
    n_clusters = rng.integers(1, most + 1, size=p)
    classes = rng.integers(int(rng.integers(2, 30)), size=n)
    codes = np.empty((n, p), width)
    for j, k in enumerate(n_clusters):
        codes[:, j] = rng.integers(k, size=(30, 3))[classes, rng.integers(3, size=n)]
        stray = rng.random(n) < 0.3
        codes[stray, j] = rng.integers(k, size=stray.sum())
        codes[rng.random(n) < missing, j] = k
    if missing:
        codes[rng.random(n) < 0.05] = n_clusters  # items without any label
        codes[0] = 0
    copies = rng.integers(0, 4, size=n) if rng.random() < 0.3 else None
    if copies is not None:
        copies[0] = 2
    return ca.Ensemble.from_codes(codes, n_clusters), copies


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


def counting_copies(ensemble, copies):
    """How often each row counts: 0 times without any label."""
    unlabelled = (ensemble.codes == ensemble.n_clusters).all(axis=1)
    return np.where(unlabelled, 0, 1 if copies is None else copies)


def brute_counts(ensemble, labels, copies, k):
    """α, sizes, and the sums over partitions of α and its squares."""
    times = counting_copies(ensemble, copies)
    alpha = np.zeros((ensemble.n_codes, k), np.int64)
    sums = np.zeros((2, ensemble.n_partitions, k), np.int64)
    for j, size in enumerate(ensemble.n_clusters):
        seen = ensemble.codes[:, j] < size
        np.add.at(alpha, (ensemble.offsets[j] + ensemble.codes[seen, j].astype(int), labels[seen]), times[seen])
        part = alpha[ensemble.offsets[j] : ensemble.offsets[j + 1]]
        sums[:, j] = part.sum(axis=0), (part**2).sum(axis=0)
    sizes = np.bincount(labels, times, minlength=k).astype(np.int64)
    return alpha, sizes, *sums
