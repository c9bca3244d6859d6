"""Text files: headers, separators, cells, and rows that get more cells."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from oracle import label_rows as rows


def test_numbers_as_column_names_are_a_header(tmp_path, read):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({k: rng.integers(k, size=50) for k in (5, 10, 20)})
    for index in ({"index": False}, {}):
        found = read(frame.to_csv(**index), header=True)
        assert found.n_samples == 50
        assert found.names == ["5", "10", "20"]
        assert (found.codes == ca.Ensemble(frame).codes).all()
    assert read(frame.set_axis(range(3), axis=1).to_csv()).names == ["0", "1", "2"]  # without names of their own


def test_a_header_is_told_from_data(read):
    assert read("5,5\n5,5\n1,6\n").n_samples == 3  # names differ
    assert read("0\n0\n0\n1\n", header=False).n_samples == 4
    for text in ("5,10\n0,1\n1,10\n0,1\n", ",5,10\n0,0,0\n1,1,1\n5,5,5\n"):  # names, or the labels of an item
        with pytest.raises(ValueError, match="header=True"):
            read(text)
        assert read(text, header=True).n_samples == 3
        assert read(text, header=False).n_samples == 4


def test_a_column_without_a_name_is_refused(read):
    for text, number in (("a,b,\n0,x,\n", 3), ("a,,b\n0,x,1\n", 2)):
        with pytest.raises(ValueError, match=f"column {number} has no name"):
            read(text)


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


def test_cells_may_be_long_but_not_endless(read):
    assert len(read("id,a\n" + "x" * 200_000 + ",0\ny,1\n").item_ids[0]) == 200_000
    with pytest.raises(ValueError, match=r"t\.csv is not .* has a row of more than 4,194,304 bytes"):
        read("id,a\n" + "x" * 10_000_000 + ",0\ny,1\n").codes  # noqa: B018


def test_separators_and_line_ends_of_the_source_are_kept(tmp_path, capsys):
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    for mark in ",;\t|":
        source.write_text(f"a{mark}b\n0{mark}x\n1{mark}y\n")
        assert rows(ca.read_ensemble(source)) == [(0, "x"), (1, "y")]
        ca.write_labels(out, [0, 1], source=source, force=True)
        assert out.read_text() == f"a{mark}b{mark}consensus\n0{mark}x{mark}0\n1{mark}y{mark}1\n"
    for text, mark in (("a b\n0 1\n1 0\n", " "), ("a;b\r\n0;1\r\n1;0\r\n", None), ("\ufeffa,b\n0,1\n1,0", ",")):
        source.write_bytes(text.encode())
        ca.write_labels(out, [5, 6], source=source, delimiter=mark, force=True)
        sep, eol = mark or ";", "\r\n" if "\r" in text else "\n"
        rows_in = text.strip().split(eol)
        expected = [row + sep + cell + eol for row, cell in zip(rows_in, ("consensus", "5", "6"))]
        assert out.read_bytes().decode() == "".join(expected)
    source = source.rename(tmp_path / "in.tsv")
    source.write_text("a\tb\n0\t1\n")
    ca.write_labels("-", [5], source=source)
    assert capsys.readouterr().out == "a\tb\tconsensus\n0\t1\t5\n"
    ca.write_ensemble(tmp_path / "new.csv", ca.Ensemble([["a b", 1], ["c", 2]]), delimiter=" ")
    assert (tmp_path / "new.csv").read_text() == 'partition_0 partition_1\n"a b" 1\nc 2\n'


def test_a_likely_separator_is_suggested(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a b c\n0 1 2\n1 0 2\n")
    with pytest.raises(ValueError, match=r"one column, 'a b c', with several numbers in a row.*--delimiter ' '"):
        ca.read_ensemble(path)
    assert ca.read_ensemble(path, delimiter=" ").names == ["a", "b", "c"]
    path.write_text("a,b\n0,x\n1,y\n")
    with pytest.raises(ValueError, match=r"no column 'a'; it has 'a,b'; if another mark .*delimiter="):
        ca.read_ensemble(path, delimiter=";", columns="a")
    path.write_text("my label\ncluster 1\ncluster 2\n")
    assert rows(ca.read_ensemble(path)) == [("cluster 1",), ("cluster 2",)]
    path.write_bytes(b"a\r0\r1\r")
    assert rows(ca.read_ensemble(path)) == [(0,), (1,)]


def test_a_quote_that_is_never_closed_swallows_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n0,1\n1,"0\n' + "1,1\n" * 50)
    with pytest.raises(ValueError, match="a quote is opened and never closed"):
        ca.read_ensemble(tmp_path / "t.csv")


def test_gzip_text_is_read_and_written(tmp_path):
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(b"id,a\nx,0\ny,1\n"))
    ca.write_labels(tmp_path / "out.csv.gz", [1, 0], source=tmp_path / "in.csv.gz")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == b"id,a,consensus\nx,0,1\ny,1,0\n"


cells = st.one_of(st.integers(-3, 12).map(str), st.sampled_from(["", "NA", "a", "b c", 'q"', "x,y", "é"]))


@settings(max_examples=40)
@given(st.integers(1, 4).flatmap(lambda p: st.lists(st.lists(cells, min_size=p, max_size=p), min_size=1, max_size=12)))
def test_any_table_of_cells_survives_csv(tmp_path_factory, table):
    import csv

    path = tmp_path_factory.mktemp("cells") / "t.csv"
    buffer = io.StringIO()
    names = [f"p{j}" for j in range(len(table[0]))]
    csv.writer(buffer, lineterminator="\n").writerows([names, *table])
    path.write_text(buffer.getvalue())
    absent = ("", "NA")
    for j in range(len(names)):
        texts = [row[j] for row in table]
        wanted = [None if t in absent else int(t) if t.lstrip("-").isdigit() else t for t in texts]
        wanted = [None if isinstance(w, int) and w < 0 else w for w in wanted]
        if all(w is None for w in wanted):
            with pytest.raises(ValueError, match="no label at all"):
                ca.read_ensemble(path, columns=names[j])
            continue
        read = ca.read_ensemble(path, columns=names[j])
        assert [row[0] for row in rows(read)] == wanted
