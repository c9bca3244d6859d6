"""`coassoc bench`: the door to the benchmarks, which live in `coassoc._bench`."""

from __future__ import annotations

import argparse
from importlib import import_module

_bench = import_module("coassoc._bench")

DESCRIPTION = getattr(_bench, "DESCRIPTION", None)
EPILOG = getattr(_bench, "EPILOG", "example:\n  coassoc bench\n")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _bench.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return _bench.run(args)
