"""Ensembles whose labels stay in a file or on the workers of a cluster and are read block by block."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..engines.contract import missing_in
from ..engines.dask import Dask
from ..engines.memory import available_bytes, file_array
from ..engines.stream import Stream
from .encode import Tally, check_missing_rule, counts_of_codes
from .ensemble import Ensemble
from .io.coding import Coding, DaskSource, Source, is_dask
from .io.formats import Options, naming
from .io.reading import LabelFile
from .tables import Vocabulary

_BESIDE_CODES = 16  # bytes per item that a fit in memory takes beside two copies of the codes


class StoredEnsemble(Ensemble):
    """An ensemble whose labels are read block by block, when they are needed.

    ``Ensemble(path)`` and ``Ensemble(dask_array)`` give one. Opening reads the first rows. The labels are counted when
    the base clusters are first asked for, and coded, in a second pass, when the codes are: into a temporary file mapped
    into memory. A NumPy array of compact codes is mapped as it is. On a cluster the workers do both passes.

    Parameters
    ----------
    table : path, Dask array or Dask data frame
        Any file or folder that `read_ensemble` reads; the files of a folder are taken in the order of their names.
    missing : {"negative", "nan", "cluster"}, default="negative"
        As for `Ensemble`; ``"singletons"`` needs the table in memory.
    columns, exclude, id_column, class_column, format, delimiter, header, max_bytes, trusted
        As for `read_ensemble`.
    directory : str, optional
        Where the temporary file of codes goes; the system's place for such files when None.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> import coassoc as ca
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "codes.npy")
    ...     np.save(path, np.array([[0, 1], [0, 1], [1, 0]], dtype=np.uint8))
    ...     ens = ca.Ensemble(path)
    ...     ens
    Ensemble(3 items, 2 clusterings, stored in codes.npy)
    """

    def __init__(
        self,
        table: Any,
        *,
        missing: str = "negative",
        columns: Any = None,
        directory: str | None = None,
        **reading: Any,
    ):
        unknown = sorted(set(reading) - {field.name for field in fields(Options)})
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument {unknown[0]!r}; see its help for those it has.")
        if isinstance(table, StoredEnsemble):
            self.__dict__.update(table.__dict__)
            return
        check_missing_rule(missing)
        if missing == "singletons":
            raise ValueError("missing='singletons' needs the table in memory; use 'negative', 'nan' or 'cluster' here.")
        if is_dask(table):
            table = DaskSource(table, columns)
        elif not isinstance(table, LabelFile):
            if not Path(table).exists():
                raise FileNotFoundError(2, "partitions: no file or folder", str(table))
            table = LabelFile(Path(table), columns=columns, **reading)
        self.source: DaskSource | LabelFile = table
        self.missing, self.directory = missing, directory
        self.names = self.source.names
        self._block_sizes: list[int] = []
        self._known: Coding | None = None
        self._codes: np.ndarray | None = None

    @staticmethod
    def takes(table: Any) -> bool:
        return isinstance(table, (str, os.PathLike, LabelFile, StoredEnsemble)) or is_dask(table)

    def __reduce__(self) -> Any:
        raise TypeError("an ensemble in a file or on a cluster is not pickled; open it again where it is needed.")

    # -- what the base class stores, found when asked for --------------------------------------------------------

    def scan(self, tally: Callable[[Source, str], tuple] | None = None) -> Coding:
        """Find the labels of every column; `tally` does the pass on a cluster."""
        if self._known is None:
            source, rule, table = self.source, self.missing, self.source.table
            with naming(Path(source.what)):
                array = table.array if tally is None and table is not None and self.names == table.names else None
                counts = counts_of_codes(array)
                if counts is not None:  # codes in a file are used as they are
                    self._codes, self._block_sizes = array, [int(counts[0].sum())]
                    tallies = [Tally(np.arange(len(count)), count, 0) for count in counts]
                else:
                    counted = tally(source, rule) if tally else source.tally(source.batches(), self.names, rule)
                    self._block_sizes, tallies = counted
                if sum(self._block_sizes) == 0:
                    raise ValueError("partitions must hold at least one item and one partition, got no rows.")
                self._known = Coding.of(tallies, self.names, self.missing)
        return self._known

    @property
    def is_coded(self) -> bool:
        """Whether the codes exist, in a mapped file."""
        return self._codes is not None

    @property
    def codes(self) -> np.ndarray:  # type: ignore[override]
        """Codes, in a mapped file."""
        coding = self.scan()
        if self._codes is None:
            codes, start = file_array((self.n_samples, self.n_partitions), coding.dtype, self.directory), 0
            for batch in self.source.batches():
                codes[start : start + len(batch)] = coding.codes_of(batch)
                start += len(batch)
            self._codes = codes
        return self._codes

    @property
    def id_column(self) -> str | None:
        """The column of the file that names the items, None without one."""
        return self.source.roles.ids if isinstance(self.source, LabelFile) else None

    @cached_property
    def item_ids(self) -> np.ndarray | None:  # type: ignore[override]
        """Names of the items, read when asked for."""
        return self.source.aside(self.source.roles.ids) if isinstance(self.source, LabelFile) else None

    @cached_property
    def classes(self) -> np.ndarray | None:  # type: ignore[override]
        """Known classes, read when asked for."""
        return self.source.aside(self.source.roles.classes) if isinstance(self.source, LabelFile) else None

    def __getattr__(self, name: str) -> Any:
        """What the base class stores, found when first asked for."""
        if name in ("n_clusters", "offsets", "sizes", "categories"):
            return getattr(self.scan(), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def has_missing(self) -> bool:  # type: ignore[override]
        return bool(missing_in(self).any())

    @property
    def n_samples(self) -> int:
        """Number of items."""
        return sum(self.block_sizes) if self.source.n_rows is None else self.source.n_rows

    @property
    def n_partitions(self) -> int:
        """Number of clusterings."""
        return len(self.names)

    @property
    def block_sizes(self) -> list[int]:
        """Rows of each block of the source, or of each batch that was read here."""
        if not self._block_sizes:
            self.scan()
        return self._block_sizes

    def vocabulary(self) -> Vocabulary:
        """The labels behind the codes; the codes themselves are not read."""
        known = self.scan()
        return Vocabulary(known.n_clusters, known.categories, known.names, known.dtype)

    def preferred_engine(self) -> Any:
        """Streaming when two copies of the codes and what a fit takes would not fit in half of the free memory."""
        if self.source.kind == "dask":
            return Dask.at_hand()
        codes = self.codes
        free = available_bytes() // 2
        need = 2 * codes.nbytes + _BESIDE_CODES * len(codes)
        return Stream(memory=max(free, 1 << 26), directory=self.directory) if need > free else None

    def __repr__(self) -> str:
        n = sum(self._block_sizes) or self.source.n_rows
        items = "items not yet counted" if n is None else f"{n} items"
        return f"Ensemble({items}, {self.n_partitions} clusterings, stored in {self.source.what})"
