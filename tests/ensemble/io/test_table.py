"""Broken, hostile and mistaken files: one clear sentence, exit code 2, bounded memory, no partial output."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest

from coassoc.cli import main
from fuzz.mutants import h5_file, npy, parquet, zipped

pytest.importorskip("pyarrow")
pytest.importorskip("h5py")
GOOD = "id,a,b\nx,0,1\ny,0,1\nz,1,0\n"
NOISE = ("a,b\n" + "".join(f"{i * i % 977},{i * 7 % 13}\n" for i in range(3000))).encode()


def h5ad(build):
    """An h5ad file of six rows, made when the test runs."""
    return lambda: h5_file(build)


def h5_plain(obs, h5py):
    del obs.file["obs"]


def h5_wild_codes(obs, h5py):
    obs.create_dataset("a/codes", data=[0, 5, 1, 0, 0, 0])
    obs.create_dataset("a/categories", data=np.array([b"p", b"q"]))


def h5_far_link(obs, h5py):
    obs["a"] = h5py.ExternalLink("elsewhere.h5", "/secret")


def damaged_page() -> bytes:
    data = parquet({"a": list(range(9000))}, compression="zstd")
    return data[:10] + bytes(120) + data[130:]


def name_twice() -> bytes:
    """Two arrays, the second of which gets the name of the first."""
    return zipped({"a.npy": npy(np.arange(3)), "b.npy": npy(np.arange(3))}).replace(b"b.npy", b"a.npy")


# name -> (file name, bytes or a function that makes them, what the sentence must say)
KINDS = {
    "blank": ("t.csv", b"\n\n  \n", "blank line"),
    "header only": ("t.csv", b"id,a,b\n", "no rows"),
    "only an id": ("t.csv", b"id\nx\ny\n", "no column of labels"),
    "ragged": ("t.csv", GOOD.encode() + b"w,1\n", "row 5: Expected 3 columns, got 2: w,1"),
    "open quote": ("t.csv", GOOD.encode() + b'w,"1,1\n', "well-formed"),
    "binary garbage": ("t.csv", bytes(range(256)) * 40, "not text|NUL"),
    "NUL later on": ("t.csv", GOOD.encode() * 5000 + b"w,\x00,1\n", "NUL|not text"),
    "latin-1": ("t.csv", "id,a\nx,café\ny,thé\n".encode("latin-1"), "UTF-?8"),
    "utf-16": ("t.csv", GOOD.encode("utf-16"), "neither UTF-8 text"),
    "duplicated ids": ("t.csv", GOOD.encode() + b"x,1,1\n", "repeats 'x'"),
    "empty id": ("t.csv", GOOD.encode() + b",1,1\n", "row 4 is empty"),
    "duplicated columns": ("t.csv", b"a,b,a\n0,1,0\n", "two columns named 'a'"),
    "web page": ("t.csv", b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
    "json": ("t.csv", b'{"labels": [1, 2, 3]}', "JSON"),
    "excel": ("t.csv", zipped({"xl/workbook.xml": b"<xml/>"}), "damaged or protected|openpyxl"),
    "one endless line": ("t.csv", b"0," * 700_000, "bytes long"),
    "truncated gzip": ("t.csv.gz", gzip.compress(NOISE)[:-200], "damaged gzip"),
    "gzip bomb": ("t.csv.gz", gzip.compress(b"a,b\n" + b"0,1\n" * 10**6), "unpacks to more than"),
    "truncated npy": ("t.npy", npy(np.arange(60).reshape(30, 2))[:-40], "damaged or protected"),
    "npy with more behind it": ("t.npy", npy(np.arange(60).reshape(30, 2)) + b"more", "has not the size"),
    "npy of objects": ("t.npy", npy(np.array([["a", 1], [None, 2]], dtype=object)), "Python objects"),
    "npy of fractions": ("t.npy", npy(np.array([[0.5, 1.0], [2.0, 3.0]])), "labels, not measurements"),
    "npy of three axes": ("t.npy", npy(np.zeros((2, 2, 2), int)), r"shape \(2, 2, 2\)"),
    "npy that is something else": ("t.npy", b"hello, world", "holds something else"),
    "npz without arrays": ("t.npz", zipped({"readme.txt": b"hi"}), "no array"),
    "npz with more behind an array": ("t.npz", zipped({"a.npy": npy(np.arange(3)) + b"more"}), "has not the size"),
    "npz with a name twice": ("t.npz", name_twice, "two arrays of one name"),
    "npz of two tables": ("t.npz", zipped({"a.npy": npy(np.eye(3)), "b.npy": npy(np.eye(3))}), "several tables"),
    "parquet with a damaged page": ("t.parquet", damaged_page, "damaged or protected"),
    "parquet of lists": ("t.parquet", lambda: parquet({"a": [[1], [2]]}), "lists or records"),
    "parquet without rows": ("t.parquet", lambda: parquet({"a": np.array([], int)}), "no rows"),
    "csv named parquet": ("t.parquet", GOOD.encode(), "holds something else"),
    "hdf5 without obs": ("t.h5ad", h5ad(h5_plain), "without .obs"),
    "h5ad with wild codes": ("t.h5ad", h5ad(h5_wild_codes), "outside its categories"),
    "h5ad with a far link": ("t.h5ad", h5ad(h5_far_link), "is a link"),
    "a folder": ("t.csv", None, "is a folder"),
}


@pytest.fixture
def broken(request, tmp_path):
    name, content, message = KINDS[request.param]
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content() if callable(content) else content)
    options = ["--columns", "a"] if name == "t.h5ad" else []
    return path, message, [*options, "--max-bytes", "3000000"]


@pytest.mark.parametrize("broken", KINDS, indirect=True)
def test_a_broken_file_is_one_sentence_and_exit_code_2(broken, tmp_path, capsys):
    path, message, options = broken
    target = tmp_path / "out.csv"
    code = main(["fit", str(path), "-k", "2", "-o", str(target), "--engine", "numpy", *options])
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert said.err.startswith("coassoc: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert re.search(message, said.err), said.err
    assert len(said.err) < 500
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]
