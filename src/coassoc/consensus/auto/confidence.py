"""Confidence of items: how well their own labels fit the cluster, and how stable the answer is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...core.counts import Counts
from ...engines import Rows

SURE = 0.8  # confidence from which an item counts as surely placed
_CHUNK = 1 << 17  # rows whose codes are read at a time
_BITS = 20  # fixed point of the associations in single clusterings


def item_confidence(
    rows: Rows, labels: np.ndarray, counts: Counts, used: np.ndarray, stability: float
) -> np.ndarray:
    """(√association + stability) / 2, from 0 to 1; 0 for items without a label.

    The association of an item is its mean co-association with the items of its cluster, over the clusterings that are
    True in `used`. `counts` are those of the clusters, in the order of the rows' codes. One pass over the codes.
    """
    confidence = np.zeros(len(labels), np.float32)
    for part, share in own_association(rows, labels, counts, used):
        confidence[part] = (np.sqrt(share) + max(stability, 0.0)) / 2.0
    confidence[labels < 0] = 0.0
    return confidence


def own_association(
    rows: Rows, labels: np.ndarray, counts: Counts, used: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Mean co-association of each item with its own cluster, a stretch of rows at a time.

    Sums are integers, so neither chunks nor the order of the clusterings matter.
    """
    layout, members = counts.layout, np.flatnonzero(used).tolist()
    per_code = np.repeat(np.arange(layout.n_partitions), layout.n_clusters)
    share = counts.alpha / np.maximum(counts.cells, 1)[per_code]
    table = np.rint(share * 2.0**_BITS).astype(np.int64)
    for start in range(0, len(labels), _CHUNK):
        part = slice(start, min(start + _CHUNK, len(labels)))
        codes, own = rows.codes_at(np.arange(part.start, part.stop)), np.maximum(labels[part], 0)
        together, observed = np.zeros((2, len(own)), np.int64)
        for j in members:
            first, k, code = int(layout.offsets[j]), int(layout.n_clusters[j]), codes[:, j].astype(np.int64)
            seen = code < k
            together += np.where(seen, table[first + np.minimum(code, k - 1), own], 0)
            observed += seen
        yield part, together / np.maximum(observed, 1) / 2.0**_BITS
