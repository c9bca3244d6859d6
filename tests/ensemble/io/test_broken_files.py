"""Broken, hostile and mistaken files: one clear sentence, exit code 2, bounded memory, no partial output."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from functools import cache

import numpy as np
import pytest

import coassoc as ca
from coassoc.cli import main
from coassoc.ensemble.io import text as _io_text

GOOD = "id,a,b\nx,0,1\ny,0,1\nz,1,0\n"
NOISE = ("a,b\n" + "".join(f"{i * i % 977},{i * 7 % 13}\n" for i in range(3000))).encode()


def npy_bytes(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npy_with_header(header: str, body: bytes = b"\0" * 64) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@cache
def zip_bomb() -> bytes:
    """An archive of 280 MB of zeros in under a megabyte."""
    header = npy_with_header("{'descr': '|u1', 'fortran_order': False, 'shape': (280000000, 1), }", b"")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("t.npy", "w") as member:
        member.write(header)
        for _ in range(280):
            member.write(bytes(1_000_000))
    return out.getvalue()


@cache
def gzip_bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(b"a,b\n")]
    line = b"0,1\n" * 250_000
    parts += [packer.compress(line) for _ in range(280)]
    return b"".join([*parts, packer.flush()])


def parquet_bytes(columns, **settings) -> bytes:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **settings)
    return out.getvalue()


@cache
def parquet_bomb() -> bytes:
    """200 million rows of one value: run lengths make that a few kilobytes."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    out = io.BytesIO()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000_000, np.int8)), pa.array(["x"]))
    table = pa.table({"a": column})
    with pq.ParquetWriter(out, table.schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(table, row_group_size=10_000_000)
    return out.getvalue()


def h5_bytes(build) -> bytes:
    h5py = pytest.importorskip("h5py")
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        build(file, h5py)
    return out.getvalue()


def obs_group(file, h5py, n=3):
    obs = file.create_group("obs")
    obs.attrs["_index"] = "_index"
    obs.create_dataset("_index", data=np.array([f"c{i}" for i in range(n)], dtype=object), dtype=h5py.string_dtype())
    return obs


def h5_short_column(file, h5py):
    obs_group(file, h5py).create_dataset("a", data=np.arange(2))


def h5_matrix_column(file, h5py):
    obs_group(file, h5py).create_dataset("a", data=np.zeros((3, 2), int))


def h5_bad_codes(file, h5py):
    group = obs_group(file, h5py).create_group("a")
    group.attrs["encoding-type"] = "categorical"
    group.create_dataset("codes", data=np.array([0, 5, 1], np.int8))
    group.create_dataset("categories", data=np.array(["p", "q"], dtype=object), dtype=h5py.string_dtype())


def h5_external(file, h5py):
    obs_group(file, h5py)["a"] = h5py.ExternalLink("elsewhere.h5", "/secret")


def h5_gigantic(file, h5py):
    obs = file.create_group("obs")
    obs.attrs["_index"] = "_index"
    obs.create_dataset("_index", shape=(10**12,), dtype="i8", chunks=(1024,))
    obs.create_dataset("a", shape=(10**12,), dtype="i8", chunks=(1024,))


def h5_plain(file, h5py):
    file.create_dataset("data", data=np.arange(4))


def encrypted_zip() -> bytes:
    data = bytearray(zipped({"t.npy": npy_bytes(np.zeros((3, 2), int))}))
    data[6] |= 1  # the flag in the local header
    data[data.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    return bytes(data)


def wrong_crc_zip() -> bytes:
    data = bytearray(zipped({"t.npy": npy_bytes(np.arange(600).reshape(300, 2))}, zipfile.ZIP_STORED))
    data[400] ^= 0xFF
    return bytes(data)


# name -> (file name, bytes or a function that makes them, what the sentence must say, further options)
KINDS = {
    "empty": ("t.csv", b"", "is empty"),
    "blank": ("t.csv", b"\n\n  \n", "blank line"),
    "blank first line": ("t.csv", b"\na,b\n0,1\n", "starts with a blank line"),
    "header only": ("t.csv", b"id,a,b\n", "no rows"),
    "only an id": ("t.csv", b"id\nx\ny\n", "no column of labels"),
    "ragged": ("t.csv", GOOD.encode() + b"w,1\n", "row 5 of t.csv has 2 cells where the first row has 3"),
    "too many cells": ("t.csv", GOOD.encode() + b"w,1,1,1\n", "row 5 of t.csv has 4 cells"),
    "open quote": ("t.csv", GOOD.encode() + b'w,"1,1\n', "well-formed|cells where"),
    "binary garbage": ("t.csv", bytes(range(256)) * 40, "not text|NUL"),
    "NUL later on": ("t.csv", GOOD.encode() * 5000 + b"w,\x00,1\n", "NUL|not text"),
    "latin-1": ("t.csv", "id,a\nx,café\ny,thé\n".encode("latin-1"), "not UTF-8"),
    "mixed encodings": (
        "t.csv", ("id,a\n" + "".join(f"n{i},é\n" for i in range(30000))).encode() + b"x,\xe9\n", "not UTF-8",
    ),
    "utf-16": ("t.csv", GOOD.encode("utf-16"), "UTF-16"),
    "duplicated ids": ("t.csv", GOOD.encode() + b"x,1,1\n", "repeats 'x'"),
    "empty id": ("t.csv", GOOD.encode() + b",1,1\n", "empty in row 4"),
    "duplicated columns": ("t.csv", b"a,b,a\n0,1,0\n", "two columns named 'a'"),
    "measurements": ("t.csv", b"a,b\n0,1.25\n1,3.5\n", "labels, not measurements"),
    "infinity": ("t.csv", b"a,b\n0,inf\n1,2\n", "infinity"),
    "a column without labels": ("t.csv", b"a,b\n0,NA\n1,\n", "no label at all"),
    "wrong column name": ("t.csv", GOOD.encode(), "no column 'nope'", ["--columns", "nope"]),
    "wrong id name": ("t.csv", GOOD.encode(), "no column 'nope'", ["--id", "nope"]),
    "wrong class name": ("t.csv", GOOD.encode(), "no column 'nope'", ["--class-column", "nope"]),
    "web page": ("t.csv", b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
    "json": ("t.csv", b'{"labels": [1, 2, 3]}', "JSON"),
    "pickle": ("t.csv", pickle.dumps({"a": [1, 2]}), "pickle"),
    "excel": ("t.csv", zipped({"xl/workbook.xml": b"<xml/>"}), "Excel workbook"),
    "picture": ("t.csv", b"\x89PNG\r\n\x1a\n" + bytes(50), "a picture"),
    "one endless line": ("t.csv", b"0," * 700_000, "characters long"),
    "truncated gzip": ("t.csv.gz", gzip.compress(NOISE)[:-200], "damaged gzip"),
    "gzip with wrong checksum": ("t.csv.gz", gzip.compress(GOOD.encode())[:-8] + bytes(8), "damaged gzip"),
    "gzip bomb": ("t.csv.gz", gzip_bomb, "unpacks to more than"),
    "truncated npy": ("t.npy", npy_bytes(np.arange(60).reshape(30, 2))[:-40], "truncated or damaged"),
    "npy of objects": ("t.npy", npy_bytes(np.array([["a", 1], [None, 2]], dtype=object)), "Python objects"),
    "npy of fractions": ("t.npy", npy_bytes(np.array([[0.5, 1.0], [2.0, 3.0]])), "labels, not measurements"),
    "npy of three axes": ("t.npy", npy_bytes(np.zeros((2, 2, 2), int)), r"shape \(2, 2, 2\)"),
    "npy without rows": ("t.npy", npy_bytes(np.zeros((0, 2), int)), "empty table"),
    "npy of records": ("t.npy", npy_bytes(np.zeros(3, dtype=[("a", int)])), "records"),
    "gigantic npy": (
        "t.npy",
        npy_with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000, 20), }"),
        "truncated or damaged",
    ),
    "npy with a strange header": ("t.npy", npy_with_header("__import__('os').system('true')"), "not a readable NPY"),
    "npy that is something else": ("t.npy", b"hello, world", "not a npy file"),
    "npz without arrays": ("t.npz", zipped({"readme.txt": b"hi"}), "no array"),
    "npz of objects": (
        "t.npz", zipped({"t.npy": npy_bytes(np.array([["a", None]], dtype=object))}), "Python objects",
    ),
    "npz of unequal vectors": (
        "t.npz", zipped({"a.npy": npy_bytes(np.arange(3)), "b.npy": npy_bytes(np.arange(4))}), "different lengths",
    ),
    "npz of two tables": (
        "t.npz",
        zipped({"a.npy": npy_bytes(np.zeros((3, 2), int)), "b.npy": npy_bytes(np.zeros((3, 2), int))}),
        "several tables",
    ),
    "gigantic npz": (
        "t.npz",
        zipped({"t.npy": npy_with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (9999999999, 9), }")}),
        "truncated or damaged",
    ),
    "zip bomb": ("t.npz", zip_bomb, "declares"),
    "truncated zip": ("t.npz", zipped({"t.npy": npy_bytes(np.zeros((30, 2), int))})[:-30], "damaged or protected"),
    "encrypted zip": ("t.npz", encrypted_zip, "damaged or protected"),
    "zip with wrong checksum": ("t.npz", wrong_crc_zip, "damaged|cannot be read"),
    "truncated parquet": ("t.parquet", lambda: parquet_bytes({"a": list(range(900))})[:-200], "damaged Parquet"),
    "parquet head only": ("t.parquet", b"PAR1" + bytes(100), "damaged Parquet"),
    "parquet with a damaged page": (
        "t.parquet",
        lambda: (lambda d: d[:10] + bytes(120) + d[130:])(parquet_bytes({"a": list(range(9000))}, compression="zstd")),
        "damaged Parquet",
    ),
    "parquet of lists": ("t.parquet", lambda: parquet_bytes({"a": [[1], [2]]}), "lists or records"),
    "parquet without rows": ("t.parquet", lambda: parquet_bytes({"a": np.array([], int)}), "no rows"),
    "parquet bomb": ("t.parquet", parquet_bomb, "declares"),
    "csv named parquet": ("t.parquet", GOOD.encode(), "not a parquet file"),
    "hdf5 without obs": ("t.h5ad", lambda: h5_bytes(h5_plain), "without .obs", ["--columns", "a"]),
    "truncated h5ad": ("t.h5ad", lambda: h5_bytes(h5_short_column)[:600], "damaged h5ad", ["--columns", "a"]),
    "h5ad without a choice": ("t.h5ad", lambda: h5_bytes(h5_short_column), "columns must say which"),
    "h5ad with a short column": ("t.h5ad", lambda: h5_bytes(h5_short_column), "has 2 rows", ["--columns", "a"]),
    "h5ad with a matrix": ("t.h5ad", lambda: h5_bytes(h5_matrix_column), "is a vector", ["--columns", "a"]),
    "h5ad with wild codes": ("t.h5ad", lambda: h5_bytes(h5_bad_codes), "outside its categories", ["--columns", "a"]),
    "h5ad with a far link": ("t.h5ad", lambda: h5_bytes(h5_external), "is a link", ["--columns", "a"]),
    "gigantic h5ad": ("t.h5ad", lambda: h5_bytes(h5_gigantic), "declares", ["--columns", "a"]),
    "a folder": ("t.csv", None, "is a folder"),
}  # fmt: skip


@pytest.fixture
def broken(request, tmp_path):
    name, content, message, *options = KINDS[request.param]
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content() if callable(content) else content)
    return path, message, options[0] if options else []


def test_there_are_at_least_thirty_kinds():
    assert len(KINDS) >= 30


@pytest.mark.parametrize("broken", list(KINDS), indirect=True)
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


@pytest.mark.parametrize("broken", [name for name, kind in KINDS.items() if ".csv" in kind[0]], indirect=True)
def test_the_plain_parser_says_the_same(broken, tmp_path, capsys, monkeypatch):
    path, message, options = broken
    monkeypatch.setattr(_io_text, "has_arrow", lambda: False)
    assert main(["fit", str(path), "-k", "2", "--engine", "numpy", *options]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_memory_stays_bounded_on_bombs(tmp_path):
    """The address space of a reader is limited to a little more than Python itself needs."""
    pytest.importorskip("resource")
    script = """
import json, resource, sys
import numpy, coassoc, pyarrow.parquet
from coassoc.ensemble import read_ensemble
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = []
for path in sys.argv[1:]:
    try:
        read_ensemble(path)
    except ValueError as error:
        said.append(str(error))
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps({"said": said, "grown": grown}))
"""
    pytest.importorskip("pyarrow")
    paths = []
    for name, make in {"z.npz": zip_bomb, "g.csv.gz": gzip_bomb, "p.parquet": parquet_bomb}.items():
        (tmp_path / name).write_bytes(make())
        paths.append(str(tmp_path / name))
    (tmp_path / "n.npy").write_bytes(KINDS["gigantic npy"][1])
    paths.append(str(tmp_path / "n.npy"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, env=env, check=True)
    result = json.loads(done.stdout)
    assert len(result["said"]) == 4
    assert result["grown"] < 150_000  # kilobytes, for content that declares gigabytes


def test_limits_can_be_lifted(tmp_path):
    (tmp_path / "z.npz").write_bytes(zip_bomb())
    with pytest.raises(ValueError, match=r"max_bytes=\d+"):
        ca.read_ensemble(tmp_path / "z.npz", max_bytes=1000)
    small = zipped({"t.npy": npy_bytes(np.zeros((3, 2), np.uint8))})
    (tmp_path / "s.npz").write_bytes(small)
    with pytest.raises(ValueError, match="declares"):
        ca.read_ensemble(tmp_path / "s.npz", max_bytes=10)
    assert ca.read_ensemble(tmp_path / "s.npz", max_bytes=10_000).n_samples == 3


def test_an_unreadable_file_says_so(tmp_path, capsys):
    assert main(["fit", str(tmp_path / "absent.csv"), "-k", "2"]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_random_damage_never_escapes_as_another_error(tmp_path):
    """Cut and flip bytes of good files: either they still read, or a ValueError (or OSError) says what is wrong."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    good = ca.Ensemble(rng.integers(0, 5, size=(200, 4)))
    for suffix in ("csv", "npy", "npz", "parquet", "h5ad"):
        if suffix == "h5ad":
            pytest.importorskip("h5py")
        path = tmp_path / f"good.{suffix}"
        ca.write_ensemble(path, good)
        data = path.read_bytes()
        for _ in range(40):
            bad = bytearray(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.4 else data)
            for _ in range(int(rng.integers(1, 6))):
                bad[rng.integers(len(bad))] = rng.integers(256)
            target = tmp_path / f"bad.{suffix}"
            target.write_bytes(bytes(bad))
            try:
                ca.read_ensemble(target, columns="partition_*" if suffix == "h5ad" else None)
            except (ValueError, OSError, TypeError) as error:
                assert str(error)
