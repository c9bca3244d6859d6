"""Small clusters that most finer clusterings share and the answer does not have, such as rare cell types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engines import resolve
from ..ensemble import check_ensemble
from ..metrics.labels import check_labels, contingency
from ..metrics.scores import member_tables

_LEAST_ITEMS = 5
_LARGEST = 0.25  # a small cluster has less than this share of the mean size of the answer's clusters
_LARGEST_OWN = 0.5  # and less than this share of the mean size in its own clustering
_MUCH_FINER = 2.5  # clusterings with more than this many times the answer's clusters cut all of them into small ones
_MOST = 5  # clusters that are named


@dataclass(frozen=True)
class HiddenCluster:
    """A small cluster of several clusterings that is part of a larger one in the answer."""

    size: int  # items
    inside: int  # cluster of the answer that has most of them
    partition: int  # position of a clustering that has it
    code: int  # and its number there
    n_found: int  # finer clusterings that have it
    n_finer: int  # clusterings with more clusters than the answer, and at most 2.5 times as many
    name: str  # of that clustering and of the cluster in it

    def __str__(self) -> str:
        return (
            f"{self.size:,} items of cluster {self.inside} are a cluster of their own in {self.n_found} of the "
            f"{self.n_finer} finer clusterings ({self.name})."
        )


def hidden_clusters(X: Any, labels: Any, *, engine: Any = "auto") -> list[HiddenCluster]:
    """Small clusters that more than half of the finer clusterings share and `labels` does not have: at most five.

    The finer clusterings of `X` have more clusters than `labels`, and at most 2.5 times as many. Two clusters are the
    same when at least half of the items of each are in the other. A small one has at least five items, less than a
    quarter of the mean cluster size of `labels`, and less than half of that of its own clustering. Those found by most
    clusterings come first.

    >>> import numpy as np
    >>> from coassoc.consensus.hidden import hidden_clusters
    >>> coarse = np.repeat([0, 1], [50, 50])
    >>> fine = np.repeat([0, 1, 2], [50, 43, 7])
    >>> print(*hidden_clusters(np.column_stack([coarse, fine, fine]), coarse))
    7 items of cluster 1 are a cluster of their own in 2 of the 2 finer clusterings (cluster 2 of 1).
    """
    ensemble = check_ensemble(X)
    codes, k = check_labels(labels, ensemble.n_samples)
    finer = np.flatnonzero((ensemble.n_clusters > k) & (ensemble.n_clusters <= _MUCH_FINER * k))
    sizes, offsets = ensemble.sizes, ensemble.offsets
    in_answer = np.bincount(codes[codes >= 0], minlength=k)
    limit = in_answer.sum() * np.minimum(_LARGEST / k, _LARGEST_OWN / ensemble.n_clusters)
    recurring: list[tuple] = []
    with resolve(engine, ensemble).load(ensemble) as rows:
        for j, overlap in zip(finer.tolist(), member_tables(ensemble, rows, finer.tolist())):
            own = sizes[offsets[j] : offsets[j + 1]]
            small = np.flatnonzero((own >= _LEAST_ITEMS) & (own < limit[j]))
            if len(finer) > 1 and len(small):
                same = _same(overlap[:, small], sizes[:, None], own[small])
                n_found = np.logical_or.reduceat(same, offsets[:-1], axis=0)[finer].sum(axis=0)
                inside = contingency(ensemble.partition(j), codes, (len(own), k))[small]
                known = np.any(_same(inside, in_answer, own[small, None]), axis=1)
                recurring += [(-int(n_found[i]), -int(own[c]), int(inside[i].argmax()), j, c, same[:, i])
                              for i, c in enumerate(small.tolist())
                              if 2 * n_found[i] > len(finer) and not known[i]]  # fmt: skip
    hidden: dict[int, HiddenCluster] = {}
    for n_found, size, place, j, c, same in sorted(recurring, key=lambda found: found[:5]):
        if len(hidden) < _MOST and not same[list(hidden)].any():
            name = f"cluster {ensemble.categories[j][c]} of {ensemble.names[j]}"
            hidden[offsets[j] + c] = HiddenCluster(-size, place, j, c, -n_found, len(finer), name)
    return list(hidden.values())


def _same(overlap: np.ndarray, sizes: np.ndarray, others: Any) -> np.ndarray:
    """Whether clusters of these sizes, with so many items in common, hold at least half of each other."""
    return 2 * overlap >= np.maximum(sizes, others)
