"""The verdict: a few plain sentences about an answer, ending in what it cannot know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .candidates import CANDIDATES
from .chance import Support

STABLE, UNSTABLE = 0.8, 0.5  # a stability is good from the first on, and bad below the second
CANNOT_KNOW = "Agreement alone cannot show that the data have clusters: clusterings of evenly spread data agree too."


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
    members = f"all {p} clusterings" if used == p else f"{used} of {p} clusterings ({', '.join(out)})"
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


_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
