"""Ensembles: what input is accepted, what is kept, what is shared, and what can be asked of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coassoc as ca
import oracle

TABLE = np.array([[3, 10], [3, 12], [5, 10], [9, -1], [3, 10]])


def check_ensemble(ens, table):
    """Everything an ensemble says of a table whose negative labels are missing."""
    table = np.asarray(table)
    n, p = table.shape
    assert (ens.n_samples, ens.n_partitions, len(ens), ens.codes.shape) == (n, p, n, (n, p))
    assert ens.codes.dtype.kind == "u"
    for j, labels in enumerate(table.T.tolist()):
        counts = Counter(sorted(x for x in labels if x >= 0))
        assert ens.n_clusters[j] == ens.offsets[j + 1] - ens.offsets[j] == len(counts)
        place = {x: code for code, x in enumerate(counts)}
        assert ens.codes[:, j].tolist() == [place.get(x, len(counts)) for x in labels]
        assert ens.partition(j).tolist() == [place.get(x, -1) for x in labels]
        assert ens.sizes[ens.offsets[j] : ens.offsets[j + 1]].tolist() == list(counts.values())
    assert ens.has_missing == bool((table < 0).any())
    assert ens.n_codes == ens.offsets[-1] == len(ens.sizes)
    assert (ens.observed() == (table >= 0)).all()
    empty = np.flatnonzero((table < 0).all(axis=1))
    assert (ens.unlabelled() is None) if not len(empty) else (ens.unlabelled().tolist() == empty.tolist())


def test_random_tables_become_codes():
    rng = np.random.default_rng(0)
    for _ in range(100):
        table = oracle.random_case(rng).table
        check_ensemble(ca.Ensemble(table), table)


CONTAINERS = {
    "int64": lambda t: t,
    "int8": lambda t: t.astype(np.int8),
    "fortran": np.asfortranarray,
    "strided": lambda t: np.repeat(t, 2, axis=0)[::2],
    "floats": lambda t: np.where(t < 0, np.nan, t.astype(float)),
    "lists": lambda t: [[None if x < 0 else x for x in row] for row in t.tolist()],
    "tuples": lambda t: tuple(map(tuple, t.tolist())),
    "objects": lambda t: np.where(t < 0, None, t.astype(object)),
    "masked": lambda t: np.ma.array(np.abs(t), mask=t < 0),
    "matrix of rows": lambda t: [np.array(row) for row in t],
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_codes(name):
    check_ensemble(ca.Ensemble(CONTAINERS[name](TABLE)), TABLE)


def test_partitions_side_by_side_are_columns():
    vectors = [TABLE[:, 0], [None if x < 0 else x for x in TABLE[:, 1].tolist()]]
    check_ensemble(ca.Ensemble.from_partitions(vectors), TABLE)
    check_ensemble(ca.Ensemble.from_partitions(v for v in vectors), TABLE)
    check_ensemble(ca.Ensemble.from_partitions({"a": vectors[0], "b": vectors[1]}), TABLE)
    masked = ca.Ensemble.from_partitions([np.ma.array([1, 2, 3], mask=[0, 0, 1])])
    assert masked.partition(0).tolist() == [0, 1, -1]


FROM, CODES_OF, ITEMS = ca.Ensemble.from_partitions, ca.Ensemble.from_codes, ca.Ensemble(TABLE).coassociation


@pytest.mark.parametrize(
    ("call", "given", "error", "words"),
    [
        (FROM, [[]], ValueError, ["partitions", "at least one", "none"]),
        (FROM, [[[0, 1], [0, 1, 2]]], ValueError, ["partitions[1]", "3 labels", "partitions[0] has 2"]),
        (FROM, [[np.zeros((2, 2))]], ValueError, ["partitions[0]", "one-dimensional", "(2, 2)"]),
        (lambda names: FROM([[0, 1]], names=names), [["a", "b"]], ValueError, ["names", "(1)", "2"]),
        (FROM, [[[]]], ValueError, ["at least one item"]),
        (CODES_OF, [[[0]], [1]], TypeError, ["codes", "uint8", "list", "Ensemble(table)"]),
        (CODES_OF, [np.zeros((2, 2), int), [1, 1]], TypeError, ["codes", "int64"]),
        (CODES_OF, [np.zeros(3, np.uint8), [1]], ValueError, ["shape", "(3,)"]),
        (CODES_OF, [np.zeros((2, 2), np.uint8), [1]], ValueError, ["n_clusters", "(2)", "[1]"]),
        (CODES_OF, [np.zeros((2, 2), np.uint8), [1, 0]], ValueError, ["n_clusters", "positive"]),
        (CODES_OF, [np.array([[4]], np.uint8), [3]], ValueError, ["partition 0", "n_clusters[0] = 3", "got 4"]),
        (CODES_OF, [np.full((2, 2), 2**32 - 1, np.uint32), [3, 3]], ValueError, ["partition 0", "4294967295"]),
        (CODES_OF, [np.full((2, 1), 2, np.uint8), [2]], ValueError, ["missing", "nothing"]),
        (CODES_OF, [np.zeros((0, 2), np.uint8), [1, 1]], ValueError, ["at least one item", "(0, 2)"]),
        (ITEMS, [None], ValueError, ["rows", "'all'"]),
        (ITEMS, ["every"], ValueError, ["rows", "'all'", "'every'"]),
        (ITEMS, [[0], "some"], ValueError, ["cols", "'some'"]),
        (ITEMS, [[5]], IndexError, ["rows", "0..4", "5"]),
        (ITEMS, [[0.5]], IndexError, ["rows", "indices"]),
        (ITEMS, [[[0, 1]], [0]], IndexError, ["rows", "(1, 2)"]),
    ],
)
def test_what_does_not_fit_is_refused(call, given, error, words):
    with pytest.raises(error) as caught:
        call(*given)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("n_values", "dtype"), [(256, "uint8"), (257, "uint16"), (65537, "uint32")])
def test_codes_take_the_smallest_type(n_values, dtype):
    column = np.arange(n_values)
    assert ca.Ensemble(column[:, None]).codes.dtype == dtype
    holed = np.append(column, -1)[:, None]  # one more value is needed where labels are missing
    check_ensemble(ca.Ensemble(holed), holed)


@pytest.mark.parametrize("full", [256, 65536])
def test_a_full_column_beside_a_missing_label_keeps_all_its_clusters(full):
    """The code that would mark missing in a full column does not fit its type and must not wrap round to 0."""
    table = np.stack([np.arange(full), np.r_[-1, np.zeros(full - 1, int)]], axis=1)
    ens = ca.Ensemble(table)
    assert ens.unlabelled() is None
    assert (ens.observed() == (table >= 0)).all()
    assert (ens.one_hot().sum(axis=0) == ens.sizes).all()
    assert ens.coassociation([0], [0, 1]).tolist() == [[1.0, 0.0]]
    labels = ca.KMeansConsensus(2, random_state=0, n_init=1, engine="numpy").fit(ens).labels_
    assert (labels >= 0).all()


# -- sharing memory ------------------------------------------------------------------------------------------


def ready_codes(dtype=np.uint8, k=3, n=300):
    return np.stack([np.arange(n) % k, np.arange(n) // 2 % k], axis=1).astype(dtype)


def test_codes_are_not_copied():
    codes = ready_codes()
    codes.flags.writeable = False
    ens = ca.Ensemble(codes)
    assert np.shares_memory(ens.codes, codes) and np.shares_memory(ca.Ensemble(ens).codes, codes)
    for k in (300, 65536):  # wide codes that need the width
        wide = ready_codes(np.uint16, k, n=2 * k)
        assert np.shares_memory(ca.Ensemble(wide).codes, wide)
    assert ca.Ensemble.from_codes(codes, [3, 3]).codes is codes
    assert len(ca.KMeansConsensus(2, random_state=0, engine="numpy").fit(codes).labels_) == 300


@pytest.mark.parametrize(
    "table",
    [
        ready_codes(np.uint16),  # wider than needed
        np.asfortranarray(ready_codes()),
        ready_codes() * 2,  # gaps
        np.full((3, 2), 2**32 - 1, np.uint32),  # far beyond the number of items
        np.full((3, 2), 7, np.uint16),
    ],
)
def test_what_is_not_codes_is_recoded(table):
    ens = ca.Ensemble(table)
    assert not np.shares_memory(ens.codes, table)
    check_ensemble(ens, table.astype(np.int64))


def test_nothing_writes_into_the_callers_table():
    rng = np.random.default_rng(1)
    table = oracle.planted(rng)
    table[3] = -1
    weights = rng.integers(0, 3, size=60)
    ens = ca.Ensemble(table)
    given = (table, weights, ens.codes)
    kept = [array.copy() for array in given]
    ca.KMeansConsensus(3, random_state=0).fit(ens, sample_weight=weights).predict(table)
    ca.BisectingConsensus(3, random_state=0).fit(ens, sample_weight=weights)
    ca.density(ens, kept[0][:, 0], sample_weight=weights)
    assert all((array == before).all() for array, before in zip(given, kept))


# -- looking -------------------------------------------------------------------------------------------------


def test_one_hot_has_a_one_for_each_observed_label():
    rng = np.random.default_rng(2)
    for _ in range(100):
        table = oracle.random_case(rng).table
        H = ca.Ensemble(table).one_hot()
        assert (H.toarray() == oracle.Dense(table).H).all()
        assert H.dtype == np.float64
    assert ca.Ensemble(TABLE).one_hot(np.int8).dtype == np.int8


def brute_coassociation(table):
    A = np.zeros((len(table), len(table)))
    for i, k in np.ndindex(A.shape):
        seen = (table[i] >= 0) & (table[k] >= 0)
        A[i, k] = (table[i] == table[k])[seen].sum() / seen.sum() if seen.any() else 0.0
    return A


@pytest.mark.parametrize("labels_at_a_time", [1 << 21, 8])
def test_coassociation_blocks_are_cut_from_the_matrix(labels_at_a_time, monkeypatch):
    monkeypatch.setattr("coassoc.ensemble.ensemble._PIECE_LABELS", labels_at_a_time)
    rng = np.random.default_rng(3)
    for _ in range(100):
        table = oracle.random_case(rng).table
        ens, A = ca.Ensemble(table), brute_coassociation(table)
        rows, cols = rng.integers(len(table), size=3), rng.integers(len(table), size=4)
        mask = rng.random(len(table)) < 0.5
        for asked, wanted in [
            (["all"], A),
            ([rows, cols], A[np.ix_(rows, cols)]),
            ([rows], A[np.ix_(rows, rows)]),
            ([slice(1, None), [0]], A[1:, :1]),
            ([0, "all"], A[:1]),
            ([-1, 0], A[-1:, :1]),
            ([mask], A[np.ix_(mask, mask)]),
        ]:
            np.testing.assert_array_equal(ens.coassociation(*asked), wanted)


def test_coassociation_states_its_limit_before_it_allocates():
    ens = ca.Ensemble(np.zeros((200_000, 1), np.uint8))
    with pytest.raises(ValueError, match=r"200000 x 200000 items needs 320000000000 bytes, above max_bytes=1073741824"):
        ens.coassociation("all")
    with pytest.raises(ValueError, match="max_bytes=79"):
        ens.coassociation([0, 1], slice(5), max_bytes=79)
    assert ens.coassociation([0, 1], slice(5), max_bytes=80).shape == (2, 5)


def test_distinct_rows_in_order_of_appearance():
    rng = np.random.default_rng(4)
    for _ in range(200):
        table = oracle.random_case(rng).table
        ens = ca.Ensemble(table)
        different, counts, inverse = ens.distinct()
        assert dict(zip(map(bytes, different.codes), counts.tolist())) == Counter(map(bytes, ens.codes))
        assert list(map(bytes, different.codes)) == list(dict.fromkeys(map(bytes, ens.codes)))
        assert (different.codes[inverse] == ens.codes).all()


def test_take_keeps_the_codes_and_may_leave_clusters_empty():
    ens = ca.Ensemble.from_partitions(dict(zip("ab", TABLE.T)))
    part = ens.take(np.array([3, 0]))
    assert part.codes.tolist() == [[2, 2], [0, 0]] and part.has_missing
    assert part.n_clusters.tolist() == ens.n_clusters.tolist() and part.names == ["a", "b"]
    assert part.sizes.tolist() == [1, 0, 1, 1, 0]
    assert (part.categories[0] == ens.categories[0]).all()


def test_encode_marks_what_was_never_seen():
    ens = ca.Ensemble([[3, "a"], [5, "b"], [9, "c"], [3, 1]])  # 1 comes before the letters
    found = ens.encode([[5, "a"], [4, "zz"], [None, "1"], ["3", 1], [9.0, np.nan]]).tolist()
    assert found == [[1, 1], [3, 4], [3, 4], [3, 0], [2, 4]]
    assert ens.encode(ens).tolist() == ens.codes.tolist()
    with pytest.raises(ValueError, match="X has 1 features, but the model is expecting 2"):
        ens.encode([[0]])


MIXED = st.sampled_from([None, 1, 2, "1", "x", -1, 5.0])


@given(st.lists(st.lists(MIXED, min_size=2, max_size=2), min_size=1, max_size=12))
def test_encoding_the_table_again_gives_its_codes_row_by_row(table):
    observed = [[not (x is None or x == -1) for x in row] for row in table]
    if not np.any(observed, axis=0).all():
        return
    ens = ca.Ensemble(table)
    assert (ens.encode(table) == ens.codes).all()
    for i, row in enumerate(table):  # whatever other labels are in the batch
        assert ens.encode([row]).tolist() == [ens.codes[i].tolist()]


@pytest.mark.parametrize("rule", ["negative", "nan", "cluster"])
def test_encode_keeps_the_missing_rule(rule):
    table = np.array([[0, -1], [-1, 2], [4, 2], [0, -2]])
    ens = ca.Ensemble(table, missing=rule)
    assert ens.encode(table).tolist() == ens.codes.tolist()
    assert ens.encode(ens).tolist() == ens.codes.tolist()


def test_lone_missing_items_are_never_met_again():
    ens = ca.Ensemble([[0, 1], [None, 1], [None, 2]], missing="singletons")
    assert ens.codes.tolist() == [[0, 0], [1, 0], [2, 1]]
    assert not ens.has_missing
    assert ens.encode([[None, 1]]).tolist() == [[3, 0]]
    assert ens.encode(ens).tolist() == [[0, 0], [3, 0], [3, 1]]
