"""`coassoc bench`: speed, memory and quality beside scikit-learn and faiss."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..ensemble.io.output import replacing
from ..experiments.speed import METHODS, machine, measure, table
from . import common

DESCRIPTION = "measure speed, memory and quality side by side with scikit-learn and faiss"
EPILOG = """examples:
  coassoc bench --sizes 10000 --rounds 3
  coassoc bench --sizes 300000 1000000 --methods coassoc coassoc-avx2 sklearn-sparse -o bench
  coassoc bench --sizes 300000 -p 8 --cells 2 8 -k 8 --starts 10
  coassoc bench --growth 200000 1000000 10000000 --methods -o growth
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--sizes", type=common.positive, nargs="*", default=[20000], help="numbers of items (default: 20000)")
    option("--growth", type=common.positive, nargs="*", default=[], help="sizes for the growth of time per pass")
    option("-m", "--method", "--methods", dest="methods", nargs="*", choices=METHODS,
           default=["coassoc", "sklearn-sparse"],
           help="what to time (default: coassoc sklearn-sparse)")  # fmt: skip
    option("-p", "--partitions", type=common.positive, default=20, help="base partitions (default: 20)")
    option("-k", "--clusters", type=common.positive, default=20, help="clusters of the consensus (default: 20)")
    option("--rounds", type=common.positive, default=5, help="seeds, each method once per seed (default: 5)")
    option("--fits", type=common.positive, default=1, metavar="N",
           help="fits in each process, of which the median counts (default: 1)")  # fmt: skip
    option("--starts", type=common.positive, default=1, help="starts of every fit (default: 1)")
    option("--cells", type=common.positive, nargs=2, default=[25, 100], metavar=("FIRST", "LAST"),
           help="clusters of the first and of the last base partition; few clusters give many equal rows "
           "(default: 25 100)")  # fmt: skip
    option("--spread", type=float, default=0.45, help="overlap of the blobs: more needs more passes")
    option("-o", "--output", type=Path, default=None, help="folder for bench.json and bench.md")


def run(args: argparse.Namespace) -> int:
    report: dict[str, Any] = {"machine": machine(), "options": vars(args) | {"output": None}}
    report["runs"] = [row for n in args.sizes if args.methods for row in measure(n, args)]
    report["growth"] = [row for n in args.growth for row in measure(n, args, growth=True)]
    numbers = json.dumps(report, indent=1, default=str)
    common.say(numbers if args.json else table(report))
    if args.output is not None:
        args.output.mkdir(parents=True, exist_ok=True)
        for name, text in (("bench.json", numbers), ("bench.md", table(report))):
            with replacing(args.output / name, force=True) as partial:
                partial.write_text(text, encoding="utf-8")
    return 0
