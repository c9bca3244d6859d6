"""The numbers of a report, computed in time linear in the number of items."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import clone

from ..consensus.auto.estimator import Consensus, NearestPartition
from ..consensus.auto.refits import rand_index
from ..consensus.auto.verdict import SURE
from ..consensus.hidden import HiddenCluster, hidden_clusters
from ..consensus.registry import make_method
from ..ensemble import Ensemble, check_ensemble, read_ensemble
from ..metrics import align_labels, item_consensus, order_by_size, pairwise_nmi
from ..metrics.labels import check_labels, contingency
from ..metrics.membership import ItemConsensus
from ..metrics.profiles import check_rows
from ..metrics.profiles import profile as describe_clusters
from ..metrics.scores import counts_of
from .comparison import MethodScores, left_out_nmi, sampled_rows, scored, timed_fit
from .tables import Blocks, block_means, cluster_columns, item_columns, partition_columns

_MOST_BLOCKS = 200  # rows of the co-association picture
_MOST_ITEMS = 5000  # rows of the table of items
_MOST_MATCHED = 100  # clusters of a clustering that a consensus is fitted with for comparison
_MOST_INPUTS = 9  # columns of the flow between clusterings, beside the answer
_MOST_FLOWING = 60  # clusters of a partition in a flow


@dataclass(repr=False)
class Summary:
    """Everything a report shows.

    Attributes
    ----------
    title : str
        What the report is about.
    input : dict
        Items, partitions, their least and most clusters, share of missing labels.
    consensus : dict
        Method, clusters, verdict, scores; the clustering most like it (``nearest``); how it compares with the best
        single clustering on clusterings left out (``left_out``, or None).
    camps : list of dict
        Where the clusterings are camps: the names of the members of each, and its answer. Else empty.
    hidden : list of HiddenCluster
        Small clusters that most finer clusterings share and the consensus does not have.
    number : dict
        How many clusters: the curves over k, the suggested number and the runners-up.
    profile : dict or None
        Columns of :func:`coassoc.profile`, where features are given.
    alternatives : list of dict
        Other methods and numbers of clusters: clusters, method, agreement, stability, distance from the consensus.
    flows : dict
        ``"inputs"``, ``"k"`` and ``"camps"``: (name, labels) of partitions to draw side by side, on at most 20,000
        items, clusters named as in `labels`.
    clusters, items, partitions : dict
        Columns of the tables of the page. ``clusters``: ``size``, ``share``, ``density``, ``recovery`` (see
        :func:`coassoc.cluster_recovery`), the ``nearest`` other one and the density with it. ``partitions``: agreement
        of each clustering with the others and with the consensus, and ``outlier``: more than 3 scaled median absolute
        deviations below the median, among four or more. Of many ``items``, the least certain ones.
    classes : tuple of (list, ndarray) or None
        Names of the known classes and how many of their items each cluster has.
    blocks : Blocks
        Block means of the co-association matrix, ordered by the consensus.
    block_names : list of str or None
        Ids of the items in that order, where the blocks are single items with ids.
    item_consensus : ItemConsensus
        Per item: co-association with its own and with the best other cluster.
    confidence : ndarray or None
        Confidence of each item, where the consensus has one.
    agreement : ndarray of shape (n_partitions, n_partitions)
        NMI between every two clusterings.
    labels : ndarray
        The consensus, clusters ordered by size.
    """

    title: str
    input: dict[str, Any]
    consensus: dict[str, Any]
    camps: list[dict[str, Any]]
    hidden: list[HiddenCluster]
    number: dict[str, Any]
    profile: dict[str, np.ndarray] | None
    alternatives: list[dict[str, Any]]
    flows: dict[str, list[tuple[str, np.ndarray]]]
    clusters: dict[str, np.ndarray]
    classes: tuple[list[str], np.ndarray] | None
    blocks: Blocks
    block_names: list[str] | None
    item_consensus: ItemConsensus
    confidence: np.ndarray | None
    items: dict[str, np.ndarray]
    partitions: dict[str, np.ndarray]
    agreement: np.ndarray
    labels: np.ndarray

    def __repr__(self) -> str:
        items, clusterings = self.input["n_samples"], self.input["n_partitions"]
        return f"Summary({self.title!r}, {items} items, {clusterings} clusterings: {self.consensus['verdict']})"


def summarize(
    X: Any,
    n_clusters: Any = None,
    *,
    labels: Any = None,
    method: Any = "auto",
    features: Any = None,
    feature_names: Any = None,
    title: str = "Consensus report",
    random_state: int = 0,
    engine: Any = "auto",
    progress: Any = None,
) -> Summary:
    """Compute the numbers of a report.

    Parameters
    ----------
    X : Ensemble, label table of shape (n_samples, n_partitions), or path of a label file
        The clusterings; its ``item_ids`` and ``classes`` are used where present.
    n_clusters : int, "auto", iterable of int or None, default=None
        Clusters of the consensus; None lets the method choose them, or is 8 where it cannot. One label per item is
        taken as `labels`: ``summarize(ensemble, labels)``.
    labels : array-like of shape (n_samples,) or None, default=None
        A consensus at hand; None computes one by `method`.
    method : str or estimator, default="auto"
        How the consensus is found; ``"auto"`` is :class:`coassoc.Consensus`.
    features : array-like of shape (n_samples, n_features) or None, default=None
        Features of the items, which explain the clusters.
    feature_names : sequence of str or None, default=None
        Names of the columns of `features`; None takes those of a data frame, or their positions.
    title : str, default="Consensus report"
        Title of the page.
    random_state : int, default=0
        Seed.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where passes run.
    progress : callable or None, default=None
        Called with a word on what is being done.

    Returns
    -------
    Summary

    Notes
    -----
    Linear in the number of items. :class:`coassoc.Consensus` is fitted whatever `method` is: it says whether the
    partitions agree beyond chance, and how many clusters they suggest.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = [[0, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 2], [1, 0, 2], [1, 2, 2], [2, 2, 1], [2, 2, 1], [0, 2, 1]] * 5
    >>> summary = ca.report.summarize(table)
    >>> summary
    Summary('Consensus report', 45 items, 3 clusterings: 3 clusters by ...)
    >>> summary.consensus["n_clusters"], summary.clusters["size"].tolist()
    (3, [15, 15, 15])
    >>> print(f"closest to clustering {summary.consensus['nearest'].name}, ARI {summary.consensus['nearest'].ari:.2f}")
    closest to clustering 0, ARI 0.72
    """
    # More than 60 lines: one part of the report after the other.
    say = progress or (lambda text: None)
    ensemble = read_ensemble(X) if isinstance(X, (str, PathLike)) else check_ensemble(X)
    if features is not None:
        check_rows(features, ensemble.n_samples)
    if labels is None and np.ndim(n_clusters) == 1 and np.size(n_clusters) == ensemble.n_samples:
        labels, n_clusters = n_clusters, None  # summarize(ensemble, labels)
    say("consensus")
    model, consensus, row = _consensus(ensemble, n_clusters, labels, method, random_state, engine)
    own = isinstance(model, Consensus)
    answer = model if own else Consensus(random_state=random_state, engine=engine).fit(ensemble)
    confidence = answer.confidence_ if own else None
    k, labelled = int(consensus.max()) + 1, consensus >= 0
    at = sampled_rows(ensemble.n_samples, random_state)
    sample = ensemble.take(at)
    say("items")
    strength = item_consensus(ensemble, consensus, engine=engine)
    say("co-association")
    blocks = block_means(ensemble, consensus, _MOST_BLOCKS, own=strength.own, engine=engine)
    say("partitions")
    agreement = pairwise_nmi(ensemble, engine=engine)
    partitions = partition_columns(ensemble, consensus, agreement, engine)
    left_out = _left_out(sample, partitions["nmi_with_others"], model, random_state, engine)
    if own:
        nearest, rand = answer.nearest_partition_, answer.partition_ari_
    else:
        tables = counts_of(ensemble, consensus, k, None, engine).alpha
        rand = np.array([rand_index(table) for table in np.split(tables, ensemble.offsets[1:-1])])
        nearest = NearestPartition(int(rand.argmax()), ensemble.names[int(rand.argmax())], float(rand.max()))
    profile = None
    if features is not None:
        say("features")
        profile = dict(describe_clusters(consensus, features, feature_names, n_features=None))
    clusters = cluster_columns(ensemble, consensus, engine)
    if own:
        first = np.unique(consensus[labelled], return_index=True)[1]
        clusters["confidence"] = answer.cluster_confidence_[answer.labels_[labelled][first]]
    curves = answer.k_curves_
    suggested = int(curves["ks"][np.nanargmax(curves["score"])]) if answer.supported_ and len(curves["ks"]) else None
    alternatives, flows = _alternatives(answer, consensus[at], at)
    flows["inputs"] = _inputs(sample, consensus[at], nearest.position)
    return Summary(
        title=title,
        input={
            "n_samples": ensemble.n_samples,
            "n_partitions": ensemble.n_partitions,
            "clusters_min": int(ensemble.n_clusters.min()),
            "clusters_max": int(ensemble.n_clusters.max()),
            "missing_share": 1.0 - float(partitions["labelled_share"].mean()),
            "compared": sample.n_samples,
        },
        consensus={
            **asdict(row),
            "n_clusters": k,
            "left_out": left_out,
            "nearest": nearest,
            "unlabelled": int((~labelled).sum()),
            "supported": answer.supported_,
            "verdict": answer.verdict_,
            "chosen_method": answer.method_ if own else None,
            "stability": answer.stability_ if own else None,
            "sure_share": None if confidence is None else float((confidence >= SURE)[labelled].mean()),
        },
        camps=_camps(ensemble, answer),
        hidden=[
            replace(one, size=int(ensemble.sizes[ensemble.offsets[one.partition] + one.code]))
            for one in hidden_clusters(sample, consensus[at], engine=engine)
        ],
        number={"curves": curves, "suggested": suggested, "runners_up": answer.runners_up_ if suggested else []},
        profile=profile,
        alternatives=alternatives,
        flows=flows,
        clusters=clusters,
        classes=None if ensemble.classes is None else _classes(ensemble, consensus),
        blocks=blocks,
        block_names=_block_names(ensemble, blocks),
        item_consensus=strength,
        confidence=confidence,
        items=_items(ensemble, consensus, strength, confidence),
        partitions={**partitions, "ari_with_consensus": rand, "weight": answer.partition_weights_},
        agreement=agreement,
        labels=consensus,
    )


def _consensus(ensemble, n_clusters, labels, method, seed: int, engine) -> tuple[Any, np.ndarray, MethodScores]:
    """The fitted estimator (None for given labels), its labels by size, and their scores."""
    if labels is not None:
        codes, _ = check_labels(labels, ensemble.n_samples)
        return None, order_by_size(codes), scored("given labels", ensemble, codes, engine)
    if isinstance(method, str):
        method = make_method(method, n_clusters=n_clusters, random_state=seed, engine=engine)
    seconds = timed_fit(method, ensemble)
    row = scored(type(method).__name__, ensemble, method.labels_, engine, seconds=seconds)
    return method, order_by_size(method.labels_), row


def _camps(ensemble: Ensemble, answer: Consensus) -> list[dict[str, Any]]:
    """The members of each camp and what its own answer is like; nothing where there are no camps."""
    return [
        {
            "camp": one.camp + 1,
            "members": [str(ensemble.names[j]) for j in answer.camps_[one.camp].tolist()],
            "clusters": one.n_clusters,
            "agreement": one.agreement,
            "stability": one.stability,
            "disputed": float(answer.disputed_[answer.labels_ >= 0].mean()),
        }
        for one in answer.alternatives_
        if one.camp is not None
    ]


def _inputs(sample: Ensemble, labels: np.ndarray, nearest: int) -> list[tuple[str, np.ndarray]]:
    """Clusterings from coarse to fine, the consensus among them: some of many, and always the one most like it."""
    order = np.argsort(sample.n_clusters, kind="stable")
    order = order[sample.n_clusters[order] <= _MOST_FLOWING].tolist()
    step = -(-len(order) // _MOST_INPUTS)
    chosen = [j for i, j in enumerate(order) if i % step == 0 or j == nearest]
    levels = [(int(sample.n_clusters[j]), 0, str(sample.names[j]), sample.partition(j)) for j in chosen]
    if labels.max() < _MOST_FLOWING:
        levels.append((int(labels.max()) + 1, 1, "this report", labels))
    levels.sort(key=lambda level: level[:2])
    return [(name, align_labels(labels, other)) for _, _, name, other in levels]


def _left_out(ensemble: Ensemble, members: np.ndarray, model: Any, seed: int, engine: Any) -> dict[str, Any] | None:
    """Agreement with partitions left out, of the best single partition and of a consensus of as many clusters.

    A single partition is scored on all others. The consensus is fitted without the partitions it is scored on, which
    given labels (`model` None) cannot be.
    """
    few = np.flatnonzero(ensemble.n_clusters <= _MOST_MATCHED)
    if model is None or ensemble.n_partitions < 2 or len(few) == 0 or "n_clusters" not in model.get_params():
        return None
    best = int(few[members[few].argmax()])
    k = int(ensemble.n_clusters[best])
    consensus = left_out_nmi(clone(model).set_params(n_clusters=k), ensemble, seed, engine)
    return {"name": ensemble.names[best], "k": k, "member": float(members[best]), "consensus": consensus}


def _alternatives(answer: Consensus, labels: np.ndarray, at: Any) -> tuple[list, dict]:
    """Rows of the table of alternatives, and the partitions of the flows; `labels` are those of the items `at`."""
    own_labels = order_by_size(answer.labels_)[at]
    partitions: list[tuple] = [
        (answer.n_clusters_, answer.method_, answer.agreement_, answer.stability_, None, own_labels),
        *((a.n_clusters, a.method, a.agreement, a.stability, a.camp, a.labels[at]) for a in answer.alternatives_),
    ]
    by_camp: list[tuple[str, np.ndarray]] = []
    rows, by_k = [], {}
    for i, (clusters, method, agreement, stability, camp, other) in enumerate(partitions):
        chosen, other = i == 0 and bool((own_labels == labels).all()), align_labels(labels, other)
        name = method if camp is None else f"{method}, camp {camp + 1} alone"
        row = {"clusters": clusters, "method": name, "agreement": agreement, "stability": stability}
        rows.append({**row, "distance": max(0.0, 1.0 - rand_index(contingency(labels, other))), "chosen": chosen})
        if camp is not None:
            by_camp.append((f"camp {camp + 1}", other))
        elif method == answer.method_ and clusters > 1:
            by_k[clusters] = (f"k = {clusters}" + " (this report)" * chosen, other)
    flows = {"k": [by_k[clusters] for clusters in sorted(by_k)], "camps": by_camp}
    return rows, {name: [p for p in flow if p[1].max() < _MOST_FLOWING] for name, flow in flows.items()}


def _classes(ensemble: Ensemble, labels: np.ndarray) -> tuple[list[str], np.ndarray]:
    known, n_classes = check_labels(ensemble.classes, len(labels), "classes")
    first = np.unique(known[known >= 0], return_index=True)[1]
    names = [str(name) for name in np.asarray(ensemble.classes)[known >= 0][first]]
    return names, contingency(known, labels, (n_classes, int(labels.max()) + 1))


def _block_names(ensemble: Ensemble, blocks: Blocks) -> list[str] | None:
    if ensemble.item_ids is None or len(blocks.sizes) < len(blocks.order):
        return None
    return np.asarray(ensemble.item_ids)[blocks.order].astype(str).tolist()


def _items(ensemble: Ensemble, labels: np.ndarray, strength: ItemConsensus, confidence: Any) -> dict:
    """Columns of the table of items, the least certain first."""
    certainty = strength.margin if confidence is None else confidence
    shown = np.flatnonzero(labels >= 0)
    shown = shown[np.lexsort((shown, strength.margin[shown], certainty[shown]))][:_MOST_ITEMS]
    ids, classes = (None if of is None else np.asarray(of).astype(str) for of in (ensemble.item_ids, ensemble.classes))
    columns = {"item": np.arange(len(labels)) if ids is None else ids, "class": classes, "confidence": confidence}
    columns |= item_columns(labels, strength)
    return {name: values[shown] for name, values in columns.items() if values is not None}
