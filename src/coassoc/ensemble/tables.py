"""Tables in any container: columns of labels, draws from memberships, codes of known labels, and results as frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from ..core.checks import check_choice, check_integer, seed_from, stream
from ..core.counts import smallest_unsigned
from .encode import Dictionary, as_objects, encode_column, is_negative

FRAMES = ("pandas", "polars")
_FIRST_ROWS = 64  # of a table are enough to recognise memberships
_TOLERANCE = 1e-6  # of the sum of a row of memberships: single precision


def check_table_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        one = "write np.asarray(labels)[:, None] to pass a single clustering"
        hint = one if len(shape) == 1 else "pass a 2-D table"
        raise ValueError(
            f"partitions must have shape (n_samples, n_partitions), got {shape}. Reshape your data: {hint}."
        )
    if shape[0] == 0 or shape[1] == 0:
        lack = "0 sample(s)" if shape[0] == 0 else "0 feature(s)"
        raise ValueError(
            f"partitions must hold at least one item and one partition, got {lack} (shape={shape}) while a minimum "
            "of 1 is required."
        )


def columns_of(table: Any) -> tuple[list[str], Iterator, int]:
    """Names, (values, nulls) of each column, and the number of rows of any supported table."""
    if is_membership_matrix(table):
        raise ValueError(
            "partitions must hold labels, got soft memberships: every row sums to 1. Use "
            "Ensemble.from_memberships([P1, P2, ...]), or labels P.argmax(axis=1)."
        )
    module = type(table).__module__.split(".")[0]
    if module.startswith("dask") and hasattr(table, "compute"):
        return columns_of(table.compute())
    if module in ("pandas", "polars", "pyarrow") and hasattr(table, "shape") and len(table.shape) == 2:
        names = [str(c) for c in (table.column_names if module == "pyarrow" else table.columns)]
        if module == "pandas":
            series = (table.iloc[:, j] for j in range(len(names)))
        else:
            series = (table[:, j] if module == "polars" else table.column(j) for j in range(len(names)))
        check_table_shape(table.shape)
        return names, (column_values(s) for s in series), int(table.shape[0])
    if module == "anndata":
        raise TypeError(
            "partitions must be a table of labels, got AnnData; coassoc.tl.consensus(adata, keys='leiden*') reads .obs "
            "and writes the consensus into it, or pass adata.obs[['leiden_0.5', 'leiden_1']]."
        )
    if hasattr(table, "tocsr"):
        raise TypeError("partitions must be a dense table of labels, got a sparse matrix; see Ensemble's help.")
    array = table if isinstance(table, np.ndarray) else _array_of_rows(table)
    check_table_shape(array.shape)
    columns = array.T  # one after the other, each copied once: many passes over it follow
    return list(map(str, range(len(columns)))), ((column.copy(), None) for column in columns), array.shape[0]


def _array_of_rows(table: Any) -> np.ndarray:
    """Nested lists become an object array, so that 1 and "1" and None keep their types."""
    if hasattr(table, "__array__") or not isinstance(table, (list, tuple)):
        array = np.asarray(table)
        if array.ndim == 0:
            raise TypeError(
                f"partitions must be a table of labels of shape (n_samples, n_partitions), got {type(table).__name__}; "
                "label vectors, as a dict or a list, go to Ensemble.from_partitions."
            )
        return array
    if any(isinstance(row, (str, bytes)) or not hasattr(row, "__len__") for row in table):
        return np.empty(len(table), dtype=object)  # 1-D: the shape check says how to go on
    lengths = {len(row) for row in table}
    if len(lengths) > 1:
        raise ValueError(
            f"partitions: rows have different lengths {sorted(lengths)}; every item needs one label per partition "
            "(None where absent)."
        )
    cells = np.fromiter(chain.from_iterable(table), dtype=object)
    return cells.reshape(len(table), lengths.pop() if lengths else 0)


def column_values(series: Any) -> tuple[Any, np.ndarray | None]:
    """Values of a pandas, polars or pyarrow column or any vector, with its null mask.

    Categories and strings come as a `Dictionary`: each different label is then validated once.
    """
    module = type(series).__module__.split(".")[0]
    if isinstance(series, Dictionary):
        return series, None
    if module == "pandas":
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufbmM":
            return series.to_numpy(), None
        indices, labels = import_module(module).factorize(series, use_na_sentinel=True)
        return Dictionary(indices, np.asarray(labels, dtype=object)), None
    if module == "polars":
        return _from_polars(series)
    if module == "pyarrow":
        return _from_arrow(series)
    if module == "dask" and hasattr(series, "compute"):
        return column_values(series.compute())
    if isinstance(series, (list, tuple)):
        return as_objects(series), None
    return (series if isinstance(series, np.ma.MaskedArray) else np.asarray(series)), None


def _from_polars(series: Any) -> tuple[Any, np.ndarray | None]:
    import polars as pl

    kind = series.dtype
    is_text = kind in (pl.String, pl.Categorical) or isinstance(kind, pl.Enum)
    is_whole = kind.is_integer() or kind == pl.Boolean
    if kind.is_float() or (is_whole and not series.null_count()):
        return series.to_numpy(), None  # a null among floats is NaN
    if not is_whole and not is_text:
        return as_objects(series.to_list()), None
    series = series.cast(pl.String) if is_text else series
    indices = series.rank("dense").cast(pl.Int64).fill_null(0).to_numpy() - 1
    return Dictionary(indices, as_objects(series.drop_nulls().unique().sort().to_list())), None


def _from_arrow(series: Any) -> tuple[Any, np.ndarray | None]:
    import pyarrow as pa

    series = series.combine_chunks() if isinstance(series, pa.ChunkedArray) else series
    if isinstance(series, pa.ChunkedArray):  # some versions keep one chunk in a list
        series = series.chunk(0) if series.num_chunks else pa.array([], series.type)
    kind = series.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        series, kind = series.dictionary_encode(), None
    if isinstance(series, pa.DictionaryArray):
        indices, known = series.indices.fill_null(-1).to_numpy(zero_copy_only=False), series.dictionary
        return Dictionary(indices, as_objects(known.to_pylist())), None
    if pa.types.is_floating(kind):
        return series.fill_null(float("nan")).to_numpy(zero_copy_only=False), None
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind)):
        return as_objects(series.to_pylist()), None
    nulls = np.asarray(series.is_null()) if series.null_count else None
    return series.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False), nulls


# -- soft memberships ------------------------------------------------------------------------------------------


def drawn_labels(memberships: Iterable[Any], n_draws: int, random_state: Any) -> Iterator[np.ndarray]:
    """`n_draws` label vectors for each matrix of memberships, −1 with the probability that a row lacks to 1."""
    n_draws, seed = check_integer(n_draws, "n_draws"), seed_from(random_state)
    n_rows = None
    for j, given in enumerate(memberships):
        matrix = _check_memberships(given, f"memberships[{j}]")
        if n_rows not in (None, len(matrix)):
            raise ValueError(f"memberships[{j}] has {len(matrix)} rows but memberships[0] has {n_rows}.")
        n_rows = len(matrix)
        ends = np.cumsum(matrix, axis=1)
        total = np.where(ends[:, -1] > 1 - _TOLERANCE, ends[:, -1], 1.0)
        for draw in range(n_draws):
            at = stream(seed, j, draw).random(n_rows) * total
            labels = np.count_nonzero(ends <= at[:, None], axis=1)
            yield np.where(labels < matrix.shape[1], labels, -1)


def is_membership_matrix(table: Any) -> bool:
    """Whether a table holds shares of clusters and no labels, by its first rows: they sum to 1, and are not whole."""
    if hasattr(table, "tocsr"):  # sparse, which `Ensemble` refuses
        return False
    try:
        values = np.asarray(table[:_FIRST_ROWS])
    except (TypeError, ValueError, KeyError, IndexError):
        return False
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind != "f" or (values == np.floor(values)).all():
        return False
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= _TOLERANCE).all())


def _check_memberships(given: Any, name: str) -> np.ndarray:
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"{name} must have shape (n_samples, n_clusters), got {matrix.shape}; memberships is a list of matrices "
            "(write [P] for a single one)."
        )
    highest = matrix.sum(axis=1).max()
    if not (matrix >= 0).all() or not highest <= 1 + _TOLERANCE:  # NaN is neither
        raise ValueError(
            f"{name} must hold probabilities, rows with a sum of at most 1; the smallest entry is {matrix.min()}, the "
            f"largest sum {highest}. Divide each row by its sum."
        )
    return matrix


# -- codes of known labels -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vocabulary:
    """The labels an ensemble knows: what coding new rows needs, and nothing of the size of the data."""

    n_clusters: np.ndarray
    categories: list[np.ndarray]
    names: list[str]
    dtype: np.dtype  # width of the codes at fit

    ensembles: ClassVar[Any]  # the class Ensemble

    def encode(self, partitions: Any) -> np.ndarray:
        """Codes of new label rows; labels never seen become missing (code ``n_clusters[j]``)."""
        coded = isinstance(partitions, self.ensembles)
        names, columns, n_rows = (partitions.names, (), len(partitions)) if coded else columns_of(partitions)
        n_columns = len(names)
        if n_columns != len(self.n_clusters):
            raise ValueError(
                f"X has {n_columns} features, but the model is expecting {len(self.n_clusters)} features as "
                "input: one label (or None) for each clustering."
            )
        wide = smallest_unsigned(int(self.n_clusters.max()) + 1)
        codes = np.empty((n_rows, n_columns), dtype=max(wide, self.dtype, key=lambda t: t.itemsize))
        for j, (values, nulls) in enumerate(columns):
            codes[:, j] = self.codes_of_column(j, values, nulls)
        for j, labels in enumerate(partitions.categories if coded else ()):
            codes[:, j] = self.lookup(j, labels)[partitions.codes[:, j]]
        return codes

    def codes_of_column(self, j: int, values: Any, nulls: np.ndarray | None) -> np.ndarray:
        """Codes of new labels of partition j."""
        new = encode_column(values, nulls, self.names[j], "nan", allow_empty=True)
        return self.lookup(j, new.labels)[new.indices]

    def ensemble_of(self, partitions: Any) -> Any:
        """Ensemble of new label rows over the known base clusters; None when no label at all is known."""
        codes = self.encode(partitions)
        if (codes == self.n_clusters.astype(codes.dtype)).all():
            return None
        return self.ensembles.from_codes(codes, self.n_clusters, names=self.names, categories=self.categories)

    def lookup(self, j: int, labels: np.ndarray) -> np.ndarray:
        """Code of each of the labels in partition j, and of a missing label at the end."""
        k = int(self.n_clusters[j])
        # integer and string labels never compare equal, so 1 and "1" stay different here too
        known = {label: code for code, label in enumerate(self.categories[j].tolist())}
        absent = known.get(None, k)  # None: missing labels were made a cluster
        codes = [known.get(label, absent if is_negative(label) else k) for label in labels.tolist()]
        lone = [label != label for label in labels.tolist()]  # NaN: a missing label that was made a cluster
        return np.append(np.where(lone, absent, codes), absent).astype(np.int64)


# -- results as frames -----------------------------------------------------------------------------------------


def _frame_package(kind: str) -> Any:
    """pandas or polars, or why not."""
    try:
        return import_module(check_choice(kind, "kind", FRAMES))
    except ImportError:
        raise ImportError(f"a {kind} frame needs {kind}: pip install {kind}.") from None


class Columns(dict):
    """A table as a dictionary of columns of one length, the first of which names the rows."""

    def to_frame(self, kind: str = "pandas") -> Any:
        """The table as a data frame.

        Parameters
        ----------
        kind : {"pandas", "polars"}, default="pandas"
            In pandas the first column is the index; polars has none, and keeps it as a column.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
        """
        package = _frame_package(kind)
        if kind == "polars":
            return package.DataFrame({name: np.asarray(column).tolist() for name, column in self.items()})
        return package.DataFrame(dict(self)).set_index(next(iter(self)))


def ids_of(table: Any) -> np.ndarray | None:
    """The index of a pandas frame as ids; None for the default index and for one with duplicates or levels."""
    index: Any = getattr(table, "index", None)
    if type(table).__module__.split(".")[0] != "pandas" or not index.is_unique or index.nlevels > 1:
        return None
    values = index.to_numpy()
    return None if values.dtype.kind == "i" and (values == np.arange(len(values))).all() else values
