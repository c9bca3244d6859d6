"""`coassoc fit` beyond memory: the label file stays where it is, in chunks on this machine or on a Dask cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from ..report import plain_text
from . import common as common

_WRITE_ROWS = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scale (Parquet file or folder, or NPY)")
    group.add_argument("--memory", metavar="SIZE", help="stream the file within this much memory, such as 2GB")
    group.add_argument("--workers", type=common.positive, metavar="N", help="start a Dask cluster of N processes here")
    group.add_argument("--dask", metavar="ADDRESS", help="use a running Dask cluster, such as tcp://host:8786")


def is_wanted(args: argparse.Namespace, paths: list[Path]) -> bool:
    """Whether scale was asked for, or the table would fill half of the free memory when read."""
    if args.memory is not None or args.workers is not None or args.dask is not None:
        if sum(flag is not None for flag in (args.memory, args.workers, args.dask)) > 1:
            raise ValueError("--memory, --workers and --dask exclude each other; give one of them.")
        if len(paths) > 1:
            raise ValueError("--memory, --workers and --dask take one file or folder, got several.")
        return True
    from ..core.memory import available_bytes

    return len(paths) == 1 and _bytes_in_memory(paths[0]) > available_bytes() // 2


def _bytes_in_memory(path: Path) -> int:
    if path.is_dir():
        return sum(_bytes_in_memory(file) for file in path.rglob("*.parquet"))
    if path.suffix == ".npy" and path.exists():
        return 2 * path.stat().st_size
    if path.suffix in (".parquet", ".pq") and path.exists():
        from ..ensemble.io.guard import allowed_bytes
        from ..ensemble.io.parquet import import_parquet

        try:
            with import_parquet().ParquetFile(path) as file:
                cells = file.metadata.num_rows * file.metadata.num_columns
        except (ValueError, OSError):  # damaged: the reader says how
            return 0
        # a file that declares far more than it can hold is not a large one: the reader refuses it
        return 9 * cells if 4 * cells <= allowed_bytes(path, None) else 0
    return 0


def run(args: argparse.Namespace, path: Path, progress: Any) -> dict[str, Any]:
    """Fit and write; the result as the command prints it."""
    from ..consensus.registry import make_method
    from ..core.memory import PeakMemory
    from ..ensemble import StoredEnsemble

    clock = common.Clock()
    with _engine(args) as engine, PeakMemory() as memory:
        progress.step("reading")
        ensemble = StoredEnsemble(path, missing=args.missing, columns=_columns(args, path))
        progress.step(f"{args.method} with {engine!r}")
        model = make_method(
            args.method, n_clusters=args.clusters, n_init=args.n_init, random_state=args.seed, engine=engine
        )
        model.fit(ensemble)
        ran_on = repr(engine)
        fitted = clock.seconds
        sizes = np.asarray(model.cluster_sizes_)
        order = np.argsort(-sizes, kind="stable") if args.order == "size" else np.arange(len(sizes))
        rank = np.empty(len(sizes) + 1, dtype=np.int32)
        rank[order], rank[-1] = np.arange(len(sizes)), -1  # the last entry is read by label −1
        if args.output is not None:
            progress.step("writing")
            _write(args, model.labels_, rank)
        if args.save is not None:
            model.save(args.save, force=args.force)
    return {
        "input": [str(path)],
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        "base_clusters": [int(ensemble.n_clusters.min()), int(ensemble.n_clusters.max())],
        "missing_labels": ensemble.has_missing,
        "method": type(model).__name__,
        "engine": ran_on,
        "clusters": len(sizes),
        "scores": {"density": model.density_},
        "cluster_sizes": sizes[order].tolist(),
        "cluster_density": np.asarray(model.cluster_density_)[order].tolist(),
        "seconds": {"fit": round(fitted, 4), "all": round(clock.seconds, 4)},
        "peak_anonymous_bytes": memory.peak,
        "output": args.output,
        "column": args.name if args.output is not None else None,
    }


def text(result: dict[str, Any]) -> str:
    from ..core.memory import format_size

    low, high = result["base_clusters"]
    lines = [
        f"{result['items']:,} items, {result['partitions']} clusterings of {low} to {high} clusters",
        f"{result['method']} with {result['engine']}: {result['clusters']} clusters, density "
        f"{plain_text.number(result['scores']['density'])}, {plain_text.seconds(result['seconds']['fit'])}",
    ]
    if result["peak_anonymous_bytes"] is not None:
        lines.append(f"peak memory of this process, mapped files apart: {format_size(result['peak_anonymous_bytes'])}")
    if result["output"] is not None:
        lines.append(f"wrote {result['output']}")
    return "\n".join(lines)


@contextmanager
def _engine(args: argparse.Namespace) -> Iterator[Any]:
    from ..core.memory import available_bytes
    from ..engines import Dask, Stream

    with open_client(args) as client:
        yield Dask(client) if client is not None else Stream(args.memory or available_bytes() // 2)


@contextmanager
def open_client(args: argparse.Namespace) -> Iterator[Any]:
    """A client of the cluster that --dask names or --workers starts; None without either."""
    if args.dask is None and args.workers is None:
        yield None
        return
    try:
        from distributed import Client

        from ..engines.dask.session import local_cluster
    except ImportError:
        raise ImportError("--dask and --workers need dask and distributed: pip install 'coassoc[dask]'.") from None
    if args.dask is not None:
        with Client(args.dask) as client:
            yield client
        return
    with local_cluster(args.workers) as cluster, Client(cluster) as client:
        yield client


def _columns(args: argparse.Namespace, path: Path) -> list[str] | None:
    """Names of the columns that hold clusterings; None for all of a file without names."""
    from ..ensemble.io.blocks import source_of

    source = source_of(path)
    if source.kind == "npy":
        return None
    apart = {args.class_column, args.id, *args.exclude}
    if args.id is None and not args.no_id and source.names[0].lower() == "id":
        apart.add(source.names[0])
    patterns = args.columns or ["*"]
    chosen = [n for n in source.names if n not in apart and any(fnmatchcase(n, pattern) for pattern in patterns)]
    if not chosen:
        raise ValueError(f"no column of {path.name} is left as a clustering; it has {source.names}.")
    return chosen


def _write(args: argparse.Namespace, labels: Any, rank: np.ndarray) -> None:
    """Labels as one column, a part at a time."""
    from ..ensemble.io.guard import replacing

    target = Path(args.output)
    if target.suffix not in (".npy", ".parquet"):
        raise ValueError(f"at this scale labels are written to .parquet or .npy, got {args.output!r}.")
    with replacing(target, force=args.force) as partial:
        if target.suffix == ".npy":
            out = np.lib.format.open_memmap(partial, mode="w+", dtype=np.int32, shape=(len(labels),))
            start = 0
            for part in _parts(labels):
                out[start : start + len(part)] = rank[part]
                start += len(part)
            out.flush()
            del out
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetWriter(partial, pa.schema([(args.name, pa.int32())])) as writer:
            for part in _parts(labels):
                writer.write_table(pa.table({args.name: rank[part]}))


def _parts(labels: Any) -> Iterator[np.ndarray]:
    if hasattr(labels, "blocks"):  # on the cluster
        for i in range(labels.numblocks[0]):
            yield labels.blocks[i].compute()
        return
    for start in range(0, len(labels), _WRITE_ROWS):
        yield labels[start : start + _WRITE_ROWS]
