"""The verdict: a few plain sentences about an answer and what it cannot show; and the confidence of its items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.counts import Counts, ScoreTable
from ...engines import Labelling, Rows
from ...ensemble import Ensemble
from ..hidden import hidden_clusters
from .candidates import CANDIDATES
from .chance import Support
from .evidence import Evidence
from .number import NumberOfClusters

_LEAST_COPIES, _MANY_COPIES = 3, 0.2  # so many copies of one clustering, and this share of all, are worth a sentence
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
STABLE, UNSTABLE = 0.8, 0.5  # a stability is good from the first on, and bad below the second
SURE = 0.85  # confidence from which an item is surely placed; of these, 95 % were right where 0.85 was chosen
_COUNT = 30  # a score is 2**_COUNT for each label of an item plus its associations, which together are smaller
_MOST_BITS = 20  # fixed point of associations, and of confidences where they are summed

CANNOT_KNOW = "Agreement alone cannot show that the data have clusters: clusterings of evenly spread data agree too."


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def either(numbers: Sequence[int]) -> str:
    """The numbers in words: "4", "4 or 6", "4, 6 or 5"."""
    *others, last = map(str, numbers)
    return f"{', '.join(others)} or {last}" if others else last


def describe_answer(
    support: Support,
    k: int,
    method: str,
    stability: float,
    placed: str,
    camps: Sequence[np.ndarray],
    notes: Sequence[str],
) -> str:
    """The sentences for an answer of k clusters; `placed` is how many items are placed surely."""
    p, used = len(support.used), int(support.used.sum())
    by = CANDIDATES.get(method, method)
    clusters = plural(k, "cluster")
    if support.alone:
        start = f"{support.reason}, and the answer has {clusters}."
        return " ".join([start, *notes, "Nothing independent confirms it.", CANNOT_KNOW])
    if support.supported is False:
        return (
            f"No consensus: the {p} clusterings agree no more than chance (p = {support.p_value:.2g}). The {clusters} "
            f"given {'is' if k == 1 else 'are'} a compromise and not a finding, so every confidence is 0."
        )
    sentences = []
    if len(camps) > 1:
        sizes = [len(camp) for camp in camps]
        each = str(sizes[0]) if len(set(sizes)) == 1 else f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
        groups = f"{_NUMBERS.get(len(camps), str(len(camps)))} camps of {each}"
        sentences.append(
            f"Your {p} clusterings are {groups}: they agree within a camp and not across, so look at the answer of "
            "each first (alternatives_, or coassoc report)."
        )
    out = []
    if support.n_copies:
        out.append(f"{support.n_copies} repeat{'s' * (support.n_copies == 1)} another")
    left_out = p - used - support.n_copies
    if left_out:
        out.append(f"{left_out} agree{'s' * (left_out == 1)} with no other")
    members = f"{used} of {p} clusterings ({', '.join(out)})"
    if used == p:
        members = "both clusterings" if p == 2 else f"all {p} clusterings"
    sentences.append(f"{clusters} by {by}, from {members}.")
    sentences += notes
    sentences.append(
        f"Answers refitted to random halves of them have a mean adjusted Rand index of {stability:.2f}, and "
        f"{placed} are placed surely."
    )
    if stability < UNSTABLE:
        sentences.append(f"Below {UNSTABLE}, other clusterings would give other clusters: do not rely on these.")
    if support.supported is None:
        sentences.append(f"{support.reason}: too few to tell agreement from chance.")
    return " ".join([*sentences, CANNOT_KNOW])


# -- notes: other numbers of clusters, what counts once, what is hidden or left out --------------------------------


def on_number(k: int, asked: list[int] | None, number: NumberOfClusters, evidence: Evidence) -> list[str]:
    """How k clusters compare with what the clusterings have and suggest; `asked` are the numbers to choose from."""
    notes, support = [], evidence.support
    own = evidence.n_clusters[support.used]
    if asked is None and support.used.sum() > 1:
        if k < own.min():
            best = "" if number.other in (None, *number.runners_up) else f"; of such numbers, {number.other} fits best"
            notes.append(f"Each of them has more clusters (at least {own.min()}{best}).")
        if len(number.ks) and k == number.ks[-1] < own.max():
            notes.append(f"No more than {k} clusters were tried; some clusterings have {own.max()}.")
    if asked is not None and len(asked) == 1:
        if k not in (number.k, *number.runners_up) and support.used.sum() > 1:
            notes.append(f"The clusterings suggest {number.k}.")
    elif number.runners_up:
        notes.append(f"Nearly as good: {either(number.runners_up)}.")
    return notes


def on_copies(evidence: Evidence, names: Sequence[str], partition_ari: np.ndarray) -> list[str]:
    """The clustering that is repeated most, when it is not like the answer: copies count once."""
    pairs, copies = evidence.pairs, np.bincount(evidence.pairs.copy_of)
    p, copies = len(pairs.copy_of), np.where(pairs.entropy[: len(copies)] > 0, copies, 0)
    most = int(np.lexsort([partition_ari[: len(copies)], -copies])[0])  # of equals, the one least like the answer
    count, ari = copies[most], partition_ari[most]
    near = ari >= (0.995 if 2 * count > p else STABLE)  # a majority is told of any difference that shows
    if evidence.support.used.sum() < 2 or count < max(_LEAST_COPIES, _MANY_COPIES * p) or near:
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


# -- confidence of items: how well their own labels fit the cluster, and how stable the answer is ---------------------


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
