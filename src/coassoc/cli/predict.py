"""label new rows with a model that `coassoc fit --save` or model.save() wrote.

A model of clusterings reads a table of labels, one of features (ConsensusClustering) a table of numbers. Columns are
matched by name where the model knows names; other columns are left out.

examples:
  coassoc predict model.skops new.csv -o labelled.csv
  coassoc predict model.skops new.parquet --name segment -o segments.parquet
  coassoc predict model.skops new.csv -o - > labelled.csv
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..ensemble import read_ensemble, write_labels
from ..ensemble.io.formats import Options, joins_source, naming
from ..ensemble.io.guard import open_table
from ..ensemble.io.reading import read_features
from . import Progress, common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the saved model")
    parser.add_argument("file", metavar="FILE", help="the new rows, in any format that fit reads")
    common.add_output(parser, "where the labels go: FILE with one more column when both are of one kind, else the "
                      "labels alone; - is standard output", required=True)  # fmt: skip
    parser.add_argument("--name", default="consensus", help="name of the new column (default: consensus)")


def run(args: argparse.Namespace) -> None:
    from ..consensus.persist import load

    common.check_paths(args, {"-o": args.output}, args.model, args.file)
    with Progress("coassoc predict") as progress:
        progress.step("reading")
        model = load(args.model)
        if not hasattr(model, "predict"):
            raise ValueError(f"{args.model} holds a {type(model).__name__}, which cannot label new rows.")
        rows = _new_rows(model, Path(args.file))
        progress.step("labelling")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # they were matched by name
            labels = np.asarray(model.predict(rows))
        progress.step("writing")
        source = args.file if joins_source(args.output, args.file, None) else None
        write_labels(args.output, {args.name: labels}, source=source, force=args.force)
    used, sizes = np.unique(labels[labels >= 0], return_counts=True)
    result = {"model": type(model).__name__, "rows": len(labels), "unlabelled": int((labels < 0).sum()),
              "sizes": dict(zip(map(str, used.tolist()), sizes.tolist())), "output": args.output}  # fmt: skip
    common.tell(args, result, _text(result), args.output)


def _new_rows(model: Any, path: Path) -> Any:
    """The columns of the model from a file, in its order: an ensemble, or numbers."""
    vocabulary = getattr(model, "_vocabulary", None)
    names = [str(name) for name in getattr(model, "feature_names_in_", [] if vocabulary is None else vocabulary.names)]
    if all(name.isdigit() for name in names):  # columns without names
        return read_features(path).X if vocabulary is None else read_ensemble(path)
    with naming(path):
        known = open_table(path, Options())[0].names
    lacking = [name for name in names if name not in known]
    if lacking:
        raise ValueError(
            f"{path} lacks columns that the model was fitted with: {', '.join(lacking[:8])}"
            f"{' ...' if len(lacking) > 8 else ''}; it has {', '.join(known[:8])}."
        )
    if vocabulary is not None:
        return read_ensemble(path, columns=names)
    found = read_features(path, exclude=[name for name in known if name not in names])
    return found.X[:, [found.names.index(name) for name in names]]


def _text(result: dict[str, Any]) -> str:
    clusters = ", ".join(f"{name}: {size:,}" for name, size in result["sizes"].items())
    left = f"; {result['unlabelled']:,} without a known label get -1" if result["unlabelled"] else ""
    return f"{result['rows']:,} rows in clusters {clusters}{left}. Wrote {result['output']}."
