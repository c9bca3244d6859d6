"""Results as pandas or polars: columns as a data frame, labels as a Series under the ids of the items."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

KINDS = ("pandas", "polars")


def frame_package(kind: str) -> Any:
    """pandas or polars, or why not."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}.")
    try:
        return import_module(kind)
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
        package = frame_package(kind)
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


def as_series(values: Any, X: Any, kind: str, name: str) -> Any:
    """Values of the items as a Series; in pandas under the index of `X`, or the ids of an ensemble."""
    package = frame_package(kind)
    if kind == "polars":
        return package.Series(name, values)
    index = X.index if hasattr(X, "iloc") else getattr(X, "item_ids", None)
    return package.Series(values, index=index, name=name)
