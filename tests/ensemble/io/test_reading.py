"""Many forms of one table have the same codes, files join by id, large files are read like small ones."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble import StoredEnsemble
from oracle import label_rows as rows

RNG = np.random.default_rng(5)
CENTRES = RNG.integers(0, 4, size=(3, 5))
TABLE = CENTRES[RNG.integers(0, 3, size=80)]
TABLE = np.where(RNG.random(TABLE.shape) < 0.15, RNG.integers(-1, 4, size=TABLE.shape), TABLE)
NAMES = ["a", "b", "c", "d", "e"]
IDS = np.array([f"item {i}" for i in range(80)], dtype=object)


@pytest.fixture
def ensemble():
    made = ca.Ensemble.from_partitions(list(TABLE.T), names=NAMES)
    made.item_ids = IDS
    made.classes = np.array(["odd" if i % 2 else "even" for i in range(80)], dtype=object)
    return made


def test_forms_of_one_table_have_the_same_codes(tmp_path):
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
    assert (np.load(tmp_path / "labels.npy") == np.maximum(TABLE, -1)).all()
    for name, form in forms.items():
        made = form if isinstance(form, ca.Ensemble) else ca.Ensemble(form)
        assert (made.codes == plain.codes).all(), name
        assert made.names == NAMES or not name.startswith(("pandas", "polars", "pyarrow")), name
        assert made.vocabulary().encode(form).tolist() == made.codes.tolist(), name


def test_column_choice_by_name_pattern_and_exclusion(tmp_path, ensemble):
    path = tmp_path / "labels.csv"
    ca.write_ensemble(path, ensemble)
    assert ca.read_ensemble(path, columns=["c", "a"]).names == ["c", "a"]
    assert ca.read_ensemble(path, columns="[bd]").names == ["b", "d"]
    assert ca.read_ensemble(path, exclude=["class", "b*"]).names == ["a", "c", "d", "e"]
    assert ca.read_ensemble(path, class_column="class").names == NAMES
    with pytest.raises(ValueError, match=r"no column 'z'; it has 'id', 'a'"):
        ca.read_ensemble(path, columns=["a", "z"])


@pytest.mark.parametrize(("missing", "n_clusters"), [("negative", 2), ("nan", 3), ("cluster", 3), ("singletons", 4)])
def test_hdbscan_noise_is_missing_unless_told_otherwise(tmp_path, missing, n_clusters):
    path = tmp_path / "labels.csv"
    path.write_text("a,b\n0,0\n-2,0\n1,1\n-2,1\n")
    assert ca.read_ensemble(path, missing=missing).n_clusters.tolist() == [n_clusters, 2]


def test_files_join_by_id_and_absent_items_are_missing(tmp_path):
    (tmp_path / "first.csv").write_text("id,label\na,0\nb,0\nc,1\n")
    (tmp_path / "second.csv").write_text("id,label\nc,x\nd,y\na,x\n")
    (tmp_path / "third.tsv").write_text("id\tm\tn\nb\t5\t6\n")
    read = ca.read_ensemble([tmp_path / name for name in ("first.csv", "second.csv", "third.tsv")])
    assert read.names == ["first", "second", "third:m", "third:n"]
    assert read.item_ids.tolist() == ["a", "b", "c", "d"]
    assert rows(read) == [(0, "x", None, None), (0, None, 5, 6), (1, "x", None, None), (None, "y", None, None)]


def test_columns_of_files_of_one_name_have_names_of_their_own(tmp_path):
    paths = [tmp_path / folder / "labels.csv" for folder in "xy"]
    for path, text in zip(paths, ("m\n0\n0\n1\n", "m\n0\n1\n1\n")):
        path.parent.mkdir()
        path.write_text(text)
    read = ca.read_ensemble(paths)
    assert read.names == ["labels:m", "labels:m:2"] and rows(read) == [(0, 0), (0, 1), (1, 1)]


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


def test_a_named_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    for read in (ca.read_ensemble, ca.Ensemble):
        with pytest.raises(ValueError, match="pipe"):
            read(tmp_path / "t.csv")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "h5ad", "npy", "npz"])
def test_pieces_read_alone_as_on_a_cluster_give_the_codes_of_the_whole(tmp_path, monkeypatch, suffix, ensemble):
    pytest.importorskip("h5py" if suffix == "h5ad" else "pyarrow")
    monkeypatch.setattr("coassoc.ensemble.io.formats.BLOCK_ROWS", 30)
    path = tmp_path / f"t.{suffix}"
    ca.write_ensemble(path, ensemble)
    if suffix == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pq.read_table(path), path, row_group_size=30)
    stored = StoredEnsemble(path, columns=None if suffix == "npy" else NAMES)
    blocks = pickle.loads(pickle.dumps(stored.source.blocks))
    assert len(blocks) == (3 if suffix in ("parquet", "h5ad", "npy") else 1)
    sizes, _ = stored.source.tally(blocks, stored.names, "negative")
    assert sizes == [block.rows or 80 for block in blocks]
    assert (stored.scan().codes_of_blocks(blocks) == ensemble.codes).all()


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
    frame.rename(columns={"b": "c"}).to_parquet(tmp_path / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2\.parquet has columns \['a', 'c'\].* must have the same columns"):
        ca.read_ensemble(tmp_path)


def test_a_text_table_with_the_name_of_a_workbook_is_noticed(tmp_path):
    (tmp_path / "t.xlsx").write_text("a,b\n0,1\n1,0\n")
    with pytest.raises(ValueError, match="format='csv'"):
        ca.read_ensemble(tmp_path / "t.xlsx")
    assert ca.read_ensemble(tmp_path / "t.xlsx", format="csv").n_samples == 2


@pytest.mark.parametrize(
    ("module", "suffix", "line"),
    [("pyarrow", "parquet", "pip install 'coassoc[io]'"), ("h5py", "h5ad", "pip install 'coassoc[anndata]'")],
)
def test_without_an_optional_package_the_install_line_is_said(tmp_path, monkeypatch, capsys, module, suffix, line):
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
