"""Small clusters that most finer clusterings share and the answer does not have, such as rare cell types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engines import resolve
from ..ensemble import check_ensemble
from ..metrics.counting import member_tables
from ..metrics.labels import check_labels

_SAME = 0.5  # Jaccard index from which two clusters count as one
_LEAST_ITEMS = 5
_LARGEST = 0.25  # a small cluster has less than this share of the mean size of the answer's clusters
_MOST = 5  # clusters that are named


@dataclass(frozen=True)
class HiddenCluster:
    """A small cluster of several clusterings that is part of a larger one in the answer."""

    size: int  # items
    inside: int  # cluster of the answer that has most of them
    partition: int  # position of a clustering that has it
    code: int  # and its number there
    n_found: int  # finer clusterings that have it
    n_finer: int  # clusterings with more clusters than the answer
    name: str  # of that clustering and of the cluster in it

    def __str__(self) -> str:
        return (
            f"{self.size:,} items of cluster {self.inside} are a cluster of their own in {self.n_found} of the "
            f"{self.n_finer} clusterings with more clusters than the answer ({self.name})."
        )


def hidden_clusters(X: Any, labels: Any, *, engine: Any = "auto") -> list[HiddenCluster]:
    """Small clusters that more than half of the finer clusterings share and `labels` does not have.

    Parameters
    ----------
    X : Ensemble or label table of shape (n_samples, n_partitions)
        The clusterings.
    labels : array-like of shape (n_samples,)
        Their consensus.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the overlap of clusters is counted.

    Returns
    -------
    list of HiddenCluster
        At most five, those found by most clusterings first. Clusters are the same from a Jaccard index of 0.5 on;
        small is less than a quarter of the mean size of the clusters of `labels`, and at least five items.

    Examples
    --------
    >>> import numpy as np
    >>> from coassoc.consensus.hidden import hidden_clusters
    >>> coarse = np.repeat([0, 1], [50, 50])
    >>> fine = np.repeat([0, 1, 2], [50, 43, 7])
    >>> print(*hidden_clusters(np.column_stack([coarse, fine, fine]), coarse))
    7 items of cluster 1 are a cluster of their own in 2 of the 2 clusterings with more clusters than the answer (...).
    """
    ensemble = check_ensemble(X)
    codes, k = check_labels(labels, ensemble.n_samples)
    finer = np.flatnonzero(ensemble.n_clusters > k)
    sizes, offsets = ensemble.sizes, ensemble.offsets
    largest = _LARGEST * (codes >= 0).sum() / k
    found: list[tuple[int, int, int, np.ndarray]] = []
    with resolve(engine, ensemble).load(ensemble) as rows:
        for j, shared in zip(finer.tolist(), member_tables(ensemble, rows, finer.tolist())):
            own = sizes[offsets[j] : offsets[j + 1]]
            best = np.maximum.reduceat(shared / np.maximum(sizes[:, None] + own - shared, 1), offsets[:-1], axis=0)
            n_found = (best[finer] >= _SAME).sum(axis=0)
            small = (own >= _LEAST_ITEMS) & (own < largest) & (2 * n_found > len(finer))
            found += [(int(n_found[c]), j, c, shared[:, c]) for c in np.flatnonzero(small).tolist()]
    found.sort(key=lambda one: (-one[0], one[1], one[2]))
    hidden: list[HiddenCluster] = []
    for n_found, j, c, shared in found:
        mine, size = ensemble.partition(j) == c, int(sizes[offsets[j] + c])
        inside = np.bincount(codes[mine & (codes >= 0)], minlength=k)
        in_answer = (inside / (np.bincount(codes[codes >= 0], minlength=k) + size - inside)).max()
        known = [offsets[one.partition] + one.code for one in hidden]
        if in_answer < _SAME and all(shared[f] < _SAME * (sizes[f] + size - shared[f]) for f in known):
            name = f"cluster {ensemble.categories[j][c]} of {ensemble.names[j]}"
            hidden.append(HiddenCluster(size, int(inside.argmax()), j, c, n_found, len(finer), name))
        if len(hidden) == _MOST:
            break
    return hidden
