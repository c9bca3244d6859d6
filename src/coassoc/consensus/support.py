"""Agreement between the partitions of an ensemble: corrected for chance, tested against it, and turned into weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaincc

from ..core.counts import Counts, Layout
from ..core.densities import density_from_counts
from ..ensemble import Ensemble
from ..metrics import ZeroEffort
from ..metrics.counting import mean_with_others, member_counts, nmi_from_counts

ALPHA = 1e-3  # probability of calling independent partitions supported
LEAST_CORE = 1 / 3  # share of the partitions that must agree beyond chance with one another
# Relative centrality below which a partition is left out. Tuned on the design half of benchmarks/truth.py with 0, 25
# and 50 % of the partitions shuffled.
LEAST_CENTRALITY = 0.15


@dataclass(frozen=True)
class Information:
    """Mutual information (nats) of one labelling with each of p partitions, over the items that both label."""

    mutual: np.ndarray  # (p,)
    own: np.ndarray  # (p,) entropy of the labelling
    others: np.ndarray  # (p,) entropy of the partition
    n_items: np.ndarray  # (p,)

    @property
    def nmi(self) -> np.ndarray:
        """Normalised by the mean of both entropies; 1 where both are 0, as in scikit-learn."""
        total = self.own + self.others
        return np.divide(2.0 * self.mutual, total, out=np.ones(len(total)), where=total > 0).clip(0.0, 1.0)


def information(alpha: np.ndarray, layout: Layout) -> Information:
    """From the counts (d, k) of a labelling."""
    starts = layout.offsets[:-1]
    columns = np.add.reduceat(alpha, starts, axis=0)
    n = columns.sum(axis=1)
    whole = np.log(np.maximum(n, 1))
    shared, rows, own = (
        whole - total / np.maximum(n, 1)
        for total in (
            np.add.reduceat(xlogx(alpha).sum(axis=1), starts),
            np.add.reduceat(xlogx(alpha.sum(axis=1)), starts),
            xlogx(columns).sum(axis=1),
        )
    )
    return Information(np.maximum(rows + own - shared, 0.0), np.maximum(own, 0.0), np.maximum(rows, 0.0), n)


def xlogx(counts: np.ndarray) -> np.ndarray:
    return counts * np.log(np.maximum(counts, 1))


@dataclass(frozen=True)
class MemberPairs:
    """What every two partitions of an ensemble have in common."""

    agreement: np.ndarray  # (p, p) mutual information corrected for chance, over the geometric mean of the entropies
    p_values: np.ndarray  # (p, p) of independence
    copy_of: np.ndarray  # (p,) the first partition with the same clusters
    trivial: np.ndarray  # (p,) True for partitions with one cluster
    entropy: np.ndarray  # (p,) of each partition, nats
    cluster_entropy: np.ndarray  # (d, p) of each base cluster over the clusters of each partition, bits


def compare_members(tables: Iterable[np.ndarray], layout: Layout) -> MemberPairs:
    """Compare every two partitions, given the counts (d, k_j) of each partition taken as a labelling, in order."""
    p, starts = layout.n_partitions, layout.offsets[:-1]
    agreement, p_values, same = np.zeros((p, p)), np.ones((p, p)), np.zeros((p, p), dtype=bool)
    entropy, cluster_entropy = np.zeros(p), np.zeros((layout.n_codes, p))
    n_clusters, n_items = np.zeros(p, np.int64), np.zeros(p, np.int64)
    partition_of = np.repeat(np.arange(p), layout.n_clusters)
    for j, alpha in enumerate(tables):
        found = information(alpha, layout)
        rows, columns = alpha.sum(axis=1), np.add.reduceat(alpha, starts, axis=0)
        n_rows, n_columns = np.add.reduceat(rows > 0, starts, dtype=np.int64), np.count_nonzero(columns, axis=1)
        chance = (n_rows - 1) * (n_columns - 1) / np.maximum(2.0 * found.n_items, 1.0)
        scale = np.sqrt(found.own * found.others)
        agreement[:, j] = np.divide(np.maximum(found.mutual - chance, 0.0), scale, out=np.zeros(p), where=scale > 0)
        expected = rows[:, None] * columns[partition_of].astype(np.float64)
        squares = np.divide(alpha.astype(np.float64) ** 2, expected, out=np.zeros(alpha.shape), where=expected > 0)
        inverse = np.divide(1.0, rows, out=np.zeros(len(rows)), where=rows > 0)
        inverse_columns = np.divide(1.0, columns, out=np.zeros(columns.shape), where=columns > 0)
        p_values[:, j] = independence_p_values(
            np.add.reduceat(squares.sum(axis=1), starts), found.n_items, n_rows, n_columns,
            np.add.reduceat(inverse, starts), inverse_columns.sum(axis=1),
        )  # fmt: skip
        cells = np.add.reduceat(np.count_nonzero(alpha, axis=1), starts)
        same[:, j] = (cells == n_rows) & (cells == n_columns)  # clusters match one to one
        n_items[j], n_clusters[j], entropy[j] = found.n_items[j], n_columns[j], found.own[j]
        bits = np.log(np.maximum(rows, 1)) - xlogx(alpha).sum(axis=1) / np.maximum(rows, 1)
        cluster_entropy[:, j] = np.maximum(bits, 0.0) / np.log(2.0)
        same[:, j] &= found.n_items == n_items[j]
    same &= n_items[:, None] == n_items  # and label the same items
    upper = np.triu(np.ones((p, p), dtype=bool), 1)
    copy_of = np.array([int(np.argmax(row)) for row in same | np.eye(p, dtype=bool)])
    return MemberPairs(
        np.where(upper, agreement, agreement.T) * ~np.eye(p, dtype=bool),
        np.where(upper, p_values, p_values.T),
        copy_of,
        n_clusters < 2,
        entropy,
        cluster_entropy,
    )


def independence_p_values(squares, n, r, c, inverse_rows, inverse_columns) -> np.ndarray:
    """P-values of Pearson's χ² when one of two label vectors is permuted at random.

    Its mean and variance for fixed cluster sizes are exact [1]_; its tail is that of a gamma distribution. `squares`
    is Σ n_ab² / (n_a n_b), r and c count the clusters, the last two arguments are Σ 1 / n_a and Σ 1 / n_b.

    .. [1] R. B. Dawson, "A simplified expression for the variance of the χ²-function on a contingency table",
       Biometrika 41, 1954, https://doi.org/10.1093/biomet/41.1-2.280
    """
    testable = (n >= 5) & (r >= 2) & (c >= 2) & (r < n) & (c < n)
    n = np.where(testable, n, 5).astype(np.float64)
    statistic = n * (squares - 1.0)
    mean = n * (r - 1) * (c - 1) / (n - 1)
    v1, w1 = (r - 1) * (n - r) / (n - 1), (n * inverse_rows - r * r) / (n - 2)
    v2, w2 = (c - 1) * (n - c) / (n - 1), (n * inverse_columns - c * c) / (n - 2)
    variance = 2 * n / (n - 3) * (v1 - w1) * (v2 - w2) + n * n / (n - 1) * w1 * w2
    testable &= variance > 0
    mean, variance = np.where(testable, mean, 1.0), np.where(testable, variance, 1.0)
    found = gammaincc(mean**2 / variance, np.maximum(statistic, 0.0) * mean / variance)
    return np.where(testable, found, 1.0)


@dataclass(frozen=True)
class Support:
    """Whether partitions agree beyond chance, and which of them."""

    supported: bool
    core: np.ndarray  # (p,) True for the partitions of the largest group that agrees
    p_value: float  # of the pair that agrees most, times the number of pairs of different partitions; at most 1

    @property
    def warning(self) -> str | None:
        """One sentence when the agreement is no more than chance, else None."""
        if self.supported:
            return None
        p, group = len(self.core), int(self.core.sum())
        if p == 1:
            return "there is one clustering only, so nothing shows that its clusters are more than chance."
        found = f"at most {group} of {p} agree with one another" if group else f"no two of {p} do more"
        return (
            f"the clusterings agree no more than chance ({found}): this consensus shows no structure, whatever the "
            "other numbers say."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "exceeded": self.supported,
            "agreeing_partitions": int(self.core.sum()),
            "p_value": self.p_value,
            "warning": self.warning,
        }


def find_support(pairs: MemberPairs) -> Support:
    """Supported: different partitions agree beyond chance, and with their copies they are a third of all.

    Copies of one partition agree, but copying is no evidence, so they count as one in the test. Only when more than
    half of the partitions are copies of one another, and there are enough items, is that enough by itself. Pairs are
    tested at ALPHA divided by their number; a group is a connected component of the pairs that pass.
    """
    p = len(pairs.copy_of)
    different = np.flatnonzero((pairs.copy_of == np.arange(p)) & ~pairs.trivial)
    n_pairs = max(len(different) * (len(different) - 1) // 2, 1)
    p_values = pairs.p_values[np.ix_(different, different)]
    group = different[_largest_component(p_values < ALPHA / n_pairs)]
    others = p_values[np.triu_indices(len(different), 1)]
    p_value = min(1.0, n_pairs * float(others.min(initial=1.0)))
    core = np.isin(pairs.copy_of, group)
    if len(group) >= 2 and core.sum() >= LEAST_CORE * p:
        return Support(True, core, p_value)
    most = np.bincount(pairs.copy_of[~pairs.trivial], minlength=p).argmax()
    copies = np.flatnonzero(pairs.copy_of == most)
    if len(copies) > max(p / 2, 1) and pairs.p_values[copies[0], copies[1]] < ALPHA:
        return Support(True, pairs.copy_of == most, min(p_value, float(pairs.p_values[copies[0], copies[1]])))
    return Support(False, core if len(group) > 1 else np.zeros(p, dtype=bool), p_value)


def check_support(ensemble: Ensemble, engine: Any = "auto") -> Support:
    """Whether the partitions of an ensemble agree beyond chance: one overlap pass."""
    return find_support(compare_members(_tables(member_counts(ensemble, None, engine)), Layout.of(ensemble)))


def support_and_scores(ensemble: Ensemble, engine: Any = "auto") -> tuple[Support, ZeroEffort, ZeroEffort]:
    """The same, with the NMI and the density of single partitions (see `zero_effort`), all from one pass."""
    nmi, density, equal = [], [], np.ones(ensemble.n_partitions)

    def scored() -> Iterator[Counts]:
        for counts in member_counts(ensemble, None, engine):
            nmi.append(nmi_from_counts(counts))
            density.append(density_from_counts(counts, equal))
            yield counts

    support = find_support(compare_members(_tables(scored()), Layout.of(ensemble)))
    return support, ZeroEffort.of(mean_with_others(np.array(nmi))), ZeroEffort.of(np.array(density))


def _tables(found: Iterable[Counts]) -> Iterator[np.ndarray]:
    return (counts.alpha for counts in found)


def _largest_component(adjacent: np.ndarray) -> np.ndarray:
    if not len(adjacent):
        return np.zeros(0, dtype=np.int64)
    _, component = connected_components(adjacent, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())


def centrality(agreement: np.ndarray) -> np.ndarray:
    r"""(p,) how far each partition agrees with the others; all 1 when none agree.

    The leading eigenvector of the agreement corrected for chance,
    :math:`\max(I_{ij} - (k_i-1)(k_j-1)/2n, 0) / \sqrt{H_i H_j}` with 0 on the diagonal, relative to its mean over the
    more central half of the partitions. A group that agrees only within itself is less central than a larger group.
    """
    p = len(agreement)
    if not agreement.any():
        return np.ones(p)
    central = np.abs(np.linalg.eigh(agreement)[1][:, -1])
    return central / np.sort(central)[-((p + 1) // 2) :].mean()
