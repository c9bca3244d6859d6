"""What tells clusters apart: means and shares of features in each cluster against the rest."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ensemble.tables import Columns
from .labels import check_labels

_MOST_CATEGORIES = 50  # a column with more different strings names items


def profile(labels: Any, X: Any, feature_names: Sequence[str] | None = None, *, n_features: int | None = 5) -> Columns:
    r"""The features that tell each cluster apart from the rest.

    A number is described by its mean, a category by its share, inside the cluster and in all other clusters. The effect
    size is Cohen's d: the difference over the pooled standard deviation (of a category, that of its 0 and 1).

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Clusters; items with −1 take no part.
    X : array-like, sparse matrix, data frame or AnnData of shape (n_samples, n_features)
        Features of the items. Strings, categories and booleans of a data frame are categories; columns of more than 50
        different strings are left out with a warning. Missing values are left out.
    feature_names : list of str, optional
        Names of the features; by default those of `X`, else x0, x1, ...
    n_features : int or None, default=5
        Features per cluster, those with the largest effect first; None is all.

    Returns
    -------
    dict of str to ndarray, with ``to_frame(kind="pandas")``
        One row per cluster and feature: ``cluster``, ``size`` of the cluster, ``feature`` (``column=category`` for
        categories), ``inside`` and ``rest`` (means or shares), ``difference`` and ``effect``.

    Examples
    --------
    >>> import coassoc as ca
    >>> table = ca.profile([0, 0, 1, 1], [[1, 5], [2, 6], [8, 5], [9, 6]], ["age", "size"], n_features=1)
    >>> table["feature"].tolist(), table["inside"].tolist(), table["rest"].tolist()
    (['age', 'age'], [1.5, 8.5], [8.5, 1.5])
    """
    names, values = _feature_matrix(X, feature_names)
    codes, k = check_labels(labels, None)
    check_rows(values, len(codes), "X")
    shift, counts, sums, squares = _moments(values, codes, k)
    inside, within = _mean_and_spread(counts, sums, squares)
    rest, beyond = _mean_and_spread(*(moment.sum(axis=0) - moment for moment in (counts, sums, squares)))
    difference = inside - rest
    pooled = np.sqrt((within + beyond) / np.maximum(counts.sum(axis=0) - 2, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(difference == 0, 0.0, difference / pooled)
    ranked = np.argsort(-np.nan_to_num(np.abs(effect), nan=-1.0), axis=1, kind="stable")[:, :n_features]
    at = np.repeat(np.arange(k), ranked.shape[1]), ranked.ravel()
    first = [int(np.argmax(codes == c)) for c in range(k)]
    return Columns(
        cluster=np.asarray(labels)[first][at[0]],
        size=np.bincount(codes[codes >= 0], minlength=k)[at[0]],
        feature=np.array(names, dtype=object)[at[1]],
        inside=(inside + shift)[at],
        rest=(rest + shift)[at],
        difference=difference[at],
        effect=effect[at],
    )


class ProfileMixin:
    """`profile` for fitted clusterers."""

    labels_: Any

    def profile(self, X: Any, feature_names: Sequence[str] | None = None, *, n_features: int | None = 5) -> Columns:
        """:func:`coassoc.profile` of ``labels_``: the features, of the items of `fit`, that tell clusters apart."""
        return profile(self.labels_, X, feature_names, n_features=n_features)


def _moments(values: Any, codes: np.ndarray, k: int) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """What was subtracted from each feature; then numbers of values, sums and sums of squares (k, m)."""
    from scipy.sparse import csr_matrix, issparse

    rows = np.flatnonzero(codes >= 0)
    member = csr_matrix((np.ones(len(rows)), (codes[rows], rows)), shape=(k, len(codes)))
    if issparse(values):
        counts = np.repeat(np.bincount(codes[rows], minlength=k)[:, None].astype(np.float64), values.shape[1], axis=1)
        return 0.0, counts, (member @ values).toarray(), (member @ values.multiply(values)).toarray()
    known = ~np.isnan(values)
    # near 0, squares lose no digits; the first value, so that a constant feature is exactly 0
    shift = np.nan_to_num(np.take_along_axis(values, known.argmax(axis=0)[None], axis=0)[0])
    moved = np.where(known, values - shift, 0.0)
    return shift, member @ known.astype(np.float64), member @ moved, member @ moved**2


def check_rows(features: Any, n_items: int, name: str = "features") -> None:
    """Refuse features of fewer or more items."""
    n_rows = features.shape[0] if hasattr(features, "shape") else len(features)
    if n_rows != n_items:
        raise ValueError(f"{name} must have a row for each of the {n_items} items, got {n_rows}.")


def _mean_and_spread(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (NaN of nothing) and sums of squared deviations."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(counts > 0, sums / counts, np.nan)
    return means, np.maximum(squares - np.nan_to_num(means) * sums, 0.0)


def _feature_matrix(X: Any, feature_names: Sequence[str] | None) -> tuple[list[str], Any]:
    """Names and numbers (n, m) of the features, one 0/1 column per category; sparse stays sparse."""
    if hasattr(X, "var_names") and hasattr(X, "X"):  # AnnData
        return _feature_matrix(X.X, list(X.var_names) if feature_names is None else feature_names)
    if hasattr(X, "columns"):
        frame = X if hasattr(X, "iloc") else X.to_pandas()
        return _frame_columns(frame, _names_of(frame, feature_names or frame.columns))
    values = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    if values.ndim != 2:
        raise ValueError(f"X must have shape (n_samples, n_features), got {values.shape}.")
    if values.dtype.kind not in "iufb":
        raise TypeError(f"X must hold numbers, got {values.dtype}; pass categories in a data frame.")
    given = feature_names if feature_names is not None else [f"x{j}" for j in range(values.shape[1])]
    return _names_of(values, given), values.astype(np.float64)


def _names_of(values: Any, names: Sequence[Any]) -> list[str]:
    if len(names) != values.shape[1]:
        raise ValueError(f"feature_names must have one entry per feature ({values.shape[1]}), got {len(names)}.")
    return [str(name) for name in names]


def _frame_columns(frame: Any, names: list[str]) -> tuple[list[str], np.ndarray]:
    """Numbers as they are, categories as 0/1 columns; missing values are NaN."""
    columns: list[tuple[str, np.ndarray]] = []
    left_out = []
    for j, name in enumerate(names):
        series = frame.iloc[:, j]
        if series.dtype.kind in "iuf":  # also of nullable columns
            columns.append((name, series.to_numpy(dtype=np.float64, na_value=np.nan)))
            continue
        levels = series.dropna().unique()
        if len(levels) > _MOST_CATEGORIES:
            left_out.append(name)
            continue
        for level in sorted(levels, key=str):
            is_level = (series == level).fillna(False).to_numpy(dtype=np.float64)
            columns.append((f"{name}={level}", np.where(series.isna(), np.nan, is_level)))
    if left_out:
        warnings.warn(
            f"X: columns with more than {_MOST_CATEGORIES} different values are left out: {', '.join(left_out)}.",
            stacklevel=4,
        )
    if not columns:
        raise ValueError("X must have at least one column of numbers or of few categories, got none.")
    found, values = zip(*columns)
    return list(found), np.column_stack(values)
