"""Every two clusterings of an ensemble compared: agreement beyond chance, copies, camps, moments for a chance test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import gammaln, xlogy

from ...core.counts import Layout
from ...core.moves import fixed_bits

ACROSS = 0.1  # agreement across camps is at most this share of the agreement within each of them
LEAST_WITHIN = 0.05  # agreement within a camp; below, there is nothing to be apart
_GRID = 2.0**45  # expected information is rounded to multiples of 1 / _GRID: sums are then the same in any order
_FEW = 30.0  # expected items in a cell up to which its expected information is summed term by term


@dataclass(frozen=True)
class MemberPairs:
    """What every two of p clusterings have in common, over the items that both label."""

    ami: np.ndarray  # (p, p) adjusted mutual information, 1 on the diagonal
    statistic: np.ndarray  # (p, p) Σ (n_ab − n_a n_b / n)² over the cells of their contingency table
    mean: np.ndarray  # (p, p) of the statistic, when one clustering is permuted at random
    variance: np.ndarray  # (p, p) likewise; 0 where the pair cannot be tested
    n_items: np.ndarray  # (p, p) items that both label
    copy_of: np.ndarray  # (p,) the first clustering with the same clusters
    alike_of: np.ndarray  # (p,) the same over the items that both label, if those are half of the items of each
    entropy: np.ndarray  # (p,) of each clustering, nats; 0 for a single cluster
    cluster_entropy: np.ndarray  # (d, p) of each base cluster over the clusters of each clustering, bits


def compare_members(tables: Iterable[np.ndarray], layout: Layout) -> MemberPairs:
    """Compare every two clusterings, given the contingency tables (d, k_j) of all with each of them, in order."""
    p, starts = layout.n_partitions, layout.offsets[:-1]
    clustering_of = np.repeat(np.arange(p), layout.n_clusters)
    mutual, entropies, statistic, mean, variance = np.zeros((5, p, p))
    n_items, same = np.zeros((p, p), np.int64), np.zeros((p, p), dtype=bool)
    cluster_entropy, margins = np.zeros((layout.n_codes, p)), []
    for j, alpha in enumerate(tables):
        rows, columns = alpha.sum(axis=1), np.add.reduceat(alpha, starts, axis=0)
        mutual[:, j], own, _ = _information(alpha, rows, columns, starts)
        n_items[:, j], entropies[:, j] = columns.sum(axis=1), own
        first = Kernel.of(rows, starts, n_items[:, j])
        second = Kernel.of(columns.ravel(), np.arange(p) * columns.shape[1], n_items[:, j])
        cross = np.add.reduceat(rows * (alpha * columns[clustering_of]).sum(axis=1, dtype=np.float64), starts)
        squares = np.add.reduceat((alpha.astype(np.float64) ** 2).sum(axis=1), starts)
        n = np.maximum(n_items[:, j], 1).astype(np.float64)
        statistic[:, j] = squares - 2.0 * cross / n + first.squares * second.squares / n**2
        mean[:, j], variance[:, j] = permutation_moments(first, second, n)
        cells = np.add.reduceat(np.count_nonzero(alpha, axis=1), starts)
        occupied = np.add.reduceat(rows > 0, starts, dtype=np.int64), np.count_nonzero(columns, axis=1)
        same[:, j] = (cells == occupied[0]) & (cells == occupied[1])  # clusters match one to one
        bits = fixed_bits(int(n_items[:, j].max()))
        inside = _xlogx(rows, bits) - _xlogx(alpha, bits).sum(axis=1)
        cluster_entropy[:, j] = np.maximum(inside, 0) / (2.0**bits * np.log(2.0) * np.maximum(rows, 1))
        margins.append((rows, columns))
    ami = _adjusted(mutual, _expected(margins, layout).T, entropies, entropies.T)
    own_items = np.diagonal(n_items)
    alike = same & (2 * n_items >= np.maximum(own_items, own_items[:, None]))
    same &= (n_items == own_items) & (n_items == own_items[:, None])  # and label the same items
    for square in (same, alike):
        np.fill_diagonal(square, True)
    np.fill_diagonal(ami, 1.0)
    upper = np.triu(np.ones((p, p), dtype=bool), 1)  # float sums differ in the last bit between (i, j) and (j, i)
    ami, statistic, mean, variance = (np.where(upper, square, square.T) for square in (ami, statistic, mean, variance))
    copy_of, entropy = same.argmax(axis=1), np.diagonal(entropies).copy()
    alike_of = alike.argmax(axis=1)
    return MemberPairs(ami, statistic, mean, variance, n_items, copy_of, alike_of, entropy, cluster_entropy)


# -- camps: groups of clusterings that agree within and not across ----------------------------------------------------


def find_camps(ami: np.ndarray, members: np.ndarray) -> list[np.ndarray]:
    """Positions of the clusterings of each camp; one camp when the members are not apart.

    `ami` is the agreement of every two clusterings and `members` the positions of those that count, each of them a
    clustering of its own. Average linkage of the agreement is cut where the mean agreement across every two groups
    is at most ACROSS times that within each of them; a camp has at least two members.
    """
    if len(members) < 4:
        return [members]
    between = np.maximum(ami[np.ix_(members, members)], 0.0)
    tree = linkage(squareform(1.0 - np.minimum(between, 1.0), checks=False), "average")
    for n_camps in range(len(members) // 2, 1, -1):
        camp = fcluster(tree, n_camps, "maxclust") - 1
        if camp.max() + 1 == n_camps and _are_apart(between, camp, n_camps):
            return [members[camp == c] for c in range(n_camps)]
    return [members]


def _are_apart(between: np.ndarray, camp: np.ndarray, n_camps: int) -> bool:
    sizes = np.bincount(camp, minlength=n_camps)
    if sizes.min() < 2:
        return False
    member = np.eye(n_camps)[camp]
    sums = member.T @ (between * ~np.eye(len(camp), dtype=bool)) @ member
    within = np.diagonal(sums) / (sizes * (sizes - 1))
    across = sums / np.outer(sizes, sizes)
    np.fill_diagonal(across, 0.0)
    return bool(within.min() >= LEAST_WITHIN and across.max() <= ACROSS * within.min())


# -- mutual information --------------------------------------------------------------------------------------------


def agreement(counts: Iterable[np.ndarray], layout: Layout) -> np.ndarray:
    """Adjusted mutual information (q, p) of q labellings, given their counts (d, k), with each clustering."""
    starts, margins, information = layout.offsets[:-1], [], []
    for alpha in counts:
        margins.append((alpha.sum(axis=1), np.add.reduceat(alpha, starts, axis=0)))
        information.append(_information(alpha, *margins[-1], starts))
    mutual, own, others = np.transpose(information, (1, 0, 2))
    return _adjusted(mutual, _expected(margins, layout), own, others)


def _information(alpha: np.ndarray, rows: np.ndarray, columns: np.ndarray, starts: np.ndarray) -> tuple:
    """Mutual information (p,) of a labelling with each clustering, and the entropies of both, over shared items.

    Sums of x ln x in fixed point, so that they are the same in any order of the clusters.
    """
    n = columns.sum(axis=1)
    bits = fixed_bits(int(n.max()))
    whole, scale = _xlogx(n, bits), 2.0**bits * np.maximum(n, 1)
    others = whole - np.add.reduceat(_xlogx(rows, bits), starts)
    own = whole - _xlogx(columns, bits).sum(axis=1)
    joint = whole - np.add.reduceat(_xlogx(alpha, bits).sum(axis=1), starts)
    mutual, own, others = (np.maximum(part, 0) / scale for part in (others + own - joint, own, others))
    return mutual, own, others


def _xlogx(counts: np.ndarray, bits: int) -> np.ndarray:
    """x ln x times 2**bits as whole numbers, looked up where that is faster than to compute it.

    With SciPy's logarithm: that of `fixed_xlogx`, which compiled code repeats bit for bit, takes four times as long.
    """
    most = int(counts.max(initial=0))
    if most < counts.size // 4:
        return _xlogx(np.arange(most + 1), bits)[counts]
    return np.rint(xlogy(counts, counts) * 2.0**bits).astype(np.int64)


def _adjusted(mutual: np.ndarray, expected: np.ndarray, own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Adjusted by the mean of both entropies; 1 where both are 0, as in scikit-learn."""
    highest = (own + others) / 2.0 - expected
    adjusted = (mutual - expected) / np.where(highest > 1e-12, highest, 1.0)
    return np.where((own <= 0) & (others <= 0), 1.0, adjusted)


def _expected(margins: list[tuple[np.ndarray, np.ndarray]], layout: Layout) -> np.ndarray:
    """Expected mutual information (q, p) of q labellings with each clustering, given their cluster sizes.

    `margins` are, of each labelling, the sizes (d,) of base clusters among its items and those (p, k) of its clusters
    among the items of each clustering. Where nothing is missing, all sizes are those of whole clusters.
    """
    starts, ends = layout.offsets[:-1], np.cumsum([0] + [columns.shape[1] for _, columns in margins])
    rows, columns = np.array([own for own, _ in margins]), np.concatenate([own for _, own in margins], axis=1)
    if (rows == rows[0]).all() and (columns == columns[0]).all():
        cells, a_at, b_at = _cell_information(columns[0], rows[0], int(margins[0][1][0].sum()))
        of_labellings = np.add.reduceat(cells[a_at], ends[:-1], axis=0)
        return np.add.reduceat(of_labellings[:, b_at], starts, axis=1)
    expected = np.zeros((len(margins), layout.n_partitions))
    for j, (a, b) in enumerate(zip(starts, layout.offsets[1:])):
        for i in range(len(margins)):
            own = columns[j, ends[i] : ends[i + 1]]
            cells, a_at, b_at = _cell_information(own, rows[i, a:b], int(own.sum()))
            expected[i, j] = cells[a_at][:, b_at].sum()
    return expected


def _cell_information(first: np.ndarray, second: np.ndarray, n_items: int) -> tuple:
    r"""Expected mutual information (nats) in a cell of a contingency table, for any two different cluster sizes.

    The items in both of two clusters of sizes a and b of n items follow a hypergeometric distribution with mean
    :math:`m = ab/n`, and their share is :math:`(E[x \ln x] - m \ln m) / n`. The sum over x is exact where m is at most
    30 above the smallest possible x, and a series in the central moments elsewhere. Both arguments may hold the
    clusters of several clusterings of the same items. Returns a table, and its row and column for each cluster.
    """
    (a, a_at), (b, b_at) = np.unique(first, return_inverse=True), np.unique(second, return_inverse=True)
    n, cells = float(max(n_items, 2)), np.repeat(a, len(b)).astype(np.float64)
    others = np.tile(b, len(a)).astype(np.float64)
    mean, low = cells * others / n, np.maximum(cells + others - n, 0.0)
    excess, above = np.zeros(len(mean)), mean - low
    for group in (above <= 3.0, (above > 3.0) & (above <= _FEW)):  # the sum is shorter for small means
        excess[group] = _exact(cells[group], others[group], mean[group], low[group], n)
    many = above > _FEW
    excess[many] = _series(cells[many], others[many], mean[many], n)
    rounded = np.rint(excess / n * _GRID) / _GRID
    return rounded.reshape(len(a), len(b)), a_at, b_at


def _exact(a: np.ndarray, b: np.ndarray, mean: np.ndarray, low: np.ndarray, n: float) -> np.ndarray:
    """E[x ln x] − m ln m by summing over x, from the smallest possible one on."""
    log_share = gammaln(n - a + 1) + gammaln(n - b + 1) - gammaln(n + 1.0) - gammaln(n - a - b + low + 1)
    log_share += gammaln(a + 1) + gammaln(b + 1) - gammaln(low + 1) - gammaln(a - low + 1) - gammaln(b - low + 1)
    share, total = np.exp(log_share), np.zeros(len(a))
    most, x = float((mean - low).max(initial=0.0)), low if low.any() else 0.0
    for _ in range(int(most + 9.0 * most**0.5 + 15.0)):
        total += share * xlogy(x, x)
        share *= (a - x) * (b - x)
        share /= (x + 1.0) * (n - a - b + x + 1.0)
        x = x + 1.0
    return np.maximum(total - xlogy(mean, mean), 0.0)


def _series(a: np.ndarray, b: np.ndarray, mean: np.ndarray, n: float) -> np.ndarray:
    """The same from the second and third central moments and a normal fourth one."""
    second = mean * (n - a) * (n - b) / (n * (n - 1.0))
    third = second * (n - 2.0 * a) * (n - 2.0 * b) / (n * max(n - 2.0, 1.0))
    return second / (2.0 * mean) - third / (6.0 * mean**2) + (3.0 * second**2 + second) / (12.0 * mean**3)


# -- moments of the statistic under chance -------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """Of "in the same cluster", centred: trace, trace of the square and sum of squares of the diagonal."""

    trace: np.ndarray
    trace_of_square: np.ndarray
    diagonal: np.ndarray
    squares: np.ndarray  # Σ of squared cluster sizes

    @classmethod
    def of(cls, sizes: np.ndarray, starts: np.ndarray, n_items: np.ndarray) -> Kernel:
        """From the sizes of all clusters, clustering after clustering."""
        lengths = np.diff(np.append(starts, len(sizes)))
        size, n = sizes.astype(np.float64), np.maximum(n_items, 1).astype(np.float64)
        squares, cubes = np.add.reduceat(size**2, starts), np.add.reduceat(size**3, starts)
        on_diagonal = 1.0 - 2.0 * size / np.repeat(n, lengths) + np.repeat(squares / n**2, lengths)
        diagonal = np.add.reduceat(size * on_diagonal**2, starts)
        return cls(n_items - squares / n, squares - 2.0 * cubes / n + squares**2 / n**2, diagonal, squares)


def permutation_moments(first: Kernel, second: Kernel, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the trace of the product of two centred kernels when one of them is permuted, exact [1]_.

    The variance is 0 where there are too few items or a kernel is 0.

    .. [1] F. Kazi-Aoual, S. Hitier, R. Sabatier, J.-D. Lebreton, "Refined approximations to permutation tests for
       multivariate inference", Computational Statistics & Data Analysis 20, 1995
    """
    testable = (n >= 5) & (first.trace > 1e-9) & (second.trace > 1e-9)
    n = np.where(testable, n, 5.0)
    mean = first.trace * second.trace / (n - 1.0)

    def spread(kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        t, t2, s2 = kernel.trace, kernel.trace_of_square, kernel.diagonal
        return (n - 1.0) * t2 - t * t, n * (n + 1.0) * s2 - (n - 1.0) * (t * t + 2.0 * t2)

    (a, b), (c, d) = spread(first), spread(second)
    variance = 2.0 * a * c / ((n - 1.0) ** 2 * (n + 1.0) * (n - 2.0))
    variance += b * d / ((n + 1.0) * n * (n - 1.0) * (n - 2.0) * (n - 3.0))
    return mean, np.where(testable, np.maximum(variance, 0.0), 0.0)
