"""``coassoc.tl``: the consensus of clusterings in ``.obs`` of an AnnData object, written back into it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..ensemble import Ensemble
from ..ensemble.encode import Dictionary
from ..ensemble.io.coding import label_of
from ..metrics import order_by_size
from .auto.estimator import Consensus
from .hidden import hidden_clusters
from .leiden import RESOLUTIONS, GraphConsensus
from .leiden import stable_leiden as stable_communities

__all__ = ["consensus", "stable_leiden"]


def __dir__() -> list[str]:  # what `coassoc.tl` completes
    return __all__


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
    written = (key_added, f"{key_added}_confidence")
    names = [name for name in matching_keys(adata, keys) if name not in written]
    if not names:
        raise ValueError(f"keys: {keys!r} matches what tl.consensus wrote and nothing else; choose another key_added.")
    ensemble = cells_ensemble(adata, names)
    settings = {"min_cluster_size": min_cluster_size, "random_state": random_state, "engine": engine}
    model = Consensus(n_clusters, method, **settings).fit(ensemble)
    labels = _write_labels(adata, key_added, model.labels_)
    adata.obs[written[1]] = np.where(labels < 0, np.nan, np.asarray(model.confidence_, dtype=float))
    adata.uns[key_added] = {
        "keys": names,
        "method": model.method_,
        "n_clusters": model.n_clusters_,
        "runners_up": np.asarray(model.runners_up_, dtype=np.int64),
        "supported": {True: "yes", False: "no", None: "cannot be told"}[model.supported_],
        "verdict": model.verdict_,
        "partition_weights": np.asarray(model.partition_weights_),
        "partition_agreement": np.asarray(model.partition_ari_),
        "nearest": model.nearest_partition_.name,
        "nearest_ari": model.nearest_partition_.ari,
        "hidden": [str(one) for one in hidden_clusters(ensemble, labels, engine=engine)],
    }
    return model


def stable_leiden(
    adata: Any,
    keys: str | Sequence[str] | None = None,
    *,
    n_runs: int = 20,
    resolution: float | Sequence[float] | None = None,
    neighbors_key: str | None = None,
    key_added: str = "stable_leiden",
    random_state: Any = 0,
    engine: Any = "auto",
) -> GraphConsensus:
    """Find stable clusters in the neighbour graph of cells, and write them into the AnnData object.

    Parameters
    ----------
    adata : AnnData
        With the graph of ``scanpy.pp.neighbors`` in ``.obsp["connectivities"]``. Changed in place.
    keys : str or list of str, optional
        Columns of ``.obs`` with Leiden runs made elsewhere, on a GPU for example, by name or pattern. By default the
        runs are made here.
    n_runs : int, default=20
        Leiden runs at each resolution; not used with `keys`.
    resolution : float or list of float, optional
        As for :func:`coassoc.stable_leiden`: (1, 2, 4) by default, of which the most stable is chosen. With `keys`
        that of the final run, 1 by default.
    neighbors_key : str, optional
        What ``scanpy.pp.neighbors`` was told as ``key_added``.
    key_added : str, default="stable_leiden"
        Name of what is written.
    random_state : int, Generator, RandomState or None, default=0
        Seed.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the edges are counted.

    Returns
    -------
    GraphConsensus
        Fitted. ``.obs[key_added]`` has the labels as ordered categories, the largest cluster first; ``.uns[key_added]``
        the resolution, the stability and the number of clusters.

    Examples
    --------
    >>> import anndata, numpy as np, coassoc as ca
    >>> from scipy.sparse import csr_matrix
    >>> groups = np.kron(np.eye(3), np.ones((10, 10))) - np.eye(30)  # three groups of ten neighbours
    >>> adata = anndata.AnnData(np.zeros((30, 1), dtype=np.float32), obsp={"connectivities": csr_matrix(groups)})
    >>> answer = ca.tl.stable_leiden(adata, resolution=1.0)
    >>> adata.obs["stable_leiden"].value_counts(sort=False).tolist()
    [10, 10, 10]
    """
    # More than 8 parameters: those of scanpy's leiden beside ours
    graph = _neighbour_graph(adata, neighbors_key)
    if keys is None:
        asked = RESOLUTIONS if resolution is None else resolution
        model = stable_communities(graph, n_runs, resolution=asked, random_state=random_state, engine=engine)
        gamma = model.resolution_
    else:
        gamma = 1.0 if resolution is None else resolution
        names = [name for name in matching_keys(adata, keys) if name != key_added]
        model = GraphConsensus(gamma, random_state=random_state, engine=engine)  # type: ignore[arg-type]
        model.fit(cells_ensemble(adata, names), graph=graph)
    _write_labels(adata, key_added, model.labels_)
    adata.uns[key_added] = {"resolution": gamma, "stability": model.stability_, "n_clusters": model.n_clusters_}
    return model


def _neighbour_graph(adata: Any, neighbors_key: str | None) -> Any:
    """The connectivities of the cells."""
    if not hasattr(adata, "obsp"):
        raise TypeError(f"adata must be an AnnData object, got {type(adata).__name__}; use ca.stable_leiden(graph).")
    stored = adata.uns.get(neighbors_key or "neighbors", {})
    name = stored.get("connectivities_key", f"{neighbors_key}_connectivities" if neighbors_key else "connectivities")
    if name not in adata.obsp:
        known = ", ".join(adata.obsp) or "none"
        raise ValueError(f"adata has no graph .obsp[{name!r}] (it has {known}); run scanpy.pp.neighbors(adata) first.")
    return adata.obsp[name]


def _write_labels(adata: Any, key: str, labels: Any) -> np.ndarray:
    """Write labels as ordered categories, the largest cluster first; these labels."""
    import pandas as pd

    labels = order_by_size(np.asarray(labels))
    categories = [str(c) for c in range(int(labels.max(initial=-1)) + 1)]
    adata.obs[key] = pd.Categorical.from_codes(labels, categories, ordered=True)
    return labels


def matching_keys(adata: Any, keys: str | Sequence[str]) -> list[str]:
    """Columns of ``.obs`` by name or pattern."""
    if not (hasattr(adata, "obs") and hasattr(adata, "uns")):
        raise TypeError(f"adata must be an AnnData object, got {type(adata).__name__}; for frames, use Consensus.")
    known = [str(name) for name in adata.obs.columns]
    names: list[str] = []
    for pattern in [keys] if isinstance(keys, str) else list(keys):
        matches = [name for name in known if name == pattern or fnmatchcase(name, pattern)]
        if not matches:
            raise ValueError(f"keys: .obs has no column {pattern!r}; it has {', '.join(known) or 'none'}.")
        names += matches
    if not names:
        raise ValueError("keys must name at least one column of .obs, got none.")
    return list(dict.fromkeys(names))


def cells_ensemble(adata: Any, names: Sequence[str]) -> Ensemble:
    """The ensemble of some columns of ``.obs``; categories written as numbers are numbers, so that -1 is missing."""
    columns: list[Any] = []
    for name in names:
        column = adata.obs[name]
        numbers = [label_of(str(category)) for category in column.cat.categories] if hasattr(column, "cat") else [None]
        whole = all(isinstance(number, int) for number in numbers)
        columns.append(Dictionary(column.cat.codes.to_numpy(), np.array(numbers, dtype=np.int64)) if whole else column)
    ensemble = Ensemble.from_partitions(columns, names=names)
    ensemble.item_ids = adata.obs_names.to_numpy()
    return ensemble
