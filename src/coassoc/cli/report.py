"""`coassoc report`: one HTML page about an ensemble and its consensus."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from ..ensemble.io.features import read_features
from ..ensemble.io.output import replacing
from . import common

DESCRIPTION = """write one self-contained HTML page: the verdict, how many clusters, alternatives side by side, the
clusters and known classes in them, the co-association, the bisecting tree, the confidence of each item, outlying
clusterings, ambiguous pairs, and other methods."""

EPILOG = """examples:
  coassoc report labels.csv -k 20 -o report.html
  coassoc report with-consensus.csv --labels consensus -o report.html
  coassoc report labels.csv -k 10 --features measurements.csv -o report.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    common.add_input(parser)
    common.add_method(parser)
    option("--labels", dest="labels_column", metavar="NAME", help="column that holds the consensus to report on")
    option("--features", metavar="FILE", help="numbers of the items, in any format: compares k")
    option("--features-id", metavar="NAME", help="column of that file that names the items")
    option("--features-exclude", nargs="+", default=[], metavar="NAME", help="columns that are no features")
    option("--compare", nargs="*", metavar="NAME", help="methods to put beside it (default: fast ones)")
    option("--no-compare", action="store_true", help="run no other method")
    option("--title", help="title of the page (default: the name of the file)")
    common.add_seed_and_engine(parser)
    common.add_output(parser, "the page (default: report.html)", default="report.html")


def run(args: argparse.Namespace) -> int:
    from ..report.page import render
    from ..report.summary import summarize

    if args.json and args.output == "-":
        raise ValueError("--json and --output - both write to standard output; name a file.")
    common.check_paths(args, {"-o": args.output}, args.features)
    start = time.perf_counter()
    with common.input_paths(args) as paths, common.Progress("coassoc report") as progress:
        progress.step("reading")
        if args.labels_column is not None:
            if len(paths) > 1:
                raise ValueError("--labels needs a single table; write the consensus and its clusterings to one file.")
            args.exclude = [*args.exclude, args.labels_column]
        ensemble = common.read_input(args, paths)
        labels = None if args.labels_column is None else common.read_partition(args, paths[0], ensemble)
        summary = summarize(
            ensemble,
            common.clusters_for(args),
            labels=labels,
            method=args.method,
            features=_features(args, ensemble),
            compare=False if args.no_compare else True if args.compare is None else args.compare,
            title=args.title or _title(args.labels),
            random_state=args.seed,
            engine=args.engine,
            progress=progress.step,
        )
        progress.step("drawing")
        page = render(summary)
    answer = summary.consensus
    if answer["chance"] is not None and answer["chance"]["warning"] is not None:
        common.note(answer["chance"]["warning"], "warning")
    if args.output == "-":
        print(page)  # HTML, in which names are escaped already
        return 0
    with replacing(args.output, force=args.force) as partial:
        partial.write_text(page, encoding="utf-8")
    facts = {
        "output": str(args.output),
        "bytes": len(page.encode()),
        "seconds": round(time.perf_counter() - start, 3),
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        **{name: answer[name] for name in ("method", "n_clusters", "density", "ensemble_nmi", "class_nmi")},
        "chance": answer["chance"],
        "verdict": answer["verdict"],
        "pac": summary.distribution.pac,
        "outlying_partitions": summary.partitions["partition"][summary.partitions["outlier"]].tolist(),
    }
    wrote = f"Wrote {args.output} ({facts['bytes'] / 1e6:.2f} MB); open it in a browser."
    common.tell(args, facts, lambda _: f"{answer['verdict']}\n{wrote}")
    return 0


def _title(labels: list[str]) -> str:
    name = "standard input" if labels == ["-"] else Path(labels[0]).name
    return f"Consensus of {name}" + (f" and {len(labels) - 1} more" if len(labels) > 1 else "")


def _features(args: argparse.Namespace, ensemble: Any) -> Any:
    """Features in the order of the ensemble's items: matched by id if both files have ids, else row by row."""
    if args.features is None:
        return None
    table = read_features(args.features, exclude=args.features_exclude, id_column=args.features_id)
    rows = common.rows_of_items(ensemble, table.ids, len(table.X), args.features, "--features-id")
    absent = np.flatnonzero(rows < 0)
    if len(absent):
        item = ensemble.item_ids[absent[0]]
        raise ValueError(f"{args.features} has no row for the item {item!r}; every item needs features.")
    return table.X[rows]
