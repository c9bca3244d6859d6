"""Base partitions of features that do not fit in memory, fitted on samples and labelled block by block."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from .generate import Model, check_clusterers, check_finite, draw_partition, fit_model, partition_seeds, plan
from .io.arrow import PARQUET
from .io.coding import Source, batch_columns, batches_in, source_of
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
    features : path
        File, or folder of files, of numbers, in a format that says how many rows there are (not text). It is trusted.
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
    if client is None or not force or not target.is_dir():
        check_writable(target, force=force)
    if source.n_rows is None:
        raise ValueError(
            f"features must be in a file that tells its number of rows, such as {PARQUET.name}, got {source.what}; "
            "write them as one first."
        )
    sizes = [block.rows for block in source.blocks]
    if sum(sizes) < 2:
        raise ValueError(f"features must have at least two rows, got {sum(sizes)}.")
    starts, shape = np.cumsum([0, *sizes[:-1]]).tolist(), (sum(sizes), len(source.names))
    clusterers = check_clusterers(clusterer, mini_batch, n_init)
    recipe = plan(shape, n_clusters, None, clusterers, feature_fraction, 1.0, "predict", fit_sample)
    seeds = partition_seeds(random_state, n_partitions)
    drawn = [draw_partition(recipe, j, seed, shape) for j, seed in enumerate(seeds)]
    models = _fit(source, drawn, starts, sizes, client or _Here())
    if client is None:
        with replacing(target, force=force) as partial:
            _label_here(source, starts, models, partial, progress)
        return StoredEnsemble(target)
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    folder.mkdir()
    try:
        paths = [folder / f"part-{i:06d}{PARQUET.suffixes[0]}" for i in range(len(sizes))]
        client.gather(_tasks(client, source, _write_part, starts, [models] * len(paths), paths))
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return StoredEnsemble(target)


# -- what is done with a block: plain functions, here or on a worker -------------------------------------------------


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


def _pick(block: Any, start: int, sampled: Sequence[np.ndarray | slice]) -> list[np.ndarray]:
    """The rows of a block that each partition sampled."""
    X = _features(block, start)
    return [X[rows] for rows in sampled]


def _between(rows: np.ndarray | None, start: int, size: int) -> np.ndarray | slice:
    """Positions in a block of sampled rows; None stands for every row."""
    if rows is None:
        return slice(None)
    first, last = np.searchsorted(rows, [start, start + size])
    return rows[first:last] - start


def _fit_parts(drawn: Model, parts: Sequence[np.ndarray], j: int) -> Model:
    return fit_model(drawn, np.concatenate(parts), j)


def _label_table(block: Any, start: int, models: Sequence[Model]) -> Any:
    """Labels of a block as an Arrow table, one column per partition."""
    import pyarrow as pa

    X = _features(block, start)
    labels = [model.label(X, start) if len(X) else np.empty(0) for model in models]
    return pa.table({f"partition_{j}": pa.array(one.astype(np.int32)) for j, one in enumerate(labels)})


def _write_part(block: Any, start: int, models: Sequence[Model], path: Path) -> None:
    """One file of labels, whole or absent: a task may run twice."""
    table = _label_table(block, start, models)
    with replacing(path, force=True) as partial, PARQUET.writer(partial, table.schema) as writer:
        writer.write_table(table)


class _Here:
    """What `_fit` needs of a client, without a cluster: a task is done when it is submitted."""

    @staticmethod
    def submit(function: Callable, *args: Any, pure: bool) -> Any:
        return function(*args)


def _tasks(client: Any, source: Source, function: Callable, *columns: Sequence) -> list:
    """``function(block, ...)`` for every block; tasks, which can be run again, on a cluster."""
    return [client.submit(function, block, *rest, pure=False) for block, *rest in zip(source.blocks, *columns)]


def _fit(source: Source, draws: list[Model], starts: list[int], sizes: list[int], client: Any) -> list:
    """The model of each partition, on a cluster as a future."""
    inside = [[_between(draw.rows, start, size) for draw in draws] for start, size in zip(starts, sizes)]
    picked = _tasks(client, source, _pick, starts, inside)
    models = []
    for j, draw in enumerate(draws):
        parts = [client.submit(getitem, part, j, pure=False) for part in picked]
        models.append(client.submit(_fit_parts, draw, parts, j, pure=False))
    return models


def _label_here(source: Source, starts: list[int], models: list[Model], path: Path, progress: Any) -> None:
    import pyarrow as pa

    schema = pa.schema([(f"partition_{j}", pa.int32()) for j in range(len(models))])
    with PARQUET.writer(path, schema) as writer:
        for done, (block, start) in enumerate(zip(source.blocks, starts), 1):
            writer.write_table(_label_table(block, start, models))
            if progress is not None:
                progress(done, len(starts))
