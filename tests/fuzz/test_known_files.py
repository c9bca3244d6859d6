"""Small files that aborted Python, took gigabytes, hung, or read other files: each is refused with a clear error."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest

import coassoc as ca
from fuzz.mutants import h5_file, npy_header, parquet, parquet_bomb, zip_bomb
from fuzz.runner import violations

pytest.importorskip("pyarrow")
pytest.importorskip("h5py")
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="limits are set by Linux's means")

CORPUS = Path(__file__).parent / "corpus"


def one_value(kind: str) -> bytes:
    """100,000 rows of one value of a megabyte: 100 GB when each row gets its own."""
    import pyarrow as pa

    value = pa.array([b"x" * 10**6]).cast(kind)
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), value)
    return parquet({"a": column}, compression="zstd", store_schema=False)


def zeros(size: int) -> bytes:
    """A zlib stream of `size` zeros (whole megabytes), made from one packed megabyte that is repeated."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    adler = (size % 65521) << 16 | 1
    return b"\x78\xda" + block * (size >> 20) + b"\x03\x00" + adler.to_bytes(4, "big")


def long_page() -> bytes:
    """One row whose text is a page of 300 MB."""
    return parquet({"a": [b"x" * 300_000_000]}, use_dictionary=False, compression="zstd", write_statistics=False)


def h5_rows(obs, n: int, **settings) -> None:
    """Another number of rows, for a small file of many."""
    del obs["_index"]
    obs.create_dataset("_index", shape=(n,), dtype="i1", **settings)


def h5_wide_text(obs, h5py):
    h5_rows(obs, 30_000, chunks=(1000,))
    obs.create_dataset("a", shape=(30_000,), dtype="S1000000", chunks=(1,))


def h5_wide_categories(obs, h5py):
    h5_rows(obs, 30_000, chunks=(1000,))
    obs.create_dataset("a/codes", shape=(30_000,), dtype="i1", chunks=(1000,))
    obs.create_dataset("a/categories", shape=(30_000,), dtype="S300000", chunks=(1,))


def h5_repeated_categories(obs, h5py):
    """9,000 categories that all refer to one text of a megabyte."""
    h5_rows(obs, 9_000)
    obs.create_dataset("a/codes", data=np.arange(9_000, dtype=np.int16))
    obs.create_dataset("a/categories", shape=(9_000,), dtype=h5py.string_dtype(), fillvalue="x" * 10**6)


def h5_large_chunk(obs, h5py):
    """Six rows in a chunk of 1 GiB, stored in 1 MB."""
    size = 1 << 30
    column = obs.create_dataset("a", shape=(6,), maxshape=(None,), chunks=(size,), dtype="i1", compression="gzip")
    column.id.write_direct_chunk((0,), zeros(size))


def h5_records(obs, h5py):
    obs.create_dataset("a", data=np.zeros(6, [("x", "i4")]))


def h5_many_rows(obs, h5py):
    """Two billion rows that were never written."""
    h5_rows(obs, 2**31, chunks=(64,))
    obs.create_dataset("a", shape=(2**31,), dtype="i1", chunks=(64,))


# name -> (target, content)
FILES = {
    "binary-dictionary": ("parquet", lambda: one_value("binary")),
    "string-dictionary": ("parquet", lambda: one_value("string")),
    "npy-S0": ("npy", lambda: npy_header("|S0", (2**31, 1))),
    "npy-U0": ("npy", lambda: npy_header("<U0", (2**31, 1))),
    "npy-invalid-text": ("npy", lambda: npy_header("<U1", (1, 1), b"\xff" * 4)),
    "npz-wide": ("npz", lambda: zip_bomb((1, 250_000_000))),
    "npz-bomb": ("npz", zip_bomb),
    "parquet-bomb": ("parquet", parquet_bomb),
    "parquet-page": ("parquet", long_page),
    "h5ad-wide-text": ("h5ad", lambda: h5_file(h5_wide_text)),
    "h5ad-wide-categories": ("h5ad", lambda: h5_file(h5_wide_categories)),
    "h5ad-repeated-categories": ("h5ad", lambda: h5_file(h5_repeated_categories)),
    "h5ad-large-chunk": ("h5ad", lambda: h5_file(h5_large_chunk)),
    "h5ad-many-rows": ("h5ad", lambda: h5_file(h5_many_rows)),
    "h5ad-records": ("h5ad", lambda: h5_file(h5_records)),
}
FILES |= {f"{name}-stored": (f"{to}-stored", build) for name, (to, build) in FILES.items() if to in ("npy", "parquet")}
CASES = [*FILES, *(path.name for path in sorted(CORPUS.iterdir()))]


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """Broken rule of each file, all read in one run."""
    folder = tmp_path_factory.mktemp("known")
    paths = {path.name: f"{target_of(path)}:{path}" for path in sorted(CORPUS.iterdir())}
    for name, (target, build) in FILES.items():
        path = folder / f"{name}.{target.split('-')[0]}"
        path.write_bytes(build())
        paths[name] = f"{target}:{path}"
    names, found = list(paths), violations("files", files=list(paths.values()))
    return {names[one["index"]]: one for one in found}


def target_of(path: Path) -> str:
    return path.suffix[1:] + ("-stored" if path.name.startswith("stored") else "")


@pytest.mark.parametrize("name", CASES)
def test_it_is_read_or_refused_within_the_limits(problems, name):
    assert problems.get(name) is None


@pytest.mark.parametrize("by", ["soft-link", "column-order", "external"])
def test_no_other_file_is_read(tmp_path, by):
    other = tmp_path / "secret.h5ad"
    other.write_bytes(h5_file(lambda obs, _: obs.create_dataset("s", data=[7, 7, 7, 8, 8, 8])))

    def build(obs, h5py):
        obs.create_dataset("a", data=[0, 0, 0, 1, 1, 1])
        obs.parent["elsewhere"] = h5py.ExternalLink(str(other), "/obs")
        if by == "soft-link":
            obs["b"] = h5py.SoftLink("/elsewhere/s")
        elif by == "external":
            obs["b"] = h5py.ExternalLink(str(other), "/obs/s")
        else:
            obs.attrs["column-order"] = np.array(["a", "/elsewhere/s"], dtype=h5py.string_dtype())

    path = tmp_path / "links.h5ad"
    path.write_bytes(h5_file(build))
    try:
        found = ca.read_ensemble(path, columns="*")
    except ValueError as error:
        assert "links.h5ad" in str(error)
    else:
        assert all(7 not in labels for labels in found.categories)
