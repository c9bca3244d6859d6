"""Damaged and hostile files: small seed files of every format, and edits that know how each format is built.

``mutant(kind, seed, index)`` is a pure function, so any case can be made again from these three values.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import coassoc as ca

KINDS = ("csv", "tsv", "parquet", "npy", "npz", "h5ad", "model", "mat", "arrow", "xlsx")
_NUMBERS = (0, 1, 2, 3, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**64 - 1)
_DTYPES = ("|u1", "<i8", ">i4", "<u2", "<f8", "<f2", "|S0", "|S9", "<U0", "<U3", "<U99999999", "|b1", "|O", "<c16")
_DTYPES += ("<M8[s]", "<m8[ns]", "|V0", "|V8", [("a", "<i4")], ("<i4", (2,)), "<i3", "u", "")
_CELLS = ("", "NA", "nan", "-1", "1_0", "01", "1e400", "-0", "1.5", "9" * 400, "9007199254740993", "\u0663", '"', '""')
_CELLS += ("\ufeff", "\u2028", "a\nb", "\r", "\0", ",", "\t", "=1+1", "\x1b[31m", "\ud7ff", "id", "inf", "x" * 3000)
_EDGES = [(r, s) for r in (0, 1, 2, 5, 12, 2**31, 2**40, 2**62, -1) for s in (None, 0, 1, 3, 2**31, 2**62)]


def mutant(kind: str, seed: int, index: int) -> bytes:
    """File `index` of a run: the first ones are the seeds themselves, the others are edited one to four times."""
    files = seeds(kind)
    if index < len(files):
        return files[index]
    rng = np.random.default_rng([KINDS.index(kind), seed, index])
    data = files[rng.integers(len(files))]
    if rng.random() < 0.7:
        try:
            data = _STRUCTURE[kind](data, rng)
        except Exception:  # the library that writes the format refuses some edits; plain damage remains
            return damaged(data, rng, files)
    if rng.random() < 0.5:
        data = damaged(data, rng, files)
    return data


def _pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


# -- edits that know nothing of the format -------------------------------------------------------------------------


def damaged(data: bytes, rng, others: list[bytes] = ()) -> bytes:
    """Flipped bits, overwritten runs and integers, cuts, copies and splices."""
    for _ in range(rng.integers(1, 5)):
        if not data:
            return data
        at, to, width = int(rng.integers(len(data))), int(rng.integers(len(data))), _pick(rng, (1, 2, 4, 8))
        run = data[at : at + (1 << int(rng.integers(9)))]
        number = _pick(rng, _NUMBERS) % 256**width
        other = _pick(rng, others or [data])
        spliced = other[int(rng.integers(len(other) + 1)) :]
        size, new = _pick(rng, [
            (1, bytes([data[at] ^ 1 << int(rng.integers(8))])), (1, bytes([data[at] ^ 1 << int(rng.integers(8))])),
            (1, bytes([_pick(rng, (0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x22, 0x2C))])), (len(run), rng.bytes(len(run))),
            (width, number.to_bytes(width, _pick(rng, ("little", "big")))), (len(run), b""), (len(data), b""),
            (0, data[to : to + len(run)]), (len(run), spliced[: len(run)]), (len(run), spliced),
        ])  # fmt: skip
        data = data[:at] + new + data[at + size :]
    return data


# -- seeds ---------------------------------------------------------------------------------------------------------

TABLE = np.array([[0, 2, 1], [0, 2, 1], [1, 0, 1], [1, 0, 0], [2, 1, 0], [2, 1, -1]])


@cache
def seeds(kind: str) -> list[bytes]:
    """Small valid files of a kind: as this package writes them, and as others do."""
    foreign: dict[str, Callable[[], list[bytes]]] = {
        "csv": lambda: [gzip.compress(b"id,a\nx,0\ny,1\n", mtime=0), b'"one","t""wo"\r\n"a\nb",1\r\n-1,2\r\n'],
        "npy": lambda: [npy(TABLE.astype(str)), npy(TABLE[:, 0].astype(float))],
        "npz": lambda: [zipped({"labels.npy": npy(TABLE)})],
        "parquet": _foreign_parquet, "h5ad": _foreign_h5ad, "mat": _matlab,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        if kind == "model":
            paths = [Path(folder, f"{i}.skops") for i in range(len(fitted_models()))]
            for path, model in zip(paths, fitted_models()):
                model.save(path)
        else:
            paths = [Path(folder, f"{i}.{kind}") for i in range(0 if kind == "mat" else 2)]
            for path, ensemble in zip(paths, _ensembles()):
                ca.write_ensemble(path, ensemble)
        return [path.read_bytes() for path in paths] + foreign.get(kind, list)()


def _ensembles() -> tuple[ca.Ensemble, ca.Ensemble]:
    """One of numbers, and one of text with ids and classes."""
    words = ca.Ensemble.from_partitions({"a": TABLE[:, 0], "b b": ["p", "NA", None, "p", "'q", "p"]})
    words.item_ids, words.classes = np.array([f"c{i}" for i in range(6)]), TABLE[:, 1]
    return ca.Ensemble(TABLE), words


def npy(array: np.ndarray) -> bytes:
    """An array as an NPY file."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npy_header(descr: object, shape: object, body: bytes = b"") -> bytes:
    """An NPY file that declares whatever it is told."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of these members, with valid checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def parquet(columns, **settings) -> bytes:
    """A Parquet file of these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), out, **settings)
    return out.getvalue()


def _foreign_parquet() -> list[bytes]:
    columns = {"x": TABLE[:, 1].astype("i4"), "y": TABLE[:, 2] * 2.0, "z": TABLE[:, 0] > 0, "w": list("pqrpqr")}
    pages = {"store_schema": False, "compression": "none", "row_group_size": 4, "data_page_version": "2.0"}
    return [parquet(columns, compression="zstd", use_dictionary=False), parquet(columns, **pages)]


def h5_file(build) -> bytes:
    """An HDF5 file with an .obs of six rows, finished by ``build(obs, h5py)``."""
    import h5py

    out = io.BytesIO()
    with h5py.File(out, "w", track_order=False) as file:
        obs, text = file.create_group("obs"), h5py.string_dtype()
        obs.attrs["_index"] = "_index"
        obs.create_dataset("_index", data=np.array([f"c{i}" for i in range(6)], object), dtype=text)
        build(obs, h5py)
        if "column-order" not in obs.attrs:
            obs.attrs["column-order"] = np.array([name for name in obs if name != "_index"], dtype=text)
    return out.getvalue()


def _foreign_h5ad() -> list[bytes]:
    def build(obs, h5py):
        obs.create_dataset("a", data=np.array(list("xxyyzz"), object), dtype=h5py.string_dtype())
        obs.create_dataset("b", data=TABLE[:, 1], chunks=(3,), compression="gzip")
        obs.create_dataset("c/values", data=TABLE[:, 2])
        obs.create_dataset("c/mask", data=TABLE[:, 2] < 0)
        obs.create_dataset("d/codes", data=np.array([0, 0, 1, 1, 2, -1], "i1"))
        obs.create_dataset("d/categories", data=np.array([b"p", b"q", b"r"]))

    return [h5_file(build)]


def _matlab() -> list[bytes]:
    import h5py
    from scipy.io import savemat

    outs = [io.BytesIO() for _ in range(3)]
    matrices = {"members": TABLE.astype(float), "gt": TABLE[:, :1], "X": TABLE / 2}
    for out, packed in zip(outs, (False, True)):
        savemat(out, matrices, do_compression=packed)
    with h5py.File(outs[2], "w", userblock_size=512) as file:
        for name in ("members", "gt"):
            dataset = file.create_dataset(name, data=matrices[name].T.astype(float))
            dataset.attrs["MATLAB_class"] = np.bytes_("double")
    return [*(out.getvalue() for out in outs[:2]), b"MATLAB 7.3 MAT-file".ljust(512) + outs[2].getvalue()[512:]]


@cache
def fitted_models() -> tuple:
    """Estimators whose saved files are mutated, fitted on `model_rows`."""
    rows = model_rows()
    return (
        ca.KMeansConsensus(3, n_init=2, random_state=0).fit(rows),
        ca.BisectingConsensus(n_clusters=3, random_state=0).fit(rows),
        ca.EAC(3).fit(rows),
        ca.ConsensusClustering(n_clusters=2, random_state=0, n_partitions=3).fit(rows.astype(float)),
    )


def model_rows() -> np.ndarray:
    """Twelve rows that every saved model can label."""
    return np.repeat(np.array([[0, 2, 1], [1, 0, 1], [2, 1, 0]]), 4, axis=0)


# -- files that unpack to far more than their size -----------------------------------------------------------------


@cache
def zip_bomb(shape: tuple = (280_000_000, 1)) -> bytes:
    """An archive of 250 MB of zeros and more in under a megabyte."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("t.npy", "w") as member:
        member.write(npy_header("|u1", shape))
        for _ in range(shape[0] * shape[1] // 10**6):
            member.write(bytes(10**6))
    return out.getvalue()


@cache
def parquet_bomb() -> bytes:
    """200 million rows of one value: run lengths make that a few kilobytes."""
    import pyarrow as pa

    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000_000, np.int8)), pa.array(["x"]))
    table = pa.concat_tables([pa.table({"a": column})] * 20)
    return parquet(table, compression="zstd", row_group_size=10_000_000)


# -- edits that know the format ------------------------------------------------------------------------------------


def _edit_text(data: bytes, rng) -> bytes:
    packed = data[:2] == b"\x1f\x8b"
    text = (gzip.decompress(data) if packed else data).decode()
    cells = text.replace("\t", ",").split(",")
    for _ in range(rng.integers(1, 4)):
        cells[int(rng.integers(len(cells)))] = _pick(rng, _CELLS)
    text = ("\t" if "\t" in text else ",").join(cells)
    if rng.random() < 0.2:
        text = text.replace("\n", _pick(rng, ("\r", "\r\n", "\n\n", ",\n", "\u2028", "")))
    out = text.encode("utf-8", "surrogatepass")
    return gzip.compress(out, mtime=0) if packed else out


def _edit_npy(data: bytes, rng) -> bytes:
    shape = tuple(int(n) for n in _pick(rng, _EDGES) if n is not None)
    if rng.random() < 0.4:
        shape = (int(_pick(rng, _NUMBERS)), *shape)
    descr = _pick(rng, _DTYPES)
    try:
        size = np.dtype(descr).itemsize * int(np.prod(shape, dtype=object))
    except (TypeError, ValueError):
        size = 48
    body = rng.bytes(size) if 0 <= size <= 4096 and rng.random() < 0.8 else rng.bytes(48)
    return npy_header(descr, _pick(rng, (shape, shape, list(shape), "()", f"({shape[0]!r}, True)")), body)


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _edit_npz(data: bytes, rng) -> bytes:
    members = _members(data)
    names = list(members)
    for _ in range(rng.integers(1, 4)):
        name, other = _pick(rng, names), _pick(rng, (*names, "classes.npy", "item_ids.npy", "../x.npy"))
        content = members.get(name, b"")
        members[other] = _pick(rng, (content, _edit_npy(b"", rng), damaged(content, rng), npy(_hostile_array(rng))))
        if rng.random() < 0.2:
            del members[other]
    return zipped(members, _pick(rng, (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)))


def _hostile_array(rng) -> np.ndarray:
    shape = tuple(int(n) for n in rng.integers(0, 8, size=rng.integers(0, 4)))
    kind = _pick(rng, ("u1", "u2", "i8", "u8", "f8", "U2", "S2", "bool", "c16", "M8[s]", "f2"))
    values = rng.choice(np.array(_NUMBERS[:-1], dtype="i8"), size=shape)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(kind)


def _edit_parquet(data: bytes, rng) -> bytes:
    if rng.random() < 0.25:
        return parquet(_hostile_columns(rng), store_schema=bool(rng.integers(2)))
    size = struct.unpack("<I", data[-8:-4])[0]
    footer, pages = data[-8 - size : -8], data[4 : -8 - size]
    if rng.random() < 0.7:  # the Thrift metadata, with its length kept right
        footer = damaged(footer, rng)
    else:
        pages = damaged(pages, rng)
    return b"PAR1" + pages + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _hostile_columns(rng) -> dict:
    import pyarrow as pa

    kinds = [pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.date32()]
    kinds += [pa.timestamp("ns"), pa.decimal128(5, 1), pa.list_(pa.int8()), pa.time64("us"), pa.null(), pa.binary(2)]
    columns = {}
    for name in rng.permutation(["id", "a", "b", "", "index", "\n", "class"])[: rng.integers(1, 5)]:
        kind = _pick(rng, kinds)
        try:
            columns[str(name)] = pa.array([0, 1, 1, None, 5], pa.int64()).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            columns[str(name)] = pa.nulls(5, kind)
        if rng.random() < 0.3 and not pa.types.is_nested(kind) and kind != pa.null():
            columns[str(name)] = columns[str(name)].dictionary_encode()
    return columns


def _edit_h5ad(data: bytes, rng) -> bytes:
    import h5py

    out = io.BytesIO(data)
    with h5py.File(out, "r+") as file:
        for _ in range(rng.integers(1, 4)):
            places = ["obs"]
            file.visit(places.append)
            _edit_h5_object(file, _pick(rng, places), rng, h5py)
    return out.getvalue()


def _edit_h5_object(file, name: str, rng, h5py) -> None:
    other = _pick(rng, ("/", "/obs", "/obs/a", "/obs/_index", f"/{name}", "/nowhere"))
    if rng.random() < 0.15:
        attribute = _pick(rng, ("column-order", "_index", "encoding-type", "categories"))
        value = _pick(rng, (b"\xff", "a", 3, np.array(["a", "b", "a"], object), np.empty(0), np.array([[1.5]]), other))
        _pick(rng, (file[name], file["obs"])).attrs[attribute] = value
        return
    del file[name]
    texts = np.array([_pick(rng, _CELLS).replace("\0", "") for _ in range(6)], object)
    new = _pick(rng, (None, h5py.SoftLink(other), h5py.ExternalLink("elsewhere.h5", other), _hostile_array(rng), texts,
                      np.zeros(6, [("a", "i4"), ("b", "f8")]), "large"))  # fmt: skip
    if isinstance(new, str):
        shape = tuple(n for n in _pick(rng, _EDGES) if n is not None and n >= 0)
        kind = _pick(rng, ("i1", "u8", "f8", "S9", "S1000000", "b1", "c8", "V8"))
        chunks = tuple(min(n, 64) for n in shape) if all(shape) else None
        file.create_dataset(name, shape=shape, dtype=kind, chunks=chunks)
    elif new is not None:
        file[name] = new


def _edit_model(data: bytes, rng) -> bytes:
    members = _members(data)
    if rng.random() < 0.3:
        name = _pick(rng, [name for name in members if name.endswith(".npy")])
        array = np.load(io.BytesIO(members[name]))
        mixed = rng.permutation(array.ravel())  # values in other places, or fewer of them
        members[name] = npy(_pick(rng, (mixed.reshape(array.shape), mixed[: array.size // 2], _hostile_array(rng))))
    else:
        tree = json.loads(members["schema.json"])
        for _ in range(rng.integers(1, 3)):
            _edit_json(tree, rng)
        members["schema.json"] = json.dumps(tree).encode()
    return zipped(members)


def _edit_json(tree, rng) -> None:
    places: list[tuple] = []

    def visit(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                visit(node[key])

    visit(tree)
    node, key = _pick(rng, places)
    source, where = _pick(rng, places)
    values = (None, True, 0, -1, 10**20, 2**31, 1.5, "", "x", [], {}, [[1]], "9" * 5000, "ObjectNode", "TypeNode")
    values += ("ConstructorFromReduceNode", "Ensemble", "coassoc.ensemble.ensemble", "1e999", "numpy", "void", "json")
    edit = int(rng.integers(5))
    if edit == 0:
        del node[key]
    elif edit == 1:
        node[key] = json.loads(json.dumps(source[where]))
    elif edit == 2 and isinstance(node, dict):
        node[_pick(rng, ("content", "file", "shape", "key_types", "labels_", "__class__", "__dict__"))] = node[key]
    elif edit == 3 and isinstance(node[key], int):
        node[key] += int(_pick(rng, (1, -1, 255, 2**40)))
    else:
        node[key] = _pick(rng, values)


_STRUCTURE = {
    "csv": _edit_text, "tsv": _edit_text, "npy": _edit_npy, "npz": _edit_npz, "parquet": _edit_parquet,
    "h5ad": _edit_h5ad, "model": _edit_model, "mat": damaged, "arrow": damaged, "xlsx": _edit_npz,
}  # fmt: skip
