"""Tables of labels in any container -> named columns of (values, nulls), read one column at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def check_table_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        hint = "write labels[:, None] to pass a single partition" if len(shape) == 1 else "pass a 2-D table"
        raise ValueError(f"partitions must have shape (n_samples, n_partitions), got {shape}; {hint}.")
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"partitions must hold at least one item and one partition, got shape {shape}.")


def columns_of(table: Any) -> tuple[list[str], Iterator, int]:
    """Names, (values, nulls) of each column, and the number of rows of any supported table."""
    module = type(table).__module__.split(".")[0]
    if module in ("pandas", "polars", "pyarrow") and hasattr(table, "shape") and len(table.shape) == 2:
        names = [str(c) for c in (table.column_names if module == "pyarrow" else table.columns)]
        if module == "pandas":
            series = (table.iloc[:, j] for j in range(len(names)))
        else:
            series = (table[:, j] if module == "polars" else table.column(j) for j in range(len(names)))
        return names, (column_values(s) for s in series), int(table.shape[0])
    if hasattr(table, "tocsr"):
        raise TypeError("partitions must be a dense table of labels, got a sparse matrix; see Ensemble's help.")
    array = table if isinstance(table, np.ndarray) else _array_of_rows(table)
    check_table_shape(array.shape)
    names = [str(j) for j in range(array.shape[1])]
    return names, ((array[:, j], None) for j in range(array.shape[1])), array.shape[0]


def _array_of_rows(table: Any) -> np.ndarray:
    """Nested lists become an object array, so that 1 and "1" and None keep their types."""
    if hasattr(table, "__array__") or not isinstance(table, (list, tuple)):
        array = np.asarray(table)
        if array.ndim == 0:
            raise TypeError(
                f"partitions must be a table of labels of shape (n_samples, n_partitions), got {type(table).__name__}."
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
    array = np.empty((len(table), lengths.pop() if lengths else 0), dtype=object)
    for i, row in enumerate(table):
        array[i] = list(row)
    return array


def column_values(series: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Values of a pandas, polars or pyarrow column or any vector, with its null mask."""
    module = type(series).__module__.split(".")[0]
    if module == "pandas":
        nulls = series.isna().to_numpy()
        if str(series.dtype) == "category":
            series = series.astype(series.cat.categories.dtype) if not nulls.any() else series.astype(object)
        if not nulls.any():
            values = series.to_numpy()
            return values, None
        if series.dtype.kind == "f" and hasattr(series.dtype, "str"):
            return series.to_numpy(), nulls
        values = np.empty(len(series), dtype=object)
        values[~nulls] = series[~nulls].to_numpy()
        return values, nulls
    if module in ("polars", "pyarrow"):
        mask = np.asarray(series.is_null().to_numpy(), dtype=bool)
        if mask.any():
            values = np.empty(len(mask), dtype=object)
            values[:] = series.to_pylist() if module == "pyarrow" else series.to_list()
            return values, mask
        if module == "pyarrow":
            kept = series.to_pylist() if "dictionary" in str(series.type) else series.to_numpy()
            return np.asarray(kept), None
        return series.to_numpy(), None
    if isinstance(series, (list, tuple)):
        values = np.empty(len(series), dtype=object)
        values[:] = series
        return values, None
    return np.asarray(series), None


def original_columns(ensemble: Any) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """The original labels of an ensemble, column by column."""
    for j in range(ensemble.n_partitions):
        codes = ensemble.partition(j)
        nulls = codes < 0
        yield ensemble.categories[j][np.where(nulls, 0, codes)], (nulls if nulls.any() else None)
