"""Prototype of the default answer: which method, how many clusters, and whether to believe it.

Research code for `benchmarks/truth.py`; docs/research-answer.md has the evidence. Everything quadratic runs on a few
hundred micro-clusters or on the d × d overlap of base clusters. The steps, each one function:

1. `reduce_rows`: items -> micro-clusters and their counts (one k-means consensus with many clusters).
2. `partition_weights`: weight of each member from agreement beyond chance with the others.
3. `support`: whether enough members agree beyond chance at all.
4. `choose_method`: fit three candidates on random halves of the members; the one whose halves agree most is chosen.
5. `choose_k`: curves over the cuts of one tree, the number where they peak together, and the runners-up.
6. `confidence`: how far items and clusters come out the same when only half of the members are used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.stats import gamma

import coassoc as ca
from coassoc.consensus.linkage import Merges, agglomerate
from coassoc.consensus.lloyd import TooFewRows

N_MICRO = 300
N_SPLITS = 5  # random halves of the members: 10 refits
THETA = 0.4  # local weights: exp(-entropy / THETA), the published constant
LEAST_SHARE = 0.05  # of n / k: a smaller group is an outlier and does not count as a cluster of a cut
RAMP = (0.15, 0.5)  # relative centrality below which a member has no weight, above which it has full weight
AHEAD = 0.05  # k-means must be more stable than the linkages by this much
FINE = 2.5  # members with this many times more clusters than k count as fine
ALPHA = 1e-3  # chance of calling independent partitions supported
LEAST_CORE = 1 / 3  # share of the members that must agree beyond chance with one another


# -- 1. micro-clusters ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reduced:
    """Micro-clusters of an ensemble: all that the later steps read."""

    leaf_of_item: np.ndarray  # (n,)
    counts: np.ndarray  # (d, m) items of each micro-cluster in each base cluster
    observed: np.ndarray  # (p, m) items of each micro-cluster that each partition labels
    sizes: np.ndarray  # (m,)
    offsets: np.ndarray  # (p + 1,)
    partition_of: np.ndarray  # (d,)
    overlap: np.ndarray  # (d, d) items shared by two base clusters

    @property
    def n_leaves(self) -> int:
        return len(self.sizes)

    @property
    def n_partitions(self) -> int:
        return len(self.offsets) - 1

    def per_cluster(self, labels: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Counts (d, k), observed items (p, k) and sizes (k,) of the clusters of a labelling of micro-clusters."""
        member = np.zeros((self.n_leaves, k))
        member[np.arange(self.n_leaves), labels] = 1.0
        return self.counts @ member, self.observed @ member, self.sizes @ member


def reduce_rows(ensemble: ca.Ensemble, n_micro: int = N_MICRO, random_state: int = 0) -> Reduced:
    """Over-segment by k-means consensus, or use the different rows where they are fewer."""
    try:
        model = ca.KMeansConsensus(n_micro, n_init=1, max_iter=30, random_state=random_state)
        labels = model.fit(ensemble).labels_
    except TooFewRows:
        labels = np.unique(ensemble.codes, axis=0, return_inverse=True)[1].ravel()
    leaf = np.unique(labels, return_inverse=True)[1].ravel()
    one_hot = ensemble.one_hot(np.float64)
    m = int(leaf.max()) + 1
    member = np.zeros((len(leaf), m), dtype=np.float32) if len(leaf) * m < 1 << 26 else None
    if member is not None:
        member[np.arange(len(leaf)), leaf] = 1.0
        counts = np.asarray(one_hot.T @ member, dtype=np.float64)
    else:
        counts = np.stack([np.asarray(one_hot[leaf == c].sum(axis=0)).ravel() for c in range(m)], axis=1)
    offsets = np.asarray(ensemble.offsets)
    observed = np.stack([counts[a:b].sum(axis=0) for a, b in itertools.pairwise(offsets)])
    partition_of = np.repeat(np.arange(ensemble.n_partitions), np.diff(offsets))
    overlap = np.asarray((one_hot.T @ one_hot).todense())
    return Reduced(leaf, counts, observed, np.bincount(leaf).astype(float), offsets, partition_of, overlap)


# -- 2. weights of partitions --------------------------------------------------------------------------------------


def xlogx(counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, counts * np.log(np.where(counts > 0, counts, 1.0)), 0.0)


def information(table: np.ndarray) -> tuple[float, float, float]:
    """Mutual information and both entropies (nats) of a contingency table, rows first."""
    n = table.sum()
    if n == 0:
        return 0.0, 0.0, 0.0
    rows, columns, joint = (np.log(n) - xlogx(t).sum() / n for t in (table.sum(axis=1), table.sum(axis=0), table))
    return max(rows + columns - joint, 0.0), rows, columns


def blocks(reduced: Reduced) -> dict[tuple[int, int], np.ndarray]:
    """Contingency table of every two partitions, without empty rows and columns."""
    found = {}
    parts = [slice(a, b) for a, b in itertools.pairwise(reduced.offsets)]
    for i, j in itertools.combinations(range(len(parts)), 2):
        table = reduced.overlap[parts[i], parts[j]]
        found[i, j] = table[np.ix_(table.any(axis=1), table.any(axis=0))]
    return found


def partition_weights(tables: dict[tuple[int, int], np.ndarray], n_partitions: int) -> np.ndarray:
    r"""Weights of mean 1: equal for members that agree with the others, falling to 0 for those that hardly do.

    Centrality is the leading eigenvector of agreement corrected for chance,
    :math:`A_{ij} = \max(I_{ij} - (k_i-1)(k_j-1)/2n, 0) / \sqrt{H_i H_j}` with 0 on the diagonal, relative to its mean
    over the more central half of the members. The weight rises from 0 at RAMP[0] to its full value at RAMP[1]. A group
    that agrees only within itself is less central than a larger group. All weights are 1 when no members agree.
    """
    agreement = np.zeros((n_partitions, n_partitions))
    for (i, j), table in tables.items():
        mutual, h_i, h_j = information(table)
        chance = (table.shape[0] - 1) * (table.shape[1] - 1) / max(2.0 * table.sum(), 1.0)
        if h_i > 0 and h_j > 0:
            agreement[i, j] = agreement[j, i] = max(mutual - chance, 0.0) / np.sqrt(h_i * h_j)
    if not agreement.any():
        return np.ones(n_partitions)
    central = np.abs(np.linalg.eigh(agreement)[1][:, -1])
    central = central / np.sort(central)[-((n_partitions + 1) // 2) :].mean()
    weights = np.clip((central - RAMP[0]) / (RAMP[1] - RAMP[0]), 0.0, 1.0)
    return weights / weights.mean()


# -- 3. more than chance? ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Support:
    """Whether the members agree beyond chance, and which of them."""

    supported: bool
    core: np.ndarray  # (p,) True for the members of the largest group that agrees
    n_different: int  # partitions that are no copies, one-cluster ones left out
    p_values: np.ndarray  # (p, p)


def chance_p_value(table: np.ndarray) -> float:
    """P-value of Pearson's χ² under random permutation of one of the two label vectors.

    Its mean and variance for fixed cluster sizes are exact (Dawson 1954); its tail is that of a gamma distribution.
    """
    rows, columns, n = table.sum(axis=1), table.sum(axis=0), table.sum()
    r, c = len(rows), len(columns)
    if n < 5 or r < 2 or c < 2 or r == n or c == n:
        return 1.0
    statistic = n * ((table**2 / np.outer(rows, columns)).sum() - 1.0)
    mean = n * (r - 1) * (c - 1) / (n - 1)
    v1, w1 = (r - 1) * (n - r) / (n - 1), (n * (1 / rows).sum() - r * r) / (n - 2)
    v2, w2 = (c - 1) * (n - c) / (n - 1), (n * (1 / columns).sum() - c * c) / (n - 2)
    variance = 2 * n / (n - 3) * (v1 - w1) * (v2 - w2) + n * n / (n - 1) * w1 * w2
    return float(gamma.sf(statistic, mean**2 / variance, scale=variance / mean)) if variance > 0 else 1.0


def support(reduced: Reduced, tables: dict[tuple[int, int], np.ndarray]) -> Support:
    """Whether two or more different partitions agree beyond chance, and they and their copies are a third of all.

    Copies of one partition agree, but copying is no evidence, so they count as one for the test; only if more than
    half of the members are copies of one another is that enough by itself. Pairs are tested at ALPHA divided by their
    number; a group is a connected component of the pairs that pass. All from the overlap: no draws, no pass.
    """
    p = reduced.n_partitions
    sizes = np.diagonal(reduced.overlap)
    parts = [slice(a, b) for a, b in itertools.pairwise(reduced.offsets)]
    trivial = np.array([np.count_nonzero(sizes[part]) < 2 for part in parts])
    p_values, copy_of = np.ones((p, p)), np.arange(p)
    for (i, j), table in tables.items():
        p_values[i, j] = p_values[j, i] = chance_p_value(table)
        same_items = table.sum() == sizes[parts[i]].sum() == sizes[parts[j]].sum()
        if same_items and table.shape[0] == table.shape[1] == np.count_nonzero(table):  # clusters match one to one
            copy_of[j] = copy_of[i]
    different = np.flatnonzero((copy_of == np.arange(p)) & ~trivial)
    n_pairs = max(len(different) * (len(different) - 1) // 2, 1)
    group = different[_largest_component(p_values[np.ix_(different, different)] < ALPHA / n_pairs)]
    core = np.isin(copy_of, group)
    supported = len(group) >= 2 and core.sum() >= LEAST_CORE * p
    copies = np.bincount(copy_of[~trivial], minlength=p)
    if not supported and p > 1 and copies.max() > p / 2:
        supported, core = True, copy_of == copies.argmax()
    return Support(
        bool(supported), core if supported or len(group) > 1 else np.zeros(p, bool), len(different), p_values
    )


def _largest_component(adjacent: np.ndarray) -> np.ndarray:
    from scipy.sparse.csgraph import connected_components

    if not len(adjacent):
        return np.zeros(0, dtype=int)
    _, component = connected_components(adjacent, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())


# -- 4. candidates on micro-clusters, and the choice between them --------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """Average linkage of micro-clusters."""

    merges: Merges
    sums: np.ndarray  # (m, m) similarity summed over pairs of items
    sizes: np.ndarray

    def cut(self, k: int) -> np.ndarray:
        """The coarsest cut with k clusters of at least LEAST_SHARE · n / k items; smaller groups join the nearest.

        The plain cut where there is no such level.
        """
        least = LEAST_SHARE * self.sizes.sum() / k
        first, second = self._halves()
        large = (first >= least).astype(int) + (second >= least) - (first + second >= least)
        n_large = 1 + np.cumsum(large[::-1])  # after undoing 1, 2, ... merges
        levels = np.flatnonzero(n_large == k)
        if not len(levels):
            return self.merges.labels(min(k, len(self.sizes)))
        labels = self.merges.labels(int(levels[0]) + 2)
        sizes = np.bincount(labels, weights=self.sizes)
        keep = np.flatnonzero(sizes >= least)
        member = np.zeros((len(labels), len(sizes)))
        member[np.arange(len(labels)), labels] = 1.0
        near = (member.T @ self.sums @ member) / np.outer(sizes, sizes)
        home = keep[np.argmax(near[:, keep], axis=1)]
        home[keep] = keep
        return np.unique(home[labels], return_inverse=True)[1]

    def _halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Items of the two clusters that each merge joins."""
        size = self.sizes.copy()
        found = np.zeros((2, len(self.merges.first)))
        for step, (a, b) in enumerate(zip(self.merges.first, self.merges.second)):
            found[:, step] = size[a], size[b]
            size[a] += size[b]
        return found[0], found[1]


def local_weights(reduced: Reduced, weights: np.ndarray, theta: float = THETA) -> np.ndarray:
    """exp(-mean entropy / θ) of each base cluster, its entropy in bits averaged over members with their weights."""
    entropy = np.zeros(len(reduced.overlap))
    for weight, (a, b) in zip(weights, itertools.pairwise(reduced.offsets)):
        block = reduced.overlap[:, a:b]
        total = block.sum(axis=1, keepdims=True)
        share = np.divide(block, total, out=np.zeros_like(block), where=total > 0)
        entropy -= weight * (share * np.log2(np.where(share > 0, share, 1.0))).sum(axis=1)
    return np.exp(-entropy / (theta * weights.sum()))


def linkage_tree(reduced: Reduced, weights: np.ndarray, local: bool) -> Tree:
    """Average linkage of the co-association, weighted by partition and, if `local`, by base cluster."""
    per_code = weights[reduced.partition_of]
    if local:
        per_code = per_code * local_weights(reduced, weights)
    sums = reduced.counts.T @ (per_code[:, None] * reduced.counts)
    upper = np.triu_indices(reduced.n_leaves, 1)
    observed = None
    if (reduced.observed != reduced.sizes).any():
        observed = (reduced.observed.T @ (weights[:, None] * reduced.observed))[upper]
    return Tree(agglomerate(sums[upper], reduced.sizes, "average", observed=observed), sums, reduced.sizes)


def kmeans_passes(reduced: Reduced, labels: np.ndarray, k: int, weights: np.ndarray, max_iter: int = 20) -> np.ndarray:
    """Lloyd passes over micro-clusters from a given labelling; stops before a cluster would be lost."""
    share = reduced.counts / np.maximum(reduced.observed[reduced.partition_of], 1.0)
    code_weights = weights[reduced.partition_of][:, None]
    for _ in range(max_iter):
        counts, observed, _ = reduced.per_cluster(labels, k)
        center = counts / np.maximum(observed[reduced.partition_of], 1e-9)
        score = 2.0 * (code_weights * share).T @ center - (code_weights * center**2).sum(axis=0)
        moved = score.argmax(axis=1)
        if (moved == labels).all() or len(np.unique(moved)) < k:
            break
        labels = moved
    return labels


def fit_average(reduced: Reduced, weights: np.ndarray, k: int, seed: int = 0) -> np.ndarray:
    """Average linkage, then k-means passes."""
    labels = linkage_tree(reduced, weights, local=False).cut(k)
    return kmeans_passes(reduced, labels, int(labels.max()) + 1, weights)


def fit_local(reduced: Reduced, weights: np.ndarray, k: int, seed: int = 0) -> np.ndarray:
    """Average linkage with local weights (LWEA)."""
    return linkage_tree(reduced, weights, local=True).cut(k)


def fit_kmeans(reduced: Reduced, weights: np.ndarray, k: int, seed: int = 0, n_init: int = 10) -> np.ndarray:
    """K-means on the weighted one-hot rows of micro-clusters: greedy seeding, best of `n_init` starts."""
    rng = np.random.default_rng(seed)
    points = reduced.counts / np.maximum(reduced.observed[reduced.partition_of], 1.0)
    points = (np.sqrt(weights[reduced.partition_of])[:, None] * points).T
    norms, sizes = (points**2).sum(axis=1), reduced.sizes
    k = min(k, len(points))
    best_loss, best = np.inf, np.zeros(len(points), dtype=int)
    for _ in range(n_init):
        centers = points[_seed_points(points, norms, sizes, k, rng)]
        labels = None
        for _ in range(50):
            score = 2.0 * points @ centers.T - (centers**2).sum(axis=1)
            moved = score.argmax(axis=1)
            if labels is not None and (moved == labels).all():
                break
            labels = moved
            member = np.zeros((len(points), k))
            member[np.arange(len(points)), labels] = sizes
            total = member.sum(axis=0)
            centers = np.where(total[:, None] > 0, (member.T @ points) / np.maximum(total, 1.0)[:, None], centers)
        loss = float((sizes * (norms - score.max(axis=1))).sum())
        if loss < best_loss:
            best_loss, best = loss, labels
    return best


def _seed_points(points, norms, sizes, k: int, rng: np.random.Generator) -> list[int]:
    """Greedy k-means++: three draws per center, the one that lowers the loss most."""
    chosen = [int(rng.choice(len(points), p=sizes / sizes.sum()))]
    near = np.maximum(norms + norms[chosen[0]] - 2.0 * points @ points[chosen[0]], 0.0)
    for _ in range(k - 1):
        mass = near * sizes
        if mass.sum() <= 0:
            chosen.append(int(rng.integers(len(points))))
            continue
        drawn = rng.choice(len(points), size=3, p=mass / mass.sum())
        after = [np.minimum(near, np.maximum(norms + norms[i] - 2.0 * points @ points[i], 0.0)) for i in drawn]
        best = int(np.argmin([(sizes * distances).sum() for distances in after]))
        chosen.append(int(drawn[best]))
        near = after[best]
    return chosen


CANDIDATES: dict[str, Callable[..., np.ndarray]] = {"average": fit_average, "local": fit_local, "kmeans": fit_kmeans}


def half_splits(weights: np.ndarray, n_splits: int = N_SPLITS, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random halves of the members, as partition weights: the other half has weight (almost) 0."""
    found = []
    counted = np.flatnonzero(weights > 0)  # members without weight must not make the halves unequal
    for split in range(n_splits):
        first = np.zeros(len(weights), dtype=bool)
        first[np.random.default_rng([seed, split]).permutation(counted)[: len(counted) // 2]] = True
        found.append((np.where(first, weights, 0.0) + 1e-9, np.where(first, 0.0, weights) + 1e-9))
    return found


def rand_index(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> float:
    """Adjusted Rand index of two labellings of micro-clusters, items counted."""
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1))
    np.add.at(table, (a, b), sizes)
    n = table.sum()
    together, rows, columns = ((t * (t - 1)).sum() for t in (table, table.sum(axis=1), table.sum(axis=0)))
    expected = rows * columns / (n * (n - 1))
    highest = (rows + columns) / 2
    return float((together - expected) / (highest - expected)) if highest > expected else 1.0


@dataclass(frozen=True)
class Choice:
    """The chosen method, and what the others did."""

    method: str
    labels: dict[str, np.ndarray]  # of micro-clusters, from all members
    refits: dict[str, list[np.ndarray]]  # from the halves of the members
    stability: dict[str, float]  # mean agreement of the two halves of a split


def member_fineness(reduced: Reduced, weights: np.ndarray, k: int) -> float:
    """Effective number of clusters of a typical member, exp(mean entropy), over k."""
    sizes = np.diagonal(reduced.overlap)
    entropy = [information(sizes[a:b][:, None])[1] for a, b in itertools.pairwise(reduced.offsets)]
    return float(np.exp(np.average(entropy, weights=weights)) / k)


def choose_method(reduced: Reduced, weights: np.ndarray, k: int, seed: int = 0) -> Choice:
    """The candidate whose answers from two random halves of the members agree most; the first one on ties.

    K-means is left out where members are much finer than k, since it then divides the items evenly, and does so
    stably; elsewhere it must be ahead by AHEAD, because its clusters of equal size are stable by nature.
    """
    labels, refits, stability = {}, {}, {}
    splits = half_splits(weights, seed=seed)
    names = [name for name in CANDIDATES if name != "kmeans" or member_fineness(reduced, weights, k) <= FINE]
    for name in names:
        fit = CANDIDATES[name]
        labels[name] = fit(reduced, weights, k, seed)
        refits[name] = [fit(reduced, half, k, seed) for split in splits for half in split]
        pairs = zip(refits[name][::2], refits[name][1::2])
        stability[name] = float(np.mean([rand_index(a, b, reduced.sizes) for a, b in pairs]))
    method = max(names, key=lambda name: stability[name] - AHEAD * (name == "kmeans"))
    return Choice(method, labels, refits, stability)


# -- 5. how many clusters ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberOfClusters:
    """The suggested number, the runners-up and the curves behind them."""

    k: int
    runners_up: list[int]  # other peaks of `score` within NEAR of the best, best first
    ks: np.ndarray
    score: np.ndarray
    curves: dict[str, np.ndarray]


MOST_CLUSTERS = 30
NEAR = 0.25  # a runner-up has a score this close to the best (scores range over 0..3)


def choose_k(reduced: Reduced, weights: np.ndarray, most: int = MOST_CLUSTERS) -> NumberOfClusters:
    """Where agreement, separation and gaps peak together, over the cuts of one tree.

    agreement: mean NMI of the cut with the members. margin: mean over items of the co-association with the own
    cluster minus that with the next. eigengap: of the graph of base clusters (HBGF). linkage gap: rise of the
    similarity of merges. Each curve is brought to 0..1; the two gaps count half each.
    """
    tree = linkage_tree(reduced, weights, local=False)
    ks = np.arange(2, max(min(most, reduced.n_leaves), 2) + 1)
    if reduced.n_leaves < 2:
        return NumberOfClusters(1, [], np.ones(1, dtype=int), np.zeros(1), {})
    cuts = [tree.cut(int(k)) for k in ks]
    # the last merge, from 2 clusters to 1, comes first; at the end, the similarity of equal rows
    full = 1.0 if (reduced.observed != reduced.sizes).any() else float(weights.sum())
    similarity = np.append(tree.merges.similarity[::-1], full)
    values = graph_eigenvalues(reduced, weights, int(ks[-1]) + 1)
    curves = {
        "agreement": np.array([mean_nmi(reduced, labels, weights) for labels in cuts]),
        "margin": np.array([mean_margin(reduced, tree, labels) for labels in cuts]),
        "eigengap": values[ks - 1] - values[ks],
        "linkage_gap": similarity[ks - 1] - similarity[ks - 2],
    }
    parts = {name: _unit_range(curve) for name, curve in curves.items()}
    score = parts["agreement"] + parts["margin"] + (parts["eigengap"] + parts["linkage_gap"]) / 2
    order = np.argsort(-score, kind="stable")
    padded = np.concatenate([[-np.inf], score, [-np.inf]])
    peak = (score >= padded[:-2]) & (score >= padded[2:])
    others = [int(ks[i]) for i in order[1:] if peak[i] and score[i] >= score[order[0]] - NEAR]
    return NumberOfClusters(int(ks[order[0]]), others, ks, score, curves)


def _unit_range(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / max(float(np.ptp(values)), 1e-12)


def mean_nmi(reduced: Reduced, labels: np.ndarray, weights: np.ndarray) -> float:
    """NMI with each member, averaged with their weights."""
    counts, _, _ = reduced.per_cluster(labels, int(labels.max()) + 1)
    scores = []
    for a, b in itertools.pairwise(reduced.offsets):
        mutual, rows, columns = information(counts[a:b])
        scores.append(2.0 * mutual / (rows + columns) if rows + columns > 0 else 1.0)
    return float(np.average(scores, weights=weights))


def mean_margin(reduced: Reduced, tree: Tree, labels: np.ndarray) -> float:
    """Mean over items of the similarity to the own cluster minus that to the most similar other one."""
    k = int(labels.max()) + 1
    member = np.zeros((reduced.n_leaves, k))
    member[np.arange(reduced.n_leaves), labels] = 1.0
    near = (tree.sums @ member) / np.outer(reduced.sizes, np.maximum(reduced.sizes @ member, 1.0))
    own = near[np.arange(len(labels)), labels]
    near[np.arange(len(labels)), labels] = -np.inf
    return float(np.average(own - near.max(axis=1), weights=reduced.sizes))


def graph_eigenvalues(reduced: Reduced, weights: np.ndarray, count: int) -> np.ndarray:
    """Leading eigenvalues, largest first, of the normalised graph of base clusters tied by shared micro-clusters."""
    ties = (weights[reduced.partition_of][:, None] * reduced.counts).T
    total = ties.sum(axis=1)
    graph = ties[total > 0].T @ (ties[total > 0] / total[total > 0, None])
    degree = graph.sum(axis=1)
    used = degree > 1e-12
    scale = 1.0 / np.sqrt(degree[used])
    n = int(used.sum())
    keep = min(count, n)
    found = eigh(
        (scale[:, None] * graph[np.ix_(used, used)]) * scale, eigvals_only=True, subset_by_index=(n - keep, n - 1)
    )
    return np.concatenate([found[::-1], np.zeros(count - keep)])


# -- 6. confidence -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Confidence:
    """How far the answer depends on which members were used."""

    items: np.ndarray  # (n,) √(recurrence · placement), see `confidence`
    clusters: np.ndarray  # (k,) share of refits that have the cluster, with a Jaccard index of at least 0.5
    partitions: np.ndarray  # (p,) mean NMI with refits the partition took no part in


def confidence(
    ensemble: ca.Ensemble, reduced: Reduced, choice: Choice, weights: np.ndarray, seed: int = 0
) -> Confidence:
    """Confidence of items, clusters and partitions from the refits on halves of the members.

    recurrence of an item: the share of its cluster that a refit puts together with it, averaged over refits.
    placement of an item: its mean co-association with its cluster, relative to the 90 % quantile over all items.
    The refits are known for micro-clusters already, so one pass over the items is all it takes.
    """
    answer = choice.labels[choice.method]
    k = int(answer.max()) + 1
    halves = [half for split in half_splits(weights, seed=seed) for half in split]
    recurrence = np.zeros(reduced.n_leaves)
    clusters, left_out, times = np.zeros(k), np.zeros(len(weights)), np.zeros(len(weights))
    for half, refit in zip(halves, choice.refits[choice.method]):
        shared = np.zeros((k, int(refit.max()) + 1))
        np.add.at(shared, (answer, refit), reduced.sizes)
        size = shared.sum(axis=1, keepdims=True)
        clusters += (shared / (size + shared.sum(axis=0) - shared)).max(axis=1) >= 0.5
        recurrence += (shared / np.maximum(size, 1.0))[answer, refit]
        absent = half < 1e-6
        left_out[absent] += member_nmi(reduced, refit)[absent]
        times += absent
    recurrence /= len(halves)
    placement = own_association(ensemble, reduced, answer, weights)
    placement = np.minimum(placement / max(float(np.quantile(placement, 0.9)), 1e-12), 1.0)
    items = np.sqrt(recurrence[reduced.leaf_of_item] * placement)
    return Confidence(items, clusters / len(halves), left_out / np.maximum(times, 1))


def own_association(ensemble: ca.Ensemble, reduced: Reduced, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean co-association of every item with its own cluster: one pass with a table (d, k)."""
    counts, observed, _ = reduced.per_cluster(labels, int(labels.max()) + 1)
    table = counts / np.maximum(observed[reduced.partition_of], 1e-9)
    codes, own = np.asarray(ensemble.codes), labels[reduced.leaf_of_item]
    total, seen = np.zeros(len(codes)), np.zeros(len(codes))
    for j, (a, b) in enumerate(itertools.pairwise(reduced.offsets)):
        code = codes[:, j].astype(np.int64)
        labelled = code < b - a
        total[labelled] += weights[j] * table[a + code[labelled], own[labelled]]
        seen += weights[j] * labelled
    return total / np.maximum(seen, 1e-12)


def member_nmi(reduced: Reduced, labels: np.ndarray) -> np.ndarray:
    """NMI of a labelling of micro-clusters with each member."""
    one = np.eye(reduced.n_partitions)
    return np.array([mean_nmi(reduced, labels, row) for row in one])


# -- all of it -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    labels: np.ndarray
    n_clusters: int
    method: str
    support: Support
    verdict: str
    weights: np.ndarray
    confidence: Confidence
    number: NumberOfClusters | None
    choice: Choice


def answer(ensemble: ca.Ensemble, n_clusters: int | None = None, random_state: int = 0) -> Answer:
    """The whole: weights, support, number of clusters where it is not given, method, confidence, one sentence."""
    n_micro = N_MICRO if n_clusters is None else max(N_MICRO, 5 * n_clusters)
    reduced = reduce_rows(ensemble, n_micro, random_state)
    tables = blocks(reduced)
    weights = partition_weights(tables, ensemble.n_partitions)
    found = support(reduced, tables)
    number = choose_k(reduced, weights) if n_clusters is None else None
    k = min(number.k if number is not None else int(n_clusters or 1), reduced.n_leaves)
    choice = choose_method(reduced, weights, k, random_state)
    labels = choice.labels[choice.method][reduced.leaf_of_item]
    sure = confidence(ensemble, reduced, choice, weights, random_state)
    p = ensemble.n_partitions
    if not found.supported:
        verdict = f"No consensus: the {p} partitions do not agree more than chance ({found.core.sum()} of them do)."
    else:
        doubt = "" if number is None or not number.runners_up else f" (or {number.runners_up[0]})"
        verdict = (
            f"{k}{doubt} clusters by {choice.method}: {found.core.sum()} of {p} partitions agree beyond chance; "
            f"answers from halves of them agree {choice.stability[choice.method]:.2f} (adjusted Rand index); "
            f"{np.mean(sure.items >= 0.9):.0%} of the items have a confidence of 0.9 or more."
        )
    return Answer(labels, k, choice.method, found, verdict, weights, sure, number, choice)
