"""One column of labels -> compact codes 0..k-1, with `k` standing for a missing label.

This is where labels are doubted: what comes out can be trusted by every kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

MISSING_RULES = ("negative", "nan", "cluster", "singletons")


@dataclass(frozen=True)
class Column:
    """Codes of one partition. `codes == n_clusters` marks a missing label."""

    codes: np.ndarray
    n_clusters: int
    categories: np.ndarray  # the label each code stands for
    has_missing: bool


def smallest_unsigned(n_values: int) -> np.dtype:
    """Smallest unsigned type that holds `n_values` different codes."""
    for name in ("uint8", "uint16", "uint32"):
        if n_values - 1 <= np.iinfo(name).max:
            return np.dtype(name)
    raise ValueError(f"a partition has {n_values} clusters; at most 2**32 - 1 are supported.")


def check_missing_rule(missing: str) -> None:
    if not isinstance(missing, str) or missing not in MISSING_RULES:
        raise ValueError(f"missing must be one of {MISSING_RULES}, got {missing!r}.")


def encode_column(
    values: Any, nulls: np.ndarray | None, name: str, missing: str = "negative", *, allow_empty: bool = False
) -> Column:
    """Codes of one label vector; `nulls` marks cells the container itself calls null.

    A vector without a single label is an error unless `allow_empty`.
    """
    values, nulls = _labels_and_nulls(np.asarray(values), nulls, name)
    if missing != "nan" and values.dtype.kind == "i":
        negative = values < 0
        if negative.any():
            nulls = negative if nulls is None else nulls | negative
    if nulls is None:
        return _recode(values)
    if nulls.all() and not allow_empty and missing not in ("cluster", "singletons"):
        raise ValueError(f"partitions: column {name} has no label at all (every entry is missing); drop that column.")
    seen = _recode(values[~nulls]) if not nulls.all() else Column(np.empty(0, np.intp), 0, values[:0], False)
    return _place_missing(seen, nulls, missing)


def _place_missing(seen: Column, nulls: np.ndarray, missing: str) -> Column:
    """Put the observed codes back among the missing ones, as the rule says."""
    k = seen.n_clusters
    codes = np.full(nulls.shape, k, dtype=np.intp)
    codes[~nulls] = seen.codes
    if missing == "cluster":
        return Column(codes, k + 1, seen.categories, False)
    if missing == "singletons":
        n_missing = int(nulls.sum())
        codes[nulls] = k + np.arange(n_missing)
        return Column(codes, k + n_missing, seen.categories, False)
    return Column(codes, k, seen.categories, True)


def _labels_and_nulls(values: np.ndarray, nulls: np.ndarray | None, name: str):
    """Labels as an integer or string array, and where they are null (None when nowhere)."""
    kind = values.dtype.kind
    if kind in "iu":
        return values, nulls
    if kind == "b":
        return values.view(np.uint8), nulls
    if kind == "f":
        return _from_floats(values, nulls, name)
    if kind in "US":
        return values, nulls
    if kind == "T":  # NumPy 2 variable-width strings
        return _from_objects(values.astype(object), nulls, name)
    if kind == "O":
        return _from_objects(values, nulls, name)
    if kind in "mM":
        nat = np.isnat(values)
        return values.view(np.int64).view(np.uint64), _either(nulls, nat)
    raise TypeError(
        f"partitions: column {name} has dtype {values.dtype}; labels must be integers, strings, booleans "
        "or whole floats with NaN for missing."
    )


def _from_floats(values: np.ndarray, nulls: np.ndarray | None, name: str):
    nan = np.isnan(values)
    if nulls is not None:
        nan |= nulls
    whole = np.where(nan, 0.0, values)
    if np.isinf(whole).any():
        row = int(np.flatnonzero(np.isinf(whole))[0])
        raise ValueError(
            f"partitions must not contain infinity: column {name}, row {row} is {values[row]}; "
            "use NaN for a missing label."
        )
    fractional = whole != np.floor(whole)
    if fractional.any():
        row = int(np.flatnonzero(fractional)[0])
        raise ValueError(
            f"partitions must hold labels, not measurements: column {name}, row {row} is {values[row]}; "
            "labels are whole numbers or strings. To cluster features, use make_ensemble(X) or "
            "ConsensusClustering."
        )
    if (np.abs(whole) >= 2.0**63).any():
        raise ValueError(f"partitions: column {name} has a label beyond 64-bit integers.")
    return whole.astype(np.int64), (nan if nan.any() else None)


def _from_objects(values: np.ndarray, nulls: np.ndarray | None, name: str):
    """Python objects: None, NaN and NA are null; whole numbers compare as numbers, the rest as strings."""
    null = _either(nulls, np.fromiter((_is_null(v) for v in values), dtype=bool, count=len(values)))
    known = values if null is None else values[~null]
    kinds = {_object_kind(v, name) for v in set(map(type, known))}
    if kinds <= {"number"}:
        numbers = np.zeros(len(values), dtype=np.float64)
        as_float = np.array([float(v) for v in known], dtype=np.float64)
        if all(abs(v) < 2.0**53 for v in as_float):
            numbers[slice(None) if null is None else ~null] = as_float
            return _from_floats(numbers, null, name)
        whole = np.zeros(len(values), dtype=np.int64)
        whole[slice(None) if null is None else ~null] = [int(v) for v in known]
        return whole, null
    out = np.full(len(values), "", dtype=object)
    # a number and its string stay different labels: 1 and "1" are tagged by their kind
    mixed = len(kinds) > 1
    tags = [f"{_object_kind(type(v), name)}:{v}" if mixed else str(v) for v in known]
    out[slice(None) if null is None else ~null] = tags
    return out.astype(np.str_), null


def _is_null(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _object_kind(kind: type, name: str) -> str:
    if issubclass(kind, (bool, int, float, np.number, np.bool_)):
        return "number"
    if issubclass(kind, (str, bytes)):
        return "string"
    if issubclass(kind, (complex, list, tuple, dict, set, np.ndarray)):
        raise TypeError(
            f"partitions: column {name} holds a {kind.__name__}; each label must be an integer or a string."
        )
    return "string"


def _either(first: np.ndarray | None, second: np.ndarray) -> np.ndarray | None:
    both = second if first is None else first | second
    return both if both.any() else None


def _recode(values: np.ndarray) -> Column:
    """Codes of fully observed labels, in the sorted order of the labels."""
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        # a counting pass beats sorting while the range of labels is of the order of n
        if high - low < max(4 * len(values), 1 << 16):
            shifted = values if low == 0 and values.dtype.kind == "u" else values.astype(np.int64) - low
            used = np.flatnonzero(np.bincount(shifted, minlength=high - low + 1))
            if len(used) == high - low + 1:
                return Column(shifted, len(used), used + low, False)
            rank = np.zeros(high - low + 1, dtype=np.intp)
            rank[used] = np.arange(len(used))
            return Column(rank[shifted], len(used), used + low, False)
    categories, codes = np.unique(values, return_inverse=True)
    return Column(codes, len(categories), categories, False)
