"""One row per run, appended to a JSON-lines file that stays readable after a kill or a full disk."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# what identifies a run: rows with equal values are the same run
KEY_FIELDS = (
    "dataset", "data", "scaling", "seed", "n_partitions", "n_init", "n_clusters", "repeat", "method", "spec",
)  # fmt: skip
# results of a run, which do not depend on the number of jobs
RESULT_FIELDS = ("nmi", "density", "clusters", "ensemble", "method_seed", "variant")
_REQUIRED = (*KEY_FIELDS, "nmi", "density")


class StoreError(ValueError):
    """The store cannot be read or written; the message says what was kept."""


def row_key(row: Row) -> tuple:
    """The values that identify a run."""
    return tuple(row[name] for name in KEY_FIELDS)


class RowStore:
    """Rows in a file, one JSON object per line; no partial line is left by a failed write.

    Parameters
    ----------
    path : Path
        The file; it need not exist.

    Attributes
    ----------
    complaints : list of str
        Problems of lines that could not be read. Those lines stay in the file.
    """

    def __init__(self, path: Path):
        self.path = path
        self.complaints: list[str] = []

    def read(self) -> list[Row]:
        """All readable rows, one per key: the first with a result, else the first failure."""
        self.complaints = []
        found: dict[tuple, Row] = {}
        for number, line in enumerate(self._lines(), 1):
            row = self._parse(line, number)
            if row is None:
                continue
            key = row_key(row)
            if key not in found or (found[key].get("error") and not row.get("error")):
                found[key] = row
        return list(found.values())

    def _lines(self) -> Iterator[bytes]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"the store {str(self.path)!r} cannot be read: {error.strerror}.") from error
        pieces = data.split(b"\n")
        if pieces[-1]:
            self.complaints.append(
                f"{self.path.name}: the last line is cut short ({len(pieces[-1])} bytes), as after a kill; "
                "that run is done again."
            )
        yield from pieces[:-1]

    def _parse(self, line: bytes, number: int) -> Row | None:
        if not line.strip():
            return None
        try:
            row = json.loads(line)
            if not isinstance(row, dict) or any(name not in row for name in _REQUIRED):
                raise ValueError("not a row of an evaluation")
        except ValueError as error:
            self.complaints.append(f"{self.path.name}, line {number} is not readable ({error}); it is skipped.")
            return None
        return row

    def append(self, row: Row) -> None:
        """Add one row: a single write, then fsync. After a failure the file ends where it ended before."""
        line = (json.dumps(row, sort_keys=True, allow_nan=False) + "\n").encode()
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(f"the store {str(self.path)!r} cannot be opened: {error.strerror}.") from error
        try:
            size = os.fstat(handle).st_size
            try:
                written = os.write(handle, line)
                if written != len(line):
                    raise OSError(28, "No space left on device")
                with contextlib.suppress(OSError):  # devices that cannot sync
                    os.fsync(handle)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, size)
                raise StoreError(
                    f"the store {str(self.path)!r} cannot be written: {error.strerror}. All earlier rows are kept; "
                    "free some space and run the same command again."
                ) from error
        finally:
            os.close(handle)

    def mend(self) -> None:
        """Remove an incomplete last line, so that the next row starts on a new line."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            os.truncate(self.path, whole)


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Lock the store, so that two runs cannot write to it at the same time."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - no such lock on this system
        yield
        return
    lock = path.with_suffix(".lock")
    with open(lock, "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"another run is writing to {str(path.parent)!r}; wait for it, or choose another --output."
            ) from None
        yield
