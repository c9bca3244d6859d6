"""What a verdict says beside the answer: other numbers of clusters, what counts once, what is hidden or left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ensemble import Ensemble
from ..hidden import hidden_clusters
from .evidence import Evidence
from .number import NumberOfClusters
from .verdict import STABLE, plural

_LEAST_COPIES, _MANY_COPIES = 3, 0.2  # so many copies of one clustering, and this share of all, are worth a sentence


def on_number(k: int, asked: list[int] | None, number: NumberOfClusters, evidence: Evidence) -> list[str]:
    """How k clusters compare with what the clusterings have and suggest; `asked` are the numbers to choose from."""
    notes, support = [], evidence.support
    own = evidence.n_clusters[support.used]
    if asked is None and support.used.sum() > 1:
        if k < own.min():
            notes.append(f"Each of them has more clusters (at least {own.min()}).")
        if len(number.ks) and k == number.ks[-1] < own.max():
            notes.append(f"No more than {k} clusters were tried; some clusterings have {own.max()}.")
    if asked is not None and len(asked) == 1:
        if k not in (number.k, *number.runners_up) and support.used.sum() > 1:
            notes.append(f"The clusterings suggest {number.k}.")
    elif number.runners_up:
        notes.append(f"Nearly as good: {' or '.join(map(str, number.runners_up))}.")
    return notes


def on_copies(evidence: Evidence, names: Sequence[str], partition_ari: np.ndarray) -> list[str]:
    """The clustering that is repeated most, when it is not like the answer: copies count once."""
    pairs, copies = evidence.pairs, np.bincount(evidence.pairs.copy_of)
    p, copies = len(pairs.copy_of), np.where(pairs.entropy[: len(copies)] > 0, copies, 0)
    most = int(np.lexsort([partition_ari[: len(copies)], -copies])[0])  # of equals, the one least like the answer
    count, ari = copies[most], partition_ari[most]
    if evidence.support.used.sum() < 2 or count < max(_LEAST_COPIES, _MANY_COPIES * p) or ari >= STABLE:
        return []
    return [
        f"{count} of the {p} clusterings are the same one ({names[most]}), which counts once and differs from this "
        f"answer (adjusted Rand index {round(ari, 2) + 0.0:.2f})."
    ]


def on_hidden(evidence: Evidence, labels: np.ndarray, sizes: np.ndarray) -> list[str]:
    """The small cluster that most finer clusterings share and the answer lacks.

    `labels` are those of the sample on which clusterings were compared, `sizes` those of all base clusters.
    """
    used, layout = np.flatnonzero(evidence.support.used), evidence.layout
    if evidence.support.supported is False or evidence.least > 1:
        return []
    ensemble = Ensemble.from_codes(evidence.sample[:, used], layout.n_clusters[used])
    return [
        f"{sizes[layout.offsets[used[one.partition]] + one.code]:,} items of cluster {one.inside} are a cluster of "
        f"their own in {one.n_found} of {one.n_finer} finer clusterings: look at more clusters too."
        for one in hidden_clusters(ensemble, labels)[:1]
    ]


def on_items(n_absorbed: int, n_noise: int) -> list[str]:
    """Items of groups too small for a cluster, and items that are noise."""
    notes = []
    if n_absorbed:
        notes.append(f"{plural(n_absorbed, 'item')} in groups too small for a cluster joined the nearest.")
    if n_noise:
        notes.append(f"{plural(n_noise, 'item')} {'is' if n_noise == 1 else 'are'} noise, and in no cluster.")
    return notes
