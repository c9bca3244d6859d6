"""One column of labels -> indices 0..k-1 into its different labels, −1 where missing; and tables of such codes.

Labels are validated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import check_choice
from ..core.counts import smallest_unsigned
from ..engines import native

_SCAN_BYTES = 1 << 24  # rows of codes are scanned in pieces of about this size
_BLOCK_CELLS = 1 << 17  # cells of codes that are counted at a time
MISSING_RULES = ("negative", "nan", "cluster", "singletons")


@dataclass(frozen=True)
class Dictionary:
    """A column given as indices into a short list of different labels, −1 where null: how files store categories."""

    indices: np.ndarray  # integers
    labels: np.ndarray  # the label of each index; repeated and unused labels are allowed

    ndim = 1

    def __len__(self) -> int:
        return len(self.indices)

    def counts(self) -> tuple[np.ndarray, int]:
        """How often each label occurs, and how many are missing."""
        counts = np.bincount(self.indices + 1, minlength=len(self.labels) + 1)
        return counts[1:], int(counts[0])

    @classmethod
    def join(cls, parts: Iterable[Dictionary]) -> Dictionary:
        """The pieces of one column together; each label is listed once."""
        known: dict[Any, int] = {}
        pieces = [np.empty(0, dtype=np.int32)]
        for part in parts:
            places = [known.setdefault(label, len(known)) for label in part.labels.tolist()]
            pieces.append(np.array([*places, -1], dtype=np.int32)[part.indices])
        return cls(np.concatenate(pieces), label_array(list(known)))

    def values(self) -> np.ndarray:
        """Labels of all rows, None where null."""
        if (self.indices >= 0).all():
            return self.labels[self.indices]
        return np.append(self.labels.astype(object), [None])[self.indices]


@dataclass(frozen=True)
class Tally:
    """The labels of one column, sorted, how often each occurs, and how many are missing."""

    labels: np.ndarray
    counts: np.ndarray
    missing: int


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """An object array of these values, whatever they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def label_array(labels: Sequence[Any]) -> np.ndarray:
    """Integers of 64 bits as an integer array, other labels as objects."""
    if all(isinstance(label, int) and -(1 << 63) <= label < 1 << 63 for label in labels):
        return np.array(labels, dtype=np.int64)
    return as_objects(labels)


def check_missing_rule(missing: str) -> None:
    check_choice(missing, "missing", MISSING_RULES)


def no_label(name: str) -> ValueError:
    return ValueError(f"partitions: column {name} has no label at all (every entry is missing); drop that column.")


def sorted_labels(labels: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The different labels, numbers before text, and the place of each label among them."""
    ordered = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
    where = {label: i for i, label in enumerate(ordered)}
    return as_objects(ordered), np.fromiter(map(where.__getitem__, labels), dtype=np.intp, count=len(labels))


def encode_column(
    values: Any,
    nulls: np.ndarray | None,
    name: str,
    missing: str = "negative",
    *,
    allow_empty: bool = False,
    first_row: int = 0,
) -> Dictionary:
    """One label vector as indices into its sorted labels; `nulls` marks cells the container itself calls null.

    A vector without a single label is an error unless `allow_empty`. Messages count rows from `first_row`.
    """
    if isinstance(values, Dictionary):
        indices, labels = _from_dictionary(values, name, missing)
    else:
        masked = np.ma.getmaskarray(values)
        nulls = masked if nulls is None else nulls | masked
        values, nulls = _labels_and_nulls(np.ma.getdata(values), nulls, name, first_row)
        indices, labels = _recode(values, nulls, missing != "nan")
    absent = indices < 0
    if not absent.any():
        return Dictionary(indices, labels)
    if missing == "cluster":  # None is the label of that cluster, so that new rows find it
        indices[absent] = len(labels)
        return Dictionary(indices, np.append(labels.astype(object), [None]))
    if missing == "singletons":  # NaN is no label: no new row belongs to a lone item
        n_absent = int(absent.sum())
        indices[absent] = len(labels) + np.arange(n_absent)
        return Dictionary(indices, np.append(labels.astype(object), [np.nan] * n_absent))
    if not len(labels) and not allow_empty:
        raise no_label(name)
    return Dictionary(indices, labels)


def _from_dictionary(column: Dictionary, name: str, missing: str) -> tuple[np.ndarray, np.ndarray]:
    """Indices into the labels that are present, which are returned too; each different label is validated once."""
    used = np.flatnonzero(np.bincount(column.indices[column.indices >= 0], minlength=len(column.labels)))
    rule = "nan" if missing == "nan" else "negative"
    try:
        present = encode_column(column.labels[used], None, name, rule, allow_empty=True)
    except ValueError:
        encode_column(column.values(), None, name, rule)  # the same error, which names the row
        raise
    lookup = np.full(len(column.labels) + 1, -1, dtype=np.int32)  # the last entry serves index −1
    lookup[used] = present.indices
    return lookup[column.indices], present.labels


def _labels_and_nulls(values: np.ndarray, nulls: np.ndarray, name: str, first_row: int):
    """Labels as an integer, string or (numbers among strings) object array, and where they are null."""
    kind = values.dtype.kind
    if kind in "iuU":
        return values, nulls
    if kind == "b":
        return values.view(np.uint8), nulls
    if kind == "f":
        nulls = nulls | np.isnan(values)
        whole = np.where(nulls, 0.0, values).astype(np.float64, copy=False)
        wrong = np.isinf(whole) | (whole != np.floor(whole)) | (np.abs(whole) >= 2.0**63)
        if wrong.any():
            row = int(wrong.argmax())
            _whole_number(values[row], first_row + row, name)
        return whole.astype(np.int64), nulls
    if kind == "S":  # bytes, by the text that Python shows
        texts, at = np.unique(values, return_inverse=True)
        return np.array(list(map(str, texts.tolist())))[at.ravel()], nulls
    if kind in "OT":  # T: variable-width strings of NumPy 2
        return _from_objects(values.astype(object), nulls, name, first_row)
    if kind in "mM":
        return values.view(np.int64).view(np.uint64), nulls | np.isnat(values)
    raise TypeError(
        f"partitions: column {name} has dtype {values.dtype}; labels must be integers, strings, booleans "
        "or whole floats with NaN for missing."
    )


def _from_objects(values: np.ndarray, nulls: np.ndarray, name: str, first_row: int):
    """Python objects: None, NaN and NA are null; whole numbers compare as numbers, the rest as strings."""
    nulls = nulls | np.fromiter(map(_is_null, values), dtype=bool, count=len(values))
    where = np.flatnonzero(~nulls)
    known = values[where]
    kind_of = {kind: _object_kind(kind, name) for kind in set(map(type, known))}
    kinds = set(kind_of.values())
    labels: list[Any] = [
        str(v) if kind_of[type(v)] == "string" else _whole_number(v, first_row + row, name)
        for row, v in zip(where.tolist(), known)
    ]
    if "string" not in kinds:
        highest, lowest = max(labels, default=0), min(labels, default=0)
        if highest >= 2**63 and lowest < 0:
            raise _too_large(highest, first_row + int(where[labels.index(highest)]), name)
        numbers = np.zeros(len(values), dtype=np.int64 if highest < 2**63 else np.uint64)
        numbers[where] = labels
        return numbers, nulls
    # numbers among strings stay numbers: 1 and "1" are different labels
    out = np.full(len(values), 0 if "number" in kinds else "", dtype=object)
    out[where] = labels
    as_text = "number" not in kinds and not any(label.endswith("\0") for label in labels)  # which np.str_ drops
    return (out.astype(np.str_) if as_text else out), nulls


def _whole_number(value: Any, row: int, name: str) -> int:
    """A number as an integer, or why it is no label."""
    is_float = isinstance(value, (float, np.floating))
    if is_float and np.isinf(value):
        raise ValueError(
            f"partitions must not contain infinity: column {name}, row {row} is {value}; use NaN for a missing label."
        )
    if is_float and not float(value).is_integer():
        raise ValueError(
            f"partitions must hold labels, not measurements: column {name}, row {row} is {value}; labels are whole "
            "numbers or strings. Leave the column out (of a file: exclude=, --exclude), or cluster features by "
            "make_ensemble(X)."
        )
    whole = int(value)
    if not -(2**63) <= whole < 2 ** (63 if is_float else 64):
        raise _too_large(whole, row, name)
    return whole


def _too_large(value: int, row: int, name: str) -> ValueError:
    shown = value if abs(value) < 10**40 else "a number of more than 40 digits"
    return ValueError(
        f"partitions: column {name}, row {row} is {shown}, beyond 64-bit integers; use strings for such labels."
    )


def is_negative(label: Any) -> bool:
    """Whether a label is a negative number."""
    return isinstance(label, int) and label < 0


def _is_null(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return isinstance(value, (float, np.floating, np.datetime64, np.timedelta64)) and bool(value != value)


def _object_kind(kind: type, name: str) -> str:
    if issubclass(kind, (complex, np.complexfloating, list, tuple, dict, set, np.ndarray)):
        raise TypeError(
            f"partitions: column {name} holds a {kind.__name__}; each label must be an integer or a string."
        )
    return "number" if issubclass(kind, (int, float, np.integer, np.floating, np.bool_)) else "string"


def _recode(values: np.ndarray, nulls: np.ndarray, drop_negative: bool) -> tuple[np.ndarray, np.ndarray]:
    """The place of each value among the different labels, −1 where null or dropped; the labels, sorted."""
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        # a counting pass beats sorting while the range of labels is of the order of n
        if high < 2**63 and high - low < max(4 * len(values), 1 << 16):
            shifted = values.astype(np.int64)
            shifted -= low
            shifted[nulls] = high - low + 1  # one more than there are
            present = np.bincount(shifted, minlength=high - low + 2) > 0
            present[-1] = False
            if drop_negative:
                present[: max(0, -low)] = False
            place = np.full(len(present), -1, dtype=np.int32)
            place[present] = np.arange(np.count_nonzero(present))
            return place[shifted], np.flatnonzero(present) + low
    if drop_negative and values.dtype.kind == "i":
        nulls = nulls | (values < 0)
    elif drop_negative and values.dtype.kind == "O":
        nulls = nulls | np.fromiter(map(is_negative, values), dtype=bool, count=len(values))
    known = values[~nulls] if nulls.any() else values
    of_objects = values.dtype.kind == "O"
    labels, found = sorted_labels(known.tolist()) if of_objects else np.unique(known, return_inverse=True)
    indices = np.full(len(values), -1, dtype=np.int32)
    indices[~nulls] = found
    return indices, labels


# -- tables of codes -------------------------------------------------------------------------------------------


def counts_of_codes(table: Any) -> list[np.ndarray] | None:
    """How often each label of each column occurs, if the table holds the codes of its labels; None for any other."""
    is_plain = type(table) in (np.ndarray, np.memmap) and table.dtype.name in ("uint8", "uint16")
    if not is_plain or table.ndim != 2 or not table.size or not table.flags.c_contiguous:
        return None
    highest = table.max(axis=0).astype(np.int64)
    if highest.max() >= len(table) or table.dtype != smallest_unsigned(highest.max() + 1):  # no gaps: as many rows
        return None
    counts = count_codes(table, highest)
    return counts if all(count.all() for count in counts) else None


def count_codes(codes: np.ndarray, highest: np.ndarray) -> list[np.ndarray]:
    """How often each number from 0 to the highest occurs in each column."""
    counts = [np.zeros(k + 1, dtype=np.int64) for k in highest.tolist()]
    step = max(1, _BLOCK_CELLS // codes.shape[1])
    for start in range(0, len(codes), step):  # the columns of a block in the cache, not the whole table for each
        for column, count in zip(codes[start : start + step].T.astype(np.intp, order="C"), counts):
            count += np.bincount(column, minlength=len(count))
    return counts


def distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First index of each different row (ascending), its count, and for each row its rank among them."""
    codes = np.ascontiguousarray(codes)
    compiled = native.distinct_rows(codes)
    if compiled is not None:
        return compiled
    whole = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
    _, first, inverse, counts = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    return first[order], counts[order], np.argsort(order)[inverse.ravel()]


def row_chunks(codes: np.ndarray) -> Iterator[tuple[int, int]]:
    """(start, stop) of row chunks of a bounded number of bytes."""
    step = max(1, _SCAN_BYTES // max(1, codes.dtype.itemsize * codes.shape[1]))
    for start in range(0, len(codes), step):
        yield start, min(start + step, len(codes))
