"""write one self-contained HTML page: the verdict, how many clusters, alternatives side by side, the
clusters and known classes in them, the co-association, the confidence of each item, and outlying clusterings.

examples:
  coassoc report labels.csv -k 20 -o report.html
  coassoc report with-consensus.csv --labels consensus -o report.html
  coassoc report labels.csv --features measurements.csv --exclude postcode -o report.html
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from ..ensemble.io.reading import read_features
from ..ensemble.io.writing import replacing
from . import Progress, common, note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    common.add_input(parser)
    common.add_method(parser)
    option("--labels", dest="labels_column", metavar="NAME", help="column that holds the consensus to report on")
    option("--features", metavar="FILE", help="numbers that describe the items, in any format, to explain the "
           "clusters; --exclude leaves out columns of this file, too")  # fmt: skip
    option("--features-id", metavar="NAME", help="column of that file that names the items (default: a first column "
           "called id)")  # fmt: skip
    option("--title", help="title of the page (default: the name of the file)")
    common.add_seed_and_engine(parser)
    common.add_output(parser, "the page (default: report.html)", default="report.html")


def run(args: argparse.Namespace) -> None:
    from ..report.page import render
    from ..report.summary import summarize

    common.check_paths(args, {"-o": args.output}, args.features)
    start = time.perf_counter()
    with common.input_paths(args) as paths, Progress("coassoc report") as progress:
        progress.step("reading")
        if args.labels_column is None:
            ensemble, labels = common.read_input(args, paths), None
        else:
            hint = "--labels needs a single table; write the consensus and its clusterings to one file."
            ensemble, labels = common.read_with_partition(args, paths, None, hint)
        features, names = _features(args, ensemble)
        summary = summarize(
            ensemble,
            common.clusters_for(args),
            labels=labels,
            method=args.method,
            features=features,
            feature_names=names,
            title=args.title or _title(args.labels),
            random_state=args.seed,
            engine=args.engine,
            progress=progress.step,
        )
        progress.step("drawing")
        page = render(summary)
    answer = summary.consensus
    if answer["supported"] is False:
        note("the clusterings agree no more than chance: this consensus shows no structure.", "warning")
    if args.output == "-":
        print(page)  # HTML, in which names are escaped already
    else:
        with replacing(args.output, force=args.force) as partial:
            partial.write_text(page, encoding="utf-8")
    facts = {
        "output": args.output,
        "bytes": len(page.encode()),
        "seconds": round(time.perf_counter() - start, 3),
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        **{name: answer[name] for name in ("method", "n_clusters", "density", "ensemble_nmi", "class_nmi")},
        "supported": answer["supported"],
        "stability": answer["stability"],
        "surely_placed": answer["sure_share"],
        "nearest": {"clustering": answer["nearest"].name, "ari": answer["nearest"].ari},
        "camps": [camp["members"] for camp in summary.camps],
        "verdict": answer["verdict"],
        "outlying_partitions": summary.partitions["partition"][summary.partitions["outlier"]].tolist(),
    }
    wrote = f"Wrote {args.output} ({facts['bytes'] / 1e6:.2f} MB); open it in a browser."
    common.tell(args, facts, f"{answer['verdict']}\n{wrote}", args.output)


def _title(labels: list[str]) -> str:
    name = "standard input" if labels == ["-"] else Path(labels[0]).name
    return f"Consensus of {name}" + (f" and {len(labels) - 1} more" if len(labels) > 1 else "")


def _features(args: argparse.Namespace, ensemble: Any) -> tuple[Any, Any]:
    """Features in the order of the ensemble's items, by id if both files have ids, else row by row; and their names."""
    if args.features is None:
        return None, None
    table = read_features(args.features, exclude=args.exclude, id_column=args.features_id)
    rows = common.rows_of_items(ensemble, table.ids, len(table.X), args.features, "--features-id")
    if (rows < 0).any():
        item = ensemble.item_ids[rows.argmin()]
        raise ValueError(f"{args.features} has no row for the item {item!r}; every item needs features.")
    return table.X[rows], table.names
