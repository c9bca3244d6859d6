"""The co-association matrix reduced to means over blocks of items, ordered by a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.counts import inter_densities
from ..ensemble import Ensemble, check_ensemble
from ..metrics import item_consensus
from ..metrics.labels import check_labels
from ..metrics.scores import counts_of

_TABLE_BYTES = 1 << 27  # counts of base clusters by blocks stay below this


@dataclass(frozen=True)
class Blocks:
    """Block means of the co-association matrix.

    An item is not paired with itself, except that the diagonal is 1 where a block is a single item.
    """

    values: np.ndarray  # mean co-association between the items of two blocks
    order: np.ndarray  # items in the order of the blocks, those without a label left out
    sizes: np.ndarray  # items in each block
    clusters: np.ndarray  # cluster of the first item of each block
    last_clusters: np.ndarray  # and of the last: another one only where there are more clusters than blocks

    @property
    def borders(self) -> list[int]:
        """Blocks where another cluster begins; none when clusters share blocks."""
        if (self.clusters != self.last_clusters).any():
            return []
        return (np.flatnonzero(np.diff(self.clusters)) + 1).tolist()


def block_means(X: Any, labels: Any, max_blocks: int = 200, *, engine: Any = "auto") -> Blocks:
    """Means of A over at most `max_blocks` blocks of items of one cluster each, from counting passes.

    Within a cluster, items most often together with the others come first. With fewer items, each is a block.
    O(n_samples * n_partitions * n_clusters) time, O(n_codes * max_blocks) memory.
    """
    ensemble = check_ensemble(X)
    codes, _ = check_labels(labels, ensemble.n_samples)
    return typical_first(ensemble, codes, item_consensus(ensemble, codes, engine=engine).own, max_blocks, engine)


def typical_first(ensemble: Ensemble, codes: np.ndarray, own: np.ndarray, max_blocks: int, engine: Any) -> Blocks:
    """Block means, given the mean co-association of each item with the rest of its cluster."""
    max_blocks = max(1, min(max_blocks, _TABLE_BYTES // (8 * ensemble.n_codes)))
    present = np.flatnonzero(codes >= 0)
    order = present[np.lexsort((present, -own[present], codes[present]))]
    edges = _edges(np.bincount(codes[order]), max_blocks)
    n_blocks = len(edges) - 1
    block_of = np.full(ensemble.n_samples, -1, dtype=np.int32)
    block_of[order] = np.repeat(np.arange(n_blocks), np.diff(edges))
    values = inter_densities(counts_of(ensemble, block_of, n_blocks, None, engine), np.ones(ensemble.n_partitions))
    sizes = np.diff(edges)
    single = np.flatnonzero(sizes == 1)
    values[single, single] = 1.0
    return Blocks(values, order, sizes, codes[order[edges[:-1]]], codes[order[edges[1:] - 1]])


def _edges(sizes: np.ndarray, max_blocks: int) -> np.ndarray:
    """Where blocks begin and end in the order of the items.

    Every cluster is cut into blocks of its own, by its size; when there are more clusters than blocks, a block is a
    run of items across clusters.
    """
    total = int(sizes.sum())
    present = sizes[sizes > 0]
    if total <= max_blocks:
        return np.arange(total + 1)
    if len(present) > max_blocks:
        return np.linspace(0, total, max_blocks + 1).astype(np.int64)
    shares = np.maximum(1, np.floor(present * (max_blocks - len(present)) / total)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(present)])
    pieces = [
        start + np.linspace(0, size, share + 1).astype(np.int64)[:-1]
        for start, size, share in zip(starts[:-1], present, np.minimum(shares, present))
    ]
    return np.concatenate([*pieces, [total]])
