"""Confidence of items: how well their own labels fit the cluster, and how stable the answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.counts import Counts, ScoreTable
from ...engines import Labelling, Rows

SURE = 0.85  # confidence from which an item is surely placed; of these, 95 % were right where 0.85 was chosen
_COUNT = 30  # a score is 2**_COUNT for each label of an item plus its associations, which together are smaller
_MOST_BITS = 20  # fixed point of associations, and of confidences where they are summed


def item_confidence(
    rows: Rows, labelling: Labelling, counts: Counts, used: np.ndarray, stability: float
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Confidence of all items, where their labels are; means and the number of items placed surely of each cluster.

    Confidence is (√association + stability) / 2, from 0 to 1, and 0 for items without a label. The association of an
    item is its mean co-association with the items of its cluster, over the clusterings that are True in `used`, divided
    by the highest that an item of the cluster can have: that of one in the largest part of each clustering. Clusterings
    that are finer than the answer would make all associations small without that.
    `counts` are those of the clusters; items of other numbers in `labelling` count as items without a label.
    """
    bits = min(_MOST_BITS, _COUNT - int(used.sum()).bit_length())
    per_code = np.repeat(np.arange(counts.layout.n_partitions), counts.layout.n_clusters)
    share = np.where(used[per_code, None], counts.alpha / np.maximum(counts.cells, 1)[per_code], 0.0)
    highest = np.maximum.reduceat(share, counts.layout.offsets[:-1]).sum(axis=0) / max(int(used.sum()), 1)
    share = np.rint(share / np.maximum(highest, 1e-9) * 2.0**bits).astype(np.int32)
    values = np.zeros((len(share), labelling.n_clusters), np.int32)
    values[:, : counts.n_clusters] = np.where(used[per_code, None], share + (1 << _COUNT), 0)
    function = partial(_confidence, bits=bits, stability=stability if stability > 0 else 0.0)
    confidence, sums = rows.map_scores(labelling, ScoreTable(values, bits), function, np.float32)
    total, sure = sums[:, : counts.n_clusters]
    return confidence, total / 2.0**_MOST_BITS / np.maximum(counts.sizes, 1), sure


def _confidence(scores: Any, bits: int, stability: float) -> tuple[Any, Any, Any]:
    """Confidence of items by their scores; the same in fixed point; whether it is sure. Any kind of array."""
    observed = scores >> _COUNT
    share = (scores & ((1 << _COUNT) - 1)) / np.maximum(observed, 1) / 2.0**bits
    confidence = ((np.sqrt(np.minimum(share, 1.0)) + stability) / 2.0 * (observed > 0)).astype(np.float32)
    fixed, sure = np.rint(confidence * np.float32(2**_MOST_BITS)), confidence >= np.float32(SURE)
    return confidence, fixed.astype(np.uint32), sure.astype(np.uint8)
