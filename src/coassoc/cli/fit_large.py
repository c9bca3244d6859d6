"""Files larger than memory in `coassoc fit`: labels are read in blocks, here or on a Dask cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..engines import Dask, Stream, resolve
from ..engines.dask.session import open_client
from ..engines.memory import available_bytes
from ..ensemble import StoredEnsemble
from ..ensemble.io.formats import find_format, open_table
from ..ensemble.io.limits import table_bytes
from ..ensemble.io.table import Options
from . import common as common

_LOCAL_ENGINES = ("auto", "native", "numpy")  # engines that work on a chunk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scale (files larger than memory, and folders of Parquet files)")
    group.add_argument("--memory", metavar="SIZE", help="read the file in pieces within this much memory, such as 2GB")
    common.add_jobs(group, "start a Dask cluster of N processes here", None)
    group.add_argument("--dask", metavar="ADDRESS", help="use a running Dask cluster, such as tcp://host:8786")


def is_wanted(args: argparse.Namespace, paths: list[Path]) -> bool:
    """Whether scale was asked for, or the table would fill half of the free memory when read."""
    if args.memory is not None or args.jobs is not None or args.dask is not None:
        if sum(flag is not None for flag in (args.memory, args.jobs, args.dask)) > 1:
            raise ValueError("--memory, --jobs and --dask exclude each other; give one of them.")
        if len(paths) > 1:
            raise ValueError("--memory, --jobs and --dask take one file or folder, got several.")
        return True
    return len(paths) == 1 and _bytes_in_memory(args, paths[0]) > available_bytes() // 2


def _bytes_in_memory(args: argparse.Namespace, path: Path) -> int:
    """Estimate of what reading the whole file takes; 0 when that is not known or the reader will refuse it."""
    if not path.exists() or args.missing == "singletons":
        return 0
    try:
        if path.is_file() and find_format(path, args.format).is_text:
            return 4 * path.stat().st_size
        table, _ = open_table(path, args.format, Options(max_bytes=args.max_bytes))
    except (ValueError, OSError, ImportError):  # the reader says what is wrong
        return 0
    needed = table_bytes(table.n_rows or 0, len(table.names))
    return needed if needed <= table.limit.allowed else 0


@contextmanager
def opened(args: argparse.Namespace, paths: list[Path]) -> Iterator[tuple[Any, Any, bool]]:
    """The ensemble, the engine for it, and whether it was left in its file."""
    if not is_wanted(args, paths):
        yield common.read_input(args, paths), args.engine, False
        return
    with _engine(args) as engine:
        yield StoredEnsemble(paths[0], **common.reading(args)), engine, True


@contextmanager
def _engine(args: argparse.Namespace) -> Iterator[Any]:
    """The engine that the options ask for."""
    local = "auto" if args.engine in ("stream", "dask") else args.engine
    with open_client(args.dask, args.jobs) as client:
        if client is not None or args.memory is not None:
            asked = "--memory" if client is None else "--dask and --jobs"
            fits = (*_LOCAL_ENGINES, "stream" if client is None else "dask")
            if args.engine not in fits:
                raise ValueError(f"--engine with {asked} must be one of {', '.join(fits)}, got {args.engine!r}.")
            yield Stream(args.memory, local=local) if client is None else Dask(client, local=local)
        elif args.engine in (*_LOCAL_ENGINES, "stream"):
            yield Stream(available_bytes() // 2, local=local)
        else:
            yield resolve(args.engine)
