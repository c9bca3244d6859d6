"""Labels, multiplicities and new rows on a GPU: validated and coded there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.counts import smallest_unsigned
from ..engines.cuda import device as _cuda_device
from .gpu import DeviceEnsemble, ensemble_from_device
from .vocabulary import Vocabulary

_MOST = 1 << 22  # labels on a GPU must be below: a lookup table has one entry for each
_PART = 1 << 24  # items coded at a time


def labels_on_gpu(labels: Any, n_samples: int | None, name: str) -> tuple[Any, int]:
    """What `check_labels` gives, int32 on the GPU: codes 0..k-1 in the order of the labels, −1 where negative."""
    device = _cuda_device.device_of(labels)
    labels = device.adopt(labels)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {labels.shape}.")
    if len(labels) == 0 or (n_samples is not None and len(labels) != n_samples):
        wanted = "at least one entry" if n_samples is None else f"one entry per item ({n_samples})"
        raise ValueError(f"{name} must have {wanted}, got {len(labels)}.")
    if labels.dtype.kind not in "iu":
        raise TypeError(f"{name} on a GPU must hold integers, got {labels.dtype}; copy it to the host.")
    highest = int(device.get(labels.max()))
    if not 0 <= highest < _MOST:
        wanted = "have a label that is not negative" if highest < 0 else f"be below {_MOST}"
        raise ValueError(f"{name} on a GPU must {wanted}, got {highest}.")
    seen = device.zeros(highest + 2, np.uint8)
    for _, part in _parts(labels, highest + 1):
        seen[part] = 1
    found = np.flatnonzero(device.get(seen)[:-1])
    numbers = np.full(highest + 2, -1, np.int32)
    numbers[found] = np.arange(len(found))
    on_gpu, codes = device.put(numbers), device.empty(len(labels), np.int32)
    for where, part in _parts(labels, highest + 1):
        codes[where] = device.take(on_gpu, part)
    return codes, len(found)


def _parts(labels: Any, missing: int) -> Iterator[tuple[slice, Any]]:
    """Labels as indices, `missing` for negative ones, part after part."""
    for start in range(0, len(labels), _PART):
        where = slice(start, min(start + _PART, len(labels)))
        part = labels[where].astype(np.int32)
        part[labels[where] < 0] = missing
        yield where, part


def copies_on_gpu(weight: Any, n_samples: int, check_range: Callable[[int, int], None]) -> Any:
    """Multiplicities as uint32 on the GPU; a single number comes back as a host array, unchecked."""
    device = _cuda_device.device_of(weight)
    weight = device.adopt(weight)
    if weight.ndim == 0:
        return device.get(weight)
    if weight.dtype.kind not in "iubf":
        raise TypeError(f"sample_weight must hold whole numbers, got an array of {weight.dtype}.")
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {weight.shape}.")
    if weight.dtype.kind == "f" and int(device.get((weight % 1 != 0).sum())):  # NaN and infinity leave NaN
        raise ValueError(
            "sample_weight must hold whole numbers (how often each item counts); scale your weights to integers."
        )
    lowest, highest = int(device.get(weight.min())), int(device.get(weight.max()))
    check_range(lowest, highest)
    return None if lowest == highest == 1 else weight.astype(np.uint32)


def known_rows(vocabulary: Vocabulary, X: Any) -> DeviceEnsemble | None:
    """`Vocabulary.ensemble_of` for rows on a GPU; the codes are not copied when they are those of the vocabulary."""
    if not isinstance(X, DeviceEnsemble):
        device = _cuda_device.device_of(X)
        X = device.adopt(X)
        if X.size and X.dtype.kind == "i" and int(device.get(X.max())) < 0:
            return None
        X = DeviceEnsemble(X, device=device)
    device, lookups, as_is, any_known = X.device, [], True, False
    for j, labels in enumerate(X.categories):
        lookup = vocabulary.lookup(j, labels)
        occurs = np.append(X.sizes[X.offsets[j] : X.offsets[j + 1]] > 0, X.has_missing)
        as_is = as_is and bool((lookup == np.arange(len(lookup)))[occurs].all())
        any_known = any_known or bool((lookup[occurs] < vocabulary.n_clusters[j]).any())
        lookups.append(lookup)
    if not any_known:
        return None
    codes = X.codes
    if not as_is:
        codes = device.empty(X.codes.shape, smallest_unsigned(int(vocabulary.n_clusters.max()) + 1))
        for j, lookup in enumerate(lookups):
            on_gpu = device.put(lookup.astype(codes.dtype))
            codes[:, j] = device.take(on_gpu, X.codes[:, j].astype(np.int32))
    names, categories = vocabulary.names, vocabulary.categories
    return ensemble_from_device(codes, vocabulary.n_clusters, device, names=names, categories=categories)


def no_labels(X: Any) -> Any:
    """−1 for every row of `X`, on its GPU."""
    device = X.device if isinstance(X, DeviceEnsemble) else _cuda_device.device_of(X)
    labels = device.zeros(X.n_samples if isinstance(X, DeviceEnsemble) else X.shape[0], np.int32)
    labels.fill(-1)
    return labels
