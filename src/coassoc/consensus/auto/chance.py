"""Do the clusterings of an ensemble agree beyond chance, and which of them are worth using?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaincc

from ...core.counts import Layout, density_from_counts
from ...ensemble import Ensemble
from ...metrics.scores import ZeroEffort, mean_with_others, member_counts, nmi_from_counts
from .members import MemberPairs, compare_members

ALPHA = 1e-4  # of the joint test; its gamma tail is up to five times too short for unbalanced clusters
LEAST_ITEMS = 20  # below, agreement of a few items cannot be told from chance
# A clustering whose best agreement with any other is below this share of what is typical is left out. Tuned on the
# design half of benchmarks/truth.py with 0, 25 and 50 % of the clusterings shuffled.
LEAST_AGREEMENT = 0.15


@dataclass(frozen=True)
class Support:
    """Whether the clusterings agree beyond chance, and which of them are used."""

    supported: bool | None  # None: cannot be told, see `reason`
    p_value: float  # of the joint test; 1 where there is nothing to test
    used: np.ndarray  # (p,) True for one of each set of copies, but those that agree with no other
    n_copies: int  # clusterings that repeat another one
    reason: str = ""  # why nothing can be told
    alone: bool = False  # no two clusterings differ, so there is nothing to refit or to compare

    @property
    def warning(self) -> str | None:
        """One sentence when the agreement is no more than chance or cannot be told, else None."""
        if self.supported:
            return None
        if self.supported is None:
            return f"{self.reason}, so whether the clusterings agree beyond chance cannot be told."
        return "the clusterings agree no more than chance: this consensus shows no structure."

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"exceeded": self.supported, "used_clusterings": int(self.used.sum()), "p_value": self.p_value,
                "warning": self.warning}  # fmt: skip


def find_support(pairs: MemberPairs) -> Support:
    """One test over all pairs of different clusterings together.

    The statistic of a pair is Σ (n_ab − n_a n_b / n)², divided by its standard deviation under chance. Pairs of
    independent clusterings are uncorrelated, so mean and variance of the sum are exact; its tail is that of a gamma
    distribution. Large clusters dominate the statistic, so that a few items in tiny clusters decide nothing.
    """
    p = len(pairs.copy_of)
    first = pairs.copy_of == np.arange(p)
    different = np.flatnonzero(first & (pairs.entropy > 0))
    used = find_used(pairs, different)
    n_copies = int(p - first.sum())
    # copies with other labels missing are no witnesses of their own, but they label other items
    different = different[pairs.alike_of[different] == different]
    most_items, alone = int(np.diagonal(pairs.n_items).max()), len(different) < 2
    p_value, reason = joint_p_value(pairs, different), ""
    if alone:
        reason = _only_one(p, int((pairs.entropy > 0).sum()), int(first.sum()))
    elif most_items < LEAST_ITEMS:
        reason = f"There are only {most_items} items"
    elif p_value is None:
        reason = "No two clusterings divide items that both label"
    p_value = 1.0 if p_value is None else p_value
    return Support(None if reason else p_value < ALPHA, p_value, used, n_copies, reason, alone)


def _only_one(p: int, n_divided: int, n_different: int) -> str:
    """What is wrong with p clusterings that do not differ; `n_divided` of them have more than one cluster.

    `n_different` have other clusters or other labels missing.
    """
    if p == 1:
        return "There is one clustering only"
    if n_divided == p:
        return f"All {p} clusterings are the same{'' if n_different == 1 else ' where they label the same items'}"
    if n_divided > 1:
        return f"The {n_divided} clusterings of more than one cluster are the same"
    return f"{'Only one' if n_divided else 'No'} clustering has more than one cluster"


def joint_p_value(pairs: MemberPairs, members: np.ndarray) -> float | None:
    """Probability that independent clusterings agree as much in all pairs of `members`; None without such pairs."""
    squares = (pairs.statistic, pairs.mean, pairs.variance)
    statistic, mean, variance = (square[np.ix_(members, members)] for square in squares)
    tested = np.triu(variance > 0, 1)
    if not tested.any():
        return None
    spread, n_pairs = np.sqrt(variance[tested]), tested.sum()
    total, expected = (statistic[tested] / spread).sum(), (mean[tested] / spread).sum()
    return float(gammaincc(expected**2 / n_pairs, total * expected / n_pairs)) if total > expected else 1.0


def find_used(pairs: MemberPairs, different: np.ndarray) -> np.ndarray:
    """(p,) True for the clusterings of `different` that agree with some other, relative to what is typical here.

    Typical is the mean, over the better half, of the best agreement with another. All are used where none agree.
    """
    used = np.zeros(len(pairs.copy_of), dtype=bool)
    if not len(different):
        used[0] = True
        return used
    ami = pairs.ami[np.ix_(different, different)] - 2.0 * np.eye(len(different))
    best = np.maximum(ami.max(axis=1), 0.0)
    typical = np.sort(best)[-((len(best) + 1) // 2) :].mean()
    used[different[best >= LEAST_AGREEMENT * typical]] = True
    return used


def support_and_scores(ensemble: Ensemble, engine: Any = "auto") -> tuple[Support, ZeroEffort, ZeroEffort]:
    """Whether the clusterings of an ensemble agree beyond chance, and the NMI and the density of single ones.

    All from one overlap pass; see `zero_effort`.
    """
    nmi, density, equal = [], [], np.ones(ensemble.n_partitions)

    def tables() -> Iterator[np.ndarray]:
        for counts in member_counts(ensemble, None, engine):
            nmi.append(nmi_from_counts(counts))
            density.append(density_from_counts(counts, equal))
            yield counts.alpha

    support = find_support(compare_members(tables(), Layout.of(ensemble)))
    return support, ZeroEffort.of(mean_with_others(np.array(nmi))), ZeroEffort.of(np.array(density))
