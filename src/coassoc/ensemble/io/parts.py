"""Labels on a Dask cluster -> a folder of Parquet files, written by the workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...engines.dask.session import on_blocks
from .coding import FileBlock, batches_in, ids_in, is_dask
from .output import new_folder
from .table import Package, arrow_array, pa

pq: Any = Package("pyarrow.parquet")


def write_parts(folder: Any, columns: dict[str, Any], ensemble: Any) -> None:
    """Write the columns, one file for each block of rows, in row order; fractions are rounded to 4 digits.

    Columns are Dask arrays. The ids of an ensemble in a file are read again by the workers. An array in this process
    is sent. Each worker must see `folder` under this name.
    """
    sizes = next((column.chunks for column in columns.values() if is_dask(column)), (tuple(ensemble.block_sizes),))
    ids, ends = _ids_of_blocks(ensemble, sizes[0]), np.cumsum(sizes[0])[:-1]
    blocks = [
        column.rechunk(sizes).to_delayed().tolist() if is_dask(column) else np.split(column, ends)
        for column in columns.values()
    ]
    with new_folder(folder) as partial:
        paths = [partial.resolve() / f"part-{i:05}.parquet" for i in range(len(ids))]
        on_blocks(_write_part, map(str, paths), [list(columns)] * len(ids), ids, *blocks)
        absent = [path.name for path in paths if not path.exists()]
        if absent:
            raise FileNotFoundError(
                f"the workers did not write {absent[0]} where this program sees {str(folder)!r}; name a folder that "
                "all workers share with it."
            )


def _ids_of_blocks(ensemble: Any, sizes: Sequence[int]) -> list[Any]:
    """The name of the column of ids and the blocks of the file that hold those of each block of labels, or None."""
    source, name = ensemble.source, ensemble.id_column
    if name is None:
        return [None] * len(sizes)
    blocks, end = iter(source.blocks), 0
    groups: list[list[FileBlock]] = []
    for stop in np.cumsum(sizes).tolist():
        groups.append([])
        while end < stop:
            block = next(blocks)
            groups[-1].append(FileBlock(block.format, block.piece, (name,), block.options))
            end += block.rows
    return [(name, group) for group in groups]


def _write_part(path: str, names: Sequence[str], ids: Any, *values: np.ndarray) -> None:
    rounded = [value.astype(float).round(4) if value.dtype.kind == "f" else value for value in values]
    columns = dict(zip(names, map(arrow_array, rounded)))
    if ids is not None:
        name, blocks = ids
        texts = np.concatenate([ids_in(batch, name) for block in blocks for batch in batches_in(block)])
        columns = {name: pa.array(texts), **columns}
    if not Path(path).parent.is_dir():
        raise FileNotFoundError(
            f"a worker cannot see the folder {Path(path).parent.parent}; all workers must share it."
        )
    pq.write_table(pa.table(columns), path)
