"""Raw tables of named data sets: reading their file formats, hashing their cells."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..ensemble.io.features import MISSING, number_in


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

    @property
    def n_missing(self) -> int:
        return int(np.isnan(self.numbers).sum()) - len(self.nominal) * self.n_samples


def table_from_rows(
    rows: Sequence[Sequence[str]], names: Sequence[str], labels: Sequence[str], nominal: Collection[int] | None = ()
) -> RawTable:
    """Table from rows of words; columns not in `nominal` must be numbers or missing (None: those that are not are)."""
    numbers = np.full((len(rows), len(names)), np.nan)
    words: dict[int, np.ndarray] = {}
    for j, column in enumerate(zip(*rows)):
        cells = [cell.strip() for cell in column]
        found = np.array([number_in(cell) for cell in cells])
        odd = next((i for i in np.flatnonzero(np.isnan(found)) if cells[i].lower() not in MISSING), None)
        if j in (nominal or ()) or (nominal is None and odd is not None):
            words[j] = np.array(cells, dtype=np.str_)
        elif odd is not None:
            raise ValueError(f"column {names[j]}, row {odd}: {cells[odd]!r} is not a number.")
        else:
            numbers[:, j] = found
    return RawTable(list(names), numbers, np.array([str(v).strip() for v in labels], dtype=np.str_), words)


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


def parse_csv(text: str, nominal: Iterable[str] | None = (), label: str | None = None) -> RawTable:
    """A CSV with a header; the class is the column `label`, or the last one. `nominal` None: columns with words."""
    reader = csv.reader(io.StringIO(text))
    header = next(reader, None)
    rows = [row for row in reader if row]
    if not header or len(header) < 2 or not rows:
        raise ValueError("a data set needs a header, at least one feature column, a class column and one row.")
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"line {i + 2} has {len(row)} cells, but the header has {len(header)}.")
    if label is None:
        at = len(header) - 1
    elif label in header:
        at = header.index(label)
    else:
        raise ValueError(f"label column {label!r} is not in the header; it has {header[:8]}...")
    classes = [row[at] for row in rows]
    names = header[:at] + header[at + 1 :]
    cells = [row[:at] + row[at + 1 :] for row in rows]
    wordy = None if nominal is None else [names.index(name) for name in nominal]
    return table_from_rows(cells, names, classes, wordy)


def parse_delimited(
    text: str,
    n_features: int,
    *,
    delimiter: str | None = ",",
    skip: int = 0,
    label_first: bool = False,
    nominal: Collection[int] = (),
    names: Sequence[str] | None = None,
) -> RawTable:
    """Headerless rows as UCI ships them: `skip` identifiers, then features, with the class last (or first).

    Lines that start with ``@`` or ``%`` (the ARFF and KEEL heads) are passed over.
    """
    rows, labels = [], []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "@%":
            continue
        cells = [c.strip() for c in (line.split(delimiter) if delimiter else line.split())]
        if cells and cells[-1].endswith("."):
            cells[-1] = cells[-1].rstrip(".")  # "ad." and "nonad.", the sentence style of the C4.5 files
        if len(cells) != skip + n_features + 1:
            raise ValueError(f"line {number} has {len(cells)} cells, expected {skip + n_features + 1}.")
        labels.append(cells[0] if label_first else cells[-1])
        rows.append(cells[1:] if label_first else cells[skip:-1])
    if not rows:
        raise ValueError("the file has no rows.")
    names = [f"x{j}" for j in range(n_features)] if names is None else list(names)
    return table_from_rows(rows, names, labels, nominal)


def stack(tables: Sequence[RawTable]) -> RawTable:
    """The rows of several tables of the same columns, one after the other."""
    nominal = {j: np.concatenate([t.nominal[j] for t in tables]) for j in tables[0].nominal}
    return RawTable(
        tables[0].names,
        np.concatenate([t.numbers for t in tables]),
        np.concatenate([t.labels for t in tables]),
        nominal,
    )


def parse_gisette(data: Sequence[str], labels: Sequence[str], n_features: int = 5000) -> RawTable:
    """Blank-separated integers 0..999, one line per item; labels 1 and -1 in files of their own."""
    parts = []
    for text, classes in zip(data, labels, strict=True):
        numbers = np.array([line.split() for line in text.splitlines() if line.strip()], dtype=np.float64)
        words = np.array(classes.split(), dtype=np.str_)
        if numbers.ndim != 2 or numbers.shape[1] != n_features:
            raise ValueError(f"gisette rows must have {n_features} integers, got an array of {numbers.shape}.")
        if len(words) != len(numbers):
            raise ValueError(f"gisette has {len(numbers)} rows but {len(words)} labels.")
        if numbers.min() < 0 or numbers.max() > 999 or (numbers != np.floor(numbers)).any():
            raise ValueError("gisette features must be integers from 0 to 999.")
        if not set(words.tolist()) <= {"1", "-1", "+1"}:
            raise ValueError(f"gisette labels must be 1 or -1, got {sorted(set(words.tolist()))[:5]}.")
        words = np.array([w.lstrip("+") for w in words], dtype=np.str_)
        parts.append(RawTable([f"x{j}" for j in range(n_features)], numbers, words))
    return stack(parts)
