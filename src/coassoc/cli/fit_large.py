"""`coassoc fit` on files larger than memory: labels are read in blocks, here or on a Dask cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..report import plain_text
from . import common as common

_PART_ROWS = 1 << 20
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
    from ..engines.memory import available_bytes

    return len(paths) == 1 and _bytes_in_memory(args, paths[0]) > available_bytes() // 2


def _bytes_in_memory(args: argparse.Namespace, path: Path) -> int:
    """Estimate of what reading the whole file takes; 0 when that is not known or the reader will refuse it."""
    from ..ensemble.io.formats import find_format, open_table
    from ..ensemble.io.limits import table_bytes
    from ..ensemble.io.table import Options

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


def run(args: argparse.Namespace, path: Path, progress: Any) -> dict[str, Any]:
    """Fit and write; the result as the command prints it."""
    from ..consensus.base import fit_to
    from ..engines.memory import PeakMemory
    from ..ensemble import StoredEnsemble

    clock = common.Clock()
    with _engine(args) as engine, PeakMemory() as memory:
        progress.step("reading")
        ensemble = StoredEnsemble(path, **common.reading(args))
        progress.step(f"{args.method} with {engine!r}")
        model = fit_to(common.make_model(args, engine), ensemble)
        fitted = clock.seconds
        sizes = np.asarray(model.cluster_sizes_)
        order = np.argsort(-sizes, kind="stable") if args.order == "size" else np.arange(len(sizes))
        rank = np.empty(len(sizes) + 1, dtype=np.int32)
        rank[order], rank[-1] = np.arange(len(sizes)), -1  # the last entry is read by label −1
        if args.output is not None:
            progress.step("writing")
            _write(args, path, ensemble, model, rank)
        if args.save is not None:
            model.save(args.save, force=args.force)
    return {
        "input": [str(path)],
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        "base_clusters": [int(ensemble.n_clusters.min()), int(ensemble.n_clusters.max())],
        "columns": ensemble.names,
        "missing_labels": ensemble.has_missing,
        "method": type(model).__name__,
        "engine": repr(engine),
        "clusters": len(sizes),
        **({"verdict": model.verdict_, "supported": model.supported_} if hasattr(model, "verdict_") else {}),
        "scores": {"density": model.density_},
        "cluster_sizes": sizes[order].tolist(),
        "cluster_density": np.asarray(model.cluster_density_)[order].tolist(),
        "seconds": {"fit": round(fitted, 4), "all": round(clock.seconds, 4)},
        "peak_anonymous_bytes": memory.peak,
        "output": args.output,
        "column": args.name if args.output is not None else None,
    }


def text(result: dict[str, Any]) -> str:
    """The result for people."""
    from ..engines.memory import format_size

    low, high = result["base_clusters"]
    lines = [
        f"{result['items']:,} items, {result['partitions']} clusterings of {plain_text.span(low, high)} clusters",
        f"{result['method']} with {result['engine']}: {result['clusters']} clusters, density "
        f"{plain_text.number(result['scores']['density'])}, {plain_text.seconds(result['seconds']['fit'])}",
    ]
    if "verdict" in result:
        lines.insert(1, result["verdict"])
    if result["peak_anonymous_bytes"] is not None:
        lines.append(f"peak memory of this process without mapped files: {format_size(result['peak_anonymous_bytes'])}")
    if result["output"] is not None:
        lines.append(f"wrote {result['output']}")
    return "\n".join(lines)


@contextmanager
def _engine(args: argparse.Namespace) -> Iterator[Any]:
    """The engine that the options ask for."""
    from ..engines import Dask, Stream, resolve
    from ..engines.memory import available_bytes

    local = "auto" if args.engine in ("stream", "dask") else args.engine
    with open_client(args) as client:
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


@contextmanager
def open_client(args: argparse.Namespace) -> Iterator[Any]:
    """A client of the cluster that --dask names or --jobs starts; None without either."""
    from ..engines.dask.session import open_client as connect

    with connect(args.dask, args.jobs) as client:
        yield client


def _write(args: argparse.Namespace, path: Path, ensemble: Any, model: Any, rank: np.ndarray) -> None:
    """The labels, in a temporary file, written as `coassoc fit` writes them in memory."""
    from ..engines.memory import file_array

    ranked = file_array((ensemble.n_samples,), np.int32)
    start = 0
    for part in _parts(model.labels_):
        ranked[start : start + len(part)] = rank[part]
        start += len(part)
    write(args, [path], ranked, model, ensemble)


def write(args: argparse.Namespace, paths: list[Path], labels: Any, model: Any, ensemble: Any) -> None:
    """The labels, and the confidence where asked for, beside the content of a single input of the same kind."""
    from ..ensemble import write_labels
    from ..ensemble.io.writing import joins_source

    source = paths[0] if len(paths) == 1 else None
    kind = "tsv" if args.output == "-" and args.format == "tsv" else None
    columns = {args.name: labels}
    if args.confidence:
        columns[f"{args.name}_confidence"] = np.asarray(model.confidence_, dtype=float).round(4)
    ids = None if joins_source(args.output, source, kind) else ensemble.item_ids
    write_labels(args.output, columns, source=source, ids=ids, format=kind, header=args.header, force=args.force)


def _parts(labels: Any) -> Iterator[np.ndarray]:
    if hasattr(labels, "blocks"):  # on the cluster
        for i in range(labels.numblocks[0]):
            yield labels.blocks[i].compute()
        return
    for start in range(0, len(labels), _PART_ROWS):
        yield labels[start : start + _PART_ROWS]
