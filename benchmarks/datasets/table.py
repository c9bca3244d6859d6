"""Raw tables of named data sets: their file formats, the sha256 of their cells, the numbers that are clustered."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

SCALINGS = ("raw", "z", "minmax")
MISSING = ("", "?", "na", "n/a", "nan", "null", "none", "<na>")


@dataclass
class RawTable:
    """Cells as the source has them: nothing scaled, imputed or encoded.

    `numbers` has one column per feature, NaN where a cell is missing or where the feature is nominal; `nominal`
    holds the words of nominal features by column number; `labels` the classes as words.
    """

    names: list[str]
    numbers: np.ndarray
    labels: np.ndarray
    nominal: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        return len(self.labels)


def table_from_rows(
    rows: Sequence[Sequence[str]], names: Sequence[str], at: int, nominal: Collection[str] | None = ()
) -> RawTable:
    """Table from rows of words, the class in column `at`.

    Columns not in `nominal` must be numbers or missing; None: those that are not are nominal.
    """
    for i, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ValueError(f"row {i} has {len(row)} cells, expected {len(names)}.")
    columns, features = [[cell.strip() for cell in column] for column in zip(*rows)], list(names)
    labels, _ = columns.pop(at), features.pop(at)
    numbers = np.full((len(rows), len(features)), np.nan)
    words: dict[int, np.ndarray] = {}
    for j, (name, cells) in enumerate(zip(features, columns)):
        values = np.array([_number(cell) for cell in cells])
        odd = next((i for i in np.flatnonzero(np.isnan(values)) if cells[i].lower() not in MISSING), None)
        if name in (nominal or ()) or (nominal is None and odd is not None):
            words[j] = np.array(cells, dtype=np.str_)
        elif odd is not None:
            raise ValueError(f"column {name}, row {odd}: {cells[odd]!r} is not a number.")
        else:
            numbers[:, j] = values
    return RawTable(features, numbers, np.array(labels, dtype=np.str_), words)


def _number(cell: str) -> float:
    """The number in a cell; NaN for words and missing cells."""
    try:
        return np.nan if "_" in cell else float(cell)
    except ValueError:
        return np.nan


def cell_digest(table: RawTable) -> str:
    """sha256 of the cells of the sorted rows, so that their order does not matter.

    A number is written as the shortest decimal that reads back equal, a missing cell as nothing, so the digest
    belongs to the values and not to a file format. Cost: one pass, O(n_samples * n_features).
    """
    lines = []
    for i in range(table.n_samples):
        cells = ["" if v != v else repr(v) for v in table.numbers[i].tolist()]
        for j, words in table.nominal.items():
            cells[j] = str(words[i])
        lines.append(",".join([*cells, str(table.labels[i])]).encode() + b"\n")
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()


def read_text(path: Path) -> str:
    """Text of a file, gzip or plain."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", errors="strict")


def parse_csv(text: str, nominal: Collection[str] | None = (), label: str | None = None) -> RawTable:
    """A CSV with a header; the class is the column `label`, or the last one. `nominal` None: columns with words."""
    header, *rows = [row for row in csv.reader(io.StringIO(text)) if row] or [[]]
    if len(header) < 2 or not rows:
        raise ValueError("a data set needs a header, at least one feature column, a class column and one row.")
    if label is not None and label not in header:
        raise ValueError(f"label column {label!r} is not in the header; it has {header[:8]}...")
    return table_from_rows(rows, header, len(header) - 1 if label is None else header.index(label), nominal)


def parse_delimited(
    text: str,
    n_features: int,
    *,
    delimiter: str | None = ",",
    skip: int = 0,
    label_first: bool = False,
    nominal: Collection[str] = (),
    names: Sequence[str] | None = None,
) -> RawTable:
    """Headerless rows as UCI ships them: `skip` identifiers, then features, with the class last (or first).

    Lines that start with ``@`` or ``%`` (the ARFF and KEEL heads) are passed over.
    """
    # "ad." and "nonad." end rows in the sentence style of the C4.5 files
    lines = [line.strip().rstrip(".") for line in text.splitlines() if line.strip() and line.strip()[0] not in "@%"]
    features = names or [f"x{j}" for j in range(n_features)]
    columns = ["label", *features] if label_first else [*features, "label"]
    rows = [line.split(delimiter)[skip:] for line in lines]
    return table_from_rows(rows, columns, 0 if label_first else n_features, nominal)


def prepare(table: RawTable, scaling: str, ordinal: tuple[str, ...] = ()) -> tuple[np.ndarray, list[str]]:
    """Features as float64, and the names of their columns.

    Nominal columns named in `ordinal` become the rank of their word in alphabetical order (one column); the others
    become one 0/1 column per word, in alphabetical order. A missing number takes the mean of its column.
    """
    blocks, names = [], []
    for j, name in enumerate(table.names):
        if j not in table.nominal:
            blocks.append(table.numbers[:, j : j + 1])
            names.append(name)
            continue
        values, codes = np.unique(table.nominal[j], return_inverse=True)
        if name in ordinal:
            blocks.append(codes.reshape(-1, 1).astype(np.float64))
            names.append(name)
        else:
            blocks.append((codes.reshape(-1, 1) == np.arange(len(values))).astype(np.float64))
            names.extend(f"{name}={value}" for value in values)
    X = np.concatenate(blocks, axis=1)
    return scale(fill_missing(X, names), scaling), names


def fill_missing(X: np.ndarray, names: list[str]) -> np.ndarray:
    """Missing cells replaced by the mean of their column."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    empty = np.flatnonzero(missing.all(axis=0))
    if len(empty):
        raise ValueError(f"column {names[empty[0]]} has no value at all; drop it.")
    columns = np.flatnonzero(missing.any(axis=0))
    X = X.copy()
    for j in columns:
        X[missing[:, j], j] = X[~missing[:, j], j].mean()
    return X


def scale(X: np.ndarray, scaling: str) -> np.ndarray:
    """`X` as it is, with mean 0 and deviation 1 per column, or on [0, 1] per column; constants become 0."""
    if scaling == "raw":
        return X
    shift = X.mean(axis=0) if scaling == "z" else X.min(axis=0)
    width = X.std(axis=0) if scaling == "z" else X.max(axis=0) - X.min(axis=0)
    constant = X.max(axis=0) == X.min(axis=0)
    scaled = (X - shift) / np.where(constant, 1.0, width)
    scaled[:, constant] = 0.0
    return scaled
