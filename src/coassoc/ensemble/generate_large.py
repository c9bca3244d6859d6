"""Clusterings of features that do not fit in memory, fitted on samples and labelled block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .generate import check_clusterers, check_finite, draw_partition, fit_model, partition_seeds, plan
from .io.arrow import ParquetTable
from .io.coding import batch_columns, batches_in, source_of
from .io.output import check_writable, replacing
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
    n_init: int = 10,
    random_state: Any = None,
    columns: Sequence[str] | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> StoredEnsemble:
    """Many partitions of items whose features are in a file: fitted on samples, the rest labelled block by block.

    The labels are those of ``make_ensemble(X, fit_sample=fit_sample, ...)`` with the same seed, without ever holding
    more than the samples and one block. Two passes over the features: one picks the sampled rows, one labels.

    Parameters
    ----------
    features : path
        File, or folder of files, of numbers, in a format that says how many rows there are (not text). It is trusted.
    output : path
        Parquet file of labels to write, one column per partition.
    n_partitions, n_clusters, clusterer, feature_fraction, n_init, random_state
        As for `make_ensemble`.
    fit_sample : int, default=50000
        Rows each partition is fitted on, drawn anew for each.
    columns : list of str, optional
        Columns that are features; all of them when None.
    force : bool, default=False
        Overwrite the output.
    progress : callable, optional
        Called as ``progress(done, n_blocks)`` after each block.

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
    Ensemble(500 items, 4 clusterings, stored in labels.parquet)
    """
    import pyarrow as pa

    source, target = source_of(features, columns), Path(output)
    check_writable(target, force=force)
    if source.n_rows is None:
        raise ValueError(
            f"features must be in a file that tells its number of rows, such as {ParquetTable.name}, got "
            f"{source.what}; write them as one first."
        )
    sizes = [block.rows for block in source.blocks]
    if sum(sizes) < 2:
        raise ValueError(f"features must have at least two rows, got {sum(sizes)}.")
    starts, shape = np.cumsum([0, *sizes[:-1]]).tolist(), (sum(sizes), len(source.names))
    clusterers = check_clusterers(clusterer, n_init)
    recipe = plan(shape, n_clusters, None, clusterers, feature_fraction, 1.0, "predict", fit_sample)
    seeds = partition_seeds(random_state, n_partitions)
    drawn = [draw_partition(recipe, j, seed, shape) for j, seed in enumerate(seeds)]
    samples: list[list[np.ndarray]] = [[] for _ in drawn]
    for block, start in zip(source.blocks, starts):
        X = _features(block, start)
        for sample, model in zip(samples, drawn):
            sample.append(X[_between(model.rows, start, len(X))])
    models = [fit_model(model, np.concatenate(samples[j]), j) for j, model in enumerate(drawn)]
    schema = pa.schema([(f"partition_{j}", pa.int32()) for j in range(n_partitions)])
    with replacing(target, force=force) as partial, ParquetTable.writer(partial, schema) as writer:
        for done, (block, start) in enumerate(zip(source.blocks, starts), 1):
            X = _features(block, start)
            labels = [model.label(X, start) if len(X) else np.empty(0) for model in models]
            writer.write_table(pa.table([pa.array(own.astype(np.int32)) for own in labels], schema=schema))
            if progress is not None:
                progress(done, len(starts))
    return StoredEnsemble(target)


def _features(block: Any, start: int) -> np.ndarray:
    """The numbers of a block, the first row of which is row `start`, validated."""
    parts = []
    for batch in batches_in(block):
        if not isinstance(batch, np.ndarray):
            names = batch.schema.names
            columns = {name: np.asarray(pair[0]) for name, pair in zip(names, batch_columns(batch, names)[1])}
            words = [name for name, part in columns.items() if part.dtype.kind not in "iufb"]
            if words:
                raise ValueError(f"features must be numbers, but column {words[0]!r} is not; leave it out.")
            batch = np.column_stack(list(columns.values()))
        parts.append(batch)
    table = parts[0] if len(parts) == 1 else np.concatenate(parts)
    X = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
    check_finite(X, start, "features")
    return np.ascontiguousarray(X)


def _between(rows: np.ndarray | None, start: int, size: int) -> np.ndarray | slice:
    """Positions in a block of sampled rows; None stands for every row."""
    if rows is None:
        return slice(None)
    first, last = np.searchsorted(rows, [start, start + size])
    return rows[first:last] - start
