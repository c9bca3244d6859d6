"""`coassoc reproduce`: the published evaluation on this machine, its tables beside the printed ones."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..ensemble.io.output import replacing
from ..experiments.claims import claims_markdown
from ..experiments.compact import read_rows, write_compact
from ..experiments.methods import PAPER_METHODS, find_method, known_methods
from ..experiments.page import write_page
from ..experiments.protocol import PAPER_SETS, QUICK_SETS, SCALINGS, Protocol
from ..experiments.runner import DataSource, Outcome, Step, run_evaluation
from ..experiments.store import RowStore
from ..experiments.tables import gaps_markdown, make_tables, to_csv, to_latex, to_markdown
from ..report.axes import new_figure
from ..report.plain_text import seconds
from . import common
from .common import positive, seed

DESCRIPTION = """run the published evaluation again: for each data set, 20 times, make 20 base k-means, run every
consensus method at k = 20, score it by ensemble NMI and density, and print the six tables beside the paper's.

A run can be stopped at any moment (Ctrl-C, kill, power cut); the same command goes on where it stopped."""

EPILOG = """examples:
  coassoc reproduce --quick
  coassoc reproduce --datasets ecoli glass --method KM H-KM --output evaluation
  coassoc reproduce --jobs 4 --output evaluation
  coassoc reproduce --datasets glass --method KM mine=package.module:Estimator --output evaluation
  coassoc reproduce --rows evaluation/rows.csv.gz --output tables
  coassoc reproduce --dataset-csv mine=table.csv:class --method KM SEC --repeats 5 --output evaluation

The folder given by --output then holds rows.jsonl (one line per run; rows.csv.gz is the same, small), tables.md,
tables.csv, tables.tex and page.html.
Data sets that come with no package are read from the folder named by the environment variable COASSOC_DATA.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help="data sets by name (default: all the paper has)")
    parser.add_argument(
        "--dataset-csv", action="append", default=[], metavar="NAME=FILE[:COLUMN]",
        help="a data set of your own: a CSV with a header, its class in COLUMN or else in the last one",
    )  # fmt: skip
    parser.add_argument(
        "-m", "--method", "--methods", dest="methods", nargs="+", action="extend", metavar="NAME",
        help=f"some of {', '.join(known_methods())}; all; or NAME=package.module:Estimator of your own (default: those "
        "of the paper)",
    )  # fmt: skip
    parser.add_argument("--repeats", type=positive, metavar="N", help="ensembles per data set (default: 20)")
    parser.add_argument("--partitions", type=positive, default=20, metavar="P", help="base partitions (default: 20)")
    parser.add_argument("-k", "--clusters", type=positive, default=20, help="clusters of a consensus (default: 20)")
    parser.add_argument(
        "--scaling", choices=SCALINGS, default="paper",
        help="features raw, z-normalised, on [0, 1], or as fits the printed figures: raw, abalone on [0, 1] (default)",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, help="root of all random draws (default: 0)")
    common.add_jobs(parser, "processes")
    parser.add_argument("-o", "--output", default="evaluation", metavar="DIR", help="folder for rows, tables and page")
    parser.add_argument("--cache", metavar="DIR", help="folder of base ensembles (default: inside the output folder)")
    parser.add_argument("--data", metavar="DIR", help="folder of the data files (default: COASSOC_DATA)")
    parser.add_argument("--allow-download", action="store_true", help="let data sets come from the network")
    parser.add_argument(
        "--quick", action="store_true", help="four small sets that install with coassoc[datasets], three repeats"
    )
    parser.add_argument(
        "--rows", metavar="FILE", help="run nothing: make tables and page from stored rows (.jsonl or .csv.gz)"
    )
    parser.add_argument("--no-page", action="store_true", help="write no HTML page")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    if args.rows is not None:
        return _from_rows(args)
    sources, skipped_sets = _sources(args)
    methods, skipped_methods = _methods(args)
    protocol = Protocol(
        seed=args.seed,
        n_repeats=args.repeats if args.repeats is not None else (3 if args.quick else 20),
        n_partitions=args.partitions,
        n_clusters=args.clusters,
        scaling=args.scaling,
    )
    if not args.no_page:
        new_figure(1, 1)  # fails before the work when matplotlib is missing
    folder = _output_folder(args.output)
    for text in (*skipped_sets, *skipped_methods):
        common.note(text)
    store = RowStore(folder / "rows.jsonl")
    try:
        with common.Progress("runs", args.quiet or args.json, every=10.0) as progress:
            outcome = run_evaluation(
                sources, methods, protocol, store,
                cache=Path(args.cache) if args.cache else folder / "ensembles",
                n_jobs=args.jobs, progress=lambda step: _tell(progress, step),
            )  # fmt: skip
    except KeyboardInterrupt:
        common.note("stopped; the rows so far are kept, run the same command to go on.")
        raise
    for complaint in outcome.complaints:
        common.note(complaint)
    _write_results(folder, outcome, protocol, sources, methods, args)
    return _report(outcome, folder, args)


def _from_rows(args: argparse.Namespace) -> int:
    """Make tables and page from stored rows; run nothing."""
    rows = read_rows(Path(args.rows))
    if not rows:
        raise ValueError(f"--rows {args.rows} holds no rows.")
    first = rows[0]
    repeats = 1 + max(row["repeat"] for row in rows)
    settings = {name: first[name] for name in ("seed", "n_partitions", "n_clusters", "n_init")}
    protocol = Protocol(n_repeats=repeats, scaling=args.scaling, **settings)
    outcome = Outcome(rows, done_before=len(rows), failures=[row for row in rows if row.get("error")])
    folder = _output_folder(args.output)
    _write_results(folder, outcome, protocol, [], [], args)
    return _report(outcome, folder, args)


def _sources(args: argparse.Namespace) -> tuple[list[DataSource], list[str]]:
    own = [_own_source(text) for text in args.dataset_csv]
    if args.datasets is None and own:
        return own, []
    names = args.datasets or (QUICK_SETS if args.quick else PAPER_SETS)
    if list(names) == ["all"]:
        names = PAPER_SETS
    found, notes = [], []
    for name in names:
        source = DataSource(name, folder=args.data, allow_download=args.allow_download)
        if args.datasets is None and not args.quick:
            # the default list: sets that are not available are named and left out
            from ..datasets import DatasetUnavailable

            try:
                source.load(args.scaling)
            except DatasetUnavailable as error:
                notes.append(f"left out: {error}")
                continue
        else:
            source.load(args.scaling)  # fails before any run if a name or folder is wrong
        found.append(source)
    if not found and not own:
        raise ValueError("no data set is at hand; pip install 'coassoc[datasets]', or set COASSOC_DATA.")
    return [*found, *own], notes


def _own_source(text: str) -> DataSource:
    name, _, rest = text.partition("=")
    path, _, column = rest.partition(":")
    if not name or not path:
        raise ValueError(f"--dataset-csv must be NAME=FILE or NAME=FILE:COLUMN, got {text!r}.")
    source = DataSource(name, csv=path, label=column or None)
    source.load("raw")
    return source


def _methods(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Names of the methods to run, and notes on those left out.

    A method that was asked for by name must be installed; one of the default list is left out if it is not.
    """
    asked = args.methods is not None and list(args.methods) != ["all"]
    names = args.methods if asked else (known_methods() if args.methods else PAPER_METHODS)
    found, notes = [], []
    for name in names:
        try:
            find_method(name)
        except ImportError as error:
            if asked:
                raise
            notes.append(f"{name} is left out: {error}")
            continue
        found.append(name)
    return found, notes


def _output_folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--output must be a folder, but {path!r} is or lies under a file.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"--output {path!r} cannot be written to; choose another folder.")
    return folder


def _tell(progress: common.Progress, step: Step) -> None:
    row = step.row
    text = f"{step.done}/{step.total}, {row['dataset']} {row['repeat'] + 1} {row['method']}"
    progress.step(text, step.work_done / step.work_total)


def _write_results(
    folder: Path, outcome: Outcome, protocol: Protocol, sources: list[DataSource], methods: list[str],
    args: argparse.Namespace,
) -> None:  # fmt: skip
    tables = make_tables(outcome.rows)
    head = (
        "# Tables of the evaluation\n\n"
        "Cells: ours ± standard error (paper, difference), in percent; best in bold; [n] fewer repeats; "
        f"where the paper gave up, † is exact linkage over different rows, ‡ linkage of micro-clusters.\n"
        f"Scaling: {protocol.scaling}; {protocol.n_repeats} repeats; "
        f"{protocol.n_partitions} partitions; k = {protocol.n_clusters}; seed {protocol.seed}.\n"
    )
    parts = [head, *map(to_markdown, tables), gaps_markdown(outcome.rows), claims_markdown(outcome.rows)]
    _replace(folder / "tables.md", "\n".join(parts))
    if args.rows is None:
        write_compact(folder / "rows.csv.gz", outcome.rows)
    _replace(folder / "tables.csv", to_csv(tables))
    _replace(folder / "tables.tex", "\n".join(map(to_latex, tables)))
    if not args.no_page:
        cache = Path(args.cache) if args.cache else folder / "ensembles"
        _replace(folder / "page.html", write_page(outcome.rows, tables, protocol, sources, methods, cache))


def _replace(path: Path, text: str) -> None:
    with replacing(path, force=True) as partial:
        partial.write_text(text, encoding="utf-8")


def _report(outcome: Outcome, folder: Path, args: argparse.Namespace) -> int:
    if args.json:
        facts = {
            "rows": len(outcome.rows),
            "done_now": outcome.done_now,
            "failures": len(outcome.failures),
            "output": str(folder),
        }
        common.say_json(facts, indent=None)
    else:
        for table in make_tables(outcome.rows):
            common.say(to_markdown(table))
        common.say(gaps_markdown(outcome.rows))
        spent = sum(row.get("seconds", 0.0) for row in outcome.rows)
        common.say(
            f"{len(outcome.rows)} runs ({outcome.done_now} now, {outcome.done_before} before), "
            f"{seconds(spent)} of consensus; rows, tables and page are in {folder}"
        )
    for row in outcome.failures[:5]:
        common.note(f"{row['method']} failed on {row['dataset']}: {row['error']}", "warning")
    return 1 if outcome.failures else 0
