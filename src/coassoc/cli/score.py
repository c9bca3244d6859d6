"""`coassoc score`: how well a partition agrees with an ensemble."""

from __future__ import annotations

import argparse
from typing import Any

from ..report import plain_text
from . import common as common

DESCRIPTION = """score a partition against an ensemble: density, agreement with the clusterings, and with known classes.

The partition is a column of the table itself (then left out of the ensemble), or of another file, joined by id."""

EPILOG = """examples:
  coassoc score with-consensus.csv --labels consensus
  coassoc score with-consensus.csv --labels consensus --items stability.csv
  coassoc score labels.csv --labels-file other.csv --labels consensus --class-column truth --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("--labels", dest="labels_column", default="consensus", metavar="NAME",
                        help="column that holds the partition to score (default: consensus)")  # fmt: skip
    parser.add_argument("--labels-file", metavar="FILE", help="file that holds that column, when it is another one")
    parser.add_argument("--items", metavar="FILE", help="also write the stability of every item (csv, tsv or parquet)")
    parser.add_argument("--force", action="store_true", help="overwrite that file if it exists")
    parser.add_argument("--engine", default="auto", metavar="NAME", help="auto, native, numpy (default: auto)")


def run(args: argparse.Namespace) -> int:
    common.check_paths(args, {"--items": args.items}, args.labels_file)
    if args.items is not None:
        _check_items(args.items)
    with common.input_paths(args) as paths, common.Progress("coassoc score") as progress:
        progress.step("reading")
        if args.labels_file is None:
            args.exclude = [*args.exclude, args.labels_column]
        ensemble = common.read_input(args, paths)
        labels = _partition(args, paths, ensemble)
        progress.step("scoring")
        result = score(ensemble, labels, args.engine)
        if args.items is not None:
            progress.step("writing")
            result["items_file"] = str(args.items)
            _write_items(args, ensemble, labels)
    if args.json:
        common.say_json(result)
    elif args.items != "-":
        common.say(_text(result))
    return 0


def _check_items(path: str) -> None:
    from ..ensemble.io.writing import table_format

    if table_format(path) not in ("csv", "tsv", "parquet"):
        raise ValueError(f"--items must be a .csv, .tsv or .parquet file, got {path!r}.")


def _write_items(args: argparse.Namespace, ensemble: Any, labels: Any) -> None:
    from ..ensemble import write_labels
    from ..report import item_table

    write_labels(args.items, item_table(ensemble, labels, engine=args.engine), force=args.force)


def _partition(args: argparse.Namespace, paths: list, ensemble: Any) -> Any:
    """The partition to score, in the order of the ensemble's items."""
    import numpy as np

    from ..ensemble import read_ensemble

    if args.labels_file is None and len(paths) > 1:
        raise ValueError("with several label files, name the file that holds the partition: --labels-file.")
    settings = {"columns": args.labels_column, "exclude": (), "class_column": None, "missing": "negative"}
    found = read_ensemble(args.labels_file or paths[0], **(common.reading(args) | settings))
    codes = found.partition(0)
    if found.item_ids is None or ensemble.item_ids is None:
        if len(codes) != ensemble.n_samples:
            raise ValueError(
                f"the partition has {len(codes)} rows, the ensemble {ensemble.n_samples}; give ids (--id)."
            )
        return codes
    place = {str(one): code for one, code in zip(found.item_ids.tolist(), codes.tolist())}
    return np.array([place.get(str(one), -1) for one in ensemble.item_ids.tolist()])


def score(ensemble: Any, labels: Any, engine: Any = "auto") -> dict[str, Any]:
    """Every score of a partition, as plain numbers."""
    from sklearn.metrics import adjusted_rand_score

    from .. import metrics

    result: dict[str, Any] = {
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        "clusters": len(set(labels[labels >= 0].tolist())),
        "unlabelled_items": int((labels < 0).sum()),
        "density": metrics.density(ensemble, labels, engine=engine),
        "ensemble_nmi": metrics.ensemble_nmi(ensemble, labels, engine=engine),
        "kmeans_loss": metrics.kmeans_loss(ensemble, labels, engine=engine),
        "zero_effort_density": metrics.zero_effort(ensemble, "density", engine=engine)._asdict(),
        "zero_effort_nmi": metrics.zero_effort(ensemble, engine=engine)._asdict(),
    }
    if ensemble.classes is not None:
        known, _ = metrics.labels.check_labels(ensemble.classes, ensemble.n_samples, "classes")
        both = (known >= 0) & (labels >= 0)
        result["class_nmi"] = metrics.nmi(ensemble.classes, labels)
        result["class_ari"] = float(adjusted_rand_score(known[both], labels[both]))
    return result


def _text(result: dict[str, Any]) -> str:
    number = plain_text.number
    rows = [
        ["density", number(result["density"]), number(result["zero_effort_density"]["mean"]),
         number(result["zero_effort_density"]["best"])],
        ["ensemble NMI", number(result["ensemble_nmi"]), number(result["zero_effort_nmi"]["mean"]),
         number(result["zero_effort_nmi"]["best"])],
        ["k-means loss", f"{result['kmeans_loss']:.6g}", "", ""],
    ]  # fmt: skip
    if "class_nmi" in result:
        rows += [["NMI with classes", number(result["class_nmi"]), "", ""]]
        rows += [["ARI with classes", number(result["class_ari"]), "", ""]]
    head = f"{result['clusters']} clusters of {result['items']:,} items, {result['partitions']} clusterings"
    table = plain_text.text_table(["", "this partition", "one clustering: mean", "best"], rows)
    note = "Density grows with the number of clusters and says nothing about true classes."
    return f"{head}\n\n{table}\n\n{note}"
