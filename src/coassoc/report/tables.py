"""Columns of the tables of items, clusters and clusterings; block means of the co-association matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.counts import inter_densities
from ..ensemble import Ensemble, check_ensemble
from ..ensemble.tables import Columns
from ..metrics import cluster_recovery, inter_density, item_consensus, partition_nmi
from ..metrics.labels import check_labels
from ..metrics.membership import ItemConsensus
from ..metrics.scores import counts_of, mean_with_others

_SCALE = 1.4826  # makes the median absolute deviation of a normal sample its standard deviation
_LEAST_SPREAD = 0.01  # smallest deviation: partitions that agree almost perfectly have no outliers
_ROLES = np.array(["core", "boundary", "outlier"])
_TABLE_BYTES = 1 << 27  # counts of base clusters by blocks stay below this


def item_table(X: Any, labels: Any, *, engine: Any = "auto") -> Columns:
    """How strongly each item belongs to its cluster and to the best other, one row per item.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The clusterings; its ``item_ids`` name the rows where present.
    labels : array-like of shape (n_samples,)
        The consensus; clusters are numbered in the sorted order of their labels.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the counting pass runs.

    Returns
    -------
    dict of str to ndarray, with ``to_frame(kind="pandas")``
        ``item``, ``cluster``, ``own`` (mean co-association with the rest of its cluster), ``nearest`` (the best other
        cluster), ``other`` (that with it), ``margin`` and ``role`` (core, boundary, outlier).

    Examples
    --------
    >>> import coassoc as ca
    >>> table = ca.report.item_table([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])
    >>> table["own"].tolist(), table["role"].tolist()
    ([1.0, 1.0, 0.5, 0.5], ['core', 'core', 'boundary', 'core'])
    """
    ensemble = check_ensemble(X)
    codes, _ = check_labels(labels, ensemble.n_samples)
    items = np.arange(ensemble.n_samples) if ensemble.item_ids is None else ensemble.item_ids
    return Columns({"item": items, **item_columns(codes, item_consensus(ensemble, codes, engine=engine))})


def item_columns(codes: np.ndarray, strength: ItemConsensus) -> dict[str, np.ndarray]:
    """The columns of `item_table` but the first."""
    columns = {"cluster": codes, "own": strength.own, "nearest": strength.nearest, "other": strength.other}
    return columns | {"margin": strength.margin, "role": np.where(codes < 0, "none", _ROLES[strength.role])}


def cluster_columns(ensemble: Ensemble, codes: np.ndarray, engine: Any) -> dict[str, np.ndarray]:
    """Size, density, recovery and nearest other cluster (−1 when there is none) of each cluster 0..k-1."""
    k = int(codes.max()) + 1
    sizes = np.bincount(codes[codes >= 0], minlength=k)
    between = inter_density(ensemble, codes, engine=engine)
    density = between.diagonal().copy()
    np.fill_diagonal(between, -1.0)
    columns = {"cluster": np.arange(k), "size": sizes, "share": sizes / sizes.sum(), "density": density}
    columns["recovery"] = cluster_recovery(ensemble, codes, engine=engine)
    columns["nearest"] = between.argmax(axis=1) if k > 1 else np.full(k, -1)
    columns["nearest_density"] = between.max(axis=1) if k > 1 else np.zeros(k)
    return columns


def partition_columns(ensemble: Ensemble, codes: np.ndarray, matrix: np.ndarray, engine: Any) -> dict[str, np.ndarray]:
    """Agreement of each clustering with the others and with the consensus, given the NMI between every two.

    An outlier is more than 3 scaled median absolute deviations below the median, among four or more.
    """
    mean = mean_with_others(matrix)
    centre = float(np.median(mean))
    spread = max(_SCALE * float(np.median(np.abs(mean - centre))), _LEAST_SPREAD)
    return {
        "partition": np.array(ensemble.names),
        "clusters": ensemble.n_clusters,
        "labelled_share": np.add.reduceat(ensemble.sizes, ensemble.offsets[:-1]) / ensemble.n_samples,
        "nmi_with_others": mean,
        "nmi_with_consensus": partition_nmi(ensemble, codes, engine=engine),
        "outlier": (mean < centre - 3 * spread) & (len(mean) >= 4),
    }


# -- the co-association matrix, reduced to means over blocks of items --------------------------------------------


@dataclass(frozen=True)
class Blocks:
    """Block means of the co-association matrix.

    An item is not paired with itself, except that the diagonal is 1 where a block is a single item.
    """

    values: np.ndarray  # mean co-association between the items of two blocks
    order: np.ndarray  # items in the order of the blocks, those without a label left out
    sizes: np.ndarray  # items in each block
    clusters: np.ndarray  # cluster of the first item of each block; the others have it, too, unless blocks are too few


def block_means(X: Any, labels: Any, max_blocks: int = 200, *, own: Any = None, engine: Any = "auto") -> Blocks:
    """Means of A over at most `max_blocks` blocks of items of one cluster each, from counting passes.

    Within a cluster, items most often together with the others (`own`: see `item_consensus`) come first. With fewer
    items, each is a block. O(n_samples * n_partitions * n_clusters) time, O(n_codes * max_blocks) memory.
    """
    ensemble = check_ensemble(X)
    codes, _ = check_labels(labels, ensemble.n_samples)
    own = item_consensus(ensemble, codes, engine=engine).own if own is None else own
    present = np.flatnonzero(codes >= 0)
    order = present[np.lexsort((present, -own[present], codes[present]))]
    edges = _edges(np.bincount(codes[order]), max(1, min(max_blocks, _TABLE_BYTES // (8 * ensemble.n_codes))))
    sizes = np.diff(edges)
    block_of = np.full(ensemble.n_samples, -1, dtype=np.int32)
    block_of[order] = np.repeat(np.arange(len(sizes)), sizes)
    values = inter_densities(counts_of(ensemble, block_of, len(sizes), None, engine), np.ones(ensemble.n_partitions))
    single = np.flatnonzero(sizes == 1)
    values[single, single] = 1.0
    return Blocks(values, order, sizes, codes[order[edges[:-1]]])


def _edges(sizes: np.ndarray, max_blocks: int) -> np.ndarray:
    """Where blocks begin and end in the order of the items.

    Every cluster is cut into blocks of its own, by its size; when there are more clusters than blocks, a block is a
    run of items across clusters.
    """
    total, k = int(sizes.sum()), len(sizes)
    if total <= max_blocks:
        return np.arange(total + 1)
    if k > max_blocks:
        return np.linspace(0, total, max_blocks + 1).astype(np.int64)
    shares = np.clip(np.floor(sizes * (max_blocks - k) / total).astype(np.int64), 1, sizes)
    pieces = [
        start + np.linspace(0, size, share + 1).astype(np.int64)[:-1]
        for start, size, share in zip(np.cumsum(sizes) - sizes, sizes, shares)
    ]
    return np.concatenate([*pieces, [total]])
