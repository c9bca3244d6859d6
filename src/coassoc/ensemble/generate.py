"""Features in, clusterings out: how an ensemble is made when there is none yet, in memory or from file to file."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

# scikit-learn and joblib are imported where they are used: reading labels needs neither
from ..core.checks import check_choice, check_integer, seed_from
from .ensemble import Ensemble
from .io.arrow import ParquetTable
from .io.coding import FileBlock, batches_in
from .io.reading import features_in, numbers_in
from .io.table import naming, pa
from .io.writing import check_writable, replacing
from .stored import StoredEnsemble
from .threads import one_thread

_CHUNK_BYTES = 1 << 26  # rows are labelled in pieces of about this size


@dataclass(frozen=True)
class Recipe:
    """Everything a partition needs except its seed; small, so that it travels to workers cheaply."""

    clusterers: tuple[Any, ...]
    low: int
    high: int
    n_features: int
    n_rows: int
    predict_rest: bool


@dataclass(frozen=True)
class Model:
    """The base clusterer of one partition with its random choices and, once fitted, the labels of its rows."""

    estimator: Any
    columns: np.ndarray | None  # None: every feature
    rows: np.ndarray | None  # None: every row
    labels: Any = None

    def label(self, X: Any, start: int) -> np.ndarray:
        """Labels of a block of rows, the first of which is row `start`."""
        if self.rows is None:
            return self.labels[start : start + X.shape[0]]
        with one_thread():
            labels = np.asarray(self.estimator.predict(X if self.columns is None else X[:, self.columns]))
        labels = labels.astype(np.int64)
        first, last = np.searchsorted(self.rows, [start, start + X.shape[0]])
        labels[self.rows[first:last] - start] = self.labels[first:last]
        return labels


def make_ensemble(
    X: Any,
    n_partitions: int = 20,
    n_clusters: int | tuple[int, int] | None = None,
    *,
    n_classes: int | None = None,
    clusterer: Any = None,
    feature_fraction: float = 1.0,
    sample_fraction: float = 1.0,
    unsampled: str = "missing",
    fit_sample: int | None = None,
    n_init: int = 10,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ensemble:
    r"""Cluster the rows of `X` many times, each time a little differently.

    Clustering :math:`j` draws its number of clusters uniformly from the range of `n_clusters`, then, when asked, a
    subset of the features and of the rows, and runs the clusterer on what it drew [1]_. Its draws come from
    ``SeedSequence(random_state, spawn_key=(j,))``, and numeric libraries use one thread for each clustering, so the
    ensemble is the same for any `n_jobs`.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Features. float32 and float64 are used as they are, without a copy; anything else becomes float64.
    n_partitions : int, default=20
        Number of clusterings.
    n_clusters : int, (int, int) or None, default=None
        Clusters in each clustering, or the range (both ends included) they are drawn from. None draws from
        ``[n_classes or 2, floor(min(sqrt(n_samples), 100))]``.
    n_classes : int, optional
        Lower end of the default range when the number of classes is known.
    clusterer : scikit-learn clusterer or list of them, optional
        What makes a clustering; those of a list take turns. ``n_clusters`` (or ``n_components``) and ``random_state``
        are set where it has them. Noise (label −1) becomes a missing label. None is ``KMeans(n_init=n_init)``.
    feature_fraction, sample_fraction : float in (0, 1], default=1.0
        Share of the features and of the rows that each clustering is fitted on, drawn without replacement, rounded up.
    unsampled : {"missing", "predict"}, default="missing"
        What becomes of the other rows: no label in that clustering, or the label ``predict`` gives them.
    fit_sample : int, optional
        For large n: fit each clustering on this many random rows and label the rest by ``predict``, a chunk of rows
        at a time. Not together with `sample_fraction`.
    n_init : int, default=10
        Restarts of the default k-means; the one with the least inertia is kept.
    n_jobs : int, optional
        Processes that work side by side; None is 1, −1 every core.
    random_state : int, RandomState, Generator, SeedSequence or None, default=None
        Seed. None draws a fresh one.
    progress : callable, optional
        Called as ``progress(done, n_partitions)`` after each clustering.

    References
    ----------
    .. [1] A. L. N. Fred and A. K. Jain, "Combining multiple clusterings using evidence accumulation", IEEE TPAMI
       27(6), 2005, https://doi.org/10.1109/TPAMI.2005.113

    Examples
    --------
    >>> import numpy as np
    >>> import coassoc as ca
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> ca.make_ensemble(X, n_partitions=5, n_clusters=(2, 6), random_state=0)
    Ensemble(100 items, 5 clusterings of 2-6 clusters, uint8)
    """
    X = _check_features(X)
    clusterers = check_clusterers(clusterer, n_init)
    fractions = feature_fraction, sample_fraction, unsampled, fit_sample
    recipe = plan(X.shape, n_clusters, n_classes, clusterers, *fractions)
    seeds = partition_seeds(random_state, n_partitions)

    def columns() -> Iterator[tuple[np.ndarray, None]]:
        for done, labels in enumerate(run_partitions(_labels_of_partition, X, recipe, seeds, n_jobs), 1):
            yield labels, None
            if progress is not None:
                progress(done, n_partitions)

    return Ensemble.from_columns([str(j) for j in range(n_partitions)], columns(), X.shape[0])


def make_ensemble_large(
    features: Any,
    output: str | os.PathLike,
    n_partitions: int = 20,
    n_clusters: int | tuple[int, int] | None = None,
    *,
    fit_sample: int = 50_000,
    clusterer: Any = None,
    feature_fraction: float = 1.0,
    n_init: int = 10,
    random_state: Any = None,
    columns: Sequence[str] | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> StoredEnsemble:
    """Many clusterings of items whose features are in a file: fitted on samples, the rest labelled block by block.

    The labels are those of ``make_ensemble(X, fit_sample=fit_sample, ...)`` with the same seed, without ever holding
    more than the samples and one block. One pass over the features picks the sampled rows, another labels.

    Parameters
    ----------
    features : path
        File, or folder of files, of numbers, in a format that says how many rows there are (not text). It is trusted.
    output : path
        Parquet file of labels to write, one column per partition.
    n_partitions, n_clusters, clusterer, feature_fraction, n_init, random_state
        As for `make_ensemble`.
    fit_sample : int, default=50000
        Rows each partition is fitted on, drawn anew for each.
    columns : list of str, optional
        Columns that are features; all of them when None.
    force : bool, default=False
        Overwrite the output.
    progress : callable, optional
        Called as ``progress(done, n_blocks)`` after each block.

    Returns
    -------
    StoredEnsemble
        The written label table, opened.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from coassoc.ensemble import make_ensemble_large
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(os.path.join(folder, "X.npy"), X)
    ...     make_ensemble_large(os.path.join(folder, "X.npy"), os.path.join(folder, "labels.parquet"), 4, (2, 5),
    ...                         fit_sample=100, random_state=0)
    Ensemble(500 items, 4 clusterings, stored in labels.parquet)
    """
    source, target = features_in(features, columns or "*"), Path(output)
    check_writable(target, force=force)
    if source.n_rows is None:
        raise ValueError(
            f"features must be in a file that tells its number of rows, such as {ParquetTable.name}, got "
            f"{source.what}; write them as one first."
        )
    sizes = [block.rows for block in source.blocks]
    if sum(sizes) < 2:
        raise ValueError(f"features must have at least two rows, got {sum(sizes)}.")
    starts, shape = np.cumsum([0, *sizes[:-1]]).tolist(), (sum(sizes), len(source.names))
    clusterers = check_clusterers(clusterer, n_init)
    recipe = plan(shape, n_clusters, None, clusterers, feature_fraction, 1.0, "predict", fit_sample)
    seeds = partition_seeds(random_state, n_partitions)
    drawn = [draw_partition(recipe, j, seed, shape) for j, seed in enumerate(seeds)]
    samples: list[list[np.ndarray]] = [[] for _ in drawn]
    for block, start in zip(source.blocks, starts):
        X = _features(block, start)
        for sample, model in zip(samples, drawn):
            sample.append(X[_between(model.rows, start, len(X))])
    models = [fit_model(model, np.concatenate(samples[j]), j) for j, model in enumerate(drawn)]
    schema = pa.schema([(f"partition_{j}", pa.int32()) for j in range(n_partitions)])
    with replacing(target, force=force) as partial, ParquetTable.writer(partial, schema) as writer:
        for done, (block, start) in enumerate(zip(source.blocks, starts), 1):
            X = _features(block, start)
            labels = [model.label(X, start) for model in models]
            writer.write_table(pa.table([pa.array(own.astype(np.int32)) for own in labels], schema=schema))
            if progress is not None:
                progress(done, len(starts))
    return StoredEnsemble(target)


def _features(block: FileBlock, start: int) -> np.ndarray:
    """The numbers of a block, the first row of which is row `start`, validated."""
    with naming(Path(block.piece.file)):
        X = np.concatenate([
            batch if isinstance(batch, np.ndarray) else numbers_in(batch, block.columns)
            for batch in batches_in(block)
        ])  # fmt: skip
    X = np.ascontiguousarray(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64))
    check_finite(X, start, "features")
    return X


def _between(rows: np.ndarray | None, start: int, size: int) -> np.ndarray | slice:
    """Positions in a block of sampled rows; None stands for every row."""
    if rows is None:
        return slice(None)
    first, last = np.searchsorted(rows, [start, start + size])
    return rows[first:last] - start


def partition_seeds(random_state: Any, n_partitions: int) -> list[np.random.SeedSequence]:
    """One seed per partition: the root's entropy with the partition's number added to its spawn key."""
    check_integer(n_partitions, "n_partitions")
    is_root = isinstance(random_state, np.random.SeedSequence)
    root = random_state if is_root else np.random.SeedSequence(seed_from(random_state))
    return [np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, j)) for j in range(n_partitions)]


# -- running ---------------------------------------------------------------------------------------------------


def run_partitions(function: Callable, X: Any, recipe: Recipe, seeds: Sequence, n_jobs: int | None) -> Iterator[Any]:
    """``function(X, recipe, j, seed)`` of each partition j, in order, as they become known."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    return parallel(delayed(function)(X, recipe, j, seed) for j, seed in enumerate(seeds))


def _labels_of_partition(X: Any, recipe: Recipe, j: int, seed: np.random.SeedSequence) -> np.ndarray:
    """Labels of partition `j` alone: models may be large, and come from another process."""
    return fit_partition(X, recipe, j, seed)[0]


def fit_partition(
    X: Any, recipe: Recipe, j: int, seed: np.random.SeedSequence
) -> tuple[np.ndarray, Any, np.ndarray | None]:
    """Labels of partition `j`, the clusterer that gave them and the features it saw (None: all of them)."""
    drawn = draw_partition(recipe, j, seed, X.shape)
    model = fit_model(drawn, X if drawn.rows is None else X[drawn.rows], j)
    if drawn.rows is None:
        return model.labels, model.estimator, model.columns
    labels = np.full(X.shape[0], -1, dtype=np.int64)
    labels[drawn.rows] = model.labels
    step = max(1, _CHUNK_BYTES // (8 * max(1, recipe.n_features)))
    for start in range(0, X.shape[0], step) if recipe.predict_rest else ():
        labels[start : start + step] = model.label(X[start : start + step], start)
    return labels, model.estimator, model.columns


def fit_model(drawn: Model, X: Any, j: int) -> Model:
    """The clusterer of partition `j`, fitted on `X`, the rows it drew."""
    from sklearn.exceptions import ConvergenceWarning

    estimator, seen = drawn.estimator, X if drawn.columns is None else X[:, drawn.columns]
    # one thread: sums inside BLAS and OpenMP loops would otherwise depend on how many there are
    with one_thread(), warnings.catch_warnings():
        # fewer distinct rows than clusters: the ensemble's n_clusters tells
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = np.asarray(
            estimator.fit_predict(seen) if hasattr(estimator, "fit_predict") else estimator.fit(seen).labels_
        )
    if labels.shape != (seen.shape[0],) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"partition {j}: {type(estimator).__name__} must return one integer label per row "
            f"({seen.shape[0]}), got {labels.dtype} of shape {labels.shape}."
        )
    if (labels < 0).all():
        raise ValueError(
            f"partition {j}: {type(estimator).__name__} labels no row at all (only noise); change its settings."
        )
    return replace(drawn, labels=labels.astype(np.int64))


def draw_partition(recipe: Recipe, j: int, seed: np.random.SeedSequence, shape: tuple[int, int]) -> Model:
    """The random choices of partition `j`, made in a fixed order; those that its clusterer knows are set there."""
    from sklearn.base import clone

    rng = np.random.default_rng(seed)
    k = int(rng.integers(recipe.low, recipe.high, endpoint=True))
    settings = {"n_clusters": k, "n_components": k, "random_state": int(rng.integers(2**31))}
    estimator = clone(recipe.clusterers[j % len(recipe.clusterers)])
    estimator.set_params(**{name: settings[name] for name in settings.keys() & estimator.get_params(deep=False)})
    columns = _some(rng, shape[1], recipe.n_features)
    return Model(estimator, columns, _some(rng, shape[0], recipe.n_rows))


def _some(rng: np.random.Generator, total: int, wanted: int) -> np.ndarray | None:
    """`wanted` of `total` indices in ascending order; None, and no draw, when that is all of them."""
    return np.sort(rng.choice(total, wanted, replace=False)) if wanted < total else None


# -- checking --------------------------------------------------------------------------------------------------


def _check_features(X: Any) -> Any:
    """`X` as a float array or CSR matrix without NaN or infinity."""
    from scipy.sparse import issparse
    from sklearn.utils import check_array

    check_columns(X)
    dtypes = [np.float64, np.float32]
    options = {"accept_sparse": "csr", "dtype": dtypes, "ensure_min_samples": 2, "input_name": "X"}
    X = check_array(X, ensure_all_finite=issparse(X), **options)
    if not issparse(X):
        check_finite(X, 0, "X")
    return X


def check_columns(X: Any) -> None:
    """Reject a frame with columns that are no numbers, and say how to code them."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return
    words = ("str", "object", "categor", "enum")
    odd = [str(name) for name, kind in zip(X.columns, X.dtypes) if str(kind).lower().startswith(words)]
    if odd:
        raise ValueError(
            f"X must hold numbers, but these columns hold words: {', '.join(odd[:8])}. Leave them out, or code them: "
            "make_pipeline(make_column_transformer((OneHotEncoder(), [...]), remainder=StandardScaler()), "
            "ConsensusClustering(...)). coassoc.profile(labels, X) takes them as they are."
        )


def check_finite(X: np.ndarray, start: int, name: str) -> None:
    """Refuse NaN and infinity in some rows, the first of which is row `start`."""
    bad = ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{name} must not contain NaN or infinity: row {start + row}, column {column} is {X[row, column]}; fill "
            "missing cells first, for example with sklearn.impute.SimpleImputer."
        )


def check_clusterers(clusterer: Any, n_init: int) -> tuple[Any, ...]:
    from sklearn.cluster import KMeans

    n_init = check_integer(n_init, "n_init")
    if clusterer is None:
        return (KMeans(n_init=n_init),)
    clusterers = tuple(clusterer) if isinstance(clusterer, (list, tuple)) else (clusterer,)
    if not clusterers:
        raise ValueError("clusterer must hold at least one clusterer, got an empty list.")
    for estimator in clusterers:
        if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
            raise TypeError(
                "clusterer must be a scikit-learn clusterer (an object with fit and get_params) or a list of them, "
                f"got {estimator!r}."
            )
    return clusterers


def plan(
    shape: tuple[int, int],
    n_clusters: Any,
    n_classes: int | None,
    clusterers: tuple[Any, ...],
    feature_fraction: float,
    sample_fraction: float,
    unsampled: str,
    fit_sample: int | None,
    name: str = "n_clusters",
) -> Recipe:
    n_samples, n_features = shape
    _check_fraction(feature_fraction, "feature_fraction")
    _check_fraction(sample_fraction, "sample_fraction")
    check_choice(unsampled, "unsampled", ("missing", "predict"))
    if fit_sample is None:
        n_rows, predict_rest = math.ceil(sample_fraction * n_samples), unsampled == "predict"
    elif sample_fraction != 1.0:
        raise ValueError(
            f"fit_sample={fit_sample} and sample_fraction={sample_fraction} both choose rows; give only one."
        )
    else:
        n_rows, predict_rest = min(check_integer(fit_sample, "fit_sample", 2), n_samples), True
    if n_rows < n_samples and predict_rest:
        for estimator in clusterers:
            if not hasattr(estimator, "predict"):
                raise ValueError(
                    f"{type(estimator).__name__} has no predict, so the rows it was not fitted on cannot be labelled; "
                    "use unsampled='missing' or another clusterer."
                )
    low, high = _check_range(n_clusters, n_classes, n_samples, n_rows, name)
    return Recipe(clusterers, low, high, math.ceil(feature_fraction * n_features), n_rows, predict_rest)


def _check_range(
    n_clusters: Any, n_classes: int | None, n_samples: int, n_rows: int, name: str
) -> tuple[int, int]:  # fmt: skip
    """Both ends of the range that k is drawn from, given by the user as the argument `name`."""
    if n_clusters is None:
        low = 2 if n_classes is None else check_integer(n_classes, "n_classes")
        high = min(math.isqrt(n_samples), 100, n_rows)
        # few rows, many classes: the range of the paper would be empty
        low, high = min(low, n_rows), max(high, min(low, n_rows))
    elif isinstance(n_clusters, (tuple, list)) and len(n_clusters) == 2:
        low = check_integer(n_clusters[0], f"{name}[0]")
        high = check_integer(n_clusters[1], f"{name}[1]")
        if low > high:
            raise ValueError(f"{name} must be a range (low, high) with low <= high, got {n_clusters!r}.")
    elif isinstance(n_clusters, numbers.Integral):
        low = high = check_integer(n_clusters, name)
    else:
        raise TypeError(f"{name} must be None, an integer or a pair (low, high), got {n_clusters!r}.")
    if high > n_rows:
        raise ValueError(f"{name} goes up to {high}, but each clustering is fitted on {n_rows} rows only.")
    return low, high


def _check_fraction(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}.")
