"""What commands share: options for input and output, progress, tables on a terminal, JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MISSING_HELP = (
    "negative: empty cells and negative labels (HDBSCAN's noise) are missing (default); nan: only empty cells are; "
    "cluster, singletons: they form one more cluster, or one each"
)


def add_input(parser: argparse.ArgumentParser) -> None:
    """The label files and which of their columns play which part."""
    parser.add_argument(
        "labels",
        nargs="+",
        metavar="LABELS",
        help="csv, tsv, parquet, npy, npz or h5ad with one row per item and one column per clustering; several files "
        "are joined by id; - is standard input",
    )
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--columns", nargs="+", metavar="NAME", help="columns that hold clusterings, by name or pattern ('leiden*')"
    )
    group.add_argument("--exclude", nargs="+", default=[], metavar="NAME", help="columns to leave out")
    ids = group.add_mutually_exclusive_group()
    ids.add_argument(
        "--id", "--id-column", metavar="NAME", help="column that names the items (default: a first column called id)"
    )
    ids.add_argument("--no-id", action="store_true", help="no column names the items")
    group.add_argument(
        "--class-column", "--classes", metavar="NAME", help="column of known classes, used for scoring only"
    )
    group.add_argument("--missing", choices=("negative", "nan", "cluster", "singletons"), default="negative",
                       help=MISSING_HELP)  # fmt: skip
    group.add_argument("--format", choices=("csv", "tsv", "parquet", "npy", "npz", "h5ad"), help="kind of the input")
    group.add_argument("--delimiter", metavar="CHAR", help="separator of text files (default: found by looking)")
    head = group.add_mutually_exclusive_group()
    head.add_argument("--header", action="store_true", default=None, help="the first row names the columns")
    head.add_argument("--no-header", dest="header", action="store_false", help="the first row is data already")
    group.add_argument("--max-bytes", type=int, metavar="N", help="let compressed files unpack to this many bytes")


def read_input(args: argparse.Namespace, paths: Sequence[Any]) -> Any:
    """The ensemble the options describe."""
    from ..ensemble import read_ensemble

    ensemble = read_ensemble(
        paths[0] if len(paths) == 1 else list(paths),
        columns=args.columns,
        exclude=args.exclude,
        id_column=False if args.no_id else args.id,
        class_column=args.class_column,
        missing=args.missing,
        format=args.format,
        delimiter=args.delimiter,
        header=args.header,
        max_bytes=args.max_bytes,
    )
    if args.columns is None and "consensus" in ensemble.names:
        print(
            "coassoc: note: the column 'consensus' is taken as one of the clusterings; leave it out with "
            "--exclude consensus.",
            file=sys.stderr,
        )
    return ensemble


@contextmanager
def input_paths(args: argparse.Namespace) -> Iterator[list[Path]]:
    """The files to read, standard input among them spooled to disk while the command runs."""
    from contextlib import ExitStack

    from ..ensemble.io.reading import standard_input

    if args.labels.count("-") > 1:
        raise ValueError("standard input (-) can be read once only.")
    with ExitStack() as stack:
        yield [stack.enter_context(standard_input(args.format)) if one == "-" else Path(one) for one in args.labels]


def add_output(parser: argparse.ArgumentParser, help: str, **settings: Any) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help=help, **settings)
    parser.add_argument("--force", action="store_true", help="overwrite the output if it exists")


def add_seed_and_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="random seed: the same seed, the same labels (default: 0)")
    parser.add_argument("--engine", default="auto", metavar="NAME", help="auto, native, numpy (default: auto)")


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return value


class Progress:
    """One rewritten line on a terminal, nothing elsewhere; call it as (done, total)."""

    def __init__(self, what: str, quiet: bool = False):
        self.what, self.shown = what, False
        self.active = not quiet and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self.active:
            filled = round(24 * done / max(total, 1))
            bar = "█" * filled + "░" * (24 - filled)
            print(f"\r\x1b[2K{self.what} {bar} {done}/{total}", end="", file=sys.stderr, flush=True)
            self.shown = True

    def step(self, text: str) -> None:
        if self.active:
            print(f"\r\x1b[2K{self.what}: {text}", end="", file=sys.stderr, flush=True)
            self.shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start


def print_json(data: Any) -> None:
    print(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """NumPy values, paths and NaN as JSON knows them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, os.PathLike):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
