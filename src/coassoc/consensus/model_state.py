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
from ..core.objectives import fix_table
from ..engines import Engine
from ..ensemble import Ensemble
from ..ensemble.tables import Vocabulary
from .linkage import Merges
from .registry import methods
from .tree import Tree

# What a stored array or number must be: kinds of dtype, shape, lowest and highest value. Letters of a shape are lengths
# that must agree: p partitions, d base clusters, k clusters, n items, m leaves, q coordinates; "" is a number. A letter
# as highest value means "below that length".
Field = tuple[str, str] | tuple[str, str, float] | tuple[str, str, float, float | str]

# parts of fitted estimators: tag -> class and the attributes that are stored; None: checked by other means
_PARTS: dict[str, tuple[type, dict[str, Field | None]]] = {
    "Vocabulary": (Vocabulary, {"n_clusters": ("i", "p", 1), "categories": None, "names": None, "dtype": None}),
    "ScoreTable": (ScoreTable, {"values": ("i", "dk"), "bits": ("i", "", -1100, 1100)}),
    "Layout": (Layout, {"n_clusters": ("i", "p", 1)}),
    "Counts": (Counts, {"alpha": ("i", "dk", 0), "sizes": ("i", "k", 0), "layout": None}),
    "Tree": (Tree, dict.fromkeys(("parent", "left", "right", "rank", "size", "density", "gain"))),
    "Merges": (Merges, {"first": ("i", "m", 0), "second": ("i", "m", 0), "similarity": ("f", "m"),
                        "n_ties": ("i", "", 0)}),
    "Ensemble": (Ensemble, {"codes": None, "n_clusters": ("i", "p", 1), "sizes": ("i", "d", 0), "names": None,
                            "categories": None, "item_ids": None, "classes": None}),
}  # fmt: skip
# attributes of fitted estimators
_FIELDS: dict[str, Field] = {
    "_alpha": ("i", "dk", 0),
    "cluster_sizes_": ("i", "k", 0),
    "labels_": ("i", "n", -1, "k"),
    **dict.fromkeys(("_weights_of_partitions", "partition_weights_"), ("f", "p", 0)),
    **dict.fromkeys(("cluster_density_", "cluster_confidence_"), ("f", "k", 0, 1)),
    "cluster_weights_": ("f", "d", 0),
    "leaf_sizes_": ("i", "m", 0),
    **dict.fromkeys(("leaf_of_item_", "_leaf_of_item"), ("i", "n", -1, "m")),
    "_cluster_of_leaf": ("i", "m", 0, "k"),
    "_unlabelled": ("i", "u", 0, "n"),
    "eigenvalues_": ("f", "q"),
    "meta_clusters_": ("i", "d", -1),
    "partition_agreement_": ("f", "p", 0, 1),
    "confidence_": ("f", "n", 0, 1),
    "feature_names_in_": ("OU", "p"),
    **dict.fromkeys(("density_", "ensemble_nmi_", "agreement_"), ("fi", "", 0, 1)),
    **dict.fromkeys(("loss_", "stability_"), ("fi", "")),
    **dict.fromkeys(("n_iter_", "n_clusters_", "n_leaves_", "n_rounds_", "n_ties_", "n_sampled_", "n_vertices_"),
                    ("i", "", 0)),
}  # fmt: skip
_TYPES = {"_vocabulary": Vocabulary, "_table": ScoreTable, "_micro_table": ScoreTable, "tree_": Tree,
          "_merges": Merges, "ensemble_": Ensemble, "k_curves_": dict, "_alternatives": list}  # fmt: skip
# lengths that compiled code of scikit-learn takes on trust
_SKLEARN_FIELDS: dict[str, Field] = {
    "n_features_in_": ("i", "", 1),
    **dict.fromkeys(("cluster_centers_", "means_", "components_"), ("f", "kp")),
    **dict.fromkeys(("mean_", "scale_", "center_"), ("f", "p")),
    "_n_threads": ("i", "", 1, 1024),
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
        return arrays[_check(stored["@array"], "the number of an array", {}, "i", "", 0, len(arrays) - 1)]
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
    layout = _layout(_instance(vocabulary, Vocabulary, "_vocabulary").n_clusters)
    sizes = {"d": layout.n_codes}
    _check(vectors, "_vectors", sizes, "f", "dq")
    _check(centers, "_centres", sizes, "f", "kq")
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
        return _part(cls.__name__, values)
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
        _check_fields(model, _SKLEARN_FIELDS, {"p": values["n_features_in_"]} if "n_features_in_" in values else {})
        return model
    if "consensus_" in values:
        _check_features_model(model)
    else:
        _check_estimator(model)
    if not hasattr(model, "n_clusters_"):  # earlier versions did not store it
        model.n_clusters_ = len(np.unique(model.labels_[model.labels_ >= 0]))
    return model


def _layout(n_clusters: np.ndarray) -> Layout:
    return Layout(n_clusters, np.concatenate([[0], np.cumsum(n_clusters)]).astype(np.int64))


def _part(tag: str, values: dict[str, Any]) -> Any:
    """A part of an estimator from its attributes."""
    cls, fields = _PARTS[tag]
    values = {name: values.get(name) for name in fields}
    sizes: dict[str, int] = {}
    for name, field in fields.items():
        if field is not None:
            _check(values[name], f"{tag}.{name}", sizes, *field)
    if tag == "Layout":
        return _layout(values["n_clusters"])
    if tag in ("Vocabulary", "Ensemble"):
        _check_labels_of_codes(values, tag)
    if tag == "Vocabulary" and _instance(values["dtype"], np.dtype, "Vocabulary.dtype").kind != "u":
        _bad(f"Vocabulary.dtype must be an unsigned integer type, got {values['dtype']!r}")
    if tag == "Ensemble":
        return _ensemble(values, sizes)
    part = cls(**values)
    if tag == "ScoreTable" and (part.values.dtype != np.int32 or not part.values.shape[1]):
        _bad("ScoreTable.values must be a table of int32")
    if tag == "Counts" and _instance(part.layout, Layout, "Counts.layout").n_codes != sizes["d"]:
        _bad("Counts.alpha does not fit Counts.layout")
    # each point but the first joins one of a lower index, once
    if tag == "Merges" and not ((part.first < part.second).all() and _is_range(np.sort(part.second), 1)):
        _bad("Merges does not join every point once")
    if tag == "Tree":
        _check_tree(part)
    return part


def _is_range(values: Any, start: int) -> bool:
    return np.array_equal(values, np.arange(start, start + len(values)))


def _check_tree(tree: Tree) -> None:
    """Check that making the splits again, in their order, gives the same tree."""
    sizes: dict[str, int] = {}
    for name in _PARTS["Tree"][1]:
        kinds = "fi" if name in ("density", "gain") else "i"
        _check(np.asarray(getattr(tree, name)), f"Tree.{name}", sizes, kinds, "t")
    again = Tree()
    again.add(-1, 0, 0.0)
    splits = sorted((rank, node) for node, rank in enumerate(tree.rank) if rank)
    if _is_range([rank for rank, _ in splits], 1):
        for _, node in splits:
            again.split(node, 0.0, (0, 0), (0.0, 0.0))
    if any(getattr(again, name) != getattr(tree, name) for name in ("parent", "left", "right", "rank")):
        _bad("Tree is not a tree of splits")


def _check_labels_of_codes(values: dict[str, Any], where: str) -> None:
    n_clusters, categories, names = values["n_clusters"].tolist(), values["categories"], values["names"]
    if not isinstance(categories, list) or len(categories) != len(n_clusters):
        _bad(f"{where}.categories must hold the labels of {len(n_clusters)} partitions")
    for labels, k in zip(categories, n_clusters):
        if len(_check(labels, f"{where}.categories", {}, "biufUO", "c")) > k:
            _bad(f"{where}.categories has more than {k} labels")
        if labels.dtype == object and not all(one is None or isinstance(one, (str, int, float)) for one in labels):
            _bad(f"{where}.categories must hold strings and numbers")
    if not isinstance(names, list) or len(names) != len(n_clusters) or not all(isinstance(one, str) for one in names):
        _bad(f"{where}.names must be {len(n_clusters)} strings")


def _ensemble(values: dict[str, Any], sizes: dict[str, int]) -> Ensemble:
    if int(values["n_clusters"].sum()) != sizes["d"]:  # before memory is taken for so many
        _bad("Ensemble.n_clusters does not fit Ensemble.sizes")
    names, categories = values["names"], values["categories"]
    made = Ensemble.from_codes(values["codes"], values["n_clusters"], names=names, categories=categories)
    for name in ("item_ids", "classes"):
        if values[name] is not None:
            setattr(made, name, _check(values[name], f"Ensemble.{name}", {"n": made.n_samples}, "biufUO", "n"))
    return made


def _check_estimator(model: Any) -> None:
    """Check the fitted attributes of an estimator of coassoc against each other."""
    state = {name: value for name, value in vars(model).items() if value is not None}
    needed = {"n_features_in_", "_vocabulary", "labels_", "_alpha", "_weights_of_partitions", "cluster_sizes_"}
    for part, more in (
        ("tree_", {"n_leaves_", "_leaf_of_item", "_leaf_counts", "_split_tables"}),
        ("_merges", {"n_leaves_", "leaf_of_item_", "linkage_"}),
        ("k_curves_", {"_leaf_of_item", "_alternatives"}),
        ("_micro_table", {"_cluster_of_leaf"}),
    ):
        needed |= more if part in state else set()
    if hasattr(model, "predict") and not {"tree_", "_micro_table"} & set(state):
        needed.add("_table")
    if needed - set(state) or "_table" not in vars(model):
        _bad(f"{type(model).__name__} has no {min(needed - set(state), default='_table')}")
    for name, kind in _TYPES.items():
        if name in state:
            _instance(state[name], kind, name)
    sizes = {"p": _check(model.n_features_in_, "n_features_in_", {}, "i", "", 1)}
    _check(model._vocabulary.n_clusters, "_vocabulary", sizes, "i", "p")
    sizes["d"] = int(model._vocabulary.n_clusters.sum())
    if "n_leaves_" in state:
        sizes["m"] = _check(model.n_leaves_, "n_leaves_", {}, "i", "", 1)
    _check_fields(model, _FIELDS, sizes)
    for name, shape in (("_table", "dk"), ("_micro_table", "dm")):
        if name in state:
            _check(state[name].values, name, sizes, "i", shape)
    if "tree_" in state:
        _check_tree_model(model, sizes)
    if "_merges" in state and model._merges.n_points != sizes["m"]:
        _bad("_merges does not fit n_leaves_")
    if "linkage_" in state and model.linkage_.shape != (sizes["m"] - 1, 4):
        _bad("linkage_ does not fit n_leaves_")
    for facts in state.get("_alternatives", ()):
        of_leaf = _check(facts[5], "_alternatives", {}, "i", "a", -1)
        if len(facts) != 6 or model._leaf_of_item.max(initial=-1) >= len(of_leaf) - 1:
            _bad("_alternatives do not fit the leaves")


def _check_tree_model(model: Any, sizes: dict[str, int]) -> None:
    if model.tree_.n_leaves != sizes["m"] or not 1 <= sizes["k"] <= sizes["m"]:
        _bad("tree_ does not fit n_leaves_ and cluster_sizes_")
    if len(model._leaf_counts) != sizes["m"]:
        _bad("_leaf_counts must hold the counts of every leaf")
    for counts in model._leaf_counts:
        _check(_instance(counts, Counts, "_leaf_counts").alpha, "_leaf_counts", {"d": sizes["d"], "1": 1}, "i", "d1")
    if set(model._split_tables) != {node for node, rank in enumerate(model.tree_.rank) if rank}:
        _bad("_split_tables must hold a table for every split")
    for table in model._split_tables.values():
        _check(_instance(table, ScoreTable, "_split_tables").values, "_split_tables", {**sizes, "2": 2}, "i", "d2")


def _check_features_model(model: Any) -> None:
    """ConsensusClustering: one base model and its features for each partition of the consensus."""
    consensus = model.consensus_
    if not isinstance(consensus, BaseEstimator) or not hasattr(consensus, "_alpha"):
        _bad("consensus_ must be a consensus estimator")
    _check_fields(model, _FIELDS, {"n": len(consensus.labels_)})
    if "ensemble_" in vars(model):
        _instance(model.ensemble_, Ensemble, "ensemble_")
    lists = (model.base_models_, model.base_features_)
    if not all(isinstance(one, list) and len(one) == consensus.n_features_in_ for one in lists):
        _bad("base_models_ and base_features_ must have an entry for every partition")
    for base, columns in zip(*lists):
        n_columns = _check(model.n_features_in_, "n_features_in_", {}, "i", "", 1)
        if columns is not None:
            n_columns = len(_check(columns, "base_features_", {"n": n_columns}, "i", "c", 0, "n"))
        if not isinstance(base, BaseEstimator) or getattr(base, "n_features_in_", n_columns) != n_columns:
            _bad("a base model does not fit its features")


def _check_fields(model: Any, fields: dict[str, Field], sizes: dict[str, int]) -> None:
    for name, field in fields.items():
        if getattr(model, name, None) is not None:
            _check(getattr(model, name), name, sizes, *field)


def _check(
    value: Any, name: str, sizes: dict[str, int], kinds: str, shape: str, low: float | None = None,
    high: float | str = math.inf,
) -> Any:  # fmt: skip
    """`value`, once it is what a `Field` says. A letter in `sizes` is a known length; a new one is added there."""
    array = value if shape else np.asarray(value)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds or array.ndim != len(shape):
        _bad(f"{name} must be {f'an array of {len(shape)} dimensions' if shape else 'a number'}, of kind {kinds!r}")
    for letter, length in zip(shape, array.shape):
        if sizes.setdefault(letter, length) != length:
            _bad(f"{name} has shape {array.shape}, which does not fit the other attributes")
    most = sizes.get(high, math.inf) - 1 if isinstance(high, str) else high
    # a share may be above 1 by rounding
    if low is not None and array.size and not (low <= array.min() and array.max() <= most + 1e-9):
        _bad(f"{name} holds values out of range")
    return value


def _instance(value: Any, cls: type, name: str) -> Any:
    return value if isinstance(value, cls) else _bad(f"{name} must be a {cls.__name__}, got {type(value).__name__}")
