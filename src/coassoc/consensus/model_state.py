"""The content of a saved model: fitted estimators as JSON and arrays, and back again with every value checked.

A model file names classes by tags. A tag stands for an estimator of coassoc, for one of a fixed list of scikit-learn
estimators, or for one of the small classes that estimators keep. Nothing else is built from a file, no constructor
is called with values of a file, and all sizes follow from arrays that the file really holds.
"""

from __future__ import annotations

import inspect
import math
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator

from ..core.counts import Counts, Layout, ScoreTable
from ..core.tables import fix_table
from ..engines import Engine
from ..ensemble import Ensemble
from ..ensemble.tables import Vocabulary
from .linkage import Merges
from .registry import methods
from .tree import Tree

# parts of fitted estimators: tag -> class and the attributes that are stored
_PARTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "Vocabulary": (Vocabulary, ("n_clusters", "categories", "names", "dtype")),
    "ScoreTable": (ScoreTable, ("values", "bits")),
    "Layout": (Layout, ("n_clusters",)),
    "Counts": (Counts, ("alpha", "sizes", "layout")),
    "Tree": (Tree, ("parent", "left", "right", "rank", "size", "density", "gain")),
    "Merges": (Merges, ("first", "second", "similarity", "n_ties")),
    "Ensemble": (Ensemble, ("codes", "n_clusters", "sizes", "names", "categories", "item_ids", "classes")),
}
# base clusterers of ConsensusClustering whose fitted state is plain arrays
_SKLEARN = {
    "sklearn.cluster": (
        "KMeans", "MiniBatchKMeans", "MeanShift", "AffinityPropagation", "AgglomerativeClustering",
        "SpectralClustering", "DBSCAN", "HDBSCAN", "OPTICS",
    ),
    "sklearn.mixture": ("GaussianMixture", "BayesianGaussianMixture"),
    "sklearn.preprocessing": ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer"),
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.pipeline": ("Pipeline",),
}  # fmt: skip
_ENGINES = ("auto", "numpy", "native", "cuda", "stream", "dask")
_SCALARS = {np.dtype(name).str: np.dtype(name).type for name in ("?", *"bBhHiIqQefd")}
ARRAY_KINDS = "biufU"


class BadModel(ValueError):
    """The content of a model file is not that of a fitted estimator."""


def _bad(what: str) -> NoReturn:
    raise BadModel(what)


# -- values -> JSON ----------------------------------------------------------------------------------------


def describe(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    """`value` as JSON; arrays are appended to `arrays` and referred to by number."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"@float": repr(value)}
    if isinstance(value, np.ndarray) or hasattr(value, "to_numpy"):  # a Series is saved without its index
        return _describe_array(np.asarray(value), arrays, where)
    if isinstance(value, np.generic) and value.dtype.str in _SCALARS:
        return {"@scalar": value.dtype.str, "value": describe(value.item(), arrays, where)}
    if isinstance(value, np.dtype):
        return {"@dtype": value.str}
    if isinstance(value, Engine):
        return value.name if value.name in ("numpy", "native") else "auto"
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        items = [describe(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"@tuple": items}
    if isinstance(value, dict):
        return {"@dict": [[describe(k, arrays, where), describe(v, arrays, f"{where}[{k!r}]")]
                          for k, v in value.items()]}  # fmt: skip
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.SeedSequence):
        return None  # a stream that has been drawn from cannot be continued from a file
    # parts may be of a subclass that an engine made
    tag = next((part for part, (cls, _) in _PARTS.items() if isinstance(value, cls)), None) or _tag_of(type(value))
    if tag is None:
        raise TypeError(
            f"{where} holds a {type(value).__module__}.{type(value).__qualname__}, which a model file cannot hold; "
            "only estimators and values of coassoc and a list of scikit-learn's estimators can be saved."
        )
    names = _PARTS[tag][1] if tag in _PARTS else vars(value)
    return {"@object": {key: describe(getattr(value, key), arrays, f"{where}.{key}") for key in names}, "class": tag}


def _describe_array(value: np.ndarray, arrays: list[np.ndarray], where: str) -> dict[str, Any]:
    if value.dtype.kind in ARRAY_KINDS:
        for i, known in enumerate(arrays):
            if known is value:
                return {"@array": i}
        arrays.append(value)
        return {"@array": len(arrays) - 1}
    if value.dtype == object:
        return {"@objects": [describe(item, arrays, where) for item in value.ravel().tolist()], "shape": value.shape}
    raise TypeError(f"{where} is an array of {value.dtype}, which a model file cannot hold.")


def _tag_of(cls: type) -> str | None:
    name = f"sklearn.{cls.__name__}" if cls.__module__.split(".")[0] == "sklearn" else cls.__name__
    return name if class_of(name) is cls else None


def class_of(tag: Any) -> type | None:
    """The class behind a tag, None for an unknown one.

    Files of version 1 hold module paths instead, such as ``coassoc.consensus._kmeans:KMeansConsensus``; the name of
    the class decides.
    """
    if not isinstance(tag, str):
        return None
    module, _, name = tag.replace(":", ".").rpartition(".")
    if name in _PARTS and module.split(".")[0] in ("", "coassoc"):
        return _PARTS[name][0]
    if module.split(".")[0] == "sklearn":
        return next((getattr(import_module(home), name) for home, known in _SKLEARN.items() if name in known), None)
    if module.split(".")[0] not in ("", "coassoc"):
        return None
    return next((method.estimator for method in methods().values() if method.class_name == name), None)


# -- JSON -> values ----------------------------------------------------------------------------------------


def rebuild(stored: Any, arrays: list[np.ndarray]) -> Any:
    """The value that `describe` wrote, with every part checked."""
    if isinstance(stored, list):
        return [rebuild(item, arrays) for item in stored]
    if not isinstance(stored, dict):
        return stored
    if "@object" in stored:
        return _rebuild_object(stored, arrays)
    if "@array" in stored:
        return arrays[check_int(stored["@array"], "the number of an array", 0, len(arrays) - 1)]
    if "@objects" in stored:
        items = np.empty(len(stored["@objects"]), dtype=object)
        items[:] = [rebuild(item, arrays) for item in stored["@objects"]]
        return items.reshape(stored["shape"])
    if "@float" in stored:
        return float(stored["@float"]) if stored["@float"] in ("nan", "inf", "-inf") else _bad("a number is not one")
    if "@scalar" in stored:
        return _SCALARS[stored["@scalar"]](rebuild(stored["value"], arrays))
    if "@dtype" in stored:
        return _SCALARS[stored["@dtype"]]().dtype
    if "@tuple" in stored and "class" not in stored:
        return tuple(rebuild(item, arrays) for item in stored["@tuple"])
    if "@dict" in stored:
        return {rebuild(key, arrays): rebuild(item, arrays) for key, item in stored["@dict"]}
    _bad(f"a value of unknown kind {sorted(stored)[:3]}")


def _upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters and attributes of a file of version 1 under their present names."""
    renamed = {"base": "clusterer", "n_clusters_found_": "n_clusters_", "meta_cluster_": "meta_clusters_"}
    values = {renamed.get(name, name): value for name, value in values.items()}
    if "over_segment" in values:
        asked, starts = values.pop("over_segment"), values.pop("n_over_segment", 1)
        values["micro_clusters"] = None if starts == 0 else "auto" if asked is None else asked
    if "finish" in values:
        values["refine"] = "kmeans" if values.pop("finish") else None
    if "_centres" in values:
        values["_table"] = _table_of_centers(values.pop("_vectors"), values.pop("_centres"), values["_vocabulary"])
    return values


def _table_of_centers(vectors: Any, centers: Any, vocabulary: Any) -> ScoreTable:
    """Scores of an embedding by the angle to each center; spectral methods stored vectors and centers before."""
    n_clusters = _instance(vocabulary, Vocabulary, "_vocabulary").n_clusters
    layout = _layout({"n_clusters": n_clusters})
    sizes = {"d": layout.n_codes}
    check_array(vectors, "_vectors", "f", "dq", sizes)
    check_array(centers, "_centres", "f", "kq", sizes)
    lengths = np.maximum(np.linalg.norm(centers, axis=1), np.finfo(float).tiny)
    return fix_table(vectors @ (centers / lengths[:, None]).T, layout)


def _rebuild_object(stored: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    tag, state = stored.get("class"), stored["@object"]
    cls = class_of(tag)
    if cls is None or not isinstance(state, dict):
        _bad(f"{tag!r} is not a class a model file may name")
    values = {key: rebuild(item, arrays) for key, item in state.items()}
    if ":" in str(tag):
        values = _upgraded(values)
    if cls.__name__ in _PARTS and cls is _PARTS[cls.__name__][0]:
        return _BUILD[cls.__name__](values)
    model: Any = object.__new__(cls)
    parameters = inspect.signature(cls).parameters
    for name, parameter in parameters.items():
        if parameter.default is not parameter.empty:
            setattr(model, name, parameter.default)
    for name, value in values.items():
        fitted = name.isidentifier() and (name.startswith("_") or name.endswith("_")) and not name.startswith("__")
        if name in parameters or (fitted and not hasattr(cls, name)):
            setattr(model, name, value)
        else:
            _bad(f"{cls.__name__} has no attribute {name!r}")
    if getattr(model, "engine", "auto") not in _ENGINES:
        _bad(f"the engine {model.engine!r} is unknown")
    if cls.__module__.startswith("sklearn"):
        _check_sklearn(model)
        return model
    _check_estimator(model)
    if not hasattr(model, "n_clusters_"):  # earlier versions did not store it
        model.n_clusters_ = len(np.unique(model.labels_[model.labels_ >= 0]))
    return model


# -- parts of estimators -----------------------------------------------------------------------------------


def _layout(values: dict[str, Any]) -> Layout:
    n_clusters = check_array(values["n_clusters"], "Layout.n_clusters", "i", "p", {}, 1)
    return Layout(n_clusters, np.concatenate([[0], np.cumsum(n_clusters)]).astype(np.int64))


def _counts(values: dict[str, Any]) -> Counts:
    layout = _instance(values["layout"], Layout, "Counts.layout")
    sizes: dict[str, int] = {"d": layout.n_codes}
    alpha = check_array(values["alpha"], "Counts.alpha", "i", "dk", sizes, 0)
    return Counts(alpha, check_array(values["sizes"], "Counts.sizes", "i", "k", sizes, 0), layout)


def _score_table(values: dict[str, Any]) -> ScoreTable:
    table = check_array(values["values"], "ScoreTable.values", "i", "dk", {})
    if table.dtype != np.int32 or not table.shape[1]:
        _bad("ScoreTable.values must be a table of int32")
    return ScoreTable(table, check_int(values["bits"], "ScoreTable.bits", -1100, 1100))


def _vocabulary(values: dict[str, Any]) -> Vocabulary:
    n_clusters = check_array(values["n_clusters"], "Vocabulary.n_clusters", "i", "p", {}, 1)
    categories, names = _labels_of_codes(values, n_clusters, "Vocabulary")
    dtype = values["dtype"]
    if not isinstance(dtype, np.dtype) or dtype.name not in ("uint8", "uint16", "uint32"):
        _bad(f"Vocabulary.dtype must be an unsigned integer type, got {dtype!r}")
    return Vocabulary(n_clusters, categories, names, dtype)


def _labels_of_codes(values: dict[str, Any], n_clusters: np.ndarray, where: str) -> tuple[list[np.ndarray], list[str]]:
    categories, names = values["categories"], values["names"]
    if not isinstance(categories, list) or len(categories) != len(n_clusters):
        _bad(f"{where}.categories must hold the labels of {len(n_clusters)} partitions")
    for labels, k in zip(categories, n_clusters.tolist()):
        if len(check_array(labels, f"{where}.categories", "biufUO", "k", {})) > k:
            _bad(f"{where}.categories has more than {k} labels")
        if labels.dtype == object and not all(one is None or isinstance(one, (str, int, float)) for one in labels):
            _bad(f"{where}.categories must hold strings and numbers")
    if not isinstance(names, list) or len(names) != len(n_clusters) or not all(isinstance(one, str) for one in names):
        _bad(f"{where}.names must be {len(n_clusters)} strings")
    return categories, names


def _tree(values: dict[str, Any]) -> Tree:
    columns = {name: values[name] for name in _PARTS["Tree"][1]}
    n = len(columns["parent"])
    for name, column in columns.items():
        is_number = _is_real if name in ("density", "gain") else _is_int
        if not isinstance(column, list) or len(column) != n or not all(map(is_number, column)):
            _bad(f"Tree.{name} must be a list of {n} numbers")
    tree = Tree(**columns)
    splits = sorted((rank, node) for node, rank in enumerate(tree.rank) if rank)
    sound = n % 2 == 1 and tree.parent[0] == -1 and [rank for rank, _ in splits] == list(range(1, tree.n_splits + 1))
    for rank, node in splits if sound else ():  # the split of rank r makes nodes 2r - 1 and 2r
        pair = (2 * rank - 1, 2 * rank)
        sound = sound and node < pair[0] and (tree.left[node], tree.right[node]) == pair
        sound = sound and tree.parent[pair[0]] == tree.parent[pair[1]] == node
    return tree if sound else _bad("Tree is not a tree of splits")


def _merges(values: dict[str, Any]) -> Merges:
    sizes: dict[str, int] = {}
    first, second = (check_array(values[name], f"Merges.{name}", "i", "m", sizes, 0) for name in ("first", "second"))
    similarity = check_array(values["similarity"], "Merges.similarity", "f", "m", sizes)
    # each point but the first joins one of a lower index, once
    if (first >= second).any() or sorted(second.tolist()) != list(range(1, len(second) + 1)):
        _bad("Merges does not join every point once")
    return Merges(first, second, similarity, check_int(values["n_ties"], "Merges.n_ties", 0))


def _ensemble(values: dict[str, Any]) -> Ensemble:
    n_clusters = check_array(values["n_clusters"], "Ensemble.n_clusters", "i", "p", {}, 1)
    if int(n_clusters.sum()) != len(check_array(values["sizes"], "Ensemble.sizes", "i", "d", {}, 0)):
        _bad("Ensemble.n_clusters does not fit Ensemble.sizes")
    categories, names = _labels_of_codes(values, n_clusters, "Ensemble")
    made = Ensemble.from_codes(values["codes"], n_clusters, names=names, categories=categories)
    for name in ("item_ids", "classes"):
        extra = values.get(name)
        if extra is not None:
            check_array(extra, f"Ensemble.{name}", "biufUO", "n", {"n": made.n_samples})
            setattr(made, name, extra)
    return made


_BUILD = {
    "Layout": _layout,
    "Counts": _counts,
    "ScoreTable": _score_table,
    "Vocabulary": _vocabulary,
    "Tree": _tree,
    "Merges": _merges,
    "Ensemble": _ensemble,
}


# -- fitted attributes -------------------------------------------------------------------------------------

# name -> kinds of dtype, shape, lowest and highest value. Letters are lengths that must agree: p partitions, d base
# clusters, k clusters, n items, m leaves, q coordinates; a letter as highest value means "below that length".
_ARRAYS: dict[str, tuple[str, str, float | None, float | str | None]] = {
    "_alpha": ("i", "dk", 0, None),
    "_weights_of_partitions": ("f", "p", 0, None),
    "labels_": ("i", "n", -1, "k"),
    "cluster_sizes_": ("i", "k", 0, None),
    "cluster_density_": ("f", "k", 0, 1),
    "cluster_weights_": ("f", "d", 0, None),
    "leaf_sizes_": ("i", "m", 0, None),
    "leaf_of_item_": ("i", "n", -1, "m"),
    "_leaf_of_item": ("i", "n", -1, "m"),
    "_unlabelled": ("i", "u", 0, "n"),
    "eigenvalues_": ("f", "q", None, None),
    "meta_clusters_": ("i", "d", -1, None),
    "partition_weights_": ("f", "p", 0, None),
    "partition_agreement_": ("f", "p", 0, 1),
    "confidence_": ("f", "n", 0, 1),
    "cluster_confidence_": ("f", "k", 0, 1),
    "_cluster_of_leaf": ("i", "m", 0, "k"),
}
_INTEGERS = ("n_features_in_", "n_iter_", "n_clusters_", "n_clusters_found_", "n_leaves_", "n_rounds_", "n_ties_",
             "n_sampled_", "n_vertices_")  # fmt: skip
_SHARES = ("density_", "ensemble_nmi_", "agreement_")
_REALS = ("loss_", "stability_", *_SHARES)


def _check_estimator(model: Any) -> None:
    """Check the fitted attributes of an estimator of coassoc against each other."""
    state = vars(model)
    for name in _INTEGERS:
        if name in state:
            check_int(state[name], name, 0)
    for name in _REALS:
        if name in state and not (_is_real(state[name]) and (name not in _SHARES or -1e-9 <= state[name] <= 1 + 1e-9)):
            _bad(f"{name} must be a number{' from 0 to 1' if name in _SHARES else ''}, got {state[name]!r}")
    for name in ("losses_", "densities_"):
        if name in state and not (isinstance(state[name], list) and all(map(_is_real, state[name]))):
            _bad(f"{name} must be a list of numbers")
    for name in ("n_features_in_", "labels_"):
        if state.get(name) is None:
            _bad(f"{type(model).__name__} has no {name}")
    if "consensus_" in state:
        _check_features_model(model)
        return
    sizes = {"p": model.n_features_in_}
    vocabulary = _instance(state.get("_vocabulary"), Vocabulary, "_vocabulary")
    if len(vocabulary.n_clusters) != model.n_features_in_:
        _bad(f"there are {len(vocabulary.n_clusters)} partitions in the vocabulary, not {model.n_features_in_}")
    sizes["d"] = int(vocabulary.n_clusters.sum())
    if "n_leaves_" in state:
        sizes["m"] = state["n_leaves_"]
    needed = ["_alpha", "_weights_of_partitions", "cluster_sizes_"]
    needed += ["n_leaves_", "_leaf_of_item"] if "tree_" in state else []
    needed += ["n_leaves_", "leaf_of_item_", "linkage_"] if "_merges" in state else []
    if "_table" not in state:
        _bad(f"{type(model).__name__} has no _table")
    for name in needed:
        if state.get(name) is None:
            _bad(f"{type(model).__name__} has no {name}")
    for name, (kinds, shape, low, high) in _ARRAYS.items():
        if state.get(name) is not None:
            check_array(state[name], name, kinds, shape, sizes, low, high)
    if state.get("_table") is None:
        if hasattr(model, "predict") and not {"tree_", "_micro_table"} & set(state):
            _bad("_table is missing")
    else:
        check_array(_instance(model._table, ScoreTable, "_table").values, "_table", "i", "dk", sizes)
    if "tree_" in state:
        _check_tree_model(model, sizes)
    if "k_curves_" in state:
        _check_answer(model, sizes)
    if "_merges" in state and _instance(model._merges, Merges, "_merges").n_points != model.n_leaves_:
        _bad("_merges does not fit n_leaves_")
    if "linkage_" in state and state["linkage_"].shape != (sizes["m"] - 1, 4):
        _bad("linkage_ does not fit n_leaves_")
    if "feature_names_in_" in state:
        check_array(model.feature_names_in_, "feature_names_in_", "OU", "p", sizes)


def _check_tree_model(model: Any, sizes: dict[str, int]) -> None:
    tree = _instance(model.tree_, Tree, "tree_")
    if tree.n_leaves != model.n_leaves_ or not 1 <= len(model.cluster_sizes_) <= tree.n_leaves:
        _bad("tree_ does not fit n_leaves_ and cluster_sizes_")
    if not isinstance(model._leaf_counts, list) or len(model._leaf_counts) != tree.n_leaves:
        _bad("_leaf_counts must hold the counts of every leaf")
    for counts in model._leaf_counts:
        if _instance(counts, Counts, "_leaf_counts").alpha.shape != (sizes["d"], 1):
            _bad("_leaf_counts does not fit the vocabulary")
    inner = {node for node, rank in enumerate(tree.rank) if rank}
    if not isinstance(model._split_tables, dict) or set(model._split_tables) != inner:
        _bad("_split_tables must hold a table for every split")
    for table in model._split_tables.values():
        if _instance(table, ScoreTable, "_split_tables").values.shape != (sizes["d"], 2):
            _bad("_split_tables does not fit the vocabulary")


def _check_answer(model: Any, sizes: dict[str, int]) -> None:
    """Consensus: the micro-clusters that new rows are compared with, and the alternatives."""
    state = vars(model)
    if state.get("_table") is None:
        table = _instance(model._micro_table, ScoreTable, "_micro_table").values
        check_array(table, "_micro_table", "i", "dm", sizes)
        check_array(state.get("_cluster_of_leaf"), "_cluster_of_leaf", "i", "m", sizes, 0, "k")
    check_array(state.get("_leaf_of_item"), "_leaf_of_item", "i", "n", sizes, -1, "m")
    if not isinstance(model.k_curves_, dict) or not isinstance(model._alternatives, list):
        _bad("k_curves_ must be a dict and _alternatives a list")
    for curve in model.k_curves_.values():
        check_array(curve, "k_curves_", "fi", "c", {})
    for facts in model._alternatives:
        if not isinstance(facts, tuple) or len(facts) != 6 or not all(map(_is_real, (facts[0], *facts[2:5]))):
            _bad("_alternatives must hold tuples of six values")
        of_leaf = check_array(facts[5], "_alternatives", "i", "a", {}, -1)
        if model._leaf_of_item.max(initial=-1) >= len(of_leaf) - 1:
            _bad("_alternatives do not fit the leaves")


def _check_features_model(model: Any) -> None:
    """ConsensusClustering: one base model and its features for each partition of the consensus."""
    consensus = model.consensus_
    if not isinstance(consensus, BaseEstimator) or not hasattr(consensus, "_alpha"):
        _bad("consensus_ must be a consensus estimator")
    check_array(model.labels_, "labels_", "i", "n", {"n": len(consensus.labels_)}, -1)
    if "ensemble_" in vars(model):
        _instance(model.ensemble_, Ensemble, "ensemble_")
    lists = (model.base_models_, model.base_features_)
    if not all(isinstance(one, list) and len(one) == consensus.n_features_in_ for one in lists):
        _bad("base_models_ and base_features_ must have an entry for every partition")
    for base, columns in zip(*lists):
        if not isinstance(base, BaseEstimator):
            _bad("base_models_ must be estimators")
        n_columns = model.n_features_in_
        if columns is not None:
            n_columns = len(check_array(columns, "base_features_", "i", "c", {"n": n_columns}, 0, "n"))
        if getattr(base, "n_features_in_", n_columns) != n_columns:
            _bad("a base model does not fit its features")


def _check_sklearn(model: Any) -> None:
    """Lengths that compiled code of scikit-learn takes on trust."""
    state = vars(model)
    sizes = {}
    if "n_features_in_" in state:
        sizes["p"] = check_int(state["n_features_in_"], "n_features_in_", 1)
    for name, shape in (("cluster_centers_", "kp"), ("means_", "kp"), ("components_", "kp"), ("mean_", "p"),
                        ("scale_", "p"), ("center_", "p")):  # fmt: skip
        if state.get(name) is not None:
            check_array(state[name], name, "f", shape, sizes)
    if "_n_threads" in state:
        check_int(state["_n_threads"], "_n_threads", 1, 1024)


# -- small checks ------------------------------------------------------------------------------------------


def check_array(
    value: Any, name: str, kinds: str, shape: str, sizes: dict[str, int], low: float | None = None,
    high: float | str | None = None,
) -> np.ndarray:  # fmt: skip
    """`value`, an array of these kinds of dtype, with one letter of `shape` per axis and values in range.

    A letter in `sizes` is a known length; a new one is added there. `high` may be such a letter: values are below it.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds or value.ndim != len(shape):
        _bad(f"{name} must be an array of {len(shape)} dimensions and of kind {kinds!r}")
    for letter, length in zip(shape, value.shape):
        if sizes.setdefault(letter, length) != length:
            _bad(f"{name} has shape {value.shape}, which does not fit the other attributes")
    if value.size and value.dtype.kind in "if":
        if isinstance(high, str):
            high = sizes[high] - 1 if high in sizes else None
        bounds = (-math.inf if low is None else low, math.inf if high is None else high)
        if not np.isfinite(value).all() or value.min() < bounds[0] or value.max() > bounds[1]:
            _bad(f"{name} holds values out of range")
    return value


def check_int(value: Any, name: str, low: int, high: int = 2**53) -> int:
    """`value`, an integer from `low` to `high`."""
    if not _is_int(value) or not low <= value <= high:
        _bad(f"{name} must be an integer from {low} to {high}")
    return value


def _instance(value: Any, cls: type, name: str) -> Any:
    return value if isinstance(value, cls) else _bad(f"{name} must be a {cls.__name__}, got {type(value).__name__}")


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
