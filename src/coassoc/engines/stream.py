"""Streaming: rows stay in a file, from which the local engine reads them in every pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.checks import check_choice
from .contract import Engine, Loadable, Rows
from .memory import file_array, format_size, parse_size
from .native import NativeRows, local_engine

_ITEM_BYTES = 15  # that the compiled kernels keep of an item: its label and bound; distances while seeding
_SMALL = 1 << 16  # bytes; smaller arrays are kept in memory, since each file stays open, one for a leaf of a tree


class Stream(Engine):
    """Work on codes that stay in a file: the labels are those of the in-memory engines, bit for bit.

    Rows are mapped from the file, which the system reads ahead. In memory, each item takes 6 bytes, for its label and a
    bound, and 2 to 9 while k-means++ draws the seeds. The page on scale has the formula.

    Parameters
    ----------
    memory : str or int, default="2GB"
        Memory for the codes and for these bytes. Where they would take more, the labels, and the codes of the nodes of
        a tree, are kept in temporary files.
    directory : str, optional
        Folder for temporary files; the system's default when None. It should not be a file system in memory.
    local : {"auto", "native", "numpy"}, default="auto"
        Engine that works on the rows: the compiled kernels, or NumPy, which takes more memory and uses no files.

    Examples
    --------
    >>> import numpy as np
    >>> import coassoc as ca
    >>> table = np.repeat(np.array([[0, 1], [1, 0]], dtype=np.uint8), 50, axis=0)
    >>> km = ca.KMeansConsensus(2, random_state=0, engine=ca.engines.Stream(memory="1MB"))
    >>> np.bincount(km.fit(table).labels_).tolist()
    [50, 50]
    """

    name = "stream"

    def __init__(self, memory: str | int = "2GB", *, directory: str | None = None, local: str = "auto"):
        self.memory = parse_size(memory)
        self.directory, self.local = directory, check_choice(local, "local", ("auto", "native", "numpy"))

    def __repr__(self) -> str:
        return f"Stream(memory='{format_size(self.memory).replace(' ', '')}')"

    def load(self, ensemble: Loadable, multiplicity: np.ndarray | None = None) -> Rows:
        rows = local_engine(self.local).load(ensemble, multiplicity)
        if isinstance(rows, NativeRows):
            fits = rows.codes.nbytes + _ITEM_BYTES * rows.n_rows <= self.memory
            rows.store = np.zeros if fits else self._in_file
        return rows

    def _in_file(self, shape: Any, dtype: Any) -> np.ndarray:
        small = np.prod(shape) * np.dtype(dtype).itemsize <= _SMALL
        return np.zeros(shape, dtype) if small else file_array(shape, dtype, self.directory)
