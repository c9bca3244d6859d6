"""Ensembles and consensus labels -> files, written under another name first: whole or absent."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..ensemble import Ensemble
from ..tables import original_columns
from .guard import FORMATS, file_format, replacing, suffix_format
from .text import open_text, text_layout


def write_ensemble(path: Any, ensemble: Ensemble, *, format: str | None = None, force: bool = False) -> None:
    """Write the base partitions as a label table that `read_ensemble` reads back as the same ensemble.

    Parameters
    ----------
    path : str or path
        Where to; ``"-"`` is standard output (CSV or TSV).
    ensemble : Ensemble
        What to write, with its ids and classes (columns ``id`` and ``class``) where it has them.
    format : {"csv", "tsv", "parquet", "npy", "npz", "h5ad"} or None, default=None
        None takes it from the name. NPY holds integers: the labels when they are all non-negative integers, else
        their codes, and −1 for a missing one.
    force : bool, default=False
        Overwrite an existing file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "labels.csv")
    ...     ca.write_ensemble(path, ca.Ensemble([[0, "a"], [1, None]]))
    ...     print(path.read_text())
    partition_0,partition_1
    0,a
    1,
    <BLANKLINE>
    """
    kind = table_format(path, format)
    if kind == "npy":
        _check_not_stdout(path, kind)
        with replacing(path, force=force) as partial, open(partial, "wb") as out:
            np.save(out, _integer_table(ensemble), allow_pickle=False)
        return
    if kind == "npz":
        _check_not_stdout(path, kind)
        with replacing(path, force=force) as partial, open(partial, "wb") as out:
            np.savez_compressed(out, allow_pickle=False, **_archive(ensemble))
        return
    names = ensemble.names
    if names == [str(j) for j in range(len(names))]:
        names = [f"partition_{name}" for name in names]  # a header of bare numbers would look like labels
    columns = {name: _labels(*pair) for name, pair in zip(names, original_columns(ensemble))}
    if kind == "h5ad":
        from .h5ad import write_new_h5ad

        _check_not_stdout(path, kind)
        ids = ensemble.item_ids if ensemble.item_ids is not None else np.arange(ensemble.n_samples)
        write_new_h5ad(Path(path), columns, [str(one) for one in ids.tolist()], force=force)
        return
    front = {} if ensemble.item_ids is None else {"id": ensemble.item_ids}
    back = {} if ensemble.classes is None else {"class": ensemble.classes}
    write_columns(path, kind, {**front, **columns, **back}, force)


def write_labels(
    path: Any,
    labels: Any,
    *,
    name: str = "consensus",
    source: Any = None,
    ids: Any = None,
    format: str | None = None,
    header: bool | None = None,
    force: bool = False,
) -> None:
    """Write consensus labels: as one more column of the file they came from, or as a table of their own.

    Parameters
    ----------
    path : str or path
        Where to; ``"-"`` is standard output (CSV or TSV).
    labels : array-like of shape (n_samples,)
        One label per item; −1 is none.
    name : str, default="consensus"
        Name of the column.
    source : str, path or None, default=None
        A file of the same kind (CSV, TSV, Parquet, h5ad): everything in it is kept and the column is added, in an
        h5ad file as a categorical column of ``.obs``. None, or another kind, writes the ids and the labels.
    ids : array-like or None, default=None
        Names of the items, written beside the labels when there is no `source`.
    format : {"csv", "tsv", "parquet", "npy", "npz", "h5ad"} or None, default=None
        None takes it from the name.
    header : bool or None, default=None
        Whether `source` has a header, see :func:`read_ensemble`.
    force : bool, default=False
        Overwrite an existing file, and in an h5ad file an existing column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import coassoc as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "consensus.csv")
    ...     ca.write_labels(path, [0, 0, 1], ids=["a", "b", "c"])
    ...     print(path.read_text())
    id,consensus
    a,0
    b,0
    c,1
    <BLANKLINE>
    """
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"labels must be one-dimensional, got shape {labels.shape}.")
    kind = table_format(path, format)
    origin, compressed = (None, False) if source is None else file_format(Path(source))
    if kind in ("csv", "tsv") and origin in ("csv", "tsv"):
        _append_text(path, Path(source), compressed, "\t" if origin == "tsv" else None, labels, name, header, force)
    elif kind == origin == "h5ad":
        from .h5ad import write_obs_column

        write_obs_column(Path(source), Path(path), name, labels, force=force)
    elif kind == origin == "parquet":
        _append_parquet(Path(path), Path(source), labels, name, force)
    elif kind == "npy":
        _check_not_stdout(path, kind)
        with replacing(path, force=force) as partial, open(partial, "wb") as out:
            np.save(out, labels, allow_pickle=False)
    elif kind == "npz":
        _check_not_stdout(path, kind)
        arrays = {name: labels} if ids is None else {name: labels, "item_ids": np.asarray(ids).astype(str)}
        with replacing(path, force=force) as partial, open(partial, "wb") as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)
    elif kind == "h5ad":
        from .h5ad import write_new_h5ad

        names = [str(one) for one in (range(len(labels)) if ids is None else np.asarray(ids).tolist())]
        write_new_h5ad(Path(path), {name: labels}, names, force=force)
    else:
        front = {} if ids is None else {"id": np.asarray(ids)}
        write_columns(path, kind, {**front, name: labels}, force)


def table_format(path: Any, format: str | None = None) -> str:
    """The format to write, from its name or from the name of the file."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}, got {format!r}.")
    if format is not None:
        return format
    if str(path) == "-":
        return "csv"
    found = suffix_format(Path(path))
    if found is None:
        raise ValueError(
            f"the name {Path(path).name!r} does not say which format to write; end it in .csv, .tsv, .parquet, .npy, "
            ".npz or .h5ad."
        )
    return found


def _check_not_stdout(path: Any, kind: str) -> None:
    if str(path) == "-":
        raise ValueError(f"{kind} cannot go to standard output; name a file, or choose csv or tsv.")


def _integer_table(ensemble: Ensemble) -> np.ndarray:
    """Labels as the smallest integers that hold them, −1 where missing; codes where labels are no such integers."""
    plain = all(labels.dtype.kind in "iu" and (labels >= 0).all() for labels in ensemble.categories)
    whole = all(len(labels) == k for labels, k in zip(ensemble.categories, ensemble.n_clusters))
    columns = []
    for j in range(ensemble.n_partitions):
        codes = ensemble.partition(j)
        columns.append(np.append(ensemble.categories[j], -1)[codes] if plain and whole else codes)
    table = np.column_stack(columns)
    low, high = int(table.min()), int(table.max())
    return table.astype(np.min_scalar_type(high) if low >= 0 else np.min_scalar_type(-1 - high))


def _labels(values: np.ndarray, nulls: np.ndarray | None) -> np.ndarray:
    """Labels with None where missing."""
    if nulls is None:
        return values
    filled = values.astype(object)
    filled[nulls] = None
    return filled


def _archive(ensemble: Ensemble) -> dict[str, np.ndarray]:
    arrays = {"codes": ensemble.codes, "n_clusters": ensemble.n_clusters, "names": np.array(ensemble.names, dtype=str)}
    for j, labels in enumerate(ensemble.categories):
        k = int(ensemble.n_clusters[j])
        if not np.array_equal(labels, np.arange(k)):
            # clusters made of missing labels have no name of their own
            labels = labels if len(labels) == k else np.arange(k)
            arrays[f"labels_{j}"] = labels if labels.dtype.kind in "iub" else labels.astype(str)
    if ensemble.item_ids is not None:
        arrays["item_ids"] = ensemble.item_ids.astype(str)
    if ensemble.classes is not None:
        known = ensemble.classes
        arrays["classes"] = known if known.dtype.kind in "iub" else known.astype(str)
    return arrays


# -- text ------------------------------------------------------------------------------------------------------


@contextmanager
def _text_out(path: Any, force: bool) -> Iterator[TextIO]:
    """A text stream to a file (compressed when its name ends in .gz) or to standard output."""
    if str(path) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    with replacing(path, force=force) as partial:
        if str(path).endswith(".gz"):
            with gzip.open(partial, "wt", encoding="utf-8", newline="") as packed:
                yield packed
        else:
            with open(partial, "w", encoding="utf-8", newline="") as out:
                yield out


def write_columns(path: Any, kind: str, columns: dict[str, np.ndarray], force: bool) -> None:
    """Columns of one length as a CSV, TSV or Parquet table; None and NaN are empty."""
    if kind == "parquet":
        from .parquet import import_parquet

        _check_not_stdout(path, kind)
        pq = import_parquet()
        with replacing(path, force=force) as partial:
            pq.write_table(_arrow_table(columns), partial)
        return
    with _text_out(path, force) as out:
        writer = csv.writer(out, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
        writer.writerow(columns)
        n_rows = len(next(iter(columns.values())))
        for start in range(0, n_rows, 50_000):
            block = [_cells(values[start : start + 50_000]) for values in columns.values()]
            writer.writerows(zip(*block))


def _cells(values: np.ndarray) -> list:
    return ["" if value is None or value != value else value for value in values.tolist()]


def _arrow_table(columns: dict[str, np.ndarray]) -> Any:
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        array = pa.array(values.tolist() if values.dtype == object else values)
        arrays[name] = array.dictionary_encode() if pa.types.is_string(array.type) else array
    return pa.table(arrays)


def _append_text(
    path: Any, source: Path, compressed: bool, delimiter: str | None, labels: np.ndarray, name: str, header, force: bool
) -> None:
    """The source's rows as they are, one cell longer."""
    names, delimiter, has_header = text_layout(source, compressed, delimiter, header)
    _check_new(name, names if has_header else [], source)
    cells = iter(_cells(labels))
    n_rows = 0
    with open_text(source, compressed) as raw, _text_out(path, force) as out:
        lines = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        for row in csv.reader(lines, delimiter=delimiter, strict=True):
            if not row:
                continue
            if has_header:
                writer.writerow([*row, name])
                has_header = False
                continue
            n_rows += 1
            cell = next(cells, None)
            if cell is None:
                break
            writer.writerow([*row, cell])
        if n_rows != len(labels):
            raise ValueError(f"{source.name} does not have the {len(labels)} rows the labels are for.")


def _append_parquet(path: Path, source: Path, labels: np.ndarray, name: str, force: bool) -> None:
    """Row groups copied one at a time, each with its share of the labels."""
    from .parquet import import_parquet

    pq = import_parquet()
    import pyarrow as pa

    with pq.ParquetFile(source) as file, replacing(path, force=force) as partial:
        _check_new(name, file.schema_arrow.names, source)
        if file.metadata.num_rows != len(labels):
            raise ValueError(f"{source.name} has {file.metadata.num_rows} rows, but there are {len(labels)} labels.")
        column = pa.array(labels.tolist() if labels.dtype == object else labels)
        schema = file.schema_arrow.append(pa.field(name, column.type)).remove_metadata()
        start = 0
        with pq.ParquetWriter(partial, schema) as writer:
            for g in range(file.metadata.num_row_groups):
                table = file.read_row_group(g)
                mine = column.slice(start, table.num_rows)
                writer.write_table(table.append_column(name, mine).replace_schema_metadata(None))
                start += table.num_rows


def _check_new(name: str, names: Sequence[str], source: Path) -> None:
    if name in names:
        raise ValueError(f"{source.name} already has a column {name!r}; choose another with name= (--name).")
