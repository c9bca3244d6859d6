"""Ensembles and engine settings for tests of the compiled kernels, and counts by brute force."""

from __future__ import annotations

import numpy as np

from coassoc.engines import native as _native
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
