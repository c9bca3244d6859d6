"""What every consensus estimator shares: input checks, the fitted attributes, predict and transform."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.checks import check_integer
from ..core.counts import Counts, Layout, ScoreTable, cluster_densities, mean_density
from ..engines import Engine, Rows, resolve
from ..ensemble import Ensemble
from ..ensemble.ensemble import is_on_gpu
from ..ensemble.gpu import beside, known_rows, no_labels
from ..ensemble.gpu import look_up as gpu_look_up
from ..ensemble.io.coding import is_dask
from ..metrics.labels import check_copies, check_labels, check_partition_weights
from ..metrics.membership import membership_strengths
from ..metrics.profiles import ProfileMixin
from ..metrics.scores import counts_of, resolve_partition_weights
from .persist import SaveMixin

C = TypeVar("C", bound=type)


def inherit_docs(cls: C) -> C:
    """Fill in lines of names in a docstring, ``{engine} {verbose}``: the entries of the nearest base class for each."""

    def entries(line: re.Match[str]) -> str:
        return "\n".join(_entry(cls, name) for name in re.findall(r"\w+", line[0]))

    if cls.__doc__:  # python -OO leaves none
        cls.__doc__ = re.sub(r"^\{\w+\}( \{\w+\})*$", entries, inspect.cleandoc(cls.__doc__), flags=re.MULTILINE)
    return cls


def _entry(cls: type, name: str) -> str:
    for base in cls.__mro__[1:]:
        text = inspect.cleandoc(base.__doc__ or "")
        if found := re.search(rf"^{name}(, \w+)* : .+(\n +.+)*", text, re.MULTILINE):
            return found[0]
    raise LookupError(f"{cls.__name__}: no base class documents {name!r}.")


class ConsensusEstimator(
    SaveMixin, ProfileMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Base of the estimators, and of your own: write `find_labels`, and everything else follows.

    `fit` takes an Ensemble or a label table of shape (n_samples, n_partitions) as `X`, checks it, and sets
    ``labels_``, ``n_clusters_``, ``density_``, ``cluster_density_`` and ``cluster_sizes_``; ``fit_predict``,
    ``transform``, ``save``, ``set_output``, :func:`coassoc.compare` and the command line then work. A method that is
    k-means with another score table derives from :class:`KMeansConsensus` and writes ``make_objective`` instead.
    What is listed below means the same in every method that has it.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    partition_weights : {"agreement"} or array-like of shape (n_partitions,), default=None
        Weights of the clusterings, scaled to mean 1; None: all 1. ``"agreement"``: their mean NMI with the others.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same integer gives the same labels on every engine, thread count and chunk size.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes run.
    verbose : int, default=0
        Print a line for each step.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels; −1 for items without a label in any partition.
    n_clusters_ : int
        Clusters that hold items: fewer than asked for when fewer label rows differ.
    density_, cluster_density_, cluster_sizes_ : float, ndarray, ndarray of shape (n_clusters,)
        Density S of the partition; density and number of items of each cluster.
    loss_ : float
        k-means loss on H.
    converged_, stop_reason_ : bool, {"fixed_point", "no_gain", "max_iter"}
        Whether one more pass would change no label; why passes ended: that, no lower exact loss, or `max_iter`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of clusterings at `fit`, and their names where `X` has string column names.

    Examples
    --------
    >>> import coassoc as ca
    >>> class First(ca.ConsensusEstimator):
    ...     def find_labels(self, ensemble):
    ...         return ensemble.partition(0)
    >>> First().fit([[0, 1], [0, 1], [1, 1]]).labels_.tolist()
    [0, 0, 1]
    """

    engine: Any = "auto"
    partition_weights: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the consensus partition.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            The clusterings.
        y : None
            Ignored; scikit-learn passes it.
        sample_weight : array-like of int, default=None
            How often each item counts, exactly as if its row were repeated; 0 removes it.
        """
        self._fit(X, sample_weight)
        return self

    def find_labels(self, ensemble: Ensemble) -> Any:
        """The consensus labels of an ensemble: what a method of your own has to provide.

        Parameters
        ----------
        ensemble : Ensemble
            The clusterings: ``partition(j)``, ``codes``, ``n_clusters``, ...

        Returns
        -------
        array-like of shape (n_samples,)
            One label per item; −1 for none.
        """
        raise NotImplementedError(f"{type(self).__name__} must define find_labels(self, ensemble).")

    def _fit(self, X: Any, sample_weight: Any) -> None:
        if sample_weight is not None:
            raise ValueError(f"sample_weight: {type(self).__name__} takes none; repeat the rows.")
        ensemble = self._check_input(X)
        self._check_n_clusters(ensemble.n_samples)
        labels, k = check_labels(self.find_labels(ensemble), ensemble.n_samples)
        v = self._resolve_weights(ensemble, None)
        self._keep_model(ensemble, None)
        self._store_partition(ensemble, labels, counts_of(ensemble, labels, k, None, self.engine), v)

    @contextmanager
    def _opened(self, X: Any, sample_weight: Any) -> Iterator[tuple[Ensemble, Rows, Engine]]:
        """Check the input and load it into the engine; sets ``n_features_in_`` and ``feature_names_in_``."""
        ensemble = self._check_input(X)
        with self._loaded(ensemble, sample_weight) as (rows, engine):
            yield ensemble, rows, engine

    @contextmanager
    def _loaded(self, ensemble: Ensemble, sample_weight: Any) -> Iterator[tuple[Rows, Engine]]:
        """The ensemble in its engine."""
        engine = resolve(self.engine, ensemble)
        _check_memory_place(engine, sample_weight=sample_weight, init=getattr(self, "init", None))
        # finding the number of items of a stored ensemble may take a pass over the file
        copies = None if sample_weight is None else check_copies(sample_weight, ensemble.n_samples, on_gpu=True)
        with engine.load(ensemble, copies) as rows:
            self._check_n_clusters(rows.n_rows)
            yield rows, engine

    def _integers(self, *names: str) -> list[int]:
        """Parameters that are numbers from 1 on."""
        return [check_integer(getattr(self, name), name) for name in names]

    def _check_n_clusters(self, n_samples: int) -> None:
        """Reject more clusters than items, as scikit-learn does, unless `n_clusters` is an upper limit or no number."""
        k = getattr(self, "n_clusters", None)
        if isinstance(k, int | np.integer) and n_samples < k and not getattr(self, "at_most", False):
            raise ValueError(
                f"n_samples={n_samples} should be >= n_clusters={k}; ask for at most {n_samples} clusters."
            )

    def _resolve_weights(self, ensemble: Ensemble, sample_weight: Any) -> np.ndarray:
        """The partition weights of a fit, scaled to mean 1."""
        weights = self.partition_weights
        if not isinstance(weights, str):  # does not need the number of items, which may take a pass to find
            return check_partition_weights(weights, ensemble.n_partitions)
        copies = check_copies(sample_weight, ensemble.n_samples)
        return resolve_partition_weights(weights, ensemble, copies, self.engine)

    def _check_input(self, X: Any) -> Ensemble:
        """`X` as an ensemble; sets ``n_features_in_`` and ``feature_names_in_``."""
        if isinstance(X, Ensemble):
            self.n_features_in_ = X.n_partitions
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return X
        X = _check_table(X)
        ensemble = Ensemble(X)
        if hasattr(X, "shape"):
            validate_data(self, X, skip_check_array=True)
        else:
            self.n_features_in_ = ensemble.n_partitions
        return ensemble

    def _check_new_rows(self, X: Any) -> Any:
        """Check that new rows have the partitions of `fit`, under the same names; lists are checked when coded."""
        check_is_fitted(self)
        if not isinstance(X, Ensemble):
            X = columns_by_name(_check_table(X), getattr(self, "feature_names_in_", None))
            if hasattr(X, "shape") and len(X.shape) == 2:
                validate_data(self, X, reset=False, skip_check_array=True)
        elif X.n_partitions != self.n_features_in_:
            name, asked = type(self).__name__, self.n_features_in_
            raise ValueError(f"X has {X.n_partitions} features, but {name} is expecting {asked} features as input.")
        return X

    def _keep_model(self, ensemble: Ensemble, table: ScoreTable | None) -> None:
        """Keep what `predict` needs: the label of each code, and the score table, None when there is no single one."""
        self._vocabulary = ensemble.vocabulary()
        self._table = table

    def _store_partition(self, ensemble: Ensemble, labels: Any, counts: Counts, v: np.ndarray) -> None:
        """Set ``labels_`` and the scores that follow from counts."""
        self.labels_ = mark_unlabelled(labels, ensemble)
        self._alpha, self._weights_of_partitions = counts.alpha, v  # for transform
        self.cluster_sizes_ = counts.sizes
        self.n_clusters_ = int(np.count_nonzero(counts.sizes))
        self.cluster_density_ = cluster_densities(counts, v)
        self.density_ = mean_density(counts.sizes, self.cluster_density_)

    def transform(self, X: Any) -> np.ndarray:
        r"""Membership strength of each row in each cluster: its mean co-association with the cluster's items.

        .. math:: M(i, C) = \frac{\sum_j v_j\, \alpha_{f_{ij}}(C)}{\sum_j v_j\, n_{Cj}}

        over the partitions that label the row. Items of `fit` count themselves among their cluster's items.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            Rows of base labels; labels unseen at fit count as missing.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Between 0 and 1; rows do not sum to 1. All 0 for a row without a single known label.

        Examples
        --------
        >>> import coassoc as ca
        >>> model = ca.KMeansConsensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 1]])
        >>> model.transform([[0, 0], [1, 1]]).round(2).tolist()
        [[0.25, 1.0], [0.75, 0.0]]
        """
        if is_on_gpu(X):
            raise TypeError("transform works in the host's memory, got X on the GPU; copy it to the host.")
        X = self._check_new_rows(X)
        ensemble = self._vocabulary.ensemble_of(X)
        if ensemble is None:
            return np.zeros((_n_rows(X), self._alpha.shape[1]))
        return membership_strengths(ensemble, self._alpha, self._weights_of_partitions)

    @property
    def _n_features_out(self) -> int:
        """Columns of `transform`, which scikit-learn names after the class."""
        return self._alpha.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


class PredictMixin(ConsensusEstimator):
    """`predict` for estimators that can label new rows."""

    def predict(self, X: Any) -> np.ndarray:
        """Consensus label of each row of base labels.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_samples, n_partitions)
            New rows, one column per clustering in the order of `fit`; columns of a frame are found by name where
            the model was fitted to one. Labels unseen at fit count as missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            −1 for rows without a single known label.
        """
        on_gpu = is_on_gpu(X)
        given = self._check_new_rows(X)
        ensemble = known_rows(self._vocabulary, given) if on_gpu else self._vocabulary.ensemble_of(given)
        if ensemble is None:  # no label of these rows was seen at fit
            return no_labels(X) if on_gpu else np.full(_n_rows(given), -1, dtype=np.int32)
        engine = resolve(self.engine, ensemble)
        _check_memory_place(engine, X=X)
        with engine.load(ensemble) as rows:
            return mark_unlabelled(self._labels_of(rows), ensemble)

    def _labels_of(self, rows: Rows) -> Any:
        """Labels of rows by the score table."""
        assert self._table is not None
        labelling = rows.labelling(self._table.n_clusters)
        rows.assign(labelling, self._table)
        return rows.labels(labelling)


def columns_by_name(X: Any, names: Any) -> Any:
    """The columns of a frame under the names of `fit`, in their order; `X` itself where one of the two has no names."""
    if names is None or not hasattr(X, "columns"):
        return X
    known = set(X.columns)
    lacking = [str(name) for name in names if name not in known]
    if lacking:
        raise ValueError(
            f"X lacks columns, by name, that the model was fitted with: {', '.join(lacking[:8])}"
            f"{' ...' if len(lacking) > 8 else ''}; rename those of X, or pass an array in the order of fit."
        )
    return X[list(names)]


def fit_to(model: Any, ensemble: Ensemble) -> Any:
    """Fit a consensus estimator, or any other clusterer on the label table (codes, −1 where missing)."""
    if isinstance(model, ConsensusEstimator):
        return model.fit(ensemble)
    return model.fit(np.column_stack([ensemble.partition(j) for j in range(ensemble.n_partitions)]))


def fitted_counts(model: Any, ensemble: Ensemble, labels: np.ndarray, order: np.ndarray, engine: Any) -> Counts:
    """Counts of the clusters of a fitted model, put in `order`; for other clusterers, counts of `labels`."""
    if isinstance(model, ConsensusEstimator):
        return Counts(model._alpha[:, order], model.cluster_sizes_[order], Layout.of(ensemble))
    return counts_of(ensemble, labels, len(order), None, engine)


def mark_unlabelled(labels: Any, ensemble: Ensemble) -> Any:
    """`labels` with −1 for the items without a label in any partition; a copy where there are such items."""
    if is_dask(labels):  # its workers have marked them already
        return labels
    labels = labels if is_on_gpu(labels) else np.asarray(labels)
    unlabelled = ensemble.unlabelled()
    if unlabelled is not None:
        labels = labels.copy()
        labels[unlabelled if is_on_gpu(labels) else on_host(unlabelled)] = -1
    return labels


def where_codes_are(values: np.ndarray, ensemble: Ensemble) -> Any:
    """An array of the host, on the GPU of the ensemble if it is on one."""
    return beside(values, ensemble.codes) if is_on_gpu(ensemble) else values


def look_up(numbers: np.ndarray, items: Any) -> Any:
    """``numbers[items]``, where `items` are: in the memory of this process, on a GPU or on a Dask cluster."""
    if is_dask(items):
        return items.map_blocks(numbers.__getitem__, dtype=numbers.dtype)
    return gpu_look_up(numbers, items) if is_on_gpu(items) else numbers[np.asarray(items)]


def on_host(values: Any) -> np.ndarray:
    """An array in the memory of this process."""
    return np.asarray(values.get() if is_on_gpu(values) else values)


def host_ensemble(ensemble: Any) -> Ensemble:
    """The ensemble with its codes in the memory of this process."""
    return ensemble.to_host() if is_on_gpu(ensemble) else ensemble


def _n_rows(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _check_table(X: Any) -> Any:
    """Reject complex numbers, with scikit-learn's message; objects that only convert to arrays are converted."""
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind == "c":
        raise ValueError(f"Complex data not supported: labels are whole numbers or strings, got {X.dtype}.")
    if not hasattr(X, "shape") and hasattr(X, "__array__"):
        return np.asarray(X)
    return X


def _check_memory_place(engine: Engine, **given: Any) -> None:
    """Reject arrays on the GPU for engines that work in the host's memory."""
    for name, array in given.items():
        if is_on_gpu(array) and engine.name != "cuda":
            raise TypeError(
                f"{name} is on the GPU, but engine {engine.name!r} works in the host's memory; copy it to the host, or "
                "pass engine=coassoc.engines.Cuda()."
            )
