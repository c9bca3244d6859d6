"""`coassoc fit`: label files in, one consensus column out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..report import plain_text
from . import common as common
from . import fit_large as large

DESCRIPTION = """find the consensus of the clusterings in a label table, and write it back as one more column.

Without -k and -m the method and the number of clusters are chosen, and the first lines say how far to believe the
result. Without --output the scores are printed and nothing is written."""

EPILOG = """examples:
  coassoc fit labels.csv
  coassoc fit labels.csv --confidence -o with-consensus.csv
  coassoc fit labels.csv -k 2:12 -o with-consensus.csv
  coassoc fit labels.csv -k 10 -m kmeans -o with-consensus.csv
  coassoc fit run1.csv run2.csv run3.csv --id cell -k 8 -o consensus.csv
  coassoc fit cells.h5ad --columns 'leiden*' -k 12 -o cells-consensus.h5ad
  coassoc fit big.parquet -k 50 --memory 2GB -o consensus.parquet
  coassoc fit big.parquet -k 50 --dask tcp://host:8786 -o consensus.parquet
  cat labels.csv | coassoc fit - -k 10 -o - > with-consensus.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    common.add_method(parser)
    parser.add_argument("--n-init", type=common.positive, metavar="N", help="restarts of the method")
    common.add_seed_and_engine(parser)
    common.add_output(parser, "where the consensus goes: the input with one more column when both are of one kind, "
                      "else ids and labels; - is standard output")  # fmt: skip
    parser.add_argument("--name", default="consensus", help="name of the new column (default: consensus)")
    parser.add_argument(
        "--order", choices=("method", "size"), default="size", help="number clusters by size, largest 0 (default)"
    )
    parser.add_argument(
        "--confidence", action="store_true", help="also write the confidence of each item, in a column NAME_confidence"
    )
    parser.add_argument("--save", metavar="FILE", help="also save the fitted model (.npz), for coassoc.load")
    large.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check_outputs(args)
    clock = common.Clock()
    with common.input_paths(args) as paths, common.Progress("coassoc fit") as progress:
        if large.is_wanted(args, paths):
            result = large.run(args, paths[0], progress)
            common.say_json(result) if args.json else common.say(large.text(result))
            return 0
        progress.step("reading")
        ensemble = common.read_input(args, paths)
        _check_name(args, paths, ensemble)
        read = clock.seconds
        progress.step(f"{args.method} on {ensemble.n_samples:,} items")
        model, labels = fit(args, ensemble)
        result = summary(args, ensemble, labels, model, read, clock.seconds - read)
        if args.output is not None:
            progress.step("writing")
            large.write(args, paths, labels, model, ensemble)
        if args.save is not None:
            model.save(args.save, force=args.force)
            result["saved"] = str(args.save)
    if result["chance"] is not None and not result["chance"]["exceeded"]:
        common.note(result["chance"]["warning"], "warning")
    if args.json and args.output == "-":  # standard output holds the labels
        common.say_json(result, file=sys.stderr, indent=None)
    elif args.json:
        common.say_json(result)
    elif args.output != "-":
        common.say(_text(result))
    return 0


def _check_outputs(args: argparse.Namespace) -> None:
    from ..consensus.persist import check_model_path
    from ..ensemble.io.writing import table_format

    common.check_paths(args, {"-o": args.output, "--save": args.save})
    if args.output is not None and table_format(args.output) == "npy" and args.confidence:
        raise ValueError(f"--confidence needs an output of several columns, such as csv or h5ad, got {args.output}.")
    if args.confidence and args.method.lower() not in ("auto", "consensus"):
        raise ValueError(f"--confidence needs -m auto, got -m {args.method}.")
    if args.save is not None:
        check_model_path(args.save)


def _check_name(args: argparse.Namespace, paths: list[Path], ensemble: Any) -> None:
    """Refuse a name of the new column that the output will have already, before the fit."""
    from ..ensemble.io.writing import joins_source, table_format

    if args.output is None or len(paths) != 1 or not joins_source(args.output, paths[0]):
        return
    replaced = table_format(args.output) == "h5ad" and args.force
    if args.name in (*ensemble.names, *args.exclude, args.class_column) and not replaced:
        raise ValueError(f"{args.labels[0]} already has a column {args.name!r}; choose another name with --name.")


def fit(args: argparse.Namespace, ensemble: Any) -> tuple[Any, Any]:
    """The fitted estimator and its labels, numbered as asked."""
    import numpy as np

    from ..consensus.base import fit_to
    from ..metrics import order_by_size

    model = common.make_model(args, args.engine)
    if args.save is not None and not hasattr(model, "save"):
        raise ValueError(f"--save: {args.method} cannot be saved; a class derived from ConsensusEstimator can.")
    labels = np.asarray(fit_to(model, ensemble).labels_)
    return model, order_by_size(labels) if args.order == "size" else labels


def summary(args, ensemble, labels, model, read: float, fitted: float) -> dict[str, Any]:
    """What the command reports, as plain values."""
    import numpy as np

    from ..consensus.support import check_support
    from ..metrics import cluster_density, density, ensemble_nmi, nmi, zero_effort

    low, high = int(ensemble.n_clusters.min()), int(ensemble.n_clusters.max())
    chance = check_support(ensemble, args.engine).as_dict() if ensemble.n_partitions > 1 else None
    sizes = np.bincount(labels[labels >= 0])
    densities = cluster_density(ensemble, labels, engine=args.engine)
    scores: dict[str, Any] = {
        "density": density(ensemble, labels, engine=args.engine),
        "ensemble_nmi": ensemble_nmi(ensemble, labels, engine=args.engine),
        "zero_effort_nmi": zero_effort(ensemble, engine=args.engine)._asdict(),
        "zero_effort_density": zero_effort(ensemble, "density", engine=args.engine)._asdict(),
    }
    if ensemble.classes is not None:
        scores["class_nmi"] = nmi(ensemble.classes, labels)
    return {
        "input": [str(path) for path in args.labels],
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        "base_clusters": [low, high],
        "columns": ensemble.names,
        "missing_labels": ensemble.has_missing,
        "method": type(model).__name__,
        "parameters": {k: v for k, v in model.get_params(deep=False).items() if isinstance(v, (int, float, str))},
        "clusters": len(sizes),
        "unlabelled_items": int((labels < 0).sum()),
        "scores": scores,
        "chance": chance,
        **_of_the_answer(model),
        "cluster_sizes": sizes.tolist(),
        "cluster_density": densities.tolist(),
        "seconds": {"read": round(read, 4), "fit": round(fitted, 4)},
        "output": args.output,
        "column": args.name if args.output is not None else None,
        "confidence_column": f"{args.name}_confidence" if args.output is not None and args.confidence else None,
    }


def _of_the_answer(model: Any) -> dict[str, Any]:
    """What `Consensus` says beyond the labels."""
    if not hasattr(model, "verdict_"):
        return {}
    others = [
        {"clusters": one.n_clusters, "method": one.method, "agreement": one.agreement, "stability": one.stability,
         "distance": one.distance}
        for one in model.alternatives_
    ]  # fmt: skip
    facts = {"verdict": model.verdict_, "supported": model.supported_, "chosen_method": model.method_}
    return {**facts, "partition_weights": model.partition_weights_.tolist(), "alternatives": others}


def _text(result: dict[str, Any]) -> str:
    scores = result["scores"]
    low, high = result["base_clusters"]
    head = (
        f"{result['items']:,} items, {result['partitions']} clusterings of "
        f"{plain_text.span(low, high)} clusters"
        + (", some labels missing" if result["missing_labels"] else "")
    )
    base = f"{low}" if low == high else f"{low}–{high}"
    number, zero_density, zero_nmi = plain_text.number, scores["zero_effort_density"], scores["zero_effort_nmi"]
    spent = plain_text.seconds(result["seconds"]["fit"])
    rows = [
        [result["method"], result["clusters"], number(scores["density"]), number(scores["ensemble_nmi"]), spent],
        ["one clustering, on average", base, number(zero_density["mean"]), number(zero_nmi["mean"]), ""],
        ["one clustering, the best", base, number(zero_density["best"]), number(zero_nmi["best"]), ""],
    ]
    table = plain_text.text_table(["", "clusters", "density", "ensemble NMI", "time"], rows)
    used = f"clusterings: {shown_names(result['columns'])} (choose others with --columns, --exclude)"
    lines = [head, used, *([result["verdict"]] if "verdict" in result else []), "", table, ""]
    if scores["ensemble_nmi"] < zero_nmi["best"] and result.get("supported", True):
        lines.append(
            "The best single clustering agrees more with the others than this consensus does: consider another number "
            "of clusters (-k) or another method (-m)."
        )
    sizes = result["cluster_sizes"]
    shown = ", ".join(map(str, sizes[:12])) + (", ..." if len(sizes) > 12 else "")
    lines.append(f"{result['clusters']} cluster{'s' if result['clusters'] != 1 else ''} of {shown} items.")
    if result["unlabelled_items"]:
        lines.append(f"{result['unlabelled_items']} items have no label in any clustering and get -1.")
    if "class_nmi" in scores:
        lines.append(f"NMI with the known classes: {scores['class_nmi']:.4f} (density does not measure this).")
    columns = [name for name in (result["column"], result["confidence_column"]) if name]
    if result["output"] is None:
        lines.append("Nothing was written; add -o FILE to keep the labels.")
    else:
        many = "s" * (len(columns) > 1)
        lines.append(f"Wrote column{many} {' and '.join(map(repr, columns))} to {result['output']}.")
    if "saved" in result:
        lines.append(f"Saved the model to {result['saved']}.")
    return "\n".join(lines)


def shown_names(names: list[str]) -> str:
    """The first names of a list, for a line of text."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
