"""``coassoc.tl``: the consensus of clusterings in ``.obs`` of an AnnData object, written back into it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..ensemble import Ensemble
from ..ensemble.encode import Dictionary
from ..ensemble.io.cells import label_of
from ..metrics import order_by_size
from .auto.estimator import Consensus
from .hidden import hidden_clusters

__all__ = ["consensus"]


def consensus(
    adata: Any,
    keys: str | Sequence[str],
    *,
    n_clusters: Any = "auto",
    method: str = "auto",
    min_cluster_size: int = 1,
    key_added: str = "consensus",
    random_state: Any = 0,
    engine: Any = "auto",
) -> Consensus:
    """Find the consensus of clusterings of cells, and write it into the AnnData object.

    Parameters
    ----------
    adata : AnnData
        With one clustering per column of ``.obs``, such as Leiden at several resolutions. Changed in place.
    keys : str or list of str
        Those columns, by name or pattern (``"leiden*"``).
    n_clusters : "auto", int or iterable of int, default="auto"
        Number of clusters, or the numbers to choose from.
    method : str, default="auto"
        See :class:`coassoc.Consensus`.
    min_cluster_size : int, default=1
        Smaller groups of cells join the nearest cluster; 1 keeps every group.
    key_added : str, default="consensus"
        Name of what is written.
    random_state : int, Generator, RandomState or None, default=0
        Seed.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.

    Returns
    -------
    Consensus
        The fitted estimator. ``.obs[key_added]`` has the labels as ordered categories, the largest cluster first;
        ``.obs[key_added + "_confidence"]`` the confidence of each cell from 0 to 1. Cells without any label have none.
        ``.uns[key_added]`` has the columns used (``keys``), the adjusted Rand index of each with the consensus
        (``partition_agreement``), the ``nearest`` of them and its index (``nearest_ari``), the ``method``,
        ``n_clusters``, ``runners_up`` and ``verdict``, and ``hidden``: sentences on small clusters that most finer
        clusterings share and the consensus does not have.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd, coassoc as ca
    >>> coarse, fine = np.repeat([0, 1, 1, 2], 30), np.repeat([0, 1, 2, 3], 30)
    >>> runs = {"leiden_0.5": coarse, "leiden_1.0": fine, "leiden_1.5": np.where(np.arange(120) % 40, fine, 3)}
    >>> adata = anndata.AnnData(obs=pd.DataFrame(runs, index=np.arange(120).astype(str)).astype("category"))
    >>> answer = ca.tl.consensus(adata, keys="leiden*")
    >>> adata.obs["consensus"].value_counts(sort=False).tolist()
    [30, 30, 30, 30]
    >>> print(f"closest to {adata.uns['consensus']['nearest']}, ARI {adata.uns['consensus']['nearest_ari']:.2f}")
    closest to leiden_1.0, ARI 1.00
    """
    import pandas as pd

    written = (key_added, f"{key_added}_confidence")
    names = [name for name in matching_keys(adata, keys) if name not in written]
    if not names:
        raise ValueError(f"keys: {keys!r} matches what tl.consensus wrote and nothing else; choose another key_added.")
    ensemble = cells_ensemble(adata, names)
    settings = {"min_cluster_size": min_cluster_size, "random_state": random_state, "engine": engine}
    model = Consensus(n_clusters, method, **settings).fit(ensemble)
    labels = order_by_size(np.asarray(model.labels_))
    categories = [str(c) for c in range(int(labels.max(initial=-1)) + 1)]
    adata.obs[key_added] = pd.Categorical.from_codes(labels, categories, ordered=True)
    adata.obs[written[1]] = np.where(labels < 0, np.nan, np.asarray(model.confidence_, dtype=float))
    adata.uns[key_added] = {
        "keys": names,
        "method": model.method_,
        "n_clusters": model.n_clusters_,
        "runners_up": np.asarray(model.runners_up_, dtype=np.int64),
        "supported": bool(model.supported_),
        "verdict": model.verdict_,
        "partition_weights": np.asarray(model.partition_weights_),
        "partition_agreement": np.asarray(model.partition_agreement_),
        "nearest": model.nearest_partition_.name,
        "nearest_ari": model.nearest_partition_.ari,
        "hidden": [str(one) for one in hidden_clusters(ensemble, labels, engine=engine)],
    }
    return model


def matching_keys(adata: Any, keys: str | Sequence[str]) -> list[str]:
    """Columns of ``.obs`` by name or pattern."""
    if not (hasattr(adata, "obs") and hasattr(adata, "uns")):
        raise TypeError(f"adata must be an AnnData object, got {type(adata).__name__}; for frames, use Consensus.")
    known = [str(name) for name in adata.obs.columns]
    found: list[str] = []
    for pattern in [keys] if isinstance(keys, str) else list(keys):
        matches = [name for name in known if name == pattern or fnmatchcase(name, pattern)]
        if not matches:
            raise ValueError(f"keys: .obs has no column {pattern!r}; it has {', '.join(known) or 'none'}.")
        found += matches
    if not found:
        raise ValueError("keys must name at least one column of .obs, got none.")
    return list(dict.fromkeys(found))


def cells_ensemble(adata: Any, names: Sequence[str]) -> Ensemble:
    """The ensemble of some columns of ``.obs``; categories written as numbers are numbers, so that -1 is missing."""
    columns: list[Any] = []
    for name in names:
        column = adata.obs[name]
        numbers = [label_of(str(one)) for one in column.cat.categories] if hasattr(column, "cat") else [None]
        whole = all(isinstance(number, int) for number in numbers)
        columns.append(Dictionary(column.cat.codes.to_numpy(), np.array(numbers, dtype=np.int64)) if whole else column)
    ensemble = Ensemble.from_partitions(columns, names=names)
    ensemble.item_ids = adata.obs_names.to_numpy()
    return ensemble
