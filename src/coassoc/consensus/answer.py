"""Consensus: the default answer. It picks the method and the number of clusters, and says whether to believe it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..core.checks import check_integer, seed_from
from ..core.counts import Counts
from ..core.objectives import KMeansObjective, fix_table
from ..engines import Rows
from ..ensemble import Ensemble
from ..ensemble.ensemble import is_on_gpu
from ..metrics.labels import check_copies, fill_missing
from .base import ConsensusEstimator, PredictMixin, on_host
from .choosing import Evidence, NumberOfClusters, choose_k, gather_evidence, halves_agreement, rand_index
from .confidence import item_confidence, recurrence
from .micro import MicroClusters
from .micro_fits import CANDIDATES
from .registry import find_method, make_method
from .starts import warn_if_fewer
from .support import information

SURE = 0.9  # confidence from which an item counts as surely placed
_ON_MICRO = ("auto", "average", "lwea")
_MOST_ALTERNATIVES = 4  # other numbers of clusters


@dataclass(frozen=True)
class Alternative:
    """Another partition of the same items, for comparison with the answer.

    Attributes
    ----------
    n_clusters, method
        Number of clusters and name of the method.
    labels : ndarray of shape (n_samples,)
        Labels of the items, made when asked for.
    agreement : float
        Mean NMI with the partitions, weighted by ``partition_weights_``.
    stability : float
        Mean adjusted Rand index between the partitions that this method finds from two random halves of the ensemble.
    distance : float
        1 minus the adjusted Rand index with the answer.
    """

    n_clusters: int
    method: str
    agreement: float
    stability: float
    distance: float
    _of_leaf: np.ndarray
    _leaf_of_item: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        return self._of_leaf[self._leaf_of_item]

    def __repr__(self) -> str:
        return (
            f"Alternative({self.n_clusters} clusters by {self.method}, agreement {self.agreement:.3f}, "
            f"stability {self.stability:.3f}, distance {self.distance:.3f})"
        )


@dataclass(eq=False, repr=False)
class Consensus(PredictMixin, ConsensusEstimator):
    r"""The consensus of an ensemble, with the method and the number of clusters chosen, and a verdict on it.

    The items are reduced to at most 300 micro-clusters, on which everything else is decided:

    1. Partitions count by how far they agree with the others beyond chance; those that hardly do are left out.
    2. The ensemble is *supported* when enough different partitions agree beyond chance at all.
    3. The number of clusters is where agreement, gaps, stability and balance are high together.
    4. Average linkage, the same with local weights, and k-means are fitted to random halves of the partitions; the
       method whose halves agree most is chosen.
    5. Confidence says how far an item, a cluster and a partition come out the same from those halves.

    Parameters
    ----------
    n_clusters : "auto", int or iterable of int, default="auto"
        Number of clusters, or the numbers to choose from. ``"auto"`` chooses from 2 to 30, and answers 1 when the
        partitions agree no more than chance.
    method : str, default="auto"
        ``"auto"`` chooses from ``"average"`` (average linkage of micro-clusters by the fourth power of their
        co-association, then k-means passes over them), ``"lwea"`` (average linkage with local weights) and ``"kmeans"``
        on micro-clusters. The first two names, and those of all methods of the library (``"kmeans"``, ``"density"``,
        ``"hbgf"``, ...), choose that method.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine, thread count and chunk size.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print a line per step.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items no partition labels.
    n_clusters_ : int
        Number of clusters.
    method_ : str
        The method used.
    supported_ : bool
        Whether enough partitions agree beyond chance. False for a single partition.
    verdict_ : str
        One sentence with the numbers behind it.
    confidence_ : ndarray of shape (n_samples,)
        From 0 to 1: the square root of ``stability_`` times two shares, how far the item keeps its cluster when half of
        the partitions are left out, and how well its own labels fit the cluster; 0.7 of that and 0.3 of its mean over
        all items. 0 for unsupported answers with one cluster, and with a single partition.
    cluster_confidence_ : ndarray of shape (n_clusters,)
        Share of the refits to half of the partitions in which the cluster is found again (Jaccard index at least 0.5).
    partition_weights_ : ndarray of shape (n_partitions,)
        Weight of each partition, mean 1: its centrality, or 0 for those left out as they hardly agree with the others.
    partition_agreement_ : ndarray of shape (n_partitions,)
        Mean NMI of each partition with the refits that did not use it.
    agreement_, stability_ : float
        Mean NMI of the answer with the partitions, weighted; mean adjusted Rand index between the answers from two
        random halves of the partitions.
    alternatives_ : list of Alternative
        Other methods at this number of clusters, and other numbers of clusters: each with ``labels``, ``agreement``,
        ``stability`` and ``distance`` from the answer.
    runners_up_ : list of int
        Other numbers of clusters that the partitions suggest nearly as much, best first.
    k_curves_ : dict of str to ndarray
        The curves the number of clusters is read from, over ``k_curves_["ks"]``; ``"score"`` is a weighted sum of them,
        plus 0.3 where the partitions have more than 2.5 k clusters.
    density_, cluster_density_, cluster_sizes_
        Scores of ``labels_``, all partitions counted alike.

    See Also
    --------
    KMeansConsensus : The paper's method, at a given number of clusters.
    select_k : The number of clusters alone.

    Notes
    -----
    Time is that of one k-means start with 300 clusters and at most 30 passes, one overlap pass and one pass for the
    confidence: linear in the number of items. The other work does not depend on it.

    Where items are fewer than micro-clusters, or repeat few different rows, the different rows are used as they are.
    `predict` gives the cluster of the nearest micro-cluster, which is ``labels_`` for the items of `fit`; with a method
    of the library, it gives the cluster with the nearest center.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 2], [1, 0, 2], [1, 0, 2], [2, 2, 1], [2, 2, 1], [2, 2, 0]]
    >>> answer = ca.Consensus(random_state=0).fit(table)
    >>> answer.n_clusters_, answer.supported_
    (3, True)
    >>> answer.labels_.tolist()
    [2, 2, 2, 1, 1, 1, 0, 0, 0]
    """

    n_clusters: Any = "auto"
    method: Any = "auto"
    _: KW_ONLY
    random_state: Any = None
    engine: Any = "auto"
    verbose: int = 0

    def _fit(self, X: Any, sample_weight: Any) -> None:
        asked = check_n_clusters(self.n_clusters)
        if self.method not in _ON_MICRO:
            find_method(self.method)
        seed = seed_from(self.random_state)
        # one thread of BLAS: the matrices are small, and the labels must not depend on the number of threads
        with threadpool_limits(1, "blas"), self._opened(X, sample_weight) as (ensemble, rows, engine):
            evidence = gather_evidence(ensemble, rows, engine, max(asked or (1,)), seed)
            refits, micro = evidence.refits, evidence.micro
            number = choose_k(refits, asked if asked is not None and len(asked) > 1 else None)
            k = _chosen_number(asked, number, evidence)
            self._report(f"{micro.n_leaves} micro-clusters, {k} clusters, runners-up {number.runners_up}")
            leaf = on_host(rows.labels(micro.labelling)).astype(np.int16 if micro.n_leaves < 1 << 15 else np.int32)
            copies = _copies(ensemble, sample_weight, leaf)
            stabilities = refits.choose_method(k if k > 1 else number.k)
            if self.method in _ON_MICRO:
                found = self._from_micro(evidence, k, stabilities[0])
            else:
                found = self._from_method(ensemble, rows, evidence, k, seed, sample_weight, leaf, copies)
            self._store_alternatives(evidence, number, found, stabilities[1], leaf)
            refits.release()
            if self.method in _ON_MICRO:
                self._keep_micro(ensemble, rows, micro, found)
            self.method_, self.supported_ = found.method, evidence.support.supported
            self._store_confidence(rows, evidence, found, leaf, copies)
            self.verdict_ = self._verdict(evidence, number, asked, copies)
            self._report(self.verdict_)

    @property
    def alternatives_(self) -> list[Alternative]:
        """Other partitions of the items; see the class."""
        return [Alternative(*facts, self._leaf_of_item) for facts in self._alternatives]

    # -- the labels ----------------------------------------------------------------------------------------

    def _from_micro(self, evidence: Evidence, k: int, chosen: str) -> _Found:
        """The answer of a method on micro-clusters."""
        method = chosen if self.method == "auto" else self.method
        refits = evidence.refits
        of_leaf = _by_size(refits.labels(method, k), evidence.micro.sizes)
        k = int(of_leaf.max()) + 1
        return _Found(k, method, of_leaf, refits.refits(method, k), evidence.micro.merged(of_leaf, k))

    def _keep_micro(self, ensemble: Ensemble, rows: Rows, micro: MicroClusters, found: _Found) -> None:
        labelling = rows.renumbered(micro.labelling, found.of_leaf.astype(np.int32), found.k)
        self._keep_model(ensemble, None)
        self._micro_table, self._cluster_of_leaf = micro.table, found.of_leaf.astype(np.int32)
        counts = micro.in_given_order(found.counts, rows.layout)
        self._store_partition(ensemble, rows.labels(labelling), counts, np.ones(rows.layout.n_partitions))

    def _from_method(
        self, ensemble: Ensemble, rows: Rows, evidence: Evidence, k: int, seed: int, sample_weight: Any,
        leaf: np.ndarray, copies: np.ndarray | None,
    ) -> _Found:  # fmt: skip
        """The answer of another method of the library, and k-means passes from it in place of refits."""
        model = make_method(self.method, n_clusters=k, random_state=seed, engine=self.engine)
        labels = model.fit(ensemble, sample_weight=sample_weight).labels_
        k = len(model.cluster_sizes_)
        counts = rows.counts(rows.labelling(k + 1, fill_missing(labels, k)))
        counts = Counts(np.ascontiguousarray(counts.alpha[:, :k]), counts.sizes[:k].copy(), rows.layout)
        v = np.ones(rows.layout.n_partitions)
        self._keep_model(ensemble, fix_table(KMeansObjective(v).table(counts), rows.layout))
        self._store_partition(ensemble, labels, counts, v)
        micro, host = evidence.micro, on_host(labels)
        inside = (host >= 0) & (leaf >= 0)
        shared = np.bincount(
            leaf[inside].astype(np.int64) * k + host[inside],
            weights=None if copies is None else copies[inside],
            minlength=micro.n_leaves * k,
        ).reshape(micro.n_leaves, k)
        of_leaf = shared.argmax(axis=1)
        present, compact = np.unique(of_leaf, return_inverse=True)
        again = evidence.refits.passes_from(compact, len(present))
        ordered = Counts(np.ascontiguousarray(counts.alpha[micro.codes]), counts.sizes, micro.layout)
        return _Found(k, self.method, of_leaf, again, ordered)

    def _labels_of(self, rows: Rows) -> Any:
        if self._table is not None:
            return super()._labels_of(rows)
        labelling = rows.labelling(self._micro_table.n_clusters)
        rows.assign(labelling, self._micro_table)
        labels = rows.labels(rows.renumbered(labelling, self._cluster_of_leaf, self.n_clusters_))
        return labels if is_on_gpu(labels) else np.asarray(labels)

    # -- what supports them --------------------------------------------------------------------------------

    def _store_confidence(
        self, rows: Rows, evidence: Evidence, found: _Found, leaf: np.ndarray, copies: np.ndarray | None
    ) -> None:
        micro, refits = evidence.micro, evidence.refits
        again = recurrence(micro, found.of_leaf, found.k, found.refits, refits.left_out)
        weights = micro.partitions_in_given_order(micro.weights)
        trivial = len(weights) == 1 or (found.k == 1 and not evidence.support.supported)
        self.partition_weights_ = weights
        self.partition_agreement_ = micro.partitions_in_given_order(again.partitions)
        self.cluster_confidence_ = np.zeros(found.k) if trivial else again.clusters
        self.agreement_ = float(np.average(information(found.counts.alpha, micro.layout).nmi, weights=micro.weights))
        self.stability_ = 0.0 if trivial else halves_agreement(found.refits, micro.sizes)
        if trivial:
            self.confidence_ = np.zeros(len(leaf), np.float32)
            return
        counts = micro.in_given_order(found.counts, rows.layout)
        self.confidence_ = item_confidence(
            rows, leaf, on_host(self.labels_), counts, weights, max(self.stability_, 0.0), again.leaves, copies
        )

    def _store_alternatives(
        self, evidence: Evidence, number: NumberOfClusters, found: _Found, stabilities: dict[str, float],
        leaf: np.ndarray,
    ) -> None:  # fmt: skip
        self._leaf_of_item = leaf
        self.runners_up_ = number.runners_up
        self.k_curves_ = {"ks": number.ks, "score": number.score, **number.curves}
        refits, n_leaves = evidence.refits, evidence.micro.n_leaves
        k = found.k if found.k > 1 else number.k
        wanted = [(name, k) for name in stabilities if (name, k) != (found.method, found.k)]
        best = found.method if found.method in stabilities else max(stabilities, key=stabilities.__getitem__)
        near = [other for other in (number.k, *number.runners_up, k + 1, k - 1) if other != k and other in number.ks]
        wanted += [(best, other) for other in dict.fromkeys(near)][:_MOST_ALTERNATIVES]
        self._alternatives = []
        for name, other in wanted if n_leaves > 1 else ():
            labels = refits.labels(name, other)
            facts = refits.agreement(labels), refits.stability(name, other)
            distance = 1.0 - rand_index(labels, found.of_leaf, evidence.micro.sizes)
            # an item without a label has leaf -1, the last entry
            of_leaf = np.append(labels, -1).astype(np.int32)
            self._alternatives.append((int(labels.max()) + 1, name, *facts, distance, of_leaf))

    def _verdict(
        self, evidence: Evidence, number: NumberOfClusters, asked: list[int] | None, copies: np.ndarray | None
    ) -> str:
        p, core = len(evidence.micro.weights), int(evidence.support.core.sum())
        if p == 1:
            return "One partition: there is nothing to compare it with, so nothing supports its clusters."
        if not evidence.support.supported:
            group = f"at most {core} of {p} agree with one another" if core else f"no two of {p} do"
            return f"No consensus: the partitions agree no more than chance ({group})."
        other = ""
        if asked is not None and len(asked) == 1:
            if self.n_clusters_ not in (number.k, *number.runners_up):
                other = f" (the partitions suggest {number.k})"
        elif number.runners_up:
            other = f" (or {number.runners_up[0]})"
        mean = float(np.average(self.confidence_, weights=copies))
        s = "" if self.n_clusters_ == 1 else "s"
        return (
            f"{self.n_clusters_} cluster{s}{other} by {CANDIDATES.get(self.method_, self.method_)}: {core} of {p} "
            f"partitions agree beyond chance, the answers from random halves of them have an adjusted Rand index of "
            f"{self.stability_:.2f}, and the mean confidence of the items is {mean:.2f}."
        )

    def _report(self, line: str) -> None:
        if self.verbose:
            print(f"Consensus: {line}")


@dataclass(frozen=True)
class _Found:
    """An answer on its way into the estimator."""

    k: int
    method: str
    of_leaf: np.ndarray  # (m,) its cluster for each micro-cluster
    refits: list[np.ndarray]  # the same from halves of the partitions
    counts: Counts  # in the order of the micro-clusters


def _by_size(of_leaf: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The same clusters, numbered from the largest on; of equals, the one with the lowest micro-cluster comes first."""
    order = np.argsort(-np.bincount(of_leaf, weights=sizes), kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return number[of_leaf]


def check_n_clusters(asked: Any) -> list[int] | None:
    """The numbers of clusters to choose from, ascending; None for "auto"."""
    if isinstance(asked, str):
        if asked != "auto":
            raise ValueError(f'n_clusters must be "auto", an integer or several, got {asked!r}.')
        return None
    if isinstance(asked, Iterable):
        numbers = sorted({check_integer(k, "n_clusters") for k in asked})
        if not numbers:
            raise ValueError("n_clusters must name at least one number of clusters, got none.")
        return numbers
    return [check_integer(asked, "n_clusters")]


def _chosen_number(asked: list[int] | None, number: NumberOfClusters, evidence: Evidence) -> int:
    """The number given; else the one chosen, or 1 where that may be the answer and nothing is supported."""
    n_leaves = evidence.micro.n_leaves
    if asked is not None and (len(asked) == 1 or asked[0] > n_leaves):
        warn_if_fewer(asked[0], n_leaves)
        return min(asked[0], n_leaves)
    if len(evidence.micro.weights) == 1:
        return n_leaves if asked is None else max(k for k in asked if k <= n_leaves)
    if not evidence.support.supported and (asked is None or asked[0] == 1):
        return 1
    return number.k


def _copies(ensemble: Ensemble, sample_weight: Any, leaf: np.ndarray) -> np.ndarray | None:
    """How often each item counts; items without a label get 0, and -1 for their leaf. None when all count once."""
    copies = None if sample_weight is None else check_copies(on_host(sample_weight), len(leaf))
    unlabelled = ensemble.unlabelled()
    if unlabelled is not None:
        unlabelled = on_host(unlabelled)
        leaf[unlabelled] = -1
        copies = np.ones(len(leaf), np.int64) if copies is None else copies
        copies[unlabelled] = 0
    return copies
