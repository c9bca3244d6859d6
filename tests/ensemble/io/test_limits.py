"""Small files that declare much: refused, or read within twice the declared limit, by both ways in."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest

import coassoc as ca
from coassoc.ensemble.io.limits import COLUMN_BYTES, FREE_BYTES, Limit, table_bytes

pytest.importorskip("resource")

READ = """
import json, resource, sys
import numpy, coassoc, pyarrow.parquet, pyarrow.csv, h5py
path, way = sys.argv[1:3]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = None
try:
    if way == "read_ensemble":
        coassoc.read_ensemble(path, columns=sys.argv[3] or None)
    else:
        coassoc.ensemble.StoredEnsemble(path, columns=sys.argv[3] or None).codes
except ValueError as error:
    said = str(error)
print(json.dumps({"said": said, "grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024}))
"""


def npy_header(descr, shape):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def npz(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, write in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if callable(write):
                    write(member)
                else:
                    np.save(member, write)
    return out.getvalue()


def wide_row(member):
    member.write(npy_header("|u1", (1, 250_000_000)))
    for _ in range(250):
        member.write(bytes(1_000_000))


def parquet_words(path, binary=False):
    """One value of 1 MB in 100,000 rows, as a Parquet writer that streams would store it."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kind = pa.binary() if binary else pa.string()
    value = b"x" * 1_000_000 if binary else "x" * 1_000_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array([value], kind))
    # without the Arrow schema, readers see plain text
    pq.write_table(pa.table({"a": column}), path, compression="zstd", store_schema=False)


def parquet_page(path):
    """One row whose text is a page of 300 MB."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    settings = {"use_dictionary": False, "compression": "zstd", "write_statistics": False}
    pq.write_table(pa.table({"a": pa.array([b"x" * 300_000_000], pa.binary())}), path, **settings)


def h5ad(path, build):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        build(file.create_group("obs"), h5py)


def unallocated(obs, h5py):
    obs.create_dataset("_index", shape=(30_000,), dtype="S1000000", chunks=(1,))
    obs.create_dataset("a", shape=(30_000,), dtype="S1000000", chunks=(1,))


def many_categories(obs, h5py):
    """Categories that all refer to one text of 1 MB."""
    n = 9_000
    index = obs.create_dataset("_index", shape=(n,), dtype="i8")
    index[:] = np.arange(n)
    group = obs.create_group("a")
    group.create_dataset("codes", data=np.arange(n, dtype=np.int16))
    categories = group.create_dataset("categories", shape=(n,), dtype=h5py.string_dtype(), fillvalue="x" * 1_000_000)
    assert categories.shape == (n,)


def wide_chunk(obs, h5py):
    obs.create_dataset("_index", data=np.arange(10))
    column = obs.create_dataset("a", shape=(10,), maxshape=(None,), chunks=(75_000_000,), dtype="i8", compression=1)
    packer = zlib.compressobj(1)
    parts = [packer.compress(bytes(1_000_000)) for _ in range(600)]
    column.id.write_direct_chunk((0,), b"".join([*parts, packer.flush()]))


CASES = {
    "S0.npy": lambda p: p.write_bytes(npy_header("|S0", (1_000_000_000, 1))),
    "U0.npy": lambda p: p.write_bytes(npy_header("<U0", (300_000_000, 2))),
    "clusters.npz": lambda p: p.write_bytes(
        npz({"codes": np.zeros((3, 1), np.uint8), "n_clusters": np.array([2**31])})
    ),
    "codes.npz": lambda p: p.write_bytes(
        npz({"codes": np.array([[2**31]], np.uint32), "n_clusters": np.array([2**32 - 1])})
    ),
    "columns.npz": lambda p: p.write_bytes(npz({"t": wide_row})),
    "words.parquet": lambda p: parquet_words(p),
    "binary.parquet": lambda p: parquet_words(p, binary=True),
    "page.parquet": parquet_page,
    "unallocated.h5ad": lambda p: h5ad(p, unallocated),
    "categories.h5ad": lambda p: h5ad(p, many_categories),
    "chunk.h5ad": lambda p: h5ad(p, wide_chunk),
}


@pytest.mark.parametrize("way", ["read_ensemble", "StoredEnsemble"])
@pytest.mark.parametrize("name", list(CASES))
def test_a_small_file_takes_at_most_twice_the_limit(tmp_path, name, way):
    for package in ("pyarrow", "h5py"):
        pytest.importorskip(package)
    path = tmp_path / name
    CASES[name](path)
    limit = max(FREE_BYTES, 200 * path.stat().st_size)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", READ, str(path), way, "a" if name.endswith("h5ad") else ""]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["grown"] < 2 * limit
    assert result["said"] is None or name in result["said"]
    assert name.startswith(("clusters", "codes", "words", "binary")) == (result["said"] is None)


def test_what_reading_takes_stays_below_the_estimate(tmp_path):
    """The estimate covers the largest cases: many columns, and many rows of one column."""
    rng = np.random.default_rng(0)
    pytest.importorskip("pyarrow")
    shapes = {"rows": (1_500_000, 1), "square": (30_000, 200), "columns": (3, 20_000)}
    for name, shape in shapes.items():
        path = tmp_path / f"{name}.npz"
        np.savez_compressed(path, labels=rng.integers(0, 20, size=shape).astype(np.int16).astype(str))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", READ, str(path), "read_ensemble", "*"]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
        result = json.loads(done.stdout)
        assert result["said"] is None
        assert result["grown"] < 2 * (table_bytes(*shape) + 12 * shape[0] * shape[1]) + (1 << 25), name


def test_the_limit_is_named_and_can_be_raised(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.zeros((100, 3), np.uint8))
    needed = table_bytes(100, 3)
    with pytest.raises(ValueError, match=f"t.npy declares 100 rows of 3 columns.*pass max_bytes={needed} "):
        ca.read_ensemble(path, max_bytes=1000)
    with pytest.raises(ValueError, match="max_bytes="):
        ca.ensemble.StoredEnsemble(path, max_bytes=needed - 1)
    assert ca.read_ensemble(path, max_bytes=needed).n_samples == 100
    assert ca.ensemble.StoredEnsemble(path, max_bytes=needed).n_samples == 100
    assert Limit.of([path], None).allowed == FREE_BYTES
    assert table_bytes(0, 1) == COLUMN_BYTES
