"""suggest a number of clusters, or say that the input supports none.

From label files the clusterings are compared with themselves permuted, which only tells whether they agree more than
chance. With --features FILE (numbers, one row per item) the whole pipeline is compared with Gaussian data of the same
covariance, which can tell whether there are clusters at all.

examples:
  coassoc select-k labels.csv -k 2:15
  coassoc select-k --features measurements.csv -k 2:10 --plot choose-k.png
  coassoc select-k labels.parquet --json > choose-k.json
"""

from __future__ import annotations

import argparse
from typing import Any

from ..ensemble.io.reading import read_features
from ..report.displays import check_drawing, plot_select_k, save_drawing
from . import Progress, common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser, "*")  # none with --features
    parser.add_argument("--features", metavar="FILE", help="numbers, in any format, instead of label files")
    parser.add_argument("-k", "--clusters", type=common.clusters, default=range(2, 31), metavar="LOW:HIGH",
                        help="numbers of clusters tried (default: 2:30)")  # fmt: skip
    parser.add_argument("--references", type=common.positive, default=8, metavar="N",
                        help="references drawn (default: 8)")  # fmt: skip
    common.add_output(parser, "also draw the scores over k (png, svg or pdf)", "--plot")
    common.add_seed_and_engine(parser)


def run(args: argparse.Namespace) -> None:
    from ..consensus.auto.select_k import select_k

    if bool(args.labels) == (args.features is not None):
        raise ValueError("give either label files or --features FILE, not both and not neither.")
    if not isinstance(args.clusters, range):
        raise ValueError(f"-k must be a range such as 2:12, got {args.clusters}.")
    common.check_paths(args, {"--plot": args.plot}, args.features)
    check_drawing(args.plot)
    with Progress("coassoc select-k") as progress:
        progress.step("reading")
        if args.features is not None:
            X, reference = read_features(args.features, exclude=args.exclude).X, "gaussian"
        else:
            with common.input_paths(args) as paths:
                X, reference = common.read_input(args, paths), "permuted"
        progress.step(f"comparing with {reference} data")
        settings: dict[str, Any] = {"random_state": args.seed, "engine": args.engine}
        selection = select_k(X, args.clusters, reference=reference, n_references=args.references, **settings)
    if args.plot is not None:
        save_drawing(plot_select_k(selection)[0], args.plot, force=args.force)
    common.tell(args, selection.to_dict(), str(selection))
