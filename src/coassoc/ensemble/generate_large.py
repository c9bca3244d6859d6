"""Base partitions of features that do not fit in memory, fitted on samples and labelled block by block."""

from __future__ import annotations

import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .generate import Draw, check_clusterers, draw_partition, partition_seeds, plan
from .io.blocks import Source, source_of
from .stored import StoredEnsemble


def make_ensemble_large(
    features: Any,
    output: str | os.PathLike,
    n_partitions: int = 20,
    n_clusters: int | tuple[int, int] | None = None,
    *,
    fit_sample: int = 50_000,
    clusterer: Any = None,
    feature_fraction: float = 1.0,
    mini_batch: bool = False,
    n_init: int = 10,
    random_state: Any = None,
    columns: Sequence[str] | None = None,
    client: Any = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> StoredEnsemble:
    """Many partitions of items whose features are in a file: fitted on samples, the rest labelled block by block.

    The labels are those of ``make_ensemble(X, fit_sample=fit_sample, ...)`` with the same seed, without ever holding
    more than the samples and one block. Two passes over the features: one picks the sampled rows, one labels.

    More than 8 parameters: each is a choice of its own, and all but the first have defaults.

    Parameters
    ----------
    features : path or Dask collection
        Parquet file, folder of Parquet files, or NPY file of numbers; with `client` also a Dask array or data frame.
    output : path
        Parquet file of labels to write, one column per partition; with `client` a folder of such files, one per block,
        which all workers must be able to write to.
    n_partitions, n_clusters, clusterer, feature_fraction, mini_batch, n_init, random_state
        As for `make_ensemble`.
    fit_sample : int, default=50000
        Rows each partition is fitted on, drawn anew for each.
    columns : list of str, optional
        Columns that are features; all of them when None.
    client : distributed.Client, optional
        Fit and label on the workers of this cluster; here, one block after the other, when None.
    force : bool, default=False
        Overwrite the output.
    progress : callable, optional
        Called as ``progress(done, n_blocks)`` after each block, when working here.

    Returns
    -------
    StoredEnsemble
        The written label table, opened.

    Notes
    -----
    Memory: at most ``n_partitions * fit_sample`` rows of features, one block, and its labels.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from coassoc.ensemble import make_ensemble_large
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(os.path.join(folder, "X.npy"), X)
    ...     make_ensemble_large(os.path.join(folder, "X.npy"), os.path.join(folder, "labels.parquet"), 4, (2, 5),
    ...                         fit_sample=100, random_state=0)
    Ensemble(500 items, 4 partitions, stored in labels.parquet)
    """
    source, target = source_of(features, columns), Path(output)
    if target.exists() and not force:
        raise FileExistsError(
            f"{target} already exists; choose another name, or overwrite it with force=True (--force)."
        )
    if source.kind not in ("npy", "parquet", "dask"):
        raise ValueError(f"features must be a Parquet or NPY file, got {source.what}; convert it first.")
    if source.kind == "dask" and client is None:
        raise ValueError("features on a cluster need client=, the distributed.Client that computes them.")
    sizes = _block_sizes(source, client)
    shape = (sum(sizes), len(source.names))
    clusterers = check_clusterers(clusterer, mini_batch, n_init)
    recipe = plan(shape, n_clusters, None, clusterers, feature_fraction, 1.0, "predict", fit_sample)
    seeds = partition_seeds(random_state, n_partitions)
    drawn = [draw_partition(recipe, j, seed, shape) for j, seed in enumerate(seeds)]
    work = _Here(source, sizes) if client is None else _OnCluster(source, sizes, client)
    models = work.fit(drawn)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        work.label(models, partial, progress)
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(partial, target)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)
    return StoredEnsemble(target)


@dataclass(frozen=True)
class _Model:
    """A fitted base clusterer, with the labels it gave to the rows it was fitted on."""

    estimator: Any
    columns: np.ndarray | None
    rows: np.ndarray
    labels: np.ndarray

    def label(self, X: np.ndarray, start: int) -> np.ndarray:
        """Labels of a block whose first row is row `start`."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1):
            labels = np.asarray(self.estimator.predict(X if self.columns is None else X[:, self.columns]))
        labels = labels.astype(np.int64)
        first, last = np.searchsorted(self.rows, [start, start + len(X)])
        labels[self.rows[first:last] - start] = self.labels[first:last]
        return labels


def _block_sizes(source: Source, client: Any) -> list[int]:
    sizes = [block.rows for block in source.blocks]
    if any(size is None for size in sizes):
        futures = client.compute([block.delayed for block in source.blocks])
        sizes = client.gather([client.submit(len, future) for future in futures])
    if sum(sizes) < 2:
        raise ValueError(f"features must have at least two rows, got {sum(sizes)}.")
    return sizes


# -- what is done with a block: plain functions, here or on a worker -------------------------------------------------


def _features(block: Any) -> np.ndarray:
    """The numbers of a block, validated."""
    table = block.read() if hasattr(block, "read") else block
    if not isinstance(table, np.ndarray):  # columns by name
        parts = {str(name): np.asarray(table[name]) for name in (table if isinstance(table, dict) else table.columns)}
        words = [name for name, part in parts.items() if part.dtype.kind not in "iufb"]
        if words:
            raise ValueError(f"features must be numbers, but column {words[0]!r} is not; leave it out.")
        table = np.column_stack(list(parts.values()))
    X = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"features must not contain NaN or infinity: row {row} of a block, column {column} is {X[row, column]}; "
            "fill missing cells first."
        )
    return np.ascontiguousarray(X)


def _pick(block: Any, inside: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The rows of a block that each partition sampled."""
    X = _features(block)
    return [X[rows] for rows in inside]


def _fit(draw: Draw, parts: Sequence[np.ndarray], n_rows: int) -> _Model:
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    X = np.concatenate(parts)
    X = X if draw.columns is None else X[:, draw.columns]
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        labels = np.asarray(draw.estimator.fit_predict(X)).astype(np.int64)
    rows = np.arange(n_rows) if draw.rows is None else draw.rows
    return _Model(draw.estimator, draw.columns, rows, labels)


def _label_table(block: Any, start: int, models: Sequence[_Model]) -> Any:
    """Labels of a block as an Arrow table, one column per partition."""
    import pyarrow as pa

    X = _features(block)
    columns = {}
    for j, model in enumerate(models):
        labels = model.label(X, start) if len(X) else np.empty(0, np.int64)
        columns[f"partition_{j}"] = pa.array(labels.astype(np.int32))
    return pa.table(columns)


def _write_part(block: Any, start: int, models: Sequence[_Model], path: str) -> int:
    """One file of labels, whole or absent: a task may run twice."""
    import pyarrow.parquet as pq

    partial = f"{path}.{secrets.token_hex(4)}.part"
    table = _label_table(block, start, models)
    pq.write_table(table, partial)
    os.replace(partial, path)
    return len(table)


def _inside(draws: Sequence[Draw], start: int, size: int) -> list[np.ndarray]:
    """Positions in a block of the rows each partition sampled."""
    found = []
    for draw in draws:
        if draw.rows is None:
            found.append(np.arange(size))
        else:
            first, last = np.searchsorted(draw.rows, [start, start + size])
            found.append(draw.rows[first:last] - start)
    return found


class _Here:
    """One block after the other, in this process."""

    def __init__(self, source: Source, sizes: list[int]):
        self.source, self.sizes = source, sizes
        self.starts = np.cumsum([0, *sizes[:-1]]).tolist()

    def fit(self, draws: list[Draw]) -> list[_Model]:
        parts = []
        for block, start, size in zip(self.source.blocks, self.starts, self.sizes):
            parts.append(_pick(block, _inside(draws, start, size)))
        return [_fit(draw, [part[j] for part in parts], sum(self.sizes)) for j, draw in enumerate(draws)]

    def label(self, models: list[_Model], partial: Path, progress: Callable[[int, int], None] | None) -> None:
        import pyarrow.parquet as pq

        writer = None
        try:
            for done, (block, start) in enumerate(zip(self.source.blocks, self.starts), 1):
                table = _label_table(block, start, models)
                writer = writer or pq.ParquetWriter(partial, table.schema)
                writer.write_table(table)
                if progress is not None:
                    progress(done, len(self.sizes))
        finally:
            if writer is not None:
                writer.close()


class _OnCluster(_Here):
    """Blocks as tasks; each can be run again."""

    def __init__(self, source: Source, sizes: list[int], client: Any):
        super().__init__(source, sizes)
        self.client = client

    def _tasks(self, function: Callable, *columns: Sequence) -> list:
        blocks = self.source.blocks
        if self.source.kind == "dask":
            blocks = self.client.compute([block.delayed for block in blocks])
        return [self.client.submit(function, block, *rest, pure=False) for block, *rest in zip(blocks, *columns)]

    def fit(self, draws: list[Draw]) -> list[Any]:
        inside = [_inside(draws, start, size) for start, size in zip(self.starts, self.sizes)]
        picked = self._tasks(_pick, inside)
        submit = self.client.submit
        models = []
        for j, draw in enumerate(draws):
            parts = [submit(_item, part, j, pure=False) for part in picked]
            models.append(submit(_fit, draw, parts, sum(self.sizes), pure=False))
        return self.client.gather(models)

    def label(self, models: list[_Model], partial: Path, progress: Callable[[int, int], None] | None) -> None:
        partial.mkdir()
        paths = [str(partial / f"part-{i:06d}.parquet") for i in range(len(self.sizes))]
        together = self.client.submit(_same, models, pure=False)
        tasks = self._tasks(_write_part, self.starts, [together] * len(paths), paths)
        self.client.gather(tasks)


def _item(parts: Sequence, j: int) -> Any:
    return parts[j]


def _same(value: Any) -> Any:
    return value
