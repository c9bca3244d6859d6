"""BisectingConsensus: the paper's H-KM, a tree of consensus partitions by repeated two-means."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..core.counts import Counts, ScoreTable, cluster_densities, density_from_counts, gain_of_split, loss_from_counts
from ..core.objectives import KMeansObjective, seeding_weights
from ..engines import Engine, Fit, Rows, Start
from ..ensemble.io.coding import is_dask
from .base import PredictMixin, inherit_docs, look_up
from .lloyd import TooFewRows, lloyd, seeded_fits, warn_if_fewer
from .merge import joined_counts, merged_counts


@dataclass
class _Leaf:
    """A leaf of the growing tree, with its split once that was tried."""

    rows: Rows
    counts: Counts  # of this node alone, k = 1
    density: float
    path: tuple[int, ...]
    tried: bool = False
    split: Fit | None = None  # None before it was tried, or when it is impossible
    gain: float = -math.inf  # n·ΔS of the split


@inherit_docs
class BisectingConsensus(PredictMixin):
    r"""A tree of consensus partitions, grown by splitting leaves in two with k-means on their own rows.

    The density gained by splitting :math:`C` into :math:`A` and :math:`B`,
    :math:`\Delta S = (|A| D(A) + |B| D(B) - |C| D(C)) / n`, depends on :math:`C` alone, so nodes are independent and
    run side by side, and one tree gives the partition into k clusters for every k up to its leaves.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Clusters of ``labels_``. None: as many as the tree has leaves.
    max_leaves : int or None, default=None
        Leaves at which growth stops. None: `n_clusters`, or ⌊√n⌋ (copies counted) when that is None too.
    criterion : {"gain", "loss", "size"}, default="gain"
        Leaf to split next: largest ΔS, largest k-means loss, or most items (the paper's choice).
    n_init : int, default=1
        Starts of each two-means; the one with the lowest loss is kept.
    max_iter : int, default=300
        Largest number of passes per start.
    refine : {"kmeans"} or None, default=None
        ``"kmeans"``: improve ``labels_`` by k-means passes over all items, started from the cut of the tree.
    {partition_weights} {random_state} {engine} {verbose}

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels, numbered from left to right in the tree; −1 for items without a label in any partition.
    tree_ : Tree
        Links, rank, size, density and gain of every node.
    n_leaves_ : int
        Leaves of the tree; fewer than asked for when the rows of a leaf are all equal.
    linkage_ : ndarray of shape (n_leaves - 1, 4)
        SciPy linkage over the leaves.
    n_iter_, converged_ : int, bool
        Largest number of passes of a split; whether those of every split, or of `refine`, ended at a fixed point.
    n_clusters_ : int
        Clusters of ``labels_``: fewer than asked for when the tree has fewer leaves.
    {density_} {loss_} {n_features_in_}

    Notes
    -----
    Growing k leaves takes O(n_samples * n_partitions * log k) per pass when splits are balanced.

    References
    ----------
    .. [1] G. Candel, "Linear Time Evidence Accumulation Clustering with KMeans", 2021.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 2]]
    >>> tree = ca.BisectingConsensus(max_leaves=3, random_state=0).fit(table)
    >>> len(set(tree.cut(2).tolist())), tree.n_leaves_
    (2, 3)
    """

    def __init__(
        self, n_clusters: Any = None, *, max_leaves: Any = None, criterion: str = "gain", n_init: int = 1,
        max_iter: int = 300, refine: Any = None, partition_weights: Any = None, random_state: Any = None,
        engine: Any = "auto", verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.max_leaves = max_leaves
        self.criterion = criterion
        self.n_init = n_init
        self.max_iter = max_iter
        self.refine = refine
        self.partition_weights = partition_weights
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def _fit(self, X: Any, sample_weight: Any) -> None:
        k = None if self.n_clusters is None else check_integer(self.n_clusters, "n_clusters")
        most = None if self.max_leaves is None else check_integer(self.max_leaves, "max_leaves")
        if k is not None and most is not None and most < k:
            raise ValueError(f"max_leaves={most} must be at least n_clusters={k}.")
        criterion = check_choice(self.criterion, "criterion", ("gain", "loss", "size"))
        if self.refine is not None:
            check_choice(self.refine, "refine", ("kmeans",))
        n_init, max_iter = self._integers("n_init", "max_iter")
        seed = seed_from(self.random_state)
        with self._opened(X, sample_weight) as (ensemble, rows, engine):
            v = self._resolve_weights(ensemble, sample_weight)
            most = most or k or max(1, math.isqrt(rows.n_copies))

            different = rows.distinct(2 * n_init)
            grower = _Grower(different, engine, v, seed, criterion, n_init, max_iter, self.verbose)
            self.tree_, leaves = grower.grow(most)
            self.n_leaves_ = self.tree_.n_leaves
            if k is not None:
                warn_if_fewer(k, self.n_leaves_)
                k = min(k, self.n_leaves_)
            self.linkage_ = self.tree_.linkage()
            self._leaf_of_item = different.scatter([leaf.rows for leaf in leaves])
            # Dask keeps the leaves on its workers, where items without a label have −1 already
            self._unlabelled = None if is_dask(self._leaf_of_item) else ensemble.unlabelled()
            self._split_tables = grower.tables
            self.n_iter_, self.converged_ = grower.n_iter, grower.converged
            k = k or self.n_leaves_
            counts = merged_counts(joined_counts([leaf.counts for leaf in leaves]), self.tree_.cut(k), k)
            labels, table = self.cut(k), None
            if self.refine is not None:
                fit = lloyd(rows, KMeansObjective(v), counts, max_iter)
                if fit.loss <= loss_from_counts(counts, v):  # rounding of the table could raise it by a last digit
                    labels, counts, table = rows.labels(fit.labelling), fit.counts, fit.table
                    self.converged_ = fit.stop == "fixed_point"
            self._keep_model(ensemble, table)
            self._store_partition(ensemble, labels, counts, v)
            self.loss_ = loss_from_counts(counts, v)

    def cut(self, k: int) -> np.ndarray:
        """The partition into `k` clusters: the leaves after the first k − 1 splits.

        Parameters
        ----------
        k : int
            From 1 to ``n_leaves_``.

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> import coassoc as ca
        >>> tree = ca.BisectingConsensus(2, max_leaves=3, random_state=0).fit([[0, 0], [0, 0], [1, 1], [2, 1]])
        >>> tree.cut(2).tolist(), tree.cut(3).tolist()
        ([1, 1, 0, 0], [2, 2, 0, 1])
        """
        check_is_fitted(self)
        k = check_integer(k, "k")
        if k > self.n_leaves_:
            raise ValueError(f"k={k} is larger than the {self.n_leaves_} leaves; fit with max_leaves={k} or more.")
        cluster_of_leaf = self.tree_.cut(k)
        labels = look_up(np.append(cluster_of_leaf, cluster_of_leaf.dtype.type(-1)), self._leaf_of_item)
        if self._unlabelled is not None:
            labels[self._unlabelled] = -1
        return labels

    def to_newick(self) -> str:
        """The tree over the leaves as Newick text."""
        check_is_fitted(self)
        return self.tree_.newick()

    def _labels_of(self, rows: Rows) -> Any:
        if self._table is not None:  # refined by k-means: the labels are those of one table
            return super()._labels_of(rows)
        clusters = {node: cluster for cluster, node in enumerate(self.tree_.leaves(len(self.cluster_sizes_)))}
        reached, parts, waiting = [], [], [(0, rows)]
        while waiting:
            node, part = waiting.pop()
            if part.n_rows == 0:
                continue
            if node in clusters:
                reached.append(clusters[node])
                parts.append(part)
                continue
            labelling = part.labelling(2)
            part.assign(labelling, self._split_tables[node])
            left, right = part.split(labelling)
            waiting += [(self.tree_.left[node], left), (self.tree_.right[node], right)]
        return look_up(np.array(reached, dtype=np.int32), rows.scatter(parts))


@dataclass
class _Grower:
    """Grows a tree: splits are tried in any order, several at a time, and applied in a fixed order."""

    rows: Rows
    engine: Engine
    v: np.ndarray
    seed: int
    criterion: str
    n_init: int
    max_iter: int
    verbose: int
    n_iter: int = 1
    converged: bool = True
    tables: dict[int, ScoreTable] = field(default_factory=dict)  # score table of each node that was split

    def grow(self, most: int) -> tuple[Tree, list[_Leaf]]:
        tree, whole = Tree(), self.rows.whole_counts()
        self.weights, n = seeding_weights(self.v, whole), int(whole.sizes[0])
        density = density_from_counts(whole, self.v)
        leaves = {tree.add(-1, n, density): _Leaf(self.rows, whole, density, ())}
        while len(leaves) < most and (node := self._next(leaves, most - len(leaves))) is not None:
            leaf = leaves.pop(node)
            split = leaf.split
            assert split is not None
            densities = cluster_densities(split.counts, self.v).tolist()
            pair = tree.split(node, leaf.gain / n, split.counts.sizes, densities)
            for side, part in enumerate(leaf.rows.split(split.labelling)):
                path = (*leaf.path, side)
                leaves[pair[side]] = _Leaf(part, split.counts.of_cluster(side), densities[side], path)
            self.tables[node] = split.table
            self.n_iter = max(self.n_iter, split.n_iter)  # which splits are tried depends on the engine
            self.converged = self.converged and split.stop == "fixed_point"
            del leaf.rows, split.labelling  # frees their memory before the halves are tried
            if self.verbose:
                print(f"BisectingConsensus: {len(leaves)} leaves, ΔS {leaf.gain / n:.6g}, node of {tree.size[node]}")
        in_order = [leaves[node] for node in tree.leaves()]
        for leaf in in_order:
            leaf.split = None  # frees splits that were tried but not applied
        return tree, in_order

    def _next(self, leaves: dict[int, _Leaf], n_splits: int) -> int | None:
        """The leaf to split next, its split tried; None when there is none. `n_splits` splits are still wanted."""
        if self.criterion == "gain":  # needs the gain of every leaf
            self._try(list(leaves.values()))
        worth = {node: self._worth(leaf) for node, leaf in leaves.items() if leaf.split or not leaf.tried}
        order = sorted(worth, key=lambda node: (-worth[node], node))
        for at, node in enumerate(order):
            if not leaves[node].tried:  # try the next leaves at the same time: they are most likely split too
                width = self.engine.starts_at_once(leaves[node].rows)
                self._try([leaves[other] for other in order[at : at + min(n_splits, width)]])
            if leaves[node].split is not None:
                return node
        return None

    def _worth(self, leaf: _Leaf) -> float:
        if self.criterion == "gain":
            return leaf.gain
        return float(leaf.counts.sizes[0]) if self.criterion == "size" else loss_from_counts(leaf.counts, self.v)

    def _try(self, leaves: list[_Leaf]) -> None:
        """Find the best two-means of each leaf that was not tried yet; none where its rows are all equal."""
        leaves = [leaf for leaf in leaves if not leaf.tried]
        several = [leaf for leaf in leaves if leaf.counts.sizes[0] > 1]
        objective = KMeansObjective(self.v)
        for restart in range(self.n_init):
            starts = [Start(leaf.rows, stream(self.seed, restart, *leaf.path)) for leaf in several]
            fits = seeded_fits(self.engine, starts, objective, 2, self.weights, self.max_iter)
            for leaf, fit in zip(several, fits):
                if isinstance(fit, TooFewRows) or (fit.counts.sizes == 0).any():
                    continue
                if leaf.split is None or fit.loss < leaf.split.loss:
                    leaf.split = fit
        for leaf in leaves:
            leaf.tried = True
            if leaf.split is not None:
                densities = cluster_densities(leaf.split.counts, self.v)
                leaf.gain = gain_of_split(leaf.split.counts.sizes, densities, leaf.density)


@dataclass
class Tree:
    """A binary tree grown by splitting leaves: 0 is the root, the split of rank r = 1, 2, ... creates 2r − 1 and 2r.

    Attributes
    ----------
    parent, left, right : list of int
        Links, −1 where absent.
    rank : list of int
        Position of the node's split among all splits, from 1; 0 for leaves.
    size, density, gain : list
        Items (copies counted), density D, and the ΔS of the node's split (NaN when it has none).
    """

    parent: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    density: list[float] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)

    def __getstate__(self) -> dict[str, np.ndarray]:
        return {name: np.array(getattr(self, name)) for name in ("rank", "size", "density", "gain")}

    def __setstate__(self, state: dict[str, np.ndarray]) -> None:
        """Make the splits again, so that no file can hold links that go round in circles."""
        rank, size, density, gain = (state[name].tolist() for name in ("rank", "size", "density", "gain"))
        vars(self).update(vars(Tree()))
        self.add(-1, size[0], density[0])
        for node in np.argsort(rank, kind="stable")[rank.count(0) :].tolist():
            pair = slice(len(self.parent), len(self.parent) + 2)
            self.split(node, gain[node], size[pair], density[pair])

    def add(self, parent: int, size: int, density: float) -> int:
        """A new leaf."""
        row = (parent, -1, -1, 0, size, density, float("nan"))
        for column, value in zip(vars(self).values(), row):
            column.append(value)
        return len(self.parent) - 1

    def split(self, node: int, gain: float, sizes, densities) -> tuple[int, int]:
        """Turn leaf `node` into the parent of two new leaves."""
        self.rank[node] = self.n_splits + 1
        self.gain[node] = gain
        left = self.add(node, int(sizes[0]), float(densities[0]))
        right = self.add(node, int(sizes[1]), float(densities[1]))
        self.left[node], self.right[node] = left, right
        return left, right

    @property
    def n_nodes(self) -> int:
        return len(self.parent)

    @property
    def n_splits(self) -> int:
        return (self.n_nodes - 1) // 2

    @property
    def n_leaves(self) -> int:
        return self.n_splits + 1

    def leaves(self, k: int | None = None) -> list[int]:
        """Nodes that are leaves when only the first k − 1 splits are made, from left to right."""
        last = self.n_splits if k is None else k - 1
        reached, stack = [], [0]
        while stack:
            node = stack.pop()
            if 0 < self.rank[node] <= last:
                stack += [self.right[node], self.left[node]]
            else:
                reached.append(node)
        return reached

    def cut(self, k: int) -> np.ndarray:
        """For each final leaf, from left to right, its cluster among the first k leaves."""
        cluster = {node: c for c, node in enumerate(self.leaves(k))}
        for node, parent in enumerate(self.parent):  # parents come before their children
            cluster.setdefault(node, cluster.get(parent, -1))
        return np.array([cluster[leaf] for leaf in self.leaves()], dtype=np.int32)

    def linkage(self) -> np.ndarray:
        """SciPy linkage over the leaves (left to right), height = leaves − rank of the split."""
        position = {node: i for i, node in enumerate(self.leaves())}
        n_leaves = len(position)
        merges = np.zeros((n_leaves - 1, 4))
        items = dict.fromkeys(position, 1)
        inner = sorted((node for node in range(self.n_nodes) if self.rank[node]), key=lambda node: -self.rank[node])
        for row, node in enumerate(inner):
            pair = sorted((position[self.left[node]], position[self.right[node]]))
            items[node] = items[self.left[node]] + items[self.right[node]]
            merges[row] = (*pair, n_leaves - self.rank[node], items[node])
            position[node] = n_leaves + row
        return merges

    def newick(self) -> str:
        """Newick text; leaves are named by position, inner nodes by density, branches by rank."""
        position = {node: i for i, node in enumerate(self.leaves())}
        n_leaves = len(position)
        height = [n_leaves - rank if rank else 0 for rank in self.rank]
        text: dict[int, str] = {}
        for node in reversed(range(self.n_nodes)):  # children are made after their parents
            if self.rank[node]:
                inside = f"({text[self.left[node]]},{text[self.right[node]]}){self.density[node]:.6g}"
            else:
                inside = f"leaf{position[node]}"
            parent = self.parent[node]
            text[node] = inside if parent < 0 else f"{inside}:{height[parent] - height[node]}"
        return text[0] + ";"

    def table(self) -> dict[str, np.ndarray]:
        """One row per node, as columns."""
        return {"node": np.arange(self.n_nodes)} | {name: np.array(values) for name, values in vars(self).items()}
