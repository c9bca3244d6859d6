"""The engine contract: where the rows of an ensemble are kept, and the verbs the algorithms use on them.

Every algorithm is written once, over these verbs. A verb returns integers that are summed over chunks of rows, or a
function of one row and a small table. Chunking, threads and the choice of engine therefore cannot change a result,
and a chunk lost with its worker is computed again.

An engine implements `Engine.load`, the abstract methods of `Rows` and the three of `Seeding`; the other methods have
defaults over those. `Loadable` lists what `load` may read of an ensemble.

Shapes: p partitions with d base clusters in total, k consensus clusters. A row of codes has one integer per
partition; the code ``n_clusters[j]`` marks a missing label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Self

import numpy as np

from ..core.counts import Counts, Layout, RowShares, ScoreTable, check_total_copies
from ..core.moves import Moves, MoveTable
from .compiled import kernels

_PAIR_CODES = 1 << 22  # codes of pairs compared at a time by `pair_counts`; bounds the temporary memory
_STRETCH = 1 << 18  # rows worked on at a time by `worst_rows` and `map_scores`; bounds the temporary memory


class Loadable:
    """What engines read of an ensemble. `source` and what follows serve labels that stay where they are."""

    codes: Any  # (n, p) unsigned integers, in memory, mapped from a file or on a GPU
    n_clusters: np.ndarray  # (p,) clusters of each partition
    offsets: np.ndarray  # (p + 1,) their first columns in H
    sizes: np.ndarray  # (d,) items of each base cluster
    has_missing: bool
    exact_sizes: bool = True  # False: only the sum of `sizes` over each partition is right
    source: Any = None  # blocks of labels in a file or on a cluster, with `kind`, `names`, `tally` and `merge`

    @property
    def n_samples(self) -> int:
        return len(self.codes)

    def unlabelled(self) -> Any:
        """Indices of the items that no partition labels, or None when there are none."""
        raise NotImplementedError

    @property
    def is_coded(self) -> bool:
        """Whether `codes` exists; else an engine may code the labels of `source` where they are.

        ``scan(tally)`` then tells how (`codes_of_blocks`), where ``tally(source, missing)`` may count them on a
        cluster, and `block_sizes` has the rows of each block.
        """
        return True

    def preferred_engine(self) -> Engine | None:
        """The engine that ``engine="auto"`` picks for labels in a file, on a cluster or on a GPU; None: the fastest."""
        return None


class Labelling:
    """A label from 0 to n_clusters - 1 for each row, stored as the engine likes. Engines add what they need."""

    def __init__(self, n_clusters: int, labels: Any):
        self.n_clusters, self.labels = n_clusters, labels


class Seeding(ABC):
    """Distances of every row to the nearest chosen row, for k-means++.

    The distance between two rows is the sum of integer weights over the partitions that label both rows and label
    them differently, and of ``weight // ONE_SIDED`` over those that label only one of the two. Before the first `add`,
    every row that takes part has distance 1.
    """

    total: int  # Σ_i copies_i · distance_i

    @abstractmethod
    def locate(self, targets: np.ndarray) -> np.ndarray:
        """Codes (len(targets), p) of the rows where the running sum of copies·distance first exceeds each target."""

    @abstractmethod
    def potentials(self, candidates: np.ndarray) -> np.ndarray:
        """The `total` that would result from adding each candidate row of codes (int64)."""

    @abstractmethod
    def add(self, row: np.ndarray) -> None:
        """Add one row of codes to the chosen ones; updates `total`."""

    def choose_all(self, k: int, n_candidates: int, rng: np.random.Generator) -> np.ndarray:
        """Codes (k, p) of k chosen rows: the first is drawn alone, each later one is the best of `n_candidates`.

        The best leaves the smallest `total`. Fewer than k rows when every other row has distance 0 to the chosen ones.
        """
        chosen: list[np.ndarray] = []
        while len(chosen) < k and self.total > 0:
            candidates = self.locate(rng.integers(self.total, size=n_candidates if chosen else 1))
            best = int(np.argmin(self.potentials(candidates))) if len(candidates) > 1 else 0  # the first on ties
            self.add(candidates[best])
            chosen.append(candidates[best])
        return np.array(chosen)


class Rows(ABC):
    """The rows of an ensemble, or a subset of them, as one engine stores them.

    Examples
    --------
    >>> import coassoc as ca
    >>> with ca.engines.Numpy().load(ca.Ensemble([[0, 0], [0, 1], [1, 1]])) as rows:
    ...     counts = rows.counts(rows.labelling(2, [0, 0, 1]))
    >>> counts.alpha.tolist()  # base clusters by consensus clusters
    [[2, 0], [0, 1], [1, 0], [1, 1]]
    """

    layout: Layout
    n_rows: int
    n_copies: int  # Σ multiplicities of the rows that take part
    copies: Any  # (n_rows,) multiplicity of each row, 0 where it takes no part, or None: all 1; for `worst_rows` alone

    # -- verbs that every engine implements ----------------------------------------------------------------

    @abstractmethod
    def labelling(self, k: int, labels: Any = None) -> Labelling:
        """A labelling with k clusters that holds a copy of `labels`, or one for `assign` to fill."""

    @abstractmethod
    def assign(self, labelling: Labelling, table: ScoreTable) -> int:
        """Give each row the cluster with the largest sum of scores, the lowest on ties; how many labels changed."""

    @abstractmethod
    def counts(self, labelling: Labelling) -> Counts:
        """Exact counts: α (d, k) and sizes (k,), int64."""

    @abstractmethod
    def labels(self, labelling: Labelling) -> Any:
        """The labels, as an array where the caller keeps its arrays."""

    @abstractmethod
    def relabel(self, labelling: Labelling, indices: np.ndarray, targets: np.ndarray) -> None:
        """Set the labels of a few rows."""

    @abstractmethod
    def own_scores(self, labelling: Labelling, table: ScoreTable, start: int = 0, stop: int | None = None) -> Any:
        """Sum of `table` over the labels of each row from `start` to `stop`, under its own cluster (int64).

        A missing label adds 0. An array where the caller keeps its arrays, as for `labels`.
        """

    @abstractmethod
    def propose_moves(self, labelling: Labelling, table: MoveTable, start: int, limit: int) -> Moves:
        """The first `limit` rows from `start` on, in row order, that would gain by moving to their best cluster.

        All rows are compared with the one frozen state of `table`. `stop` of the result is the first row that was
        not examined: one after the last move when there are `limit` of them, else the number of rows. All copies of
        a row move together.
        """

    @abstractmethod
    def seeding(self, weights: np.ndarray) -> Seeding:
        """Distances for k-means++ with these integer partition weights; no row is chosen yet."""

    @abstractmethod
    def split(self, labelling: Labelling) -> list[Rows]:
        """The rows of each cluster, in their present order."""

    @abstractmethod
    def scatter(self, leaves: Sequence[Rows]) -> Any:
        """A label for each row: the position in `leaves` of the subset that holds it."""

    @abstractmethod
    def overlap(self, shares: RowShares | None = None) -> np.ndarray:
        """HᵀH (d, d), int64, in which a row counts its copies, times what `shares` gives it."""

    @abstractmethod
    def codes_at(self, indices: np.ndarray) -> np.ndarray:
        """Codes (len(indices), p) of a few rows."""

    # -- defaults over those; an engine may replace them by faster ones ------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:  # noqa: B027 - local memory needs nothing
        """After an exception, cancel remote tasks and free remote memory, although a traceback may refer to them."""

    def worst_rows(self, labelling: Labelling, cost: ScoreTable, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Codes (≤ m, p) of the different rows with the largest `own_scores` by `cost`, and those scores.

        Only rows that take part; largest first, lowest row index on ties.
        """
        worst = scores = np.empty(0, np.int64)
        for start in range(0, max(self.n_rows, 1), _STRETCH):
            stop = min(start + _STRETCH, self.n_rows)
            here, own = np.arange(start, stop), _on_host(self.own_scores(labelling, cost, start, stop))
            if self.copies is not None:
                taking_part = _on_host(self.copies[start:stop]) > 0
                here, own = here[taking_part], own[taking_part]
            worst, scores = np.concatenate([worst, here]), np.concatenate([scores, own])
            best = first_different(lambda at, worst=worst: self.codes_at(worst[at]), scores, m)
            worst, scores = worst[best], scores[best]
        return self.codes_at(worst), scores

    def pair_counts(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each pair of rows (m, 2), how many partitions put both together, and how many label both (int32)."""
        counts, step = np.empty((2, len(pairs)), np.int32), max(1, _PAIR_CODES // self.layout.n_partitions)
        for start in range(0, len(pairs), step):
            left, right = map(self.codes_at, pairs[start : start + step].T)
            observed = (left != self.layout.n_clusters) & (right != self.layout.n_clusters)
            counts[:, start : start + step] = ((left == right) & observed).sum(axis=1), observed.sum(axis=1)
        return counts[0], counts[1]

    def map_scores(
        self, labelling: Labelling, table: ScoreTable, function: Callable[[Any], tuple], dtype: Any
    ) -> tuple[Any, np.ndarray]:
        """A value of every row, made from its `own_scores`, and sums of whole numbers over the rows of each cluster.

        ``function(scores)`` gives the values of some rows, and one or more arrays of unsigned whole numbers, of at
        most 32 bits. It uses operators, ufuncs and `astype` alone, which arrays of CuPy have, too. Returns all values,
        an array as for `labels`, and the sums (arrays, k), copies counted.
        """
        values, labels, sums = np.empty(self.n_rows, dtype), self.labels(labelling), []
        for start in range(0, self.n_rows, _STRETCH):
            part = slice(start, min(start + _STRETCH, self.n_rows))
            values[part], *numbers = function(self.own_scores(labelling, table, part.start, part.stop))
            copies = 1 if self.copies is None else _on_host(self.copies[part]).astype(np.int64)
            own = [np.bincount(labels[part], number * copies, labelling.n_clusters) for number in numbers]
            sums.append(np.array(own).astype(np.int64))
        return values, np.sum(sums, axis=0)

    def whole_counts(self) -> Counts:
        """Counts of all rows as one cluster."""
        labelling = self.labelling(1)  # no label is sent to where the rows are
        self.assign(labelling, ScoreTable(np.zeros((self.layout.n_codes, 1), np.int32), 0))
        return self.counts(labelling)

    def weighted_overlap(self, weights: np.ndarray) -> np.ndarray:
        """Σ_i h_i h_iᵀ / Σ_{f∈i} u_f (d, d), float64, for weights u >= 0 (d,) of base clusters."""
        shares = RowShares.of(weights, self.layout.n_partitions, self.n_copies)
        return self.overlap(shares) * shares.scale

    def renumbered(self, labelling: Labelling, numbers: np.ndarray, k: int) -> Labelling:
        """A new labelling with `k` clusters that holds ``numbers[label]`` for every row."""
        return self.labelling(k, np.asarray(numbers)[np.asarray(self.labels(labelling))])

    def joined(self, parts: Sequence[Rows], labellings: Sequence[Labelling | None]) -> Labelling:
        """A labelling of these rows from those of its `parts`; labels are numbered part after part.

        `parts` hold every row once, as `split` gives them; a part whose labelling is None is one cluster.
        """
        leaves: list[Rows] = []
        for part, labelling in zip(parts, labellings):
            leaves += [part] if labelling is None else part.split(labelling)
        return self.labelling(len(leaves), np.asarray(self.scatter(leaves)))

    def apply_moves(self, labelling: Labelling, state: Any, moves: Moves, threshold: float) -> int:
        """Apply, in row order, the moves that still gain more than `threshold` on the live `state`; how many did.

        Runs in the caller's process: counts are small and the moves carry their codes.
        """
        if kernels is None or not len(moves):
            accepted = state.settle(moves, threshold)
        else:
            accepted = kernels.settle(state, moves, state.values(), threshold).view(bool)
        self.relabel(labelling, moves.indices[accepted], moves.targets[accepted])
        return int(np.count_nonzero(accepted))

    def distinct(self, n_starts: int) -> Rows:
        """The different rows, with their multiplicities, where that makes k-means starts faster; else these rows.

        Random draws find the same rows among them, so seeds, tables and counts are unchanged.
        """
        return self

    def spread(self, labelling: Labelling) -> Labelling:
        """A labelling of these rows' `distinct` rows as one of all rows they were made from."""
        return labelling


@dataclass
class Start:
    """One k-means start: the rows to cluster and the generator that draws its k-means++ seeds."""

    rows: Any
    rng: np.random.Generator


@dataclass
class Fit:
    """The result of one k-means start."""

    table: ScoreTable  # the labels are its argmax
    counts: Counts
    labelling: Labelling
    losses: list[float]  # one per pass, strictly falling
    stop: str  # "fixed_point", "no_gain", "max_iter"; "unfinished" when a cluster is empty and must be refilled

    @property
    def loss(self) -> float:
        return self.losses[-1]

    @property
    def n_iter(self) -> int:
        return len(self.losses)


class Engine(ABC):
    """Where rows are kept and how verbs are run on them. Instances are configuration, not state.

    Examples
    --------
    >>> import coassoc as ca
    >>> km = ca.KMeansConsensus(2, random_state=0, engine=ca.engines.Numpy(chunk_rows=2))
    >>> km.fit([[0, 0], [0, 0], [1, 1], [1, 1]]).labels_.tolist()
    [1, 1, 0, 0]
    """

    name: str

    @abstractmethod
    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> Rows:
        """The rows of an ensemble, for use in a with block: an exception there cancels remote work."""

    def side_by_side(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Results of independent tasks, in order."""
        return [function(task) for task in tasks]

    def kmeans_fits(
        self,
        starts: Sequence[Start],
        k: int,
        n_candidates: int,
        seeding_weights: np.ndarray,
        weights: np.ndarray,
        max_iter: int,
        labelling: Labelling | None = None,
    ) -> list[Fit | int] | None:
        """Optional: run whole k-means starts. None, the default: the caller runs them over the verbs.

        Each start is `Seeding.choose_all` followed by the passes of `coassoc.consensus.lloyd`, with the same results
        bit for bit. Where fewer than k rows differ, their number replaces the fit. A single
        start may reuse `labelling`, whatever it holds.
        """
        return None

    def starts_at_once(self, rows: Rows) -> int:
        """How many k-means starts on these rows, each with its own labelling, are worth running at the same time."""
        return 1

    def __deepcopy__(self, memo: dict) -> Engine:
        return self  # sklearn.clone must not copy an open connection

    def __repr__(self) -> str:
        """The settings other than the default ones."""
        defaults = {p.name: p.default for p in signature(type(self)).parameters.values()}
        shown = {name: repr(getattr(self, name, default)) for name, default in defaults.items()}
        settings = [f"{name}={text}" for name, text in shown.items() if text != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(settings)})"


def participating_copies(ensemble: Any, multiplicity: np.ndarray | None) -> np.ndarray | None:
    """Multiplicity of each row, 0 for rows without any label; None when all are 1."""
    unlabelled = ensemble.unlabelled() if missing_in(ensemble).all() else None
    if unlabelled is not None:
        multiplicity = np.ones(ensemble.n_samples, np.int64) if multiplicity is None else multiplicity.copy()
        multiplicity[unlabelled] = 0
    total = ensemble.n_samples if multiplicity is None else int(multiplicity.sum())
    check_total_copies(total)
    return multiplicity


def missing_in(ensemble: Any) -> np.ndarray:
    """Whether each partition leaves some item without a label."""
    return np.add.reduceat(ensemble.sizes, ensemble.offsets[:-1]) < ensemble.n_samples


def _on_host(array: Any) -> np.ndarray:
    """A NumPy array of an array that may be one of CuPy."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def first_different(codes_at: Callable, costs: np.ndarray, m: int) -> np.ndarray:
    """Positions of the m largest costs whose codes differ, the first of equals; looks at a few top ones first."""
    top = 4 * m
    while True:
        high = np.arange(len(costs))
        if top < len(costs):
            high = np.flatnonzero(costs >= np.partition(costs, len(costs) - top)[len(costs) - top])
        high = high[np.argsort(-costs[high], kind="stable")]
        _, first = np.unique(codes_at(high), axis=0, return_index=True)
        if len(first) >= m or len(high) == len(costs):
            return high[np.sort(first)[:m]]
        top = max(8 * top, len(high) + 1)
