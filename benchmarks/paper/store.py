"""One row per run, appended to a JSON-lines file that stays readable after a kill or a full disk."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# what identifies a run: rows with equal values are the same run
KEY_FIELDS = (
    "dataset", "data", "scaling", "seed", "n_partitions", "n_init", "n_clusters", "repeat", "method", "spec",
)  # fmt: skip


def row_key(row: Row) -> tuple:
    """The values that identify a run."""
    return tuple(row[name] for name in KEY_FIELDS)


def read_rows(path: Path) -> tuple[list[Row], list[str]]:
    """All readable rows, one per key (the first with a result, else the first failure), and what is wrong with others.

    A file that ends in .gz is decompressed. Unreadable lines stay in the file.
    """
    data = path.read_bytes()
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path.name} is not a compressed file of rows: {error}.") from None
    *lines, unfinished = data.split(b"\n")
    problems = []
    by_key: dict[tuple, Row] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict) or not row.keys() >= {*KEY_FIELDS, "nmi", "density"}:
                raise ValueError("not a row of an evaluation")
        except ValueError as error:
            problems.append(f"{path.name}, line {number} is not readable ({error}); it is skipped.")
            continue
        key = row_key(row)
        if key not in by_key or (by_key[key].get("error") and not row.get("error")):
            by_key[key] = row
    if unfinished:
        problems.append(f"{path.name}: the last line is cut short ({len(unfinished)} bytes), as after a kill; "
                        "that run is done again.")  # fmt: skip
    return list(by_key.values()), problems


def append_row(path: Path, row: Row) -> None:
    """Add one row; a line that is cut short by a kill or a full disk is removed by `known_rows`."""
    line = json.dumps(row, sort_keys=True, allow_nan=False)
    with path.open("a") as out:
        out.write(line + "\n")


@contextmanager
def known_rows(path: Path) -> Iterator[tuple[list[Row], list[str]]]:
    """The rows so far, as `read_rows` gives them, in a file that no other run may write to meanwhile.

    An incomplete last line is removed, so that the next row starts on a new line.
    """
    with open(path.with_suffix(".lock"), "a") as lock:
        with suppress(ImportError):  # systems without such a lock
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(
                    f"another run is writing to {str(path.parent)!r}; wait for it, or choose another --output."
                ) from None
        path.touch()
        stored = read_rows(path)
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        yield stored
