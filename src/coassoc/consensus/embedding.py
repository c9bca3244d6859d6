"""Spectral embeddings of base clusters, and k-means starts, from a sample of the items."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, diags_array

from ..core.counts import Counts, Layout
from ..core.objectives import EmbeddingObjective, lengths_of
from ..engines import Fit, Rows, resolve
from ..ensemble import Ensemble
from ..ensemble.rows import distinct_rows
from ..metrics.membership import uncertainty_from_overlap
from .eigen import leading_eigenvectors
from .lloyd import lloyd, seed_rows, unit_weights
from .micro import local_rows, sampled_codes

MOST_LABELS = 1 << 21  # labels (items times partitions) in the sample; with fewer, all items are in it
MOST_CODES = 4096  # base clusters up to which their overlap is an array; above, products with sparse matrices
_REFERENCES = 32  # partitions that the uncertainty of so many base clusters is estimated from
START_ROWS = 4096  # items of the sample on which starts are made, at least
_ROWS_PER_CLUSTER = 50  # and for each cluster
_SEED_ROWS = (1024, 4096)  # rows from which seeds are drawn: 20 for each cluster, within these limits
_START_PASSES = 5  # after which starts are compared
_BEST_PASSES = 100  # passes of the best start on the sample


class Sample:
    """Some of the items, or all if they are few, in the memory of this process; the same items on every engine."""

    def __init__(self, rows: Rows, rng: np.random.Generator):
        self.layout = rows.layout
        self.n_items = min(rows.n_copies, max(START_ROWS, MOST_LABELS // self.layout.n_partitions))
        self.codes = sampled_codes(rows, self.n_items, rng)

    # -- the graph of base clusters ------------------------------------------------------------------------

    @cached_property
    def local(self) -> Rows:
        """The sampled items, loaded here."""
        return local_rows(self.codes, self.layout)[0]

    @cached_property
    def overlap(self) -> np.ndarray:
        """HᵀH (d, d) of the sample."""
        return self.local.overlap()

    @cached_property
    def indicator(self) -> csr_array:
        """H of the sample."""
        return indicator(self.codes, self.layout)

    def uncertainty(self, theta: float) -> np.ndarray:
        """ECI of every base cluster (d,)."""
        if self.layout.n_codes <= MOST_CODES:
            return uncertainty_from_overlap(self.overlap, self.layout.offsets, theta)
        if not (math.isfinite(theta) and theta > 0):
            raise ValueError(f"theta must be a positive number, got {theta!r}.")
        p, offsets = self.layout.n_partitions, self.layout.offsets
        chosen = np.unique(np.linspace(0, p - 1, min(p, _REFERENCES)).round().astype(int))
        by_cluster = self.indicator.T.tocsr()
        entropy, compared = np.zeros((2, self.layout.n_codes))
        for j in chosen:
            overlap = by_cluster @ self.indicator[:, offsets[j] : offsets[j + 1]]
            share = overlap.data / np.repeat(overlap.sum(axis=1), np.diff(overlap.indptr))
            terms = csr_array((-share * np.log2(share), overlap.indices, overlap.indptr), overlap.shape)
            entropy += terms.sum(axis=1)
            compared += 1.0
            compared[offsets[j] : offsets[j + 1]] -= 1.0  # the entropy in its own partition is 0
        mean = np.divide(entropy, compared, out=np.zeros_like(entropy), where=compared > 0)
        return np.exp(-mean * (p - 1) / (theta * p))

    def vectors(self, weights: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Vectors (d, k) of base clusters from the transfer cut, and their eigenvalues.

        Those of G = Bᵀ D_X⁻¹ B, B_if = weights[f]: see `graph_vectors`. A base cluster that no sampled item carries
        gets a zero vector, as if its label were missing.
        """
        if self.layout.n_codes <= MOST_CODES:
            if (weights == 1.0).all() and (self.codes < self.layout.n_clusters).all():
                return graph_vectors(self.overlap / self.layout.n_partitions, k, rng)
            return graph_vectors((weights[:, None] * self.local.weighted_overlap(weights)) * weights, k, rng)
        sums = self.indicator @ weights
        degree = weights * self.indicator.sum(axis=0)  # G 1, since B 1 is what D_X divides by
        scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
        ties = (diags_array(1.0 / np.sqrt(sums)) @ self.indicator @ diags_array(weights * scale)).tocsr()
        back = ties.T.tocsr()
        most = min(k, int(np.count_nonzero(degree)), self.n_items)
        values, vectors = leading_eigenvectors(lambda X: back @ (ties @ X), np.sqrt(degree), most, rng)
        return scale[:, None] * vectors, values

    # -- starts --------------------------------------------------------------------------------------------

    def starts(self, rows: Rows, k: int, rng: np.random.Generator) -> StartRows:
        """A smaller sample of different rows to make starts on; `rows` are all items."""
        m = max(START_ROWS, _ROWS_PER_CLUSTER * k)
        codes = self.codes if self.n_items <= m else self.codes[np.arange(m) * self.n_items // m]
        first, copies, _ = distinct_rows(codes)
        if len(first) < k:  # k-means++ on the labels finds rows that differ, or says that there are too few
            more = seed_rows(rows, k, unit_weights(rows), rng)
            first, copies, _ = distinct_rows(codes := np.concatenate([codes, more]))
        return StartRows(codes[first], copies, self.layout)


class StartRows:
    """Starts of k-means on an embedding, on a few thousand different rows that count as often as they were drawn."""

    def __init__(self, codes: np.ndarray, copies: np.ndarray, layout: Layout):
        self.codes, self.copies, self.layout = codes, copies, layout
        self.indicator = indicator(codes, layout)

    def even(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (d, q), each scaled so that the items they embed have lengths near 1.

        Vector f is divided by the harmonic mean length of the items that carry f. Items then count about the same in
        the objective, as unit rows would, and sums over clusters still come from counts.
        """
        lengths = lengths_of(self.indicator @ vectors)
        inverse = np.divide(self.copies, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        carrying = self.indicator.T @ self.copies.astype(np.float64)
        alone = self.layout.n_partitions * lengths_of(vectors)  # outside the sample: as if all labels agreed
        scale = np.divide(1.0, alone, out=np.zeros_like(alone), where=alone > 0)
        np.divide(self.indicator.T @ inverse, carrying, out=scale, where=carrying > 0)
        return vectors * scale[:, None]

    @cached_property
    def rows(self) -> Rows:
        """These rows, loaded here."""
        return resolve("auto").load(Ensemble.from_codes(self.codes, self.layout.n_clusters), self.copies)

    def best(
        self, objective: EmbeddingObjective, k: int, n_init: int, streams: Callable[[int], np.random.Generator]
    ) -> Counts:
        """Counts of the best of `n_init` starts after a few passes. Start r draws from ``streams(r)``."""
        u = len(self.codes)
        m = min(u, max(k, min(max(20 * k, _SEED_ROWS[0]), _SEED_ROWS[1])))
        among = np.arange(m) * u // m
        seeding = SphereSeeding(self.indicator[among] @ objective.vectors, self.copies[among])
        labelling = self.rows.labelling(k)
        best: Fit | None = None
        for restart in range(n_init):
            seeds = self.codes[among[seeding.choose(k, streams(restart))]]
            fit = lloyd(self.rows, objective, Counts.of_rows(seeds, self.layout), _START_PASSES, labelling)
            if best is None or fit.loss < best.loss:
                best = fit
        assert best is not None
        return best.counts

    def finished(self, objective: EmbeddingObjective, start: Counts) -> Counts:
        """Counts where k-means on these rows ends, from the centers of `start`."""
        return lloyd(self.rows, objective, start, _BEST_PASSES).counts


class SphereSeeding:
    """k-means++ for spherical k-means: the loss of a point is copies * length * (1 − cosine to the nearest seed)."""

    def __init__(self, points: np.ndarray, copies: np.ndarray):
        points = points.astype(np.float32)  # enough to choose rows; sums over clusters come from exact counts
        lengths = lengths_of(points)[:, None]
        unit = np.divide(points, lengths, out=np.zeros_like(points), where=lengths > 0)
        self.mass = copies.astype(np.float32) * lengths[:, 0]
        self.apart = np.maximum(1.0 - unit @ unit.T, 0.0)  # shared by all starts
        np.fill_diagonal(self.apart, 0.0)

    def choose(self, k: int, rng: np.random.Generator) -> np.ndarray:
        """k different points, each the best of 2 + log k candidates."""
        chosen = np.empty(k, dtype=np.int64)
        loss = self.mass
        for c in range(k):
            running = np.cumsum(loss, dtype=np.float64)
            if running[-1] <= 0:  # every point lies on a seed: any others will do
                chosen[c:] = np.setdiff1d(np.arange(len(loss)), chosen[:c])[: k - c]
                break
            draws = rng.random(2 + int(math.log(k)) if c else 1) * running[-1]
            candidates = np.minimum(np.searchsorted(running, draws, side="right"), len(loss) - 1)
            losses = self.apart[candidates] * self.mass
            if c:
                np.minimum(losses, loss, out=losses)
            best = int(np.argmin(losses.sum(axis=1)))
            chosen[c], loss = candidates[best], losses[best]
        return chosen


def graph_vectors(graph: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Leading k eigenvectors of D^{-1/2} G D^{-1/2}, scaled back by D^{-1/2} (d, k), and their eigenvalues.

    Base clusters without weight get zero rows. Fewer than k columns come back when fewer have weight.
    """
    degree = graph.sum(axis=1)
    used = np.flatnonzero(degree > 0)
    scale = 1.0 / np.sqrt(degree[used])
    matrix = (scale[:, None] * (graph if len(used) == len(graph) else graph[np.ix_(used, used)])) * scale
    values, vectors = leading_eigenvectors(matrix, 1.0 / scale, min(k, len(used)), rng)
    full = np.zeros((len(graph), vectors.shape[1]))
    full[used] = scale[:, None] * vectors
    return full, values


def indicator(codes: np.ndarray, layout: Layout) -> csr_array:
    """Rows of H for rows of codes, as float64."""
    return csr_array(Ensemble.from_codes(codes, layout.n_clusters).one_hot())
