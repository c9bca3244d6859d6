"""ConsensusClustering: features in, consensus out, usable where KMeans is."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.checks import check_integer, seed_from
from ..ensemble import Ensemble
from ..ensemble.generate import check_clusterers, check_columns, one_thread, plan, run_partitions
from ..metrics import density
from ..metrics.profiles import ProfileMixin
from .auto.estimator import Consensus
from .auto.verdict import CANNOT_KNOW
from .base import columns_by_name
from .persist import SaveMixin
from .registry import make_method


def _can_predict(self: ConsensusClustering) -> bool:
    """Every base clusterer and the consensus method must be able to label new rows."""
    clusterers = check_clusterers(self.clusterer, 1)
    method = self.method if hasattr(self.method, "fit") else make_method(self.method or "auto")
    lacking = [model for model in (*clusterers, method) if not hasattr(model, "predict")]
    if lacking:
        raise AttributeError(f"{type(lacking[0]).__name__} has no predict, so new rows cannot be labelled.")
    return True


def _warn_if_all_the_same(ensemble: Ensemble) -> None:
    """Warn when the clusterings are equal: their consensus is any one of them, and nothing was tested."""
    codes = ensemble.codes
    if codes.shape[1] > 1 and (codes == codes[:, :1]).all() and (ensemble.n_clusters == ensemble.n_clusters[0]).all():
        warnings.warn(
            f"all {codes.shape[1]} clusterings are the same, so their consensus tells nothing more than one of "
            "them. Vary them: sample_fraction=0.8, feature_fraction=0.8, base_n_clusters=(low, high), or a list of "
            "clusterers with several settings.",
            stacklevel=3,
        )


class ConsensusClustering(SaveMixin, ProfileMixin, ClusterMixin, BaseEstimator):
    r"""Cluster features many times, then find the consensus of those clusterings.

    Usable in place of :class:`sklearn.cluster.KMeans`: :math:`p` clusterings with :math:`k_j` drawn uniformly from
    :math:`[k, \max(k, \lfloor\min(\sqrt n, 100)\rfloor)]` become an :class:`Ensemble`, and a consensus method finds
    the :math:`k` clusters that agree with them.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Clusters of the consensus. ``"auto"``, for methods that choose them, draws clusterings of 2 clusters on.
    n_partitions : int, default=20
        Clusterings.
    clusterer : scikit-learn clusterer, list of them or None, default=None
        Makes the clusterings; those of a list take turns. ``n_clusters`` (or ``n_components``) and
        ``random_state`` are set where it has them; noise (−1) is a missing label. None is k-means.
    base_n_clusters : int, (int, int) or None, default=None
        Clusters of each clustering, or the range it is drawn from: ``n_clusters`` of :func:`make_ensemble`.
        None is the range above.
    method : str, consensus estimator or None, default=None
        How the consensus is found: a name ("kmeans", "bisecting", "sec", ...) or an estimator, whose ``n_clusters``
        and ``random_state`` are set where it has them. None is "auto": :class:`Consensus`, which chooses.
    feature_fraction : float, default=1.0
        Share of the features each clustering sees.
    sample_fraction : float, default=1.0
        Share of the rows each clustering is fitted on; the others have no label in it.
    n_init : int, default=1
        Restarts of the default base k-means.
    n_jobs : int or None, default=None
        Number of processes that make clusterings. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of everything.
    engine : {"auto", "numpy", "native", "cuda", "stream", "dask"} or Engine, default="auto"
        Where the passes of the consensus run.
    verbose : int, default=0
        Print progress.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Consensus labels.
    ensemble_, consensus_ : Ensemble, estimator
        The base clusterings; the fitted consensus method.
    base_models_, base_features_ : list
        The fitted base clusterers; the features each of them saw, None for all.
    verdict_, confidence_ : str, ndarray of shape (n_samples,)
        What the consensus says about itself and about each item, where the method is :class:`Consensus`.
    n_clusters_ : int
        Clusters that hold items.
    density_ : float
        Density S of the partition; it says nothing about true classes.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of features at `fit`, and their names where `X` has string column names.

    Notes
    -----
    Time is that of `n_partitions` clusterings; the consensus adds little. Base models are kept for
    `predict`, which every base clusterer and the method must then have.

    References
    ----------
    .. [1] A. L. N. Fred and A. K. Jain, "Combining multiple clusterings using evidence accumulation", IEEE TPAMI
       27(6), 2005, https://doi.org/10.1109/TPAMI.2005.113

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import coassoc as ca
    >>> X, y = make_blobs(150, centers=3, random_state=0, cluster_std=0.5)
    >>> model = ca.ConsensusClustering(3, random_state=0).fit(X)
    >>> round(ca.nmi(y, model.labels_), 2)
    1.0
    """

    def __init__(
        self, n_clusters: Any = 8, *, n_partitions: int = 20, clusterer: Any = None, base_n_clusters: Any = None,
        method: Any = None, feature_fraction: float = 1.0, sample_fraction: float = 1.0, n_init: int = 1,
        n_jobs: Any = None, random_state: Any = None, engine: Any = "auto", verbose: int = 0,
    ) -> None:  # fmt: skip
        self.n_clusters = n_clusters
        self.n_partitions = n_partitions
        self.clusterer = clusterer
        self.base_n_clusters = base_n_clusters
        self.method = method
        self.feature_fraction = feature_fraction
        self.sample_fraction = sample_fraction
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> ConsensusClustering:
        """Make the clusterings and find their consensus.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : None
            Ignored; scikit-learn passes it.

        Returns
        -------
        self
        """
        chosen = isinstance(self.n_clusters, str) and self.n_clusters == "auto"
        k = 2 if chosen else check_integer(self.n_clusters, "n_clusters")
        n_partitions = check_integer(self.n_partitions, "n_partitions")
        seed = seed_from(self.random_state)
        method = self._method("auto" if chosen else k, seed)
        check_columns(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        if k > X.shape[0]:
            raise ValueError(f"n_samples={X.shape[0]} should be >= n_clusters={k}.")
        clusterers = check_clusterers(self.clusterer, self.n_init)
        fractions = self.feature_fraction, self.sample_fraction
        recipe = plan(X.shape, self.base_n_clusters, k, clusterers, *fractions, "missing", None, "base_n_clusters")
        vectors, self.base_models_, self.base_features_ = [], [], []
        for labels, model, columns in run_partitions(X, recipe, n_partitions, seed, self.n_jobs, keep_models=True):
            vectors.append(labels)
            self.base_models_.append(model)
            self.base_features_.append(columns)
            if self.verbose:
                print(f"ConsensusClustering: clustering {len(vectors)} of {n_partitions}")
        self.ensemble_ = Ensemble.from_partitions(vectors)
        _warn_if_all_the_same(self.ensemble_)
        chooses = isinstance(method, Consensus)
        self.consensus_ = method.fit(self.ensemble_, **({"features": X} if chooses else {}))
        self.labels_ = np.asarray(self.consensus_.labels_)
        if chooses:
            self.verdict_, self.confidence_ = self.consensus_.verdict_, self.consensus_.confidence_
            if self.verdict_.endswith(CANNOT_KNOW):
                self.verdict_ += " coassoc.select_k(X) compares them with such data."
        self.n_clusters_ = len(np.unique(self.labels_[self.labels_ >= 0]))
        self.density_ = density(self.ensemble_, self.labels_, engine=self.engine)
        return self

    @available_if(_can_predict)
    def predict(self, X: Any) -> np.ndarray:
        """Label new rows: each base model labels them, and the consensus reads those labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features; columns of a frame are found by name where the model was fitted to one.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = columns_by_name(X, getattr(self, "feature_names_in_", None))
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        with one_thread():
            labels = [
                model.predict(X if columns is None else X[:, columns])
                for model, columns in zip(self.base_models_, self.base_features_)
            ]
        return self.consensus_.predict(np.column_stack(labels))

    def _method(self, k: int | str, seed: int) -> Any:
        """The consensus estimator, with number of clusters, seed and engine set."""
        settings = {"n_clusters": k, "random_state": seed, "engine": self.engine}
        if self.method is None or isinstance(self.method, str):
            return make_method(self.method or "auto", **settings)
        if isinstance(self.method, type) or not (hasattr(self.method, "fit") and hasattr(self.method, "get_params")):
            raise TypeError(f"method must be a name or a consensus estimator, got {self.method!r}.")
        method = clone(self.method)
        known = method.get_params(deep=False)
        del settings["engine"]  # an estimator brings its own
        return method.set_params(**{name: value for name, value in settings.items() if name in known})

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        clusterers = self.clusterer if isinstance(self.clusterer, (list, tuple)) else [self.clusterer]
        # scikit-learn asks for tags before `fit` checks that these are clusterers
        tags.input_tags.sparse = all(
            model is None or (isinstance(model, BaseEstimator) and get_tags(model).input_tags.sparse)
            for model in clusterers
        )
        return tags
