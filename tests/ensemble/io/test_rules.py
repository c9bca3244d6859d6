"""What a file means: headers, ids, missing cells, numbers and text, the same for every format and size."""

from __future__ import annotations

import csv
import os
import re
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble import StoredEnsemble
from oracle import label_rows as rows

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(params=["in memory", "in blocks"])
def read(request, tmp_path):
    """Reads a text, in memory or in blocks."""
    pytest.importorskip("pyarrow")

    def read_text(content, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return StoredEnsemble(path, **options) if request.param == "in blocks" else ca.read_ensemble(path, **options)

    return read_text


# -- headers -------------------------------------------------------------------------------------------------------


def test_numbers_as_column_names_are_a_header(tmp_path, read):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({k: rng.integers(k, size=50) for k in (5, 10, 20)})
    for index in ({"index": False}, {}):
        found = read(frame.to_csv(**index))
        assert found.n_samples == 50
        assert found.names == ["5", "10", "20"]
        assert (found.codes == ca.Ensemble(frame).codes).all()


def test_a_header_is_told_from_data(read):
    assert read("5,5\n5,5\n1,6\n").n_samples == 3  # names differ
    assert read("0\n0\n0\n1\n", header=False).n_samples == 4
    # numbers that are labels of their own columns: names, or the labels of an item
    for text in ("5,10\n0,1\n1,10\n0,1\n", "0,1,2\n0,0,0\n1,1,1\n5,5,5\n"):
        with pytest.raises(ValueError, match="header=True"):
            read(text)
        assert read(text, header=True).n_samples == 3
        assert read(text, header=False).n_samples == 4


def test_a_trailing_comma_adds_no_partition(read):
    found = read("a,b,\n0,x,\n1,y,\n0,y,\n")
    assert found.names == ["a", "b"]
    assert rows(found) == [(0, "x"), (1, "y"), (0, "y")]
    with pytest.raises(ValueError, match="column 3 has no name"):
        read("a,b,\n0,x,\n1,y,z\n").codes  # noqa: B018
    with pytest.raises(ValueError, match="column 2 has no name"):
        read("a,,b\n0,x,1\n")


def test_labels_are_added_before_a_trailing_comma(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,\n0,x,\n1,y,\n")
    ca.write_labels(tmp_path / "out.csv", [0, 1], source=tmp_path / "t.csv")
    assert (tmp_path / "out.csv").read_text() == "a,b,consensus\n0,x,0\n1,y,1\n"


# -- cells ---------------------------------------------------------------------------------------------------------


def test_texts_that_differ_are_labels_that_differ(read):
    texts = ["10", "1_0", "01", "1", "+1", "١", "1e0", "0x1", "9007199254740992", "9007199254740993", "NAN", "-0"]
    found = read("a,b\n" + "".join(f"{text},0\n" for text in [*texts, ""]))
    assert found.n_clusters[0] == len(texts)
    labels = [row[0] for row in rows(found)]
    assert labels[:4] == [10, "1_0", "01", 1]
    assert labels[-1] is None


def test_whole_numbers_with_a_point_are_numbers(read):
    """How pandas writes integers when one is missing."""
    assert rows(read("a,b\n1,2.0\nTrue,007\n")) == [(1, 2), ("True", "007")]
    assert rows(read("a,b\n1.0,x\n,x\n-1.0,y\n2.0,y\n")) == [(1, "x"), (None, "x"), (None, "y"), (2, "y")]


def test_awkward_text(read):
    found = read('\ufeffid,"a b",c\r\n"x,1",0,"line\nbreak"\r\ny,-1,plain\r\n"z ""q""",3,"line\nbreak"\r\n')
    assert found.names == ["a b", "c"]
    assert found.item_ids.tolist() == ["x,1", "y", 'z "q"']
    assert rows(found) == [(0, "line\nbreak"), (None, "plain"), (3, "line\nbreak")]


def test_measurements_are_no_labels(read):
    for cell, message in (("1.25", "measurements"), ("-inf", "infinity"), ("1e-3", "measurements")):
        with pytest.raises(ValueError, match=f"{message}: column b, row 2 is {cell.replace('1e-3', '0.001')}"):
            read(f"a,b\n0,x\n0,x\n1,{cell}\n").codes  # noqa: B018


def test_every_column_has_the_same_missing_values(read):
    found = read("a,index,item,barcode,id\n" + "0,0,0,0,0\n1,NA,,null,None\n0,-1,-1,-1,-1\n1,1,1,1,1\n" * 2)
    assert rows(found)[1] == (1, None, None, None, None)
    assert rows(found)[2] == (0, None, None, None, None)


def test_blank_lines_do_not_drop_rows(read):
    for text in ("a\n0\n\n1\n", "a\n\n0\n1\n"):
        with pytest.raises(ValueError, match="is blank"):
            read(text).codes  # noqa: B018
    assert rows(read('a\n0\n""\nNA\n1\n\n\n')) == [(0,), (None,), (None,), (1,)]
    assert rows(read("a,b\n0,1\n\n1,0\n\n")) == [(0, 1), (1, 0)]


def test_long_cells_are_refused_when_they_are_read(read):
    before = csv.field_size_limit()
    with pytest.raises(ValueError, match=r"131,072 characters.*"):
        read("id,a\n" + "x" * 200_000 + ",0\ny,1\n", columns="*", id_column=False).codes  # noqa: B018
    found = read("id,a\n" + "x" * 130_000 + ",0\ny,1\n")
    assert len(found.item_ids[0]) == 130_000
    assert csv.field_size_limit() == before


# -- columns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Barcode", "customer_id", ""])
def test_a_first_column_with_a_name_for_ids_holds_ids(read, name):
    found = read(f"{name},a\n" + "".join(f"00{i},{i % 3}\n" for i in range(30)))
    assert found.names == ["a"]
    assert found.item_ids.tolist() == [f"00{i}" for i in range(30)]  # kept as text
    assert read(f"{name},a\n00,0\n01,1\n", id_column=False).names == [name, "a"]


def test_a_column_without_repeated_values_is_left_out_with_a_warning(read):
    content = "customer,a,b\n" + "".join(f"{7 * i},{i % 3},{i % 2}\n" for i in range(30))
    with pytest.warns(UserWarning, match=r"left out 'customer' \(hardly any value.*clusterings are 'a', 'b'.*columns="):
        found = read(content)
    assert found.names == ["a", "b"]
    assert read(content, columns=["customer", "a"]).names == ["customer", "a"]
    assert read(content, exclude="cust*").names == ["a", "b"]
    assert read(content, id_column="customer").item_ids[1] == "7"
    with pytest.raises(ValueError, match="no column is a clustering"):
        read("customer,b\n" + "".join(f"{i},{-i}\n" for i in range(1, 31)))


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


def test_a_text_table_with_the_name_of_a_workbook_is_noticed(tmp_path):
    (tmp_path / "t.xlsx").write_text("a,b\n0,1\n1,0\n")
    with pytest.raises(ValueError, match="format='csv'"):
        ca.read_ensemble(tmp_path / "t.xlsx")
    assert ca.read_ensemble(tmp_path / "t.xlsx", format="csv").n_samples == 2


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_named_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    for read in (ca.read_ensemble, ca.Ensemble):
        failed = []

        def attempt(read=read, failed=failed):
            try:
                read(tmp_path / "t.csv")
            except ValueError as error:
                failed.append(str(error))

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(60)
        assert failed and "pipe" in failed[0]


def test_leftovers_in_a_folder_are_not_data(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [0, 1, 1] * 20, "b": [0, 0, 1] * 20})
    frame.to_parquet(tmp_path / "part-0.parquet")
    for name in (".out.parquet.5f3a.part.parquet", "_temporary.parquet", "x.parquet.ab12.part"):
        frame.to_parquet(tmp_path / name)
    (tmp_path / ".spool").mkdir()
    frame.to_parquet(tmp_path / ".spool" / "part-1.parquet")
    assert ca.Ensemble(tmp_path).n_samples == ca.read_ensemble(tmp_path).n_samples == 60


def test_archives_that_contradict_themselves_are_refused(tmp_path):
    good = {"codes": np.array([[0, 0], [1, 0], [1, 1]], np.uint8), "n_clusters": np.array([2, 2])}
    path = tmp_path / "t.npz"
    np.savez(path, **good, names=["a", "b"], item_ids=["x", "y", "z"])
    assert ca.read_ensemble(path).item_ids.tolist() == ["x", "y", "z"]
    for extra, message in (
        ({"names": ["a", "a"]}, "different names"),
        ({"names": ["a"]}, "different names"),
        ({"item_ids": ["x", "y"]}, "item_ids has shape"),
        ({"classes": ["x", "y"]}, "classes has shape"),
        ({"labels_0": np.array([5])}, "without a label"),
    ):
        np.savez(path, **good, **extra)
        for read in (ca.read_ensemble, lambda p: ca.Ensemble(p).codes):
            with pytest.raises(ValueError, match=message):
                read(path)


# -- written and read again ----------------------------------------------------------------------------------------

letters = st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00/")
AWKWARD = ["\r", "a\r\nb", "\u2028", "\x1c", "\ufeff", "nan", "inf", "1e5", "a;b;c", "|", "True", "-"]
AWKWARD += ["1_0", "\u0663", "index", "barcode", "id", "class", "5", "10", "Infinity", "\t,;|", ".", "n" * 300]
awkward = st.sampled_from(
    [*AWKWARD, "NA", "None", "null", "", "1", "01", "1.0", "-1", "'", "'1", "''NA", "=cmd|x", "+1", "@a", " a", "a ",
     "\t", "a,b", '"', '""', "a\nb"]
)  # fmt: skip
texts = st.one_of(awkward, st.text(letters, max_size=6))
labels = st.one_of(st.none(), st.integers(0, 2**62), texts)


@st.composite
def ensembles(draw):
    p, n = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    columns = [draw(st.lists(labels, min_size=n, max_size=n)) for _ in range(p)]
    for column in columns:
        if all(label is None for label in column):
            column[0] = draw(st.one_of(st.integers(0, 3), texts))
    names = draw(st.lists(texts, min_size=p, max_size=p, unique=True))
    ensemble = ca.Ensemble.from_partitions(columns, names=names)
    if draw(st.booleans()):
        ids = st.text(letters, min_size=1, max_size=5) | awkward.filter(bool)
        ensemble.item_ids = np.array(draw(st.lists(ids, min_size=n, max_size=n, unique=True)), dtype=object)
    if draw(st.booleans()):
        ensemble.classes = np.array(draw(st.lists(texts.filter(bool), min_size=n, max_size=n)), dtype=object)
    return ensemble


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "npz", "parquet", "arrow", "h5ad", "xlsx"])
@settings(max_examples=25)
@given(ensemble=ensembles())
def test_writing_and_reading_is_the_identity(tmp_path_factory, suffix, ensemble):
    """Read in this process; that a child reads the same is tested once for each format."""
    pytest.importorskip({"h5ad": "h5py", "xlsx": "openpyxl"}.get(suffix, "pyarrow"))
    path = tmp_path_factory.mktemp("same") / f"t.{suffix}"
    try:
        ca.write_ensemble(path, ensemble)
    except ValueError as error:  # names that mean something else, and what a format cannot store, are refused
        assert not path.exists()
        assert "rename" in str(error)
        return
    names = ensemble.names
    if suffix != "npz" and names == [str(j) for j in range(len(names))]:
        names = [f"partition_{name}" for name in names]
    mixed = any(len({isinstance(label, str) for label in known.tolist()}) > 1 for known in ensemble.categories)
    if (suffix in ("h5ad", "parquet", "arrow") and mixed) or (suffix == "h5ad" and re.search("[*?[]", str(names))):
        return  # numbers among text became text; names are patterns
    columns = names if suffix == "h5ad" else None
    for read in (ca.read_ensemble, StoredEnsemble):
        known = "class" if columns and ensemble.classes is not None else None
        found = read(path, columns=columns, class_column=known, trusted=True)
        assert found.names == names
        assert rows(found) == rows(ensemble)
        assert (found.codes == ensemble.codes).all()
        expected = [str(i) for i in range(ensemble.n_samples)] if suffix == "h5ad" else None
        if ensemble.item_ids is not None:
            expected = ensemble.item_ids.tolist()
        assert (None if found.item_ids is None else found.item_ids.tolist()) == expected
        if ensemble.classes is None:
            assert found.classes is None
        else:
            assert found.classes.tolist() == ensemble.classes.tolist()


@settings(max_examples=40)
@given(st.lists(texts.filter(bool), min_size=2, max_size=6, unique=True))
def test_labels_written_beside_a_text_keep_its_rows(tmp_path_factory, words):
    folder = tmp_path_factory.mktemp("beside")
    source = ca.Ensemble.from_partitions([words, words[::-1]], names=["first", "second"])
    ca.write_ensemble(folder / "in.csv", source)
    ca.write_labels(folder / "out.csv", np.arange(len(words)), source=folder / "in.csv", name="new\nname")
    found = ca.read_ensemble(folder / "out.csv")
    assert found.names == ["first", "second", "new\nname"]
    assert [row[:2] for row in rows(found)] == rows(source)


def test_formulas_are_marked_in_text_and_read_back(tmp_path):
    ca.write_labels(tmp_path / "t.csv", [0, 1, 1], ids=["=cmd|' /C calc'!A0", "@x", "-5"])
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[1].startswith("\"'=cmd") and lines[2].startswith("'@x") and lines[3].startswith("-5,")
    assert ca.read_ensemble(tmp_path / "t.csv").item_ids.tolist() == ["=cmd|' /C calc'!A0", "@x", "-5"]


# -- one reader for every size -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "ids"), [("t.csv", "barcode"), ("t.parquet", "cell_id"), ("t.h5ad", "id")])
def test_a_large_file_is_read_like_a_small_one(tmp_path, name, ids, capsys):
    pd = pytest.importorskip("pandas")
    pytest.importorskip({"t.parquet": "pyarrow", "t.h5ad": "h5py"}.get(name, "numpy"))
    rng = np.random.default_rng(1)
    group = rng.integers(4, size=300)
    frame = pd.DataFrame({ids: [f"cell {i}" for i in range(300)]})
    for j in range(5):
        frame[f"p{j}"] = np.where(rng.random(300) < 0.8, group, rng.integers(-1, 5, size=300))
    frame["size"] = rng.integers(9, size=300)
    path = tmp_path / name
    if name == "t.csv":
        frame.to_csv(path, index=False)
    elif name == "t.parquet":
        frame.to_parquet(path, index=False)
    else:
        ensemble = ca.Ensemble(frame.drop(columns=ids))
        ensemble.item_ids = frame[ids].to_numpy(dtype=object)
        ca.write_ensemble(path, ensemble)
    options = ["--exclude", "si*", "--engine", "numpy", "-k", "4", "--force"]
    options += ["--columns", "*"] if name == "t.h5ad" else []
    out = tmp_path / f"out{path.suffix}"
    written = []
    for extra in ([], ["--memory", "100kB"]):
        assert main(["fit", str(path), "-o", str(out), *options, *extra]) == 0
        labels = ca.read_ensemble(out, columns="consensus").partition(0).tolist()
        kept = ca.read_ensemble(out, columns="consensus", id_column=ids if name in ("t.csv", "t.parquet") else None)
        written.append((labels, kept.item_ids.tolist()))
    assert written[0] == written[1]
    assert written[0][1] == [f"cell {i}" for i in range(300)]
    assert capsys.readouterr().out.count("300 items, 5 clusterings of") == 2
