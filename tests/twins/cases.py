"""Random ensembles and label tables for tests of the engines."""

from __future__ import annotations

import numpy as np

import coassoc as ca

WIDTHS = (np.uint8, np.uint16, np.uint32)


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
