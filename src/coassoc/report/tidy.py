"""Tables with one row per item, cluster or clustering: dictionaries of columns, or data frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ensemble import Ensemble, check_ensemble
from ..ensemble.frames import Columns
from ..metrics import cluster_recovery, inter_density, item_consensus, pairwise_nmi, partition_nmi
from ..metrics.labels import check_labels
from ..metrics.membership import ItemConsensus
from ..metrics.scores import mean_with_others

_SCALE = 1.4826  # makes the median absolute deviation of a normal sample its standard deviation
_LEAST_SPREAD = 0.01  # smallest deviation: partitions that agree almost perfectly have no outliers
_ROLES = np.array(["core", "boundary", "outlier"])


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

    Notes
    -----
    O(n_samples * n_partitions * n_clusters).

    Examples
    --------
    >>> import coassoc as ca
    >>> table = ca.report.item_table([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])
    >>> table["own"].tolist(), table["role"].tolist()
    ([1.0, 1.0, 0.5, 0.5], ['core', 'core', 'boundary', 'core'])
    """
    ensemble = check_ensemble(X)
    codes, _ = check_labels(labels, ensemble.n_samples)
    items = np.arange(ensemble.n_samples)
    columns = item_columns(codes, item_consensus(ensemble, codes, engine=engine), items)
    return Columns({"item": items if ensemble.item_ids is None else ensemble.item_ids, **columns})


def item_columns(codes: np.ndarray, strength: ItemConsensus, items: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of `item_table` but the first, of some items."""
    columns = {"cluster": codes, "own": strength.own, "nearest": strength.nearest, "other": strength.other}
    columns |= {"margin": strength.margin, "role": np.where(codes < 0, "none", _ROLES[strength.role])}
    return {name: values[items] for name, values in columns.items()}


def cluster_table(X: Any, labels: Any, *, engine: Any = "auto") -> Columns:
    """Size, density, recovery and nearest other cluster of each consensus cluster, one row per cluster.

    Parameters
    ----------
    X, labels, engine
        As for :func:`item_table`.

    Returns
    -------
    dict of str to ndarray, with ``to_frame(kind="pandas")``
        ``cluster``, ``size``, ``share``, ``density``, ``recovery`` (see :func:`coassoc.cluster_recovery`),
        ``nearest`` (−1 when there is no other) and ``nearest_density``.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.report.cluster_table([[0, 0], [0, 0], [1, 0], [1, 1]], [0, 0, 1, 1])["density"].tolist()
    [1.0, 0.5]
    """
    ensemble = check_ensemble(X)
    codes, k = check_labels(labels, ensemble.n_samples)
    sizes = np.bincount(codes[codes >= 0], minlength=k)
    between = inter_density(ensemble, codes, engine=engine)
    density = between.diagonal().copy()
    np.fill_diagonal(between, -1.0)
    nearest = between.argmax(axis=1) if k > 1 else np.full(k, -1)
    return Columns(
        {
            "cluster": np.arange(k),
            "size": sizes,
            "share": sizes / sizes.sum(),
            "density": density,
            "recovery": cluster_recovery(ensemble, codes, engine=engine),
            "nearest": nearest,
            "nearest_density": between[np.arange(k), nearest] if k > 1 else np.zeros(k),
        }
    )


def partition_table(X: Any, labels: Any, *, engine: Any = "auto") -> Columns:
    """Agreement of each clustering with the others and with the consensus, one row per partition.

    Parameters
    ----------
    X, labels, engine
        As for :func:`item_table`.

    Returns
    -------
    dict of str to ndarray, with ``to_frame(kind="pandas")``
        ``partition``, ``clusters``, ``labelled_share``, ``nmi_with_others``, ``nmi_with_consensus`` and ``outlier``:
        more than 3 scaled median absolute deviations under the median of ``nmi_with_others``, among four or more.

    Examples
    --------
    >>> import coassoc as ca
    >>> ca.report.partition_table([[0, 0], [0, 0], [1, 1], [1, 1]], [0, 0, 1, 1])["nmi_with_others"].tolist()
    [1.0, 1.0]
    """
    ensemble = check_ensemble(X)
    codes, _ = check_labels(labels, ensemble.n_samples)
    return partition_columns(ensemble, codes, pairwise_nmi(ensemble, engine=engine), engine)


def partition_columns(ensemble: Ensemble, codes: np.ndarray, matrix: np.ndarray, engine: Any) -> Columns:
    """`partition_table`, given the NMI between every two partitions."""
    mean = mean_with_others(matrix)
    centre = float(np.median(mean))
    spread = max(_SCALE * float(np.median(np.abs(mean - centre))), _LEAST_SPREAD)
    return Columns(
        {
            "partition": np.array(ensemble.names),
            "clusters": ensemble.n_clusters,
            "labelled_share": np.add.reduceat(ensemble.sizes, ensemble.offsets[:-1]) / ensemble.n_samples,
            "nmi_with_others": mean,
            "nmi_with_consensus": partition_nmi(ensemble, codes, engine=engine),
            "outlier": (mean < centre - 3 * spread) & (len(mean) >= 4),
        }
    )
