"""The numbers of a report, computed in time linear in the number of items."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from ..consensus.answer import SURE
from ..consensus.bisecting import BisectingConsensus
from ..consensus.registry import compared_methods, make_method
from ..consensus.support import check_support
from ..ensemble import Ensemble, check_ensemble, read_ensemble
from ..metrics import density, ensemble_nmi, item_stability, nmi, order_by_size, zero_effort
from ..metrics.counting import counts_of, nmi_from_counts
from ..metrics.labels import check_labels
from ..metrics.stability import ItemStability
from .blocks import Blocks, block_means
from .comparison import compare as run_methods
from .distribution import Distribution, distribution_over_k, pair_distribution
from .partitions import PartitionAgreement, agreement_of_partitions
from .tidy import cluster_table

_MOST_LEAVES = 64


@dataclass
class Summary:
    """Everything a report shows.

    Attributes
    ----------
    title : str
        What the report is about.
    input : dict
        Items, partitions, clusters of each partition, share of missing labels.
    consensus : dict
        Method, clusters, scores and zero-effort scores.
    clusters : list of dict
        One row per consensus cluster: size, share, density, stability, and the other cluster it is closest to.
    blocks : Blocks
        Block means of the co-association matrix, ordered by the consensus.
    tree : dict or None
        Columns of the bisecting tree's nodes, None when the items cannot be split.
    stability : ItemStability
        Per item: own and best other cluster.
    uncertain : list of dict
        The items whose cluster is least certain.
    partitions : PartitionAgreement
        Agreement between base partitions, with the outliers among them.
    distribution : Distribution
        CDF of the co-association over pairs, and PAC.
    over_k : list of Distribution
        The same for a range of k; empty when the ensemble does not allow it.
    over_k_note : str
        How `over_k` was made, or why it was not.
    comparison : list of dict
        Other methods on the same ensemble.
    labels : ndarray
        The consensus, clusters ordered by size.
    """

    title: str
    input: dict[str, Any]
    consensus: dict[str, Any]
    clusters: list[dict[str, Any]]
    blocks: Blocks
    tree: dict[str, Any] | None
    stability: ItemStability
    uncertain: list[dict[str, Any]]
    partitions: PartitionAgreement
    distribution: Distribution
    over_k: list[Distribution]
    over_k_note: str
    comparison: list[dict[str, Any]]
    labels: np.ndarray = field(repr=False)


def summarize(
    X: Any,
    n_clusters: Any = None,
    *,
    labels: Any = None,
    method: Any = "auto",
    features: Any = None,
    k_range: Any = None,
    compare: Any = True,
    title: str = "Consensus report",
    max_blocks: int = 200,
    n_uncertain: int = 25,
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
        Features of the items: then new ensembles are made for each k of `k_range` to see how the co-association
        changes with k, in the manner of ConsensusClusterPlus.
    k_range : iterable of int or None, default=None
        The k to look at when features are given; None is 2 to 10.
    compare : bool or list of str, default=True
        Which other methods to run; True is a few fast ones, False none.
    title : str, default="Consensus report"
        Title of the page.
    max_blocks : int, default=200
        Rows of the co-association picture at most.
    n_uncertain : int, default=25
        How many of the least certain items to list.
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
    Linear in the number of items. Each parameter is a choice of its own, hence more than eight.
    """
    say = progress or (lambda text: None)
    ensemble = read_ensemble(X) if isinstance(X, (str, PathLike)) else check_ensemble(X)
    say("consensus")
    found, consensus = _consensus(ensemble, n_clusters, labels, method, random_state, engine)
    k = int(found.max()) + 1
    consensus.update(_scores(ensemble, found, engine))
    say("stability")
    stability = item_stability(ensemble, found, engine=engine)
    say("co-association")
    blocks = block_means(ensemble, found, max_blocks, engine=engine)
    say("tree")
    tree = _tree(ensemble, k, random_state, engine)
    say("partitions")
    partitions = agreement_of_partitions(ensemble, found, engine)
    say("pairs")
    over_k, note = distribution_over_k(ensemble, features, k_range, random_state, say)
    return Summary(
        title=title,
        input=_input(ensemble),
        consensus=consensus,
        clusters=_clusters(ensemble, found, engine),
        blocks=blocks,
        tree=tree,
        stability=stability,
        uncertain=_uncertain(ensemble, found, stability, n_uncertain),
        partitions=partitions,
        distribution=pair_distribution(ensemble, random_state),
        over_k=over_k,
        over_k_note=note,
        comparison=_comparison(ensemble, consensus, k, compare, random_state, engine, say),
        labels=found,
    )


def _consensus(ensemble: Ensemble, n_clusters, labels, method, seed: int, engine) -> tuple[np.ndarray, dict[str, Any]]:
    if labels is not None:
        codes, _ = check_labels(labels, ensemble.n_samples)
        return order_by_size(codes), {"method": "given labels", "seconds": None, "parameters": {}}
    if isinstance(method, str):
        method = make_method(method, n_clusters=n_clusters, random_state=seed, engine=engine)
    start = time.perf_counter()
    method.fit(ensemble)
    spent = time.perf_counter() - start
    plain = {k: v for k, v in method.get_params(deep=False).items() if isinstance(v, (bool, int, float, str))}
    facts = {"method": type(method).__name__, "seconds": spent, "parameters": plain}
    for name in ("converged_", "n_iter_", "verdict_", "method_"):
        if hasattr(method, name):
            facts["chosen_method" if name == "method_" else name.rstrip("_")] = getattr(method, name)
    if hasattr(method, "confidence_"):
        facts["sure_share"] = float((method.confidence_ >= SURE)[method.labels_ >= 0].mean())
    return order_by_size(method.labels_), facts


def _scores(ensemble: Ensemble, labels: np.ndarray, engine: Any) -> dict[str, Any]:
    counts = counts_of(ensemble, labels, int(labels.max()) + 1, None, engine)
    scores: dict[str, Any] = {
        "n_clusters": int(labels.max()) + 1,
        "unlabelled": int((labels < 0).sum()),
        "density": density(ensemble, labels, engine=engine),
        "ensemble_nmi": ensemble_nmi(ensemble, labels, engine=engine),
        "member_nmi": nmi_from_counts(counts).tolist(),
        "zero_effort_density": zero_effort(ensemble, "density", engine=engine)._asdict(),
        "zero_effort_nmi": zero_effort(ensemble, engine=engine)._asdict(),
        "class_nmi": None,
        "class_ari": None,
        "chance": check_support(ensemble, engine).as_dict() if ensemble.n_partitions > 1 else None,
    }
    if ensemble.classes is not None:
        scores.update(class_scores(ensemble.classes, labels))
    return scores


def class_scores(classes: Any, labels: np.ndarray) -> dict[str, float]:
    """Agreement with known classes, on the items that have both labels."""
    from sklearn.metrics import adjusted_rand_score

    known, _ = check_labels(classes, len(labels), "classes")
    both = (known >= 0) & (labels >= 0)
    return {"class_nmi": nmi(classes, labels), "class_ari": float(adjusted_rand_score(known[both], labels[both]))}


def _input(ensemble: Ensemble) -> dict[str, Any]:
    observed = np.add.reduceat(ensemble.sizes, ensemble.offsets[:-1])
    total = ensemble.n_samples * ensemble.n_partitions
    return {
        "n_samples": ensemble.n_samples,
        "n_partitions": ensemble.n_partitions,
        "n_codes": ensemble.n_codes,
        "clusters_min": int(ensemble.n_clusters.min()),
        "clusters_max": int(ensemble.n_clusters.max()),
        "missing_share": (total - int(observed.sum())) / total,
        "bytes": int(ensemble.codes.nbytes),
        "has_classes": ensemble.classes is not None,
        "has_ids": ensemble.item_ids is not None,
        "partitions": [
            {"name": name, "clusters": int(k), "labelled_share": float(seen) / ensemble.n_samples}
            for name, k, seen in zip(ensemble.names, ensemble.n_clusters, observed)
        ],
    }


def _clusters(ensemble: Ensemble, labels: np.ndarray, engine: Any) -> list[dict[str, Any]]:
    columns = {name: values.tolist() for name, values in cluster_table(ensemble, labels, engine=engine).items()}
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    if len(rows) == 1:
        rows[0].update(nearest=None, nearest_density=None)
    return rows


def _uncertain(ensemble: Ensemble, labels, stability: ItemStability, how_many: int) -> list[dict[str, Any]]:
    margin = np.where(labels >= 0, stability.own - stability.other, np.inf)
    # items alone in their cluster have own = 0, so they come first
    worst = np.lexsort((np.arange(len(margin)), margin))[:how_many]
    rows = []
    for i in worst.tolist():
        if not math.isfinite(margin[i]):
            break
        rows.append(
            {
                "item": i if ensemble.item_ids is None else str(ensemble.item_ids[i]),
                "row": i,
                "cluster": int(labels[i]),
                "own": float(stability.own[i]),
                "other_cluster": int(stability.nearest[i]),
                "other": float(stability.other[i]),
                "margin": float(margin[i]),
            }
        )
    return rows


def _tree(ensemble: Ensemble, k: int, seed: int, engine: Any) -> dict[str, Any] | None:
    """The bisecting tree down to at least k leaves, as columns of its nodes."""
    leaves = max(k, 2, min(math.isqrt(ensemble.n_samples), _MOST_LEAVES))
    model = BisectingConsensus(max_leaves=min(leaves, _MOST_LEAVES), random_state=seed, engine=engine).fit(ensemble)
    if model.n_leaves_ < 2:
        return None
    columns = {name: values.tolist() for name, values in model.tree_.table().items()}
    columns["cut"] = min(k, model.n_leaves_)
    columns["density_at"] = [density(ensemble, model.cut(i), engine=engine) for i in range(1, model.n_leaves_ + 1)]
    return columns


def leaf_positions(nodes: dict[str, Any]) -> np.ndarray:
    """Horizontal position of every node: leaves at 0.5, 1.5, ... from left to right, parents between their children."""
    position = np.zeros(len(nodes["node"]))
    place = 0
    stack = [(0, False)]
    while stack:
        node, done = stack.pop()
        left, right = int(nodes["left"][node]), int(nodes["right"][node])
        if left < 0:
            position[node] = place + 0.5
            place += 1
        elif done:
            position[node] = (position[left] + position[right]) / 2
        else:
            stack += [(node, True), (right, False), (left, False)]
    return position


def _comparison(ensemble, consensus, k: int, compare, seed: int, engine, say) -> list[dict[str, Any]]:
    """Other methods at the same k; a method that cannot run has the reason in its note."""
    scores = ("density", "ensemble_nmi", "class_nmi", "class_ari")
    first = {"method": consensus["method"], "chosen": True, "clusters": k, "seconds": consensus["seconds"], "note": ""}
    rows = [{**first, **{name: consensus[name] for name in scores}}]
    if compare is False or compare is None:
        return rows
    known = compared_methods()
    names = [name for name, (method, _) in known.items() if method.quick] if compare is True else list(compare)
    names = [n for n in names if n not in known or known[n][0].class_name != consensus["method"] or known[n][1]]
    if not names:
        return rows
    result = run_methods(
        ensemble, k, names, random_state=seed, engine=engine, progress=lambda name: say(f"comparing: {name}")
    )
    for row in result.rows:
        facts = {"method": row.method, "chosen": False, "clusters": row.clusters, "seconds": row.seconds}
        rows.append({**facts, "note": row.error or "", **{name: getattr(row, name) for name in scores}})
    return rows
