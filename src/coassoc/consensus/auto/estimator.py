"""Consensus: the default answer. It picks the method and the number of clusters, and says whether to believe it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import check_integer, seed_from
from ...core.counts import Counts
from ...core.objectives import KMeansObjective, fix_table
from ...engines import Labelling, Rows
from ...ensemble import Ensemble
from ...ensemble.ensemble import is_on_gpu
from ...ensemble.generate import one_thread
from ...ensemble.gpu import beside
from ...ensemble.io.coding import is_dask
from ...metrics.labels import check_copies, contingency, fill_missing
from ..base import ConsensusEstimator, PredictMixin, inherit_docs, look_up, mark_unlabelled, on_host
from ..lloyd import warn_if_fewer
from ..merge import merged_counts
from ..micro import local_rows
from ..registry import make_method, named_method
from .candidates import CANDIDATES, LINKAGES, MicroFits
from .evidence import Evidence, gather_evidence, marked, without_noise
from .members import agreement
from .number import NumberOfClusters, choose_k
from .refits import Refits, rand_index
from .verdict import describe_answer, item_confidence, on_copies, on_hidden, on_items, on_number

_MOST_ALTERNATIVES = 4  # other numbers of clusters
_STRETCH = 1 << 24  # items counted at a time


class NearestPartition(NamedTuple):
    """The input clustering that is most like the answer."""

    position: int
    name: str
    ari: float


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
        Mean adjusted mutual information with the clusterings it was made from.
    stability : float
        Mean adjusted Rand index between its refits to two random halves of those clusterings.
    distance : float
        1 minus the adjusted Rand index with the answer.
    camp : int or None
        Position in ``camps_`` of the camp whose answer this is; None for the answers of all clusterings.
    """

    n_clusters: int
    method: str
    agreement: float
    stability: float
    distance: float
    camp: int | None
    _of_leaf: np.ndarray
    _leaf_of_item: np.ndarray

    @property
    def labels(self) -> Any:
        return look_up(self._of_leaf, self._leaf_of_item)

    def __repr__(self) -> str:
        camp = "" if self.camp is None else f"camps_[{self.camp}], "
        return (
            f"Alternative({camp}{self.n_clusters} clusters by {self.method}, agreement {self.agreement:.3f}, "
            f"stability {self.stability:.3f}, distance {self.distance:.3f})"
        )


@inherit_docs
class Consensus(PredictMixin, ConsensusEstimator):
    r"""The consensus of an ensemble, with the method and the number of clusters chosen, and a verdict on it.

    1. Copies of a clustering count once, and clusterings that agree with no other are left out. All others count alike.
    2. The ensemble is *supported* when all pairs of clusterings together agree more than chance.
    3. The items are reduced to a few hundred micro-clusters, and average linkage, the same with local weights, and
       k-means are fitted to those; and again, from the start, to random halves of the clusterings.
    4. The number of clusters is where agreement with the clusterings, stability between halves, the gap in the spectrum
       and the balance of sizes are highest together. Features, if given, vote too: neighbours should share a cluster.
       Fewer than any clustering has are taken where these seem to be too fine on purpose. Groups that no clustering
       joins stay apart.
       The method is the one whose halves agree most.

    Parameters
    ----------
    n_clusters : "auto", int or iterable of int, default="auto"
        Number of clusters, or the numbers to choose from. ``"auto"`` chooses from 2 to the largest number of clusters
        of any clustering.
    method : str, default="auto"
        ``"auto"`` chooses from ``"average"`` (average linkage of micro-clusters by the fourth power of their
        co-association, then k-means passes over them), ``"lwea"`` (average linkage with local weights) and ``"kmeans"``
        on micro-clusters. The first two names, and those of all methods of the library (``"kmeans"``, ``"density"``,
        ``"hbgf"``, ...), choose that method.
    min_cluster_size : int, default=1
        Smaller groups join the nearest cluster, and the verdict says how many items they have. 1 keeps every group.
    noise : float or None, default=None
        Items that more than this share of the clusterings leave without a label take no part, and get −1 and confidence
        0: 0.5 for those that most leave out. None labels every item that has a label in some clustering, and so does
        `predict`.
    {random_state} {engine}
    verbose : int, default=0
        Print a line per step.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels, the largest cluster first; −1 for items no clustering labels.
    n_clusters_ : int
        Number of clusters.
    method_ : str
        The method used.
    supported_ : bool or None
        Whether the clusterings agree beyond chance; None where that cannot be told: fewer than 20 items, or no two
        clusterings that differ.
    p_value_ : float
        Probability that independent clusterings agree as much: of one test over all pairs, on at most 20,000 items.
    verdict_ : str
        A few sentences with the numbers behind them.
    confidence_ : ndarray of shape (n_samples,)
        From 0 to 1: the mean of ``stability_`` and of the square root of the item's mean co-association with its
        cluster, relative to the highest that an item can have there. An item is placed surely from 0.85 on. All 0 where
        ``supported_`` is False or no two clusterings differ.
    cluster_confidence_ : ndarray of shape (n_clusters,)
        Mean confidence of the items of each cluster.
    stability_ : float
        Mean adjusted Rand index between this method's answers, with as many clusters, refitted to two random halves of
        the clusterings on at most 2,000 items. NaN where no two clusterings differ.
    agreement_ : float
        Mean adjusted mutual information of the answer with the clusterings in use.
    partition_weights_ : ndarray of shape (n_partitions,)
        1 for a clustering in use, divided among its copies; 0 for those left out.
    partition_ari_ : ndarray of shape (n_partitions,)
        Adjusted Rand index of each clustering with the answer.
    nearest_partition_ : NearestPartition
        Position, name and adjusted Rand index of the clustering that is most like the answer.
    camps_ : list of ndarray
        Positions of the clusterings of each camp, largest first: groups that agree within and not across. One entry
        when there are no camps.
    disputed_ : ndarray of shape (n_samples,)
        True for items whose clusters in the answers of the two largest camps share less than half of their items.
        All False without camps.
    alternatives_ : list of Alternative
        The answer of each camp, if there are several; other methods at this number of clusters; other numbers of
        clusters. Each has ``labels``, ``agreement``, ``stability`` and ``distance`` from the answer.
    runners_up_ : list of int
        Other numbers of clusters at which the score has a peak nearly as high, or the eigengap is nearly as large, as
        it is in nested clusterings; best first.
    k_curves_ : dict of str to ndarray
        The curves the number of clusters is read from, over ``k_curves_["ks"]``; ``"score"`` is their sum, with the
        weights that decided, and NaN for numbers that were not compared.
    density_, cluster_density_, cluster_sizes_
        Scores of ``labels_``, all clusterings counted alike.

    See Also
    --------
    KMeansConsensus : The paper's method, at a given number of clusters.
    select_k : The number of clusters alone.

    Notes
    -----
    Time is that of one k-means start with some 300 clusters and at most 30 passes, on at most 50,000 items, and two
    passes over all items: linear in their number. The other work does not depend on it.

    `predict` gives the cluster of the nearest micro-cluster, which is ``labels_`` for the items of `fit`; with a method
    of the library, it gives the cluster with the nearest center.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1, 0]] * 20 + [[1, 0, 2]] * 12 + [[1, 2, 2]] * 3 + [[2, 2, 1]] * 7 + [[2, 2, 0]] * 3
    >>> answer = ca.Consensus(random_state=0).fit(table)
    >>> answer.cluster_sizes_.tolist(), answer.supported_
    ([20, 15, 10], True)
    >>> print(answer.verdict_[:57])
    3 clusters by k-means, from all 3 clusterings. Answers re
    """

    def __init__(
        self,
        n_clusters: Any = "auto",
        method: str = "auto",
        *,
        min_cluster_size: int = 1,
        noise: float | None = None,
        random_state: Any = None,
        engine: Any = "auto",
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.method = method
        self.min_cluster_size = min_cluster_size
        self.noise = noise
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, features: Any = None) -> Consensus:
        """Find the consensus partition.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            The clusterings.
        y : None
            Ignored; scikit-learn passes it.
        sample_weight : array-like of int, default=None
            How often each item counts, exactly as if its row were repeated; 0 removes it.
        features : array-like or sparse matrix of shape (n_samples, n_features), default=None
            Features of the items, on comparable scales. They vote on the number of clusters: nearest neighbours
            should be in the same cluster.

        Returns
        -------
        self
        """
        self._fit(X, sample_weight, features)
        return self

    def _fit(self, X: Any, sample_weight: Any, features: Any = None) -> None:
        asked = check_n_clusters(self.n_clusters)
        if self.method not in ("auto", *CANDIDATES):
            named_method(self.method)
        least = self._smallest_cluster()
        seed = seed_from(self.random_state)
        # one thread of BLAS: the matrices are small, and the labels must not depend on the number of threads
        ensemble = self._check_input(X)
        noisy, sample_weight, n_noise = without_noise(ensemble, self.noise, sample_weight)
        with one_thread("blas"), self._loaded(ensemble, sample_weight) as (rows, engine):
            evidence = gather_evidence(rows, engine, asked, seed, least)
            leaf = mark_unlabelled(rows.labels(evidence.micro.labelling), ensemble)
            leaf = leaf.astype(np.int16 if evidence.micro.n_leaves < 1 << 15 else np.int32)
            if noisy is not None:
                leaf = marked(leaf, noisy, -1)
            number = evidence.choose_k(features, None if features is None else on_host(leaf))
            k = self._number(asked, number, evidence)
            self._report(f"{evidence.micro.n_leaves} micro-clusters, {k} clusters, runners-up {number.runners_up}")
            methods = evidence.stabilities(k)
            method = max(methods, key=methods.__getitem__) if self.method == "auto" else self.method
            if self.method in ("auto", *LINKAGES):
                answer = self._from_micro(ensemble, rows, evidence, method, k)
            else:
                answer = self._from_method(ensemble, rows, evidence, k, seed, sample_weight, leaf)
            if asked is None or len(asked) > 1:  # small groups that join others may leave a runner-up's number
                number = replace(number, runners_up=[other for other in number.runners_up if other != answer.k])
            self._leaf_of_item, self.runners_up_ = leaf, number.runners_up
            self.k_curves_ = {"ks": number.ks, "score": number.score, **number.curves}
            sure = self._store_support(rows, ensemble, evidence, answer)
            self._store_alternatives(evidence, number, answer, methods)
            self._store_verdict(evidence, number, asked, answer, sure, n_noise)
            if noisy is not None:
                self.labels_ = marked(self.labels_, noisy, -1)
                self.confidence_: Any = marked(self.confidence_, noisy, 0)

    def _smallest_cluster(self) -> int:
        """Items that a group must have to be a cluster."""
        least = check_integer(self.min_cluster_size, "min_cluster_size")
        if least > 1 and self.method not in ("auto", *LINKAGES):
            raise ValueError(f'min_cluster_size needs method "auto", "average" or "lwea", got {self.method!r}.')
        return least

    @property
    def alternatives_(self) -> list[Alternative]:
        """Other partitions of the items; see the class."""
        return [Alternative(*facts, self._leaf_of_item) for facts in self._alternatives]  # type: ignore[call-arg]

    @property
    def disputed_(self) -> Any:
        """Items on which the two largest camps differ; see the class."""
        return look_up(self._disputed_leaf, self._leaf_of_item)

    # -- the labels ----------------------------------------------------------------------------------------

    def _number(self, asked: list[int] | None, number: NumberOfClusters, evidence: Evidence) -> int:
        """The number given, or the one chosen; all clusters of a single clustering."""
        most = evidence.micro.n_leaves
        if asked is not None and (len(asked) == 1 or asked[0] > most):
            warn_if_fewer(asked[0], most, "different label rows in the clusterings used")
            return min(asked[0], most)
        if evidence.support.used.sum() == 1:
            return most if asked is None else max(k for k in asked if k <= most)
        return number.k

    def _from_micro(self, ensemble: Ensemble, rows: Rows, evidence: Evidence, method: str, k: int) -> _Answer:
        """The answer of a method on micro-clusters."""
        micro, fits = evidence.micro, evidence.fits
        of_leaf = _by_size(fits.fit(method, k, evidence.least), fits.sizes)
        asked, k = k, int(of_leaf.max()) + 1
        if evidence.least > 1 and not isinstance(self.n_clusters, str):
            warn_if_fewer(asked, k, f"groups of at least min_cluster_size={evidence.least} items")
        labelling = rows.renumbered(micro.labelling, of_leaf.astype(np.int32), k)
        self._keep_model(ensemble, None)
        self._micro_table, self._cluster_of_leaf = micro.table, of_leaf.astype(np.int32)
        counts = micro.in_given_order(micro.merged(of_leaf, k), rows.layout)
        self._store_partition(ensemble, rows.labels(labelling), counts, np.ones(rows.layout.n_partitions))
        return _Answer(k, method, of_leaf, counts, labelling, False)

    def _from_method(
        self, ensemble: Ensemble, rows: Rows, evidence: Evidence, k: int, seed: int, sample_weight: Any, leaf: Any
    ) -> _Answer:
        """The answer of another method of the library."""
        model = make_method(self.method, n_clusters=k, random_state=seed, engine=self.engine)
        labels = model.fit(ensemble, sample_weight=sample_weight).labels_
        k = len(model.cluster_sizes_)
        labelling = rows.labelling(k + 1, fill_missing(labels, k))
        counts = rows.counts(labelling)
        counts = Counts(np.ascontiguousarray(counts.alpha[:, :k]), counts.sizes[:k].copy(), rows.layout)
        v = np.ones(rows.layout.n_partitions)
        self._keep_model(ensemble, fix_table(KMeansObjective(v).table(counts), rows.layout))
        self._store_partition(ensemble, labels, counts, v)
        copies = None if sample_weight is None else check_copies(sample_weight, rows.n_rows, on_gpu=True)
        shared = _contingency(leaf, labels, (evidence.micro.n_leaves, k), copies)
        return _Answer(k, self.method, shared.argmax(axis=1), counts, labelling, True)

    def _labels_of(self, rows: Rows) -> Any:
        if self._table is not None:
            return super()._labels_of(rows)
        labelling = rows.labelling(self._micro_table.n_clusters)
        rows.assign(labelling, self._micro_table)
        labels = rows.labels(rows.renumbered(labelling, self._cluster_of_leaf, self.n_clusters_))
        return labels if is_on_gpu(labels) else np.asarray(labels)

    # -- what supports them --------------------------------------------------------------------------------

    def _store_support(self, rows: Rows, ensemble: Ensemble, evidence: Evidence, answer: _Answer) -> float:
        """Set what supports the answer; the share of items that are placed surely."""
        support, pairs = evidence.support, evidence.pairs
        self.method_, self.supported_, self.camps_ = answer.method, support.supported, evidence.camps
        self.p_value_ = support.p_value
        refitted = answer.method, answer.k, evidence.least, answer.by_library
        self.stability_ = float("nan") if support.alone else evidence.refits.stability(*refitted)
        used_copies = np.isin(pairs.copy_of, np.flatnonzero(support.used))
        self.partition_weights_ = used_copies / np.bincount(pairs.copy_of, minlength=len(pairs.copy_of))[pairs.copy_of]
        tables = np.split(answer.counts.alpha, rows.layout.offsets[1:-1])
        self.partition_ari_ = np.array([rand_index(table) for table in tables])
        nearest = int(self.partition_ari_.argmax())
        self.nearest_partition_ = NearestPartition(
            nearest, str(ensemble.names[nearest]), float(self.partition_ari_[nearest])
        )
        scores = agreement([answer.counts.alpha], rows.layout)[0]
        self.agreement_ = math.fsum(scores[support.used]) / int(support.used.sum())
        counted = support.used & (support.supported is not False and not support.alone)
        self.confidence_, self.cluster_confidence_, sure = item_confidence(
            rows, answer.labelling, answer.counts, counted, self.stability_
        )
        return float(sure.sum() / answer.counts.sizes.sum())

    def _store_alternatives(
        self, evidence: Evidence, number: NumberOfClusters, answer: _Answer, methods: dict[str, float]
    ) -> None:
        fits, k = evidence.fits, answer.k
        self._alternatives: list[tuple] = []

        def add(fits: MicroFits, refits: Refits, name: str, k: int, camp: int | None = None) -> np.ndarray:
            labels = fits.fit(name, k, evidence.least)
            counts = merged_counts(fits.counts, labels, int(labels.max()) + 1)
            score = float(agreement([counts.alpha], fits.counts.layout).mean())
            distance = 1.0 - rand_index(contingency(labels, answer.of_leaf, copies=fits.sizes))
            facts = score, refits.stability(name, k, evidence.least), distance, camp
            # an item without a label has leaf -1, the last entry
            self._alternatives.append((int(labels.max()) + 1, name, *facts, np.append(labels, -1).astype(np.int32)))
            return labels

        answers = []
        for i, camp in enumerate(evidence.camps if len(evidence.camps) > 1 else ()):
            own, refits, ks = evidence.of_camp(camp)
            answers.append(add(own, refits, "average", choose_k(own, refits, ks, evidence.least).k, i))
        disputed = _disputed(answers[0], answers[1], fits.sizes) if answers else np.zeros(fits.n_leaves, dtype=bool)
        self._disputed_leaf = np.append(disputed, False)
        wanted = [(name, k) for name in methods if name != answer.method]
        best = answer.method if answer.method in methods else max(methods, key=methods.__getitem__)
        across = [] if number.other is None else [number.other]
        near = [number.k, *number.runners_up, *across, k + 1, k - 1]
        near = [other for other in near if other != k and other in number.ks]
        wanted += [(best, other) for other in dict.fromkeys(near)][:_MOST_ALTERNATIVES]
        for name, other in wanted if fits.n_leaves > 1 and k > 1 else ():
            add(fits, evidence.refits, name, other)

    def _store_verdict(
        self, evidence: Evidence, number: NumberOfClusters, asked: list[int] | None, answer: _Answer, sure: float,
        n_noise: int,
    ) -> None:  # fmt: skip
        k, on_sample = answer.k, local_rows(evidence.sample, evidence.layout)[0]
        notes = on_number(k, asked, number, evidence)
        notes += on_copies(evidence, self._vocabulary.names, self.partition_ari_)
        notes += on_hidden(evidence, self._labels_of(on_sample), answer.counts.alpha.sum(axis=1))
        notes += on_items(evidence.fits.n_absorbed(answer.method, k, evidence.least), n_noise)
        if k == 1 and evidence.least > 1:
            notes.append(f"No two groups have at least min_cluster_size={evidence.least} items.")
        placed = f"{math.floor(100.0 * sure + 1e-9)} % of the items{' with a cluster' if n_noise else ''}"
        self.verdict_ = describe_answer(evidence.support, k, self.method_, self.stability_, placed, self.camps_, notes)
        self._report(self.verdict_)

    def _report(self, line: str) -> None:
        if self.verbose:
            print(f"Consensus: {line}")


@dataclass(frozen=True)
class _Answer:
    k: int
    method: str
    of_leaf: np.ndarray  # (m,) its cluster for each micro-cluster
    counts: Counts  # base clusters in the order of the ensemble
    labelling: Labelling  # of the items; k for those without a label
    by_library: bool  # whether it was fitted to the items by a method of the library


def _disputed(first: np.ndarray, second: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(m,) True for micro-clusters whose clusters in two partitions share less than half of their items."""
    shared = contingency(first, second, copies=sizes)
    union = shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared
    return (2.0 * shared < union)[first, second]


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
        if isinstance(asked, tuple) and len(numbers) == 2 and numbers[1] > numbers[0] + 1:
            low, high = numbers
            raise ValueError(
                f"n_clusters must say whether {asked} is two numbers or a range; write [{low}, {high}] or "
                f"range({low}, {high + 1})."
            )
        return numbers
    return [check_integer(asked, "n_clusters")]


def _contingency(leaf: Any, labels: Any, shape: tuple[int, int], copies: Any) -> np.ndarray:
    """Items of each micro-cluster in each cluster, counted where they are; those without a label are left out."""
    n, width = leaf.shape[0], shape[1] + 1
    table = np.zeros((shape[0] + 1) * width)
    for start in range(0, n, n if is_dask(leaf) else _STRETCH):
        part = slice(start, start + (n if is_dask(leaf) else _STRETCH))
        cells = (leaf[part].astype(np.int64) + 1) * width + labels[part] + 1
        weights = None if copies is None else beside(copies[part], leaf)
        table += on_host(np.bincount(cells, weights=weights, minlength=len(table)))
    return table.reshape(-1, width)[1:, 1:]
