"""score a partition against an ensemble: density, agreement with the clusterings, and with known classes.

The partition is a column of the table itself (then left out of the ensemble), or of another file, joined by id.

examples:
  coassoc score with-consensus.csv --labels consensus
  coassoc score with-consensus.csv --labels consensus --items items.csv
  coassoc score labels.csv --labels-file other.csv --labels consensus --class-column truth --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ..consensus.auto.chance import support_and_scores
from ..ensemble import write_labels
from ..ensemble.io.formats import endings, several, table_format
from ..metrics import kmeans_loss
from ..report import plain_text
from ..report.comparison import scored
from ..report.tables import item_table
from . import Progress, common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("--labels", dest="labels_column", default="consensus", metavar="NAME",
                        help="column that holds the partition to score (default: consensus)")  # fmt: skip
    parser.add_argument("--labels-file", metavar="FILE", help="file that holds that column, when it is another one")
    common.add_output(parser, "also write how strongly each item belongs to its cluster", "--items")
    common.add_engine(parser)


def run(args: argparse.Namespace) -> None:
    common.check_paths(args, {"--items": args.items}, args.labels_file)
    if args.items is not None and table_format(args.items).one_array:
        raise ValueError(f"--items must end in one of {endings(several())}, got {args.items!r}.")
    with common.input_paths(args) as paths, Progress("coassoc score") as progress:
        progress.step("reading")
        hint = "with several label files, name the file that holds the partition: --labels-file."
        ensemble, labels = common.read_with_partition(args, paths, args.labels_file, hint)
        progress.step("scoring")
        result = score(ensemble, labels, args.engine)
        if args.items is not None:
            progress.step("writing")
            result["items_file"] = args.items
            write_labels(args.items, item_table(ensemble, labels, engine=args.engine), force=args.force)
    common.tell(args, result, _text(result), args.items)


def score(ensemble: Any, labels: Any, engine: Any = "auto") -> dict[str, Any]:
    """Every score of a partition, as plain numbers."""
    row = asdict(scored("this partition", ensemble, labels, engine))
    _, zero_nmi, zero_density = support_and_scores(ensemble, engine)
    return {
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        **{name: value for name, value in row.items() if value is not None},
        "unlabelled_items": int((labels < 0).sum()),
        "kmeans_loss": kmeans_loss(ensemble, labels, engine=engine),
        "zero_effort_density": zero_density._asdict(),
        "zero_effort_nmi": zero_nmi._asdict(),
    }


def _text(result: dict[str, Any]) -> str:
    single = {"density": result["zero_effort_density"], "ensemble_nmi": result["zero_effort_nmi"]}
    return f"""\
{result["clusters"]} clusters of {result["items"]:,} items, {result["partitions"]} clusterings

{plain_text.scores_table([result], single)}

k-means loss: {result["kmeans_loss"]:.6g}
Density grows with the number of clusters and says nothing about true classes."""
