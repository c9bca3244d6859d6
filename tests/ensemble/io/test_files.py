"""Label files: every writer and reader round-trips, ten forms of one table give one consensus, files join by id."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coassoc as ca
from oracle import label_rows as rows

pytestmark = pytest.mark.usefixtures("here")
RNG = np.random.default_rng(5)
CENTRES = RNG.integers(0, 4, size=(3, 5))
TABLE = CENTRES[RNG.integers(0, 3, size=80)]
TABLE = np.where(RNG.random(TABLE.shape) < 0.15, RNG.integers(-1, 4, size=TABLE.shape), TABLE)
NAMES = ["a", "b", "c", "d", "e"]
IDS = np.array([f"item {i}" for i in range(80)], dtype=object)


def consensus(ensemble):
    return ca.KMeansConsensus(3, random_state=1, engine="numpy").fit(ensemble).labels_.tolist()


@pytest.fixture
def ensemble():
    made = ca.Ensemble.from_partitions(list(TABLE.T), names=NAMES)
    made.item_ids = IDS
    made.classes = np.array(["odd" if i % 2 else "even" for i in range(80)], dtype=object)
    return made


def test_npy_keeps_integer_labels_and_missing_ones(tmp_path, ensemble):
    ca.write_ensemble(tmp_path / "labels.npy", ensemble)
    stored = np.load(tmp_path / "labels.npy")
    assert (stored == [[-1 if x is None else x for x in row] for row in rows(ensemble)]).all()
    assert (ca.read_ensemble(tmp_path / "labels.npy").codes == ensemble.codes).all()


def test_ten_forms_of_one_table_give_one_consensus(tmp_path):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    pytest.importorskip("h5py")
    da = pytest.importorskip("dask.array")
    plain = ca.Ensemble(TABLE)
    frame = pd.DataFrame(TABLE, columns=NAMES)
    nulls = frame.mask(frame < 0).astype("Int64")
    texts = nulls.map(lambda v: None if pd.isna(v) else f"cluster {v}")  # in the order of the numbers
    forms = {
        "pandas": frame,
        "pandas nullable": nulls,
        "pandas categories": nulls.astype("category"),
        "pandas strings": texts,
        "pandas string categories": texts.astype("category"),
        "polars": pl.from_pandas(frame),
        "polars nullable": pl.from_pandas(nulls),
        "polars categories": pl.from_pandas(texts).cast(pl.Categorical),
        "dask": da.from_array(TABLE, chunks=(13, 5)),
        "pyarrow": pa.Table.from_pandas(frame),
        "pyarrow strings": pa.Table.from_pandas(texts),
        "pyarrow dictionary": pa.Table.from_pandas(texts.astype("category")),
    }
    for suffix in ("csv", "tsv", "parquet", "npy", "npz", "h5ad"):
        path = tmp_path / f"labels.{suffix}"
        ca.write_ensemble(path, plain)
        forms[suffix] = ca.read_ensemble(path, columns="*" if suffix == "h5ad" else None)
    expected = consensus(plain)
    assert len(set(expected)) == 3
    for name, form in forms.items():
        made = form if isinstance(form, ca.Ensemble) else ca.Ensemble(form)
        assert (made.codes == plain.codes).all(), name
        assert made.names == NAMES or not name.startswith(("pandas", "polars", "pyarrow")), name
        assert consensus(made) == expected, name
        assert made.vocabulary().encode(form).tolist() == made.codes.tolist(), name


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


def test_column_choice_by_name_pattern_and_exclusion(tmp_path, ensemble):
    path = tmp_path / "labels.csv"
    ca.write_ensemble(path, ensemble)
    assert ca.read_ensemble(path, columns=["c", "a"]).names == ["c", "a"]
    assert ca.read_ensemble(path, columns="[bd]").names == ["b", "d"]
    assert ca.read_ensemble(path, exclude=["class", "b*"]).names == ["a", "c", "d", "e"]
    assert ca.read_ensemble(path, class_column="class").names == NAMES
    with pytest.raises(ValueError, match=r"no column 'z'; it has 'id', 'a'"):
        ca.read_ensemble(path, columns=["a", "z"])


def test_separators_are_found_by_looking(tmp_path):
    for mark in ",;\t|":
        path = tmp_path / "labels.txt"
        path.write_text(f"a{mark}b\n0{mark}x\n1{mark}y\n")
        assert rows(ca.read_ensemble(path)) == [(0, "x"), (1, "y")]


def test_hdbscan_noise_is_missing_unless_told_otherwise(tmp_path):
    noise, path = -2, tmp_path / "labels.csv"
    path.write_text(f"a,b\n0,0\n{noise},0\n1,1\n{noise},1\n")
    assert rows(ca.read_ensemble(path)) == [(0, 0), (None, 0), (1, 1), (None, 1)]
    assert ca.read_ensemble(path, missing="nan").n_clusters.tolist() == [3, 2]
    assert ca.read_ensemble(path, missing="cluster").n_clusters.tolist() == [3, 2]
    assert ca.read_ensemble(path, missing="singletons").n_clusters.tolist() == [4, 2]


def test_files_join_by_id_and_absent_items_are_missing(tmp_path):
    (tmp_path / "first.csv").write_text("id,label\na,0\nb,0\nc,1\n")
    (tmp_path / "second.csv").write_text("id,label\nc,x\nd,y\na,x\n")
    (tmp_path / "third.tsv").write_text("id\tm\tn\nb\t5\t6\n")
    read = ca.read_ensemble([tmp_path / name for name in ("first.csv", "second.csv", "third.tsv")])
    assert read.names == ["first", "second", "third:m", "third:n"]
    assert read.item_ids.tolist() == ["a", "b", "c", "d"]
    assert rows(read) == [(0, "x", None, None), (0, None, 5, 6), (1, "x", None, None), (None, "y", None, None)]


def test_files_without_ids_stand_side_by_side(tmp_path):
    np.save(tmp_path / "one.npy", np.array([0, 0, 1]))
    np.save(tmp_path / "two.npy", np.array([[5, 7], [6, 7], [6, 8]]))
    read = ca.read_ensemble([tmp_path / "one.npy", tmp_path / "two.npy"])
    assert read.names == ["one", "two:0", "two:1"]
    assert rows(read) == [(0, 5, 7), (0, 6, 7), (1, 6, 8)]
    np.save(tmp_path / "three.npy", np.array([0, 1]))
    with pytest.raises(ValueError, match=r"one\.npy 3, three\.npy 2"):
        ca.read_ensemble([tmp_path / "one.npy", tmp_path / "three.npy"])
    (tmp_path / "ids.csv").write_text("id,a\nx,0\ny,1\n")
    with pytest.raises(ValueError, match="has no ids while others do"):
        ca.read_ensemble([tmp_path / "ids.csv", tmp_path / "three.npy"])


def test_npz_of_named_vectors_is_one_partition_each(tmp_path):
    np.savez(tmp_path / "v.npz", first=[0, 0, 1], second=["x", "y", "y"])
    assert rows(ca.read_ensemble(tmp_path / "v.npz")) == [(0, "x"), (0, "y"), (1, "y")]


def test_compact_npy_codes_are_mapped_not_copied(tmp_path):
    codes = np.array([[0, 1], [1, 0], [2, 1]], dtype=np.uint8)
    np.save(tmp_path / "codes.npy", codes)
    read = ca.read_ensemble(tmp_path / "codes.npy")
    assert isinstance(read.codes, np.memmap)


def test_parquet_dictionaries_and_row_groups(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    words = ["b", "a", None, "c", "a", "b"]
    table = pa.table({"w": pa.array(words).dictionary_encode(), "n": pa.array([1, None, -1, 2, 2, 1])})
    pq.write_table(table, tmp_path / "g.parquet", row_group_size=2)
    read = ca.read_ensemble(tmp_path / "g.parquet")
    assert rows(read) == list(zip(words, [1, None, None, 2, 2, 1]))
    ca.write_labels(tmp_path / "out.parquet", np.arange(6), source=tmp_path / "g.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column("consensus").to_pylist() == list(range(6))
    assert out.column("w").to_pylist() == words
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups == 3


def test_texts_of_many_batches_of_a_row_group(tmp_path, monkeypatch):
    """pyarrow gives each batch the texts of all earlier ones too."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("coassoc.ensemble.io.arrow._BATCH_CELLS", 1)
    ids = [f"i{i}" for i in range(5000)]
    words = [None if i % 7 == 0 else f"w{i % 700}" for i in range(5000)]
    pq.write_table(pa.table({"id": ids, "a": words}), tmp_path / "t.parquet")
    read = ca.read_ensemble(tmp_path / "t.parquet", trusted=True)
    assert read.item_ids.tolist() == ids
    assert [row[0] for row in rows(read)] == words


def test_labels_go_back_into_the_table_they_came_from(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text('id,a,note\n007,0,"x, y"\n\n008,1.0,"say ""hi"""\n')
    ca.write_labels(tmp_path / "out.csv", [1, -1], source=source)
    assert (tmp_path / "out.csv").read_text() == 'id,a,note,consensus\n007,0,"x, y",1\n008,1.0,"say ""hi""",-1\n'
    with pytest.raises(FileExistsError, match="--force"):
        ca.write_labels(tmp_path / "out.csv", [1, 0], source=source)
    ca.write_labels(tmp_path / "out.csv", [0, 0], source=source, force=True, name="k2")
    assert (tmp_path / "out.csv").read_text().startswith("id,a,note,k2\n")
    with pytest.raises(ValueError, match="already has a column 'a'"):
        ca.write_labels(tmp_path / "twice.csv", [0, 0], source=source, name="a")
    with pytest.raises(ValueError, match="2 rows, but there are 3 labels"):
        ca.write_labels(tmp_path / "short.csv", [0, 0, 1], source=source)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv", "out.csv"]


def test_separators_and_line_ends_of_the_source_are_kept(tmp_path):
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    for text, mark in (("a b\n0 1\n1 0\n", " "), ("a;b\r\n0;1\r\n1;0\r\n", None), ("\ufeffa,b\n0,1\n1,0", ",")):
        source.write_bytes(text.encode())
        ca.write_labels(out, [5, 6], source=source, delimiter=mark, force=True)
        sep, eol = mark or ";", "\r\n" if "\r" in text else "\n"
        rows_in = text.strip().split(eol)
        expected = [row + sep + cell + eol for row, cell in zip(rows_in, ("consensus", "5", "6"))]
        assert out.read_bytes().decode() == "".join(expected)
    ca.write_ensemble(tmp_path / "new.csv", ca.Ensemble([["a b", 1], ["c", 2]]), delimiter=" ")
    assert (tmp_path / "new.csv").read_text() == 'partition_0 partition_1\n"a b" 1\nc 2\n'
    source.write_text('id,a\n"x\ty",0\nz,"1"\n')  # a name that promises another separator
    ca.write_labels(tmp_path / "out.tsv", [1, 0], source=source)
    assert (tmp_path / "out.tsv").read_text() == 'id\ta\tconsensus\n"x\ty"\t0\t1\nz\t1\t0\n'


def test_a_likely_separator_is_suggested(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a b c\n0 1 2\n1 0 2\n")
    with pytest.raises(ValueError, match=r"one column, 'a b c'.*a space splits every row into 3.*--delimiter ' '"):
        ca.read_ensemble(path)
    assert ca.read_ensemble(path, delimiter=" ").names == ["a", "b", "c"]
    path.write_text("a,b\n0,x\n1,y\n")
    with pytest.raises(ValueError, match=r"no column 'a'; it has 'a,b'; a comma splits every row into 2 cells"):
        ca.read_ensemble(path, delimiter=";", columns="a")
    path.write_text("my label\ncluster 1\ncluster 2\n")
    assert rows(ca.read_ensemble(path)) == [("cluster 1",), ("cluster 2",)]


def test_a_quote_that_is_never_closed_swallows_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n0,1\n1,"0\n' + "1,1\n" * 50)
    with pytest.raises(ValueError, match="a quote is opened and never closed"):
        ca.read_ensemble(tmp_path / "t.csv")


def test_gzip_text_is_read_and_written(tmp_path):
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(b"id,a\nx,0\ny,1\n"))
    ca.write_labels(tmp_path / "out.csv.gz", [1, 0], source=tmp_path / "in.csv.gz")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == b"id,a,consensus\nx,0,1\ny,1,0\n"


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    target = tmp_path / "out.csv"
    target.write_text("before")

    def broken(*_, **__):
        raise RuntimeError("disk on fire")

    monkeypatch.setattr("coassoc.ensemble.io.text.cells_of", broken)
    with pytest.raises(RuntimeError, match="fire"):
        ca.write_labels(target, np.arange(3), force=True)
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize(
    ("module", "suffix", "line"),
    [("pyarrow", "parquet", "pip install 'coassoc[io]'"), ("h5py", "h5ad", "pip install 'coassoc[anndata]'")],
)
def test_without_an_optional_package_the_install_line_is_said(tmp_path, monkeypatch, capsys, module, suffix, line):
    from coassoc.cli import main

    pytest.importorskip(module)
    path = tmp_path / f"labels.{suffix}"
    ca.write_ensemble(path, ca.Ensemble(TABLE))
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match="pip install"):
        ca.read_ensemble(path, columns="*")
    assert main(["fit", str(path), "-k", "2", "--columns", "*"]) == 2
    assert line in capsys.readouterr().err


def test_arrays_need_no_optional_package(tmp_path):
    """A bare install takes arrays and NPY files; other files say what is missing."""
    script = (
        "import sys\n"
        "for name in ('pyarrow', 'pyarrow.csv', 'h5py', 'pandas', 'polars', 'dask', 'matplotlib', 'jinja2', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "import coassoc as ca\n"
        "ens = ca.Ensemble([[0, 1], [1, 2], [1, None]])\n"
        "path = f'{sys.argv[1]}/t.npy'\n"
        "ca.write_ensemble(path, ens)\n"
        "assert (ca.read_ensemble(path).codes == ens.codes).all()\n"
        "assert len(ca.KMeansConsensus(2).fit(path).labels_) == 3\n"
        "ca.write_ensemble(f'{sys.argv[1]}/t.csv', ens)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, env=env)
    assert "csv files need pyarrow: pip install 'coassoc[io]'" in done.stderr
