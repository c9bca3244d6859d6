"""Micro-clusters: the clusters of one k-means start, which replace the items in methods of quadratic cost."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import check_choice, check_integer, stream
from ..core.counts import Counts, Layout, ScoreTable
from ..core.objectives import KMeansObjective
from ..engines import Engine, Fit, Labelling, Native, Rows, resolve
from ..engines.native import default_threads
from ..ensemble import Ensemble
from ..ensemble.encode import distinct_rows
from .lloyd import Starts, best_start, with_fewer_clusters
from .merge import merged_counts

SAMPLED_ABOVE = 100_000  # items above which micro-clusters are found on a sample
SAMPLE_ITEMS = 50_000
MANY_MICRO_CLUSTERS = 1000  # micro-clusters in place of rows that are too many
_SAMPLE_THREADS = 4  # on samples, 16 threads take twice as long as four: they wait for one another
MICRO_PASSES = 30  # micro-clusters need not converge: they are merged anyway


@dataclass(frozen=True)
class MicroClusters:
    """Micro-clusters ("leaves") and their counts, in an order that follows from counts alone, not names or columns."""

    labelling: Labelling  # leaf of each item, where the engine keeps it
    table: ScoreTable  # whose argmax the leaves are, for new rows; base clusters in the order of the ensemble
    counts: Counts  # (d, m), partitions and base clusters in the order below
    partitions: np.ndarray  # (p,) positions in the ensemble
    codes: np.ndarray  # (d,) positions in the ensemble; d counts the base clusters that have items
    few_rows: bool  # whether fewer rows differ than micro-clusters were asked for

    @property
    def n_leaves(self) -> int:
        return self.counts.n_clusters

    @property
    def sizes(self) -> np.ndarray:
        """Items at each leaf, copies counted."""
        return self.counts.sizes

    @property
    def layout(self) -> Layout:
        return self.counts.layout

    def merged(self, of_leaf: np.ndarray, k: int) -> Counts:
        """Counts of the clusters that leaves form."""
        return merged_counts(self.counts, of_leaf, k)

    def in_given_order(self, counts: Counts, layout: Layout) -> Counts:
        """Counts with base clusters in the order of the ensemble."""
        alpha = np.zeros((layout.n_codes, counts.n_clusters), np.int64)
        alpha[self.codes] = counts.alpha
        return Counts(alpha, counts.sizes, layout)


def check_micro_clusters(asked: Any, k: int) -> int | None:
    """Clusters of an over-segmentation: the number asked for, 100 or 5 k when "auto", None for none."""
    if asked is None:
        return None
    if isinstance(asked, str):
        check_choice(asked, "micro_clusters", ("auto",))
        return max(100, 5 * k)
    micro = check_integer(asked, "micro_clusters")
    if micro < k:
        raise ValueError(f"micro_clusters={micro} must be at least n_clusters={k}.")
    return micro


def micro_clusters(
    rows: Rows,
    engine: Engine,
    n_micro: int,
    max_iter: int,
    seed: int,
    v: np.ndarray | None = None,
    verbose: str = "",
) -> MicroClusters:
    """Reduce the items of `rows` to at most `n_micro` micro-clusters, none of them empty.

    Above SAMPLED_ABOVE items, centers come from SAMPLE_ITEMS items drawn at random, and all items join the nearest one.
    """
    sample, where = rows, engine
    if rows.n_copies > SAMPLED_ABOVE:
        targets = np.sort(stream(seed, 5).integers(rows.n_copies, size=SAMPLE_ITEMS))
        codes = codes_of_copies(rows, targets)
        sample, where = local_rows(codes, rows.layout)
    weights = np.ones(rows.layout.n_partitions) if v is None else v

    def one_start(k: int) -> Fit:
        starts = Starts(k, 1, max_iter, seed, verbose=verbose)
        return best_start(sample, where, KMeansObjective(weights), weights, starts)

    fit, n_different = with_fewer_clusters(one_start, n_micro, silent=True)
    table, labelling, counts = fit.table, fit.labelling, fit.counts
    kept = np.ones(table.n_clusters, dtype=bool) if sample is not rows else counts.sizes > 0
    while sample is not rows or not kept.all():
        sample = rows
        table = ScoreTable(np.ascontiguousarray(table.values[:, kept]), table.bits)
        labelling = rows.labelling(table.n_clusters)
        rows.assign(labelling, table)
        counts = rows.counts(labelling)
        kept = counts.sizes > 0
    partitions, codes, n_clusters = _order(counts)
    ordered = Counts(np.ascontiguousarray(counts.alpha[codes]), counts.sizes, Layout.of_sizes(n_clusters))
    return MicroClusters(labelling, table, ordered, partitions, codes, n_different < n_micro)


def sampled_codes(rows: Rows, n_items: int, rng: np.random.Generator) -> np.ndarray:
    """Codes (m, p) of `n_items` items, copies counted, one from each of as many equal stretches; of all if fewer."""
    total = rows.n_copies
    if total <= n_items:
        return codes_of_copies(rows, np.arange(total))
    edges = np.arange(n_items + 1) * total // n_items
    return codes_of_copies(rows, rng.integers(edges[:-1], edges[1:]))


def different_in_sample(rows: Rows, seed: int) -> np.ndarray | None:
    """The different rows of codes among SAMPLE_ITEMS items; None where there are not many more items than that."""
    if rows.n_copies <= SAMPLED_ABOVE:
        return None
    codes = sampled_codes(rows, SAMPLE_ITEMS, stream(seed, 6))
    return codes[distinct_rows(codes)[0]]


def codes_of_copies(rows: Rows, positions: np.ndarray) -> np.ndarray:
    """Codes of some items, each copy of a row being an item of its own."""
    return np.ascontiguousarray(rows.seeding(np.ones(rows.layout.n_partitions, np.int64)).locate(positions))


def local_rows(codes: np.ndarray, layout: Layout) -> tuple[Rows, Engine]:
    """Rows of codes loaded in this process."""
    ensemble = Ensemble.from_codes(codes, layout.n_clusters)
    engine = resolve("auto", ensemble)
    if isinstance(engine, Native):
        engine = Native(n_threads=min(default_threads(), _SAMPLE_THREADS))
    return engine.load(ensemble), engine


def _order(counts: Counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of partitions and of base clusters with items, sorted by counts alone; base clusters per partition."""
    offsets, keys, rows = counts.layout.offsets.tolist(), [], []
    for a, b in itertools.pairwise(offsets):
        block = counts.alpha[a:b]
        order = np.lexsort(block.T[::-1])
        order = order[min(int((~block.any(axis=1)).sum()), len(order) - 1) :]  # rows of zeros come first
        rows.append(a + order)
        keys.append((len(order), hashlib.sha256(block[order].tobytes()).digest()))
    partitions = sorted(range(len(keys)), key=keys.__getitem__)
    codes = [rows[j] for j in partitions]
    return np.array(partitions), np.concatenate(codes), np.array([len(own) for own in codes], dtype=np.int64)
