"""One column of labels -> codes: every kind of label, every way to be missing, every way to be wrong."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coassoc as ca
from coassoc.core.counts import smallest_unsigned
from coassoc.ensemble.encode import MISSING_RULES, encode_column


def codes_of(values, missing="negative", nulls=None):
    """Codes with −1 for missing, and the categories."""
    column = encode_column(values, nulls, "0", missing)
    return column.indices.tolist(), column.labels.tolist()


def obj(*values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


SAME = [0, 2, 1, 0]  # of labels 3 < 5 < 9
TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "O", ">i4", ">u8", ">f8"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("labels", [[3, 9, 5, 3], [0, 2, 1, 0]])
def test_whole_numbers_of_any_type_are_the_same_labels(dtype, labels):
    assert codes_of(np.array(labels).astype(dtype)) == (SAME, sorted(set(labels)))


TEXTS = [np.array(["a", "c", "b", "a"]), np.array([b"a", b"c", b"b", b"a"])]
if hasattr(np.dtypes, "StringDType"):  # came with NumPy 2
    TEXTS.append(TEXTS[0].astype(np.dtypes.StringDType()))


@pytest.mark.parametrize("values", TEXTS)
def test_strings_and_bytes_are_labels(values):
    assert codes_of(values) == codes_of(values.astype(object))
    assert codes_of(values) == (SAME, [str(label) for label in values[[0, 2, 1]].tolist()])


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (np.array([True, False, True]), [1, 0, 1]),
        (obj(True, False, True), [1, 0, 1]),
        (obj(-1, "a", 4, "a"), [-1, 1, 0, 1]),
        (obj(1, "1", 1.0, np.int8(1), "1", True), [0, 1, 0, 0, 1, 0]),
        (obj(decimal.Decimal("1.5"), decimal.Decimal("2.5"), decimal.Decimal("1.5")), [0, 1, 0]),
        (obj(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)), [0, 1]),
        (np.ma.array([3, 9, 5, 3], mask=[0, 1, 0, 0]), [0, -1, 1, 0]),
        (np.ma.array([0, 1, 1], mask=[0, 0, 1], dtype=np.uint8), [0, 1, -1]),
    ],
)
def test_other_kinds_of_labels(values, codes):
    """Negative numbers are missing among strings too; a number and its text differ; other objects go by their text."""
    assert codes_of(values)[0] == codes
    assert ca.Ensemble(values[:, None]).partition(0).tolist() == codes  # as a column of a table


def test_dates_are_labels_and_nat_is_missing():
    days = np.array(["1969-12-30", "2021-01-01", "NaT", "1969-12-30", "1970-01-02"], dtype="M8[D]")
    first, second, nat, again, third = codes_of(days)[0]
    assert nat == -1 and first == again and {first, second, third} == {0, 1, 2}


NULLS = [None, float("nan"), np.float32("nan"), np.datetime64("NaT", "s"), pd.NA, pd.NaT]


@pytest.mark.parametrize("null", NULLS)
def test_nulls_among_objects_are_missing(null):
    assert codes_of(obj(3, null, 5, 3))[0] == [0, -1, 1, 0]
    assert codes_of(obj("b", null, "c", "b"))[0] == [0, -1, 1, 0]
    assert codes_of(obj("b", null, 7, "b"))[0].count(-1) == 1


@pytest.mark.parametrize("values", [np.array([3, 9, 5, 3]), np.array([3.0, 9.5, 5.0, 3.0]), obj("a", "c", "b", "a")])
def test_nulls_named_by_the_container_are_missing(values):
    assert codes_of(values, nulls=np.array([False, True, False, False]))[0] == [0, -1, 1, 0]


@pytest.mark.parametrize("values", [np.array([-1, 4, -7, 2]), np.array([-1.0, 4, -7, 2]), obj(-1, 4, -7.0, 2)])
def test_negative_numbers_are_missing_unless_told(values):
    assert codes_of(values)[0] == [-1, 1, -1, 0]
    assert codes_of(values, "nan") == ([1, 3, 0, 2], [-7, -1, 2, 4])
    assert codes_of(values, "cluster")[0] == [2, 1, 2, 0]
    assert codes_of(values, "singletons")[0] == [2, 1, 3, 0]


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**63, 2**63 + 4, 2**63 + 1, 2**63], dtype=np.uint64),
        np.array([2**64 - 5, 2**64 - 1, 2**64 - 4, 2**64 - 5], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1, 0, -(2**63)]),
        obj(2**53, 2**53 + 2, 2**53 + 1, 2**53),
    ],
)
def test_the_largest_and_smallest_numbers_are_kept_apart(values):
    assert codes_of(values, "nan") == (SAME, sorted(set(values.tolist())))


def has_label(values):
    return any(x is not None and x >= 0 for x in values)


@given(st.lists(st.none() | st.integers(-5, 10**6), min_size=1, max_size=30).filter(has_label))
def test_codes_are_the_ranks_of_the_labels(values):
    known = sorted({v for v in values if v is not None and v >= 0})
    wanted = [known.index(v) if v is not None and v >= 0 else -1 for v in values]
    assert codes_of(obj(*values)) == (wanted, known)
    floats = np.array([np.nan if v is None else v for v in values], dtype=float)
    assert codes_of(floats) == (wanted, known)


TEXT = st.text("ab1é \0", max_size=3)  # few characters: many labels are equal but for a blank or a NUL


@given(st.lists(TEXT | st.integers(0, 3) | st.none(), min_size=1, max_size=20).filter(any))
def test_labels_come_back_from_their_codes(values):
    column = encode_column(obj(*values), None, "0")
    assert column.values().tolist() == values


@pytest.mark.parametrize("rule", MISSING_RULES)
def test_nothing_missing_makes_every_rule_the_same(rule):
    assert codes_of(np.array([4, 4, 7]), rule) == ([0, 0, 1], [4, 7])


def test_a_column_without_labels_is_one_cluster_or_many_when_asked():
    assert codes_of(np.array([-1, -1]), "cluster")[0] == [0, 0]
    assert codes_of(np.array([-1, -1]), "singletons")[0] == [0, 1]


def test_more_clusters_than_codes_are_refused():
    with pytest.raises(ValueError, match="at most"):
        smallest_unsigned(2**32 + 1)
