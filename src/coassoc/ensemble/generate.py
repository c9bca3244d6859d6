"""Features in, clusterings out: how an ensemble is made when there is none yet."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

# scikit-learn and joblib are imported where they are used: reading labels needs neither
from ..core.checks import check_choice, check_integer, seed_from
from .ensemble import Ensemble

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
        at a time, so that `X` may be a memory map. Not together with `sample_fraction`.
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
    partitions = run_partitions(X, recipe, n_partitions, random_state, n_jobs)

    def columns() -> Iterator[tuple[np.ndarray, None]]:
        for done, (labels, _, _) in enumerate(partitions, 1):
            yield labels, None
            if progress is not None:
                progress(done, n_partitions)

    return Ensemble.from_columns([str(j) for j in range(n_partitions)], columns(), X.shape[0])


# -- running ---------------------------------------------------------------------------------------------------


def run_partitions(
    X: Any, recipe: Recipe, n_partitions: int, random_state: Any, n_jobs: int | None, *, keep_models: bool = False
) -> Iterator[tuple[np.ndarray, Any, np.ndarray | None]]:
    """Labels of each partition, its clusterer and the features that it saw (None: all of them), in order.

    Clusterers may be large and come from another process: without `keep_models` they are None.
    """
    from joblib import Parallel, delayed

    seeds = partition_seeds(random_state, n_partitions)
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    return parallel(delayed(_fit_partition)(X, recipe, j, seed, keep_models) for j, seed in enumerate(seeds))


def partition_seeds(random_state: Any, n_partitions: int) -> list[np.random.SeedSequence]:
    """One seed per partition: the root's entropy with the partition's number added to its spawn key."""
    check_integer(n_partitions, "n_partitions")
    is_root = isinstance(random_state, np.random.SeedSequence)
    root = random_state if is_root else np.random.SeedSequence(seed_from(random_state))
    return [np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, j)) for j in range(n_partitions)]


def _fit_partition(
    X: Any, recipe: Recipe, j: int, seed: np.random.SeedSequence, keep_model: bool
) -> tuple[np.ndarray, Any, np.ndarray | None]:
    """What `run_partitions` gives for partition `j`. Random choices are made in a fixed order."""
    from sklearn.base import clone

    rng = np.random.default_rng(seed)
    k = int(rng.integers(recipe.low, recipe.high, endpoint=True))
    settings = {"n_clusters": k, "n_components": k, "random_state": int(rng.integers(2**31))}
    estimator = clone(recipe.clusterers[j % len(recipe.clusterers)])
    estimator.set_params(**{name: settings[name] for name in settings.keys() & estimator.get_params(deep=False)})
    columns = _some(rng, X.shape[1], recipe.n_features)
    rows = _some(rng, X.shape[0], recipe.n_rows)
    labels = _fit_labels(estimator, _part(X, rows, columns), j)
    if rows is not None:
        of_sample, labels = labels, np.full(X.shape[0], -1, dtype=np.int64)
        step = max(1, _CHUNK_BYTES // (8 * max(1, recipe.n_features)))
        with one_thread():
            for start in range(0, X.shape[0], step) if recipe.predict_rest else ():
                part = slice(start, start + step)
                labels[part] = estimator.predict(_part(X, part, columns))
        labels[rows] = of_sample
    return labels, estimator if keep_model else None, columns


def _fit_labels(estimator: Any, X: Any, j: int) -> np.ndarray:
    """Labels that the clusterer of partition `j` gives to the rows it is fitted on."""
    from sklearn.exceptions import ConvergenceWarning

    # one thread: sums inside BLAS and OpenMP loops would otherwise depend on how many there are
    with one_thread(), warnings.catch_warnings():
        # fewer distinct rows than clusters: the ensemble's n_clusters tells
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = np.asarray(estimator.fit_predict(X) if hasattr(estimator, "fit_predict") else estimator.fit(X).labels_)
    if labels.shape != (X.shape[0],) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"partition {j}: {type(estimator).__name__} must return one integer label per row "
            f"({X.shape[0]}), got {labels.dtype} of shape {labels.shape}."
        )
    if (labels < 0).all():
        raise ValueError(
            f"partition {j}: {type(estimator).__name__} labels no row at all (only noise); change its settings."
        )
    return labels.astype(np.int64)


def _part(X: Any, rows: Any, columns: np.ndarray | None) -> Any:
    """Some rows and columns of the features; None stands for all of them."""
    X = X if rows is None else X[rows]
    return X if columns is None else X[:, columns]


def _some(rng: np.random.Generator, total: int, wanted: int) -> np.ndarray | None:
    """`wanted` of `total` indices in ascending order; None, and no draw, when that is all of them."""
    return np.sort(rng.choice(total, wanted, replace=False)) if wanted < total else None


@cache
def _controller() -> Any:
    """Finding the loaded libraries takes milliseconds, so it is done once."""
    import sklearn.cluster  # noqa: F401  so that its libraries are among those found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread(user_api: str | None = None) -> Any:
    """A context in which BLAS ("blas"), OpenMP ("openmp") or both (None) use one thread."""
    return _controller().limit(limits=1, user_api=user_api)


# -- checking --------------------------------------------------------------------------------------------------


def _check_features(X: Any) -> Any:
    """`X` as a float array or CSR matrix without NaN or infinity."""
    from scipy.sparse import issparse
    from sklearn.utils import check_array

    check_columns(X)
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_min_samples": 2, "input_name": "X"}
    X = check_array(X, ensure_all_finite=issparse(X), **options)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = issparse(X) or np.isfinite(X.sum()) or np.isfinite(X).all()  # the sum takes no memory
    if not finite:
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"X must not contain NaN or infinity: row {row}, column {column} is {X[row, column]}; fill "
            "missing cells first, for example with sklearn.impute.SimpleImputer."
        )
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


def _check_range(n_clusters: Any, n_classes: int | None, n_samples: int, n_rows: int, name: str) -> tuple[int, int]:
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
