"""Adding items and partitions to a fitted consensus, which is the start of the next fit."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.counts import smallest_unsigned
from ..engines import Engine, Rows
from ..ensemble import Ensemble, check_ensemble
from ..ensemble.ensemble import is_on_gpu
from ..metrics.labels import check_copies

# ensemble and multiplicities of estimators that grow, None while a fit is to be kept; never saved or pickled
_GROWING: weakref.WeakKeyDictionary[Any, tuple[Ensemble, np.ndarray | None] | None] = weakref.WeakKeyDictionary()


class GrowingMixin:
    """`partial_fit` adds rows and `add_partitions` adds columns; both start from the present consensus.

    Only `partial_fit` keeps the ensemble: after `fit` no training data is kept.
    """

    init: Any

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None):
        """Add items and update the consensus, starting from the present one; the first call fits `X` and keeps it.

        New items start in the cluster `predict` gives them; labels never seen before become new base clusters.

        Parameters
        ----------
        X : Ensemble or label table of shape (n_new, n_partitions)
            The same base partitions on new items.
        y : None
            Ignored; scikit-learn passes it.
        sample_weight : array-like of int, default=None
            How often each new item counts.

        Returns
        -------
        self
            ``labels_`` holds the items of all calls, in the order given.
        """
        if _GROWING.get(self) is None:
            if hasattr(self, "labels_"):
                warnings.warn(
                    "partial_fit starts anew: fit keeps no items, nor does a saved, pickled or copied model. Make "
                    "the first fit with partial_fit, or call fit with all items and init=model.labels_.",
                    stacklevel=2,
                )
            _GROWING[self] = None
            return self.fit(X, y, sample_weight=sample_weight)  # type: ignore[attr-defined]
        before, copies = self._fitted_on("partial_fit")
        new = check_ensemble(self._check_new_rows(X))  # type: ignore[attr-defined]
        start = np.concatenate([self.labels_, self.predict(new)])  # type: ignore[attr-defined]
        if copies is not None or sample_weight is not None:
            pairs = ((copies, before.n_samples), (check_copies(sample_weight, new.n_samples), new.n_samples))
            copies = np.concatenate([np.ones(n, np.int64) if one is None else one for one, n in pairs])
        return self._refit(stack_rows(before, new), start, copies)

    def add_partitions(self, partitions: Any):
        """Add base partitions of the same items and update the consensus, starting from the present one.

        Parameters
        ----------
        partitions : Ensemble, label table of shape (n_samples, n_new) or label vector of shape (n_samples,)
            More clusterings of the items of `partial_fit`, in the same order.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        before, copies = self._fitted_on("add_partitions")
        if not isinstance(partitions, Ensemble) and np.ndim(partitions) == 1:
            partitions = Ensemble.from_partitions([partitions])
        return self._refit(stack_columns(before, check_ensemble(partitions)), self.labels_, copies)  # type: ignore[attr-defined]

    def _refit(self, ensemble: Ensemble, start: np.ndarray, copies: np.ndarray | None):
        given = self.init
        self.init = start
        _GROWING[self] = None
        try:
            return self.fit(ensemble, sample_weight=copies)  # type: ignore[attr-defined]
        finally:
            self.init = given

    @contextmanager
    def _opened(self, X: Any, sample_weight: Any) -> Iterator[tuple[Ensemble, Rows, Engine]]:
        keep = self in _GROWING and _GROWING.pop(self) is None
        with super()._opened(X, sample_weight) as opened:  # type: ignore[misc]
            if keep:
                _GROWING[self] = (opened[0], check_copies(sample_weight, opened[0].n_samples, on_gpu=True))
            yield opened

    @property
    def _is_growing(self) -> bool:
        return self in _GROWING

    def _fitted_on(self, method: str) -> tuple[Ensemble, np.ndarray | None]:
        kept = _GROWING.get(self)
        way_out = "call fit with all of it and init=model.labels_ to start from the present consensus"
        if kept is None:
            raise ValueError(
                f"{method} needs the ensemble of the last fit, which fit does not keep, nor does a saved, pickled or "
                f"copied model; make the first fit with partial_fit, or {way_out}."
            )
        if any(map(is_on_gpu, kept)):
            raise TypeError(
                f"{method} needs items in the host's memory, got an ensemble or sample_weight on the GPU; {way_out}."
            )
        return kept


def stack_rows(first: Ensemble, second: Ensemble) -> Ensemble:
    """The items of two ensembles over the same partitions; codes are matched by their labels."""
    categories, sizes, lookups = [], [], []
    for old, new in zip(first.categories, second.categories):
        known = {label: code for code, label in enumerate(old.tolist())}
        places = [known.setdefault(label, len(known)) for label in new.tolist()]
        more = [label for label, code in known.items() if code >= len(old)]
        categories.append(np.concatenate([old, np.array(more, dtype=new.dtype)]) if more else old)
        sizes.append(len(known))
        lookups.append(np.array([*places, len(known)]))
    codes = np.empty((first.n_samples + second.n_samples, first.n_partitions), dtype=smallest_unsigned(max(sizes) + 1))
    for j, lookup in enumerate(lookups):
        above = first.codes[:, j].astype(np.int64)
        above[above == first.n_clusters[j]] = sizes[j]
        codes[: first.n_samples, j] = above
        codes[first.n_samples :, j] = lookup[np.minimum(second.codes[:, j], len(lookup) - 1)]
    return Ensemble.from_codes(codes, sizes, names=first.names, categories=categories)


def stack_columns(first: Ensemble, second: Ensemble) -> Ensemble:
    """The partitions of two ensembles over the same items."""
    if first.n_samples != second.n_samples:
        raise ValueError(f"partitions must label the {first.n_samples} items of fit, got {second.n_samples} rows.")
    names = [*first.names]
    for name in second.names:
        names.append(name if name not in names else str(len(names)))
    return Ensemble.from_codes(
        np.concatenate([first.codes, second.codes], axis=1),
        np.concatenate([first.n_clusters, second.n_clusters]),
        names=names,
        categories=[*first.categories, *second.categories],
    )
