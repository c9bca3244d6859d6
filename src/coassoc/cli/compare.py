"""run every consensus method (or some) on one ensemble, with the same scores.

Density and agreement are with the clusterings of the table; a class column adds agreement with known classes. A
method that cannot run at this size says why, and the others go on.

examples:
  coassoc compare labels.csv -k 20
  coassoc compare labels.csv -k 20 -m kmeans,sec,eac-average --class-column truth --plot compare.png
  coassoc compare labels.csv -k 20 --json > compare.json
"""

from __future__ import annotations

import argparse

from ..consensus.registry import compared_methods
from ..report.comparison import check_methods, compare
from ..report.displays import check_drawing, save_drawing
from . import Progress, common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("-k", "--clusters", type=common.positive, default=8, metavar="K",
                        help="clusters asked of every method (default: 8)")  # fmt: skip
    names = ", ".join(compared_methods())
    parser.add_argument("-m", "--method", "--methods", dest="methods", metavar="NAME[,NAME]",
                        help=f"some of {names}, or package.module:Estimator of your own (default: all)")  # fmt: skip
    common.add_seed_and_engine(parser)
    common.add_output(parser, "draw density against agreement (png, svg or pdf)", "--plot")


def run(args: argparse.Namespace) -> None:
    methods = None if args.methods is None else args.methods.replace(",", " ").split()
    if methods is not None:
        check_methods(methods)
    common.check_paths(args, {"--plot": args.plot})
    check_drawing(args.plot)
    with common.input_paths(args) as paths, Progress("coassoc compare") as progress:
        progress.step("reading")
        ensemble = common.read_input(args, paths)
        result = compare(
            ensemble, args.clusters, methods, random_state=args.seed, engine=args.engine, progress=progress.step
        )
    if args.plot is not None:
        save_drawing(result.plot(), args.plot, force=args.force)
    drawn = "" if args.plot is None else f"\nDrew {args.plot}."
    common.tell(args, result.as_dict(), result.to_text() + drawn)
