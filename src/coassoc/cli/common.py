"""What the commands share: options for input and output, reading, checks of paths."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..consensus.registry import method_names
from ..ensemble import read_ensemble
from ..ensemble.io.formats import format_names
from ..ensemble.io.reading import LabelFile, standard_input
from ..ensemble.io.writing import check_outputs
from . import note, say, say_json

MISSING_HELP = (
    "negative: empty cells and negative labels (HDBSCAN's noise) are missing (default); nan: only empty cells are; "
    "cluster, singletons: they form one more cluster, or one each"
)


def whole_number(text: str, low: int = 0) -> int:
    """An argparse type: a whole number from `low` on."""
    if not text.isdecimal() or int(text) < low:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {low}, got {text!r}")
    return int(text)


def positive(text: str) -> int:
    """An argparse type: a whole number from 1 on."""
    return whole_number(text, 1)


def jobs(text: str) -> int:
    """An argparse type: a number of processes; -1 is one per core."""
    return (os.cpu_count() or 1) if text == "-1" else positive(text)


def clusters(text: str) -> Any:
    """An argparse type: a number of clusters, "auto", or a range such as 2:12, whose ends are included."""
    if text == "auto":
        return text
    low, colon, high = text.partition(":")
    if not colon:
        return positive(text)
    first, last = positive(low), positive(high)
    if last < first:
        raise argparse.ArgumentTypeError(f"must be a range from small to large, such as 2:12, got {text!r}")
    return range(first, last + 1)


def add_input(parser: argparse.ArgumentParser, how_many: str = "+") -> None:
    """The label files, and what each of their columns is."""
    parser.add_argument(
        "labels",
        nargs=how_many,
        metavar="LABELS",
        help=f"{', '.join(format_names())} with one row per item and one column per clustering; several files "
        "are joined by id; - is standard input",
    )
    group = parser.add_argument_group("reading")
    option, ids, head = group.add_argument, group.add_mutually_exclusive_group(), group.add_mutually_exclusive_group()
    option("--columns", nargs="+", metavar="NAME", help="columns that hold clusterings, by name or pattern ('leiden*')")
    option("--exclude", nargs="+", default=[], metavar="NAME", help="columns to leave out")
    ids.add_argument(
        "--id", "--id-column", metavar="NAME", help="column that names the items (default: a first column called id)"
    )
    ids.add_argument("--no-id", action="store_true", help="no column names the items")
    option("--class-column", "--classes", metavar="NAME", help="column of known classes, used for scoring only")
    option("--missing", choices=("negative", "nan", "cluster", "singletons"), default="negative", help=MISSING_HELP)
    option("--format", choices=format_names(), help="kind of the input")
    option("--delimiter", metavar="CHAR", help="separator of text files, the output too (default: found by looking)")
    head.add_argument("--header", action="store_true", default=None, help="the first row names the columns")
    head.add_argument("--no-header", dest="header", action="store_false", help="the first row is data already")
    option("--max-bytes", type=positive, metavar="N", help="let a file unpack to this many bytes")
    option("--trusted", action="store_true", help="read binary files in this process, without its limits: faster")


def add_method(parser: argparse.ArgumentParser) -> None:
    """-k and -m."""
    parser.add_argument("-k", "--clusters", type=clusters, metavar="K", help="clusters of the consensus: a number; "
                        "auto (the default); or 2:12 to choose from 2 to 12. Methods other than auto take a number "
                        "(default: 8; for bisecting as many as the tree has leaves)")  # fmt: skip
    names = ", ".join(method_names())
    parser.add_argument("-m", "--method", default="auto", metavar="NAME", help=f"one of {names}, or package.module:"
                        "Estimator of your own (default: auto, which chooses the method and says whether to believe "
                        "it)")  # fmt: skip


def add_output(parser: argparse.ArgumentParser, help: str, *names: str, **settings: Any) -> None:
    """The file that a command writes, by default -o, and --force."""
    parser.add_argument(*(names or ("-o", "--output")), help=help, **({"metavar": "FILE"} | settings))
    parser.add_argument("--force", action="store_true", help="overwrite existing files")


def add_jobs(parser: Any, help: str, default: int | None = 1) -> None:
    """--jobs, which counts processes on this machine in every command."""
    help += "; -1 is one per core" + (f" (default: {default})" if default else "")
    parser.add_argument("--jobs", "--workers", type=jobs, default=default, metavar="N", help=help)


def add_seed_and_engine(parser: argparse.ArgumentParser) -> None:
    told = "random seed: the same seed, the same labels (default: 0)"
    parser.add_argument("--seed", type=whole_number, default=0, help=told)
    add_engine(parser)


def add_engine(parser: argparse.ArgumentParser) -> None:
    told = "auto, native, numpy, or cuda for a GPU (default: auto)"
    parser.add_argument("--engine", default="auto", metavar="NAME", help=told)


def clusters_for(args: argparse.Namespace) -> Any:
    """The number of clusters for the method asked for; None leaves it to the method."""
    if args.method.lower() not in ("auto", "consensus") and not isinstance(args.clusters, (int, type(None))):
        raise ValueError(f"-m {args.method} takes a number of clusters; -k auto and ranges need -m auto.")
    return args.clusters


def check_paths(args: argparse.Namespace, outputs: dict[str, Any], *inputs: Any, **settings: Any) -> None:
    """Check the output files of a command, by option, against its inputs and each other, before any work."""
    check_outputs(outputs, [*getattr(args, "labels", []), *inputs], force=args.force, **settings)


@contextmanager
def input_paths(args: argparse.Namespace) -> Iterator[list[Path]]:
    """The files to read; standard input is copied to a temporary file while the command runs."""
    if args.labels.count("-") > 1:
        raise ValueError("standard input (-) can be read once only.")
    if "-" in args.labels and sys.stdin is None:
        raise ValueError("standard input is closed; name a file instead of -.")
    with ExitStack() as stack:
        yield [stack.enter_context(standard_input(args.format)) if path == "-" else Path(path) for path in args.labels]


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """The options about reading, as `read_ensemble` and `StoredEnsemble` take them."""
    names = ("columns", "exclude", "class_column", "missing", "format", "delimiter", "header", "max_bytes", "trusted")
    return {name: getattr(args, name) for name in names} | {"id_column": False if args.no_id else args.id}


def read_input(args: argparse.Namespace, paths: Sequence[Any]) -> Any:
    """The ensemble that the options describe."""
    return noted(args, read_ensemble(paths, **reading(args)))


def noted(args: argparse.Namespace, ensemble: Any) -> Any:
    """The ensemble, after a note on what may be a mistake."""
    if args.columns is None and "consensus" in ensemble.names:
        note("the column 'consensus' is taken as one of the clusterings; leave it out with --exclude consensus.")
    return ensemble


def open_input(args: argparse.Namespace, path: Path) -> LabelFile:
    """A label file that the options describe, opened once."""
    return LabelFile(path, **{name: value for name, value in reading(args).items() if name != "missing"})


def read_with_partition(args: argparse.Namespace, paths: Sequence[Any], file: Any, several: str) -> tuple[Any, Any]:
    """The ensemble without the column --labels, and that column as codes, in the order of the items.

    The column is in another `file`, joined by id where both have ids, or in the only one of `paths`; `several` says
    what to do when there are more.
    """
    if file is None:
        if len(paths) > 1:
            raise ValueError(several)
        args.exclude = [*args.exclude, args.labels_column]
    ensemble = read_input(args, paths)
    settings = {"columns": args.labels_column, "exclude": (), "class_column": None, "missing": "negative"}
    table = read_ensemble(file or paths[0], **(reading(args) | settings))
    rows = rows_of_items(ensemble, table.item_ids, table.n_samples, "the partition", "--id")
    return ensemble, np.append(table.partition(0), -1)[rows]


def rows_of_items(ensemble: Any, ids: Any, n_rows: int, name: str, option: str) -> np.ndarray:
    """The row of another table for each item, by id where both have ids, else row by row; −1 where there is none."""
    if ids is None or ensemble.item_ids is None:
        if n_rows != ensemble.n_samples:
            raise ValueError(f"{name} has {n_rows} rows, the labels have {ensemble.n_samples}; give ids ({option}).")
        return np.arange(n_rows)
    row_of = {str(item): row for row, item in enumerate(ids.tolist())}
    return np.array([row_of.get(str(item), -1) for item in ensemble.item_ids.tolist()])


def tell(args: argparse.Namespace, result: dict[str, Any], text: str, output: Any = None) -> None:
    """Print a result as JSON or as text. Standard output may be the `output`: then only JSON, on standard error."""
    if args.json and output == "-":
        say_json(result, file=sys.stderr, indent=None)
    elif args.json:
        say_json(result)
    elif output != "-":
        say(text)
