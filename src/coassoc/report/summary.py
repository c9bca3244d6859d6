"""The numbers of a report, computed in time linear in the number of items."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from ..consensus.auto.chance import check_support
from ..consensus.auto.confidence import SURE
from ..consensus.auto.estimator import Consensus
from ..consensus.auto.select_k import SelectK, select_k
from ..consensus.base import fit_to
from ..consensus.bisecting import BisectingConsensus
from ..consensus.registry import compared_methods, make_method
from ..ensemble import Ensemble, check_ensemble, read_ensemble
from ..metrics import align_labels, item_stability, order_by_size, pairwise_nmi
from ..metrics.counting import contingency
from ..metrics.labels import check_labels
from ..metrics.stability import ItemStability
from .blocks import Blocks, typical_first
from .comparison import MethodScores, known_classes, left_out_nmi, score
from .comparison import compare as run_methods
from .distribution import Distribution, pair_distribution
from .tidy import cluster_table, item_columns, partition_columns

_MOST_BLOCKS = 200  # rows of the co-association picture
_MOST_LEAVES = 64
_MOST_MATCHED = 100  # clusters of a base partition that a consensus is fitted with for comparison
_MOST_METHODS = 6  # columns of the flow between methods
_MOST_FLOWING = 60  # clusters of a partition in a flow


@dataclass
class Summary:
    """Everything a report shows.

    Attributes
    ----------
    title : str
        What the report is about.
    input : dict
        Items, partitions, their least and most clusters, share of missing labels.
    consensus : dict
        Method, clusters, verdict, scores, and how a single base partition compares (``left_out``).
    number : dict
        How many clusters: the curves over k, the suggested number and the runners-up.
    features_k : SelectK or None
        What the features say about the number of clusters, where they are given.
    alternatives : list of dict
        Other methods and numbers of clusters: clusters, method, agreement, stability, distance from the consensus.
    flows : dict
        ``"k"`` and ``"methods"``: (name, labels) of partitions to draw side by side, clusters named as in `labels`.
    clusters : dict
        Columns of :func:`coassoc.report.cluster_table`; ``found_again`` where the consensus has it.
    classes : tuple of (list, ndarray) or None
        Names of the known classes and how many of their items each cluster has.
    blocks : Blocks
        Block means of the co-association matrix, ordered by the consensus.
    block_names : list of str or None
        Ids of the items in that order, where the blocks are single items with ids.
    tree : dict or None
        Columns of the bisecting tree's nodes, None when the items cannot be split.
    stability : ItemStability
        Per item: own and best other cluster.
    confidence : ndarray or None
        Confidence of each item, where the consensus has one.
    items : dict
        Columns of the table of items: all of them, or the least certain ones and a random sample of the others.
    partitions : dict
        Columns of :func:`coassoc.report.partition_table`, and the weight of each base partition.
    agreement : ndarray of shape (n_partitions, n_partitions)
        NMI between every two base partitions.
    distribution : Distribution
        CDF of the co-association over pairs, and PAC.
    comparison : list of dict
        Other methods on the same ensemble.
    labels : ndarray
        The consensus, clusters ordered by size.
    """

    title: str
    input: dict[str, Any]
    consensus: dict[str, Any]
    number: dict[str, Any]
    features_k: SelectK | None
    alternatives: list[dict[str, Any]]
    flows: dict[str, list[tuple[str, np.ndarray]]] = field(repr=False)
    clusters: dict[str, np.ndarray]
    classes: tuple[list[str], np.ndarray] | None
    blocks: Blocks
    block_names: list[str] | None
    tree: dict[str, Any] | None
    stability: ItemStability
    confidence: np.ndarray | None
    items: dict[str, np.ndarray] = field(repr=False)
    partitions: dict[str, np.ndarray]
    agreement: np.ndarray = field(repr=False)
    distribution: Distribution
    comparison: list[dict[str, Any]]
    labels: np.ndarray = field(repr=False)


def summarize(
    X: Any,
    n_clusters: Any = None,
    *,
    labels: Any = None,
    method: Any = "auto",
    features: Any = None,
    compare: Any = True,
    title: str = "Consensus report",
    max_items: int = 5000,
    random_state: int = 0,
    engine: Any = "auto",
    progress: Any = None,
) -> Summary:
    """Compute the numbers of a report.

    Parameters
    ----------
    X : Ensemble, label table of shape (n_samples, n_partitions), or path of a label file
        The base partitions; its ``item_ids`` and ``classes`` are used where present.
    n_clusters : int, "auto", iterable of int or None, default=None
        Clusters of the consensus; None lets the method choose them, or is 8 where it cannot.
    labels : array-like of shape (n_samples,) or None, default=None
        A consensus at hand; None computes one by `method`.
    method : str or estimator, default="auto"
        How the consensus is found; ``"auto"`` is :class:`coassoc.Consensus`.
    features : array-like of shape (n_samples, n_features) or None, default=None
        Features of the items: then :func:`coassoc.select_k` also says how many clusters they support, from 2 to 10.
    compare : bool or list of str, default=True
        Which other methods to run; True is a few fast ones, False none.
    title : str, default="Consensus report"
        Title of the page.
    max_items : int, default=5000
        Rows of the table of items at most: half of them the least certain items, half a random sample of the others.
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
    """
    # More than 8 parameters: each is a choice of its own, and all but the first have defaults.
    # More than 60 lines: one part of the report after the other.
    say = progress or (lambda text: None)
    ensemble = read_ensemble(X) if isinstance(X, (str, PathLike)) else check_ensemble(X)
    say("consensus")
    model, consensus, row = _consensus(ensemble, n_clusters, labels, method, random_state, engine)
    answer = model
    if not isinstance(model, Consensus):
        answer = Consensus(random_state=random_state, engine=engine).fit(ensemble)
    confidence = answer.confidence_ if model is answer else None
    k = int(consensus.max()) + 1
    say("stability")
    stability = item_stability(ensemble, consensus, engine=engine)
    say("co-association")
    blocks = typical_first(ensemble, consensus, stability.own, _MOST_BLOCKS, engine)
    say("tree")
    tree = _tree(ensemble, k, random_state, engine)
    say("partitions")
    agreement = pairwise_nmi(ensemble, engine=engine)
    partitions = partition_columns(ensemble, consensus, agreement, engine)
    members = partitions["nmi_with_others"]
    left_out = _left_out(ensemble, members, answer if model is None else model, k, random_state, engine)
    if model is not None and left_out is not None:
        row.left_out_nmi = left_out["consensus"]
    say("pairs")
    distribution = pair_distribution(ensemble, random_state)
    features_k = None
    if features is not None:
        say("number of clusters from the features")
        features_k = select_k(features, range(2, 11), reference="gaussian", random_state=random_state)
    others, other_labels = _comparison(ensemble, row, k, compare, random_state, engine, say)
    alternatives, flows = _alternatives(answer, consensus, other_labels)
    return Summary(
        title=title,
        input={
            "n_samples": ensemble.n_samples,
            "n_partitions": ensemble.n_partitions,
            "clusters_min": int(ensemble.n_clusters.min()),
            "clusters_max": int(ensemble.n_clusters.max()),
            "missing_share": 1.0 - float(partitions["labelled_share"].mean()),
        },
        consensus={
            **asdict(row),
            "n_clusters": k,
            "left_out": left_out,
            **_facts(ensemble, consensus, answer, confidence, engine),
        },
        number=_number(answer),
        features_k=features_k,
        alternatives=alternatives,
        flows=flows,
        clusters=_clusters(ensemble, consensus, model if model is answer else None, engine),
        classes=None if ensemble.classes is None else _classes(ensemble, consensus),
        blocks=blocks,
        block_names=_block_names(ensemble, blocks),
        tree=tree,
        stability=stability,
        confidence=confidence,
        items=_items(ensemble, consensus, stability, confidence, max_items, random_state),
        partitions={**partitions, "weight": answer.partition_weights_},
        agreement=agreement,
        distribution=distribution,
        comparison=others,
        labels=consensus,
    )


def _consensus(ensemble, n_clusters, labels, method, seed: int, engine) -> tuple[Any, np.ndarray, MethodScores]:
    """The fitted estimator (None for given labels), its labels by size, and their scores."""
    known = known_classes(ensemble)
    if labels is not None:
        codes, _ = check_labels(labels, ensemble.n_samples)
        return None, order_by_size(codes), score(MethodScores("given labels"), ensemble, codes, known, engine)
    if isinstance(method, str):
        method = make_method(method, n_clusters=n_clusters, random_state=seed, engine=engine)
    start = time.perf_counter()
    fit_to(method, ensemble)
    row = MethodScores(type(method).__name__, seconds=time.perf_counter() - start)
    return method, order_by_size(method.labels_), score(row, ensemble, method.labels_, known, engine)


def _facts(ensemble: Ensemble, labels: np.ndarray, answer: Consensus, confidence, engine: Any) -> dict[str, Any]:
    """What the answer of `Consensus` says, and of the reported labels where they are its own."""
    return {
        "unlabelled": int((labels < 0).sum()),
        "chance": check_support(ensemble, engine).as_dict() if ensemble.n_partitions > 1 else None,
        "supported": answer.supported_,
        "verdict": answer.verdict_,
        "chosen_method": None if confidence is None else answer.method_,
        "stability": None if confidence is None else answer.stability_,
        "sure_share": None if confidence is None else float((confidence >= SURE)[labels >= 0].mean()),
    }


def _left_out(ensemble: Ensemble, members: np.ndarray, model: Any, k: int, seed: int, engine) -> dict[str, Any] | None:
    """Agreement with partitions left out: of the consensus, of single partitions, and of both at the same k.

    A single partition is scored on all others. The consensus is fitted without the partition that it is scored on. The
    number of clusters matters to NMI, so the best partition is compared with a consensus of as many clusters.
    """
    if ensemble.n_partitions < 2:
        return None
    own = left_out_nmi(model, ensemble, seed, engine)
    left_out: dict[str, Any] = {"consensus": own, "mean": float(members.mean()), "best": float(members.max())}
    few = np.flatnonzero(ensemble.n_clusters <= _MOST_MATCHED)
    if len(few) and "n_clusters" in model.get_params():
        best = int(few[members[few].argmax()])
        clusters = int(ensemble.n_clusters[best])
        if clusters != k:
            model = clone(model).set_params(n_clusters=clusters)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = model.fit(ensemble) if isinstance(model, Consensus) else model
                own = left_out_nmi(fitted, ensemble, seed, engine)
        matched = {"name": ensemble.names[best], "k": clusters, "member": float(members[best]), "consensus": own}
        left_out["matched"] = matched
    return left_out


def _number(answer: Consensus) -> dict[str, Any]:
    curves = answer.k_curves_
    suggested = int(curves["ks"][curves["score"].argmax()]) if answer.supported_ and len(curves["ks"]) else None
    return {"curves": curves, "suggested": suggested, "runners_up": answer.runners_up_ if suggested else []}


def _alternatives(answer: Consensus, labels: np.ndarray, others: dict[str, np.ndarray]) -> tuple[list, dict]:
    """Rows of the table of alternatives, and the partitions of the two flows."""
    own_labels = order_by_size(answer.labels_)
    is_answer = bool((own_labels == labels).all())
    k = int(labels.max()) + 1
    partitions = [(answer.n_clusters_, answer.method_, answer.agreement_, answer.stability_, own_labels)]
    partitions += [(a.n_clusters, a.method, a.agreement, a.stability, a.labels) for a in answer.alternatives_]
    rows, by_k, by_method = [], {}, {}
    for i, (clusters, method, agreement, stability, other) in enumerate(partitions):
        chosen, other = i == 0 and is_answer, align_labels(labels, other)
        facts = {"clusters": clusters, "method": method, "agreement": agreement, "stability": stability}
        rows.append({**facts, "distance": _distance(labels, other), "chosen": chosen})
        if clusters == k:
            by_method["this report" if chosen else method] = other
        if method == answer.method_ and clusters > 1:
            by_k[f"k = {clusters}" + " (this report)" * chosen] = (clusters, other)
    if not is_answer:
        by_method = {"this report": labels, **by_method}
    by_method.update({name: align_labels(labels, other) for name, other in others.items() if other.max() + 1 == k})
    nearest = sorted(by_method.items(), key=lambda item: _distance(labels, item[1]))[:_MOST_METHODS]
    ordered = sorted(by_k.items(), key=lambda item: item[1][0])
    columns = {"k": [(text, other) for text, (_, other) in ordered], "methods": nearest}
    return rows, {name: [p for p in flow if p[1].max() < _MOST_FLOWING] for name, flow in columns.items()}


def _distance(labels: np.ndarray, other: np.ndarray) -> float:
    both = (labels >= 0) & (other >= 0)
    return max(0.0, 1.0 - float(adjusted_rand_score(labels[both], other[both])))


def _clusters(ensemble: Ensemble, labels: np.ndarray, answer: Any, engine: Any) -> dict[str, np.ndarray]:
    columns = cluster_table(ensemble, labels, engine=engine)
    if answer is not None:
        first = np.unique(labels[labels >= 0], return_index=True)[1]
        columns["found_again"] = answer.cluster_confidence_[answer.labels_[labels >= 0][first]]
    return columns


def _classes(ensemble: Ensemble, labels: np.ndarray) -> tuple[list[str], np.ndarray]:
    known, n_classes = check_labels(ensemble.classes, len(labels), "classes")
    counts = contingency(known, labels, (n_classes, int(labels.max()) + 1))
    first = np.unique(known[known >= 0], return_index=True)[1]
    names = [str(name) for name in np.asarray(ensemble.classes)[known >= 0][first]]
    return names, counts


def _block_names(ensemble: Ensemble, blocks: Blocks) -> list[str] | None:
    if ensemble.item_ids is None or len(blocks.sizes) < len(blocks.order):
        return None
    return np.asarray(ensemble.item_ids)[blocks.order].astype(str).tolist()


def _items(ensemble: Ensemble, labels, stability: ItemStability, confidence, most: int, seed: int) -> dict:
    """Columns of the table of items, the least certain first."""
    certainty = stability.margin if confidence is None else confidence
    shown = np.flatnonzero(labels >= 0)
    shown = shown[np.lexsort((shown, stability.margin[shown], certainty[shown]))]
    if len(shown) > most:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0x17E,)))
        drawn = np.sort(rng.choice(np.arange(most // 2, len(shown)), most - most // 2, replace=False))
        shown = np.concatenate([shown[: most // 2], shown[drawn]])
    columns = {"item": shown if ensemble.item_ids is None else np.asarray(ensemble.item_ids)[shown].astype(str)}
    if ensemble.classes is not None:
        columns["class"] = np.asarray(ensemble.classes)[shown].astype(str)
    if confidence is not None:
        columns["confidence"] = confidence[shown]
    return {**columns, **item_columns(labels, stability, shown)}


def _tree(ensemble: Ensemble, k: int, seed: int, engine: Any) -> dict[str, Any] | None:
    """The bisecting tree down to at least k leaves, as columns of its nodes."""
    leaves = max(k, 2, min(math.isqrt(ensemble.n_samples), _MOST_LEAVES))
    model = BisectingConsensus(max_leaves=min(leaves, _MOST_LEAVES), random_state=seed, engine=engine).fit(ensemble)
    if model.n_leaves_ < 2:
        return None
    tree = model.tree_
    columns = {name: values.tolist() for name, values in tree.table().items()}
    columns["cut"] = min(k, model.n_leaves_)
    gains = [gain for rank, gain in sorted(zip(tree.rank, tree.gain)) if rank]  # of S, split by split
    columns["density_at"] = np.cumsum([tree.density[0], *gains]).tolist()
    return columns


def _comparison(ensemble, row: MethodScores, k: int, compare, seed: int, engine, say) -> tuple[list[dict], dict]:
    """The consensus and other methods at the same k, and the labels of those; a method that cannot run says why."""
    rows = [{**asdict(row), "chosen": True}]
    if compare is False or compare is None:
        return rows, {}
    known = compared_methods()
    names = [name for name, (method, _) in known.items() if method.quick] if compare is True else list(compare)
    names = [n for n in names if n not in known or known[n][0].class_name != row.method or known[n][1]]
    if not names:
        return rows, {}
    result = run_methods(
        ensemble, k, names, random_state=seed, engine=engine, progress=lambda name: say(f"comparing: {name}")
    )
    return rows + [{**asdict(other), "chosen": False} for other in result.rows], result.labels
