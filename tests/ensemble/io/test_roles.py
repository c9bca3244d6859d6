"""Which columns are partitions, ids and classes, whatever the format and size."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import coassoc as ca


@pytest.mark.parametrize("name", ["Barcode", "customer_id", ""])
def test_a_first_column_with_a_name_for_ids_holds_ids(read, name):
    found = read(f"{name},a\n" + "".join(f"00{i},{i % 3}\n" for i in range(30)))
    assert found.names == ["a"]
    assert found.item_ids.tolist() == [f"00{i}" for i in range(30)]  # kept as text
    assert read(f"{name},a\n00,0\n01,1\n", id_column=False).names == [name, "a"]


def test_a_column_that_the_file_lacks_is_told_by_its_argument(read):
    for argument in ("id_column", "class_column"):
        with pytest.raises(ValueError, match=f"{argument}: t.csv has no column 'z'; it has 'a', 'b'"):
            read("a,b\n0,1\n1,0\n", **{argument: "z"})


def test_a_column_without_repeated_values_is_left_out_with_a_warning(read):
    content = "customer,a,b\n" + "".join(f"{7 * i},{i % 3},{i % 2}\n" for i in range(30))
    with pytest.warns(UserWarning, match=r"left out 'customer' \(hardly any value.*clusterings are 'a', 'b'.*columns="):
        found = read(content)
    assert found.names == ["a", "b"]
    assert read(content, columns=["customer", "a"]).names == ["customer", "a"]
    assert read(content, exclude="cust*").names == ["a", "b"]
    assert read(content, id_column="customer").item_ids[1] == "7"


def test_repeated_ids_are_found_among_unused_categories(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    ids = pd.Categorical.from_codes([0, 1, 1], ["x", "y", "z"])
    pd.DataFrame({"id": ids, "a": [0, 0, 1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="repeats 'y'"):
        ca.read_ensemble(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (lambda i: f"{20 + i % 37}.5", "measurements"),
        (lambda i: 18 + 5 * i % 61, "whole numbers far from 0"),
        (lambda i: f"c{i}" if i % 20 else "", "hardly any value repeats"),
    ],
)
def test_columns_that_hold_no_labels_are_left_out_with_a_reason(read, cell, why):
    content = "a,age,b\n" + "".join(f"{i % 3},{cell(i)},{i % 30}\n" for i in range(200))
    with pytest.warns(UserWarning, match=rf"left out 'age' \({why}.*clusterings are 'a', 'b'.*columns="):
        found = read(content)
    assert found.names == ["a", "b"] and found.codes.shape == (200, 2)
    with pytest.raises(ValueError, match=rf"no column is a clustering: 'age' \({why}.*coassoc ensemble"):
        read(content, exclude=["a", "b"])


def test_clusters_numbered_on_from_column_to_column_are_labels(read):
    content = "a,b\n" + "".join(f"{i % 30},{30 + i % 40}\n" for i in range(200))
    assert read(content).names == ["a", "b"]


def test_columns_named_like_classes_are_left_out_with_a_note(read):
    content = "a,b,label,cell_type\n" + "0,0,0,x\n1,1,1,y\n" * 30
    with pytest.warns(UserWarning, match=r"'label', 'cell_type' holds known classes.*'a', 'b'.*--class-column"):
        found = read(content)
    assert found.names == ["a", "b"] and found.classes.tolist()[:2] == [0, 1]
    assert read(content, class_column="cell_type").names == ["a", "b", "label"]
    assert read("a,label\n" + "0,0\n1,1\n" * 30).names == ["a", "label"]  # one more clustering, for all we know


def test_a_frame_with_such_columns_warns():
    pd = pytest.importorskip("pandas")
    labels = {"a": [0, 1, 2] * 40, "b": [0, 1] * 60, "label": [0, 1] * 60}
    frame = pd.DataFrame({"customer": range(7, 367, 3), "age": [20 + 7 * i % 45 for i in range(120)], **labels})
    for table in (frame, pytest.importorskip("polars").DataFrame(frame.to_dict("list"))):
        with pytest.warns(UserWarning, match=r"'customer' \(hardly.*'age' \(whole numbers.*'label' \(named like.*drop"):
            assert ca.Ensemble(table).n_partitions == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ca.Ensemble(frame[["a", "b"]])


def test_known_classes_are_not_a_clustering(read):
    found = read("a,Truth\n0,x\n0,x\n1,y\n")
    assert found.names == ["a"]
    assert found.classes.tolist() == ["x", "x", "y"]
    assert read("a,truth\n0,x\n1,y\n", columns="*").names == ["a", "truth"]
    assert read("a,truth\n0,x\n1,y\n", class_column=False).names == ["a", "truth"]


def test_a_transposed_table_is_noticed(read):
    with pytest.warns(UserWarning, match="transposed"):
        read(",".join(f"i{j}" for j in range(300)) + "\n" + (",".join("0" * 300) + "\n") * 5)
    for table in (np.zeros((5, 300), dtype=int), [[0] * 300] * 5):
        with pytest.warns(UserWarning, match="transposed"):
            ca.Ensemble(table)


def test_ids_in_an_array_of_text_are_warned_of_too():
    rng = np.random.default_rng(0)
    table = np.column_stack([[f"item{i}" for i in range(120)], *rng.integers(3, size=(3, 120)).astype(str)])
    with pytest.warns(UserWarning, match=r"may be something else: '0' \(hardly any value repeats\)"):
        assert ca.Ensemble(table).n_partitions == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ca.Ensemble(table[:, 1:])
        ca.Ensemble(table[:, 1:].astype(object))
