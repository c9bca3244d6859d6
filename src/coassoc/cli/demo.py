"""`coassoc demo`: the whole idea on handwritten digits, without a network."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..report import plain_text
from . import common as common

DESCRIPTION = """cluster scikit-learn's 1797 handwritten digits 20 times with k-means, find the consensus in three
ways, and say how good it is. Needs no network and takes a few seconds."""

EPILOG = """example:
  coassoc demo
  coassoc demo --output my-folder --force
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="folder for the labels and the picture (default: coassoc-demo, or the next free name)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite the files of an earlier demo")
    parser.add_argument("-k", "--clusters", type=common.positive, default=20, help="clusters (default: 20)")
    parser.add_argument("--partitions", type=common.positive, default=20, help="base clusterings (default: 20)")
    common.add_seed_and_engine(parser)


def run(args: argparse.Namespace) -> int:
    folder = Path(args.output) if args.output is not None else _free_folder("coassoc-demo", args.force)
    files = {"labels": folder / "consensus.csv"}
    if find_spec("matplotlib") is not None:
        files["picture"] = folder / "coassociation.png"
    if not args.force and any(path.exists() for path in files.values()):
        raise FileExistsError(f"{folder} already holds a demo; run coassoc demo --force, or --output another folder.")
    if not folder.is_dir():
        folder.mkdir(parents=True)
    common.check_paths(args, {str(path): path for path in files.values()})
    result, labels, ensemble, digits = _work(args)
    _write(files, labels, ensemble, digits, args.force)
    result["files"] = {name: str(path) for name, path in files.items()}
    if args.json:
        common.say_json(result)
    else:
        common.say(_text(result))
    return 0


def _free_folder(name: str, force: bool) -> Path:
    """The first numbered folder that does not exist, so that a second demo neither fails nor overwrites the first."""
    numbered = (Path(name if i == 1 else f"{name}-{i}") for i in range(1, 10_000))
    return Path(name) if force else next(path for path in numbered if not path.exists())


def _work(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any], Any, Any]:
    import numpy as np
    from sklearn.datasets import load_digits

    from ..consensus import BisectingConsensus, Consensus, KMeansConsensus
    from ..consensus.support import support_and_scores
    from ..ensemble import make_ensemble
    from ..metrics import ZeroEffort, nmi, order_by_size
    from ..report.comparison import Row, score

    X, digits = load_digits(return_X_y=True)
    clock = common.Clock()
    with common.Progress("clustering the digits") as progress:
        ensemble = make_ensemble(X, args.partitions, n_classes=10, n_init=1, random_state=args.seed, progress=progress)
    making = clock.seconds
    rows: list[dict[str, Any]] = []
    labels: dict[str, Any] = {}
    common_settings = {"n_clusters": args.clusters, "random_state": args.seed, "engine": args.engine}
    for name, model in (
        ("default consensus", Consensus(random_state=args.seed, engine=args.engine)),
        ("k-means consensus", KMeansConsensus(**common_settings)),
        ("bisecting consensus", BisectingConsensus(**common_settings)),
    ):
        model.fit(ensemble)  # the first fit also starts threads, so the second is timed
        clock = common.Clock()
        found = model.fit(ensemble).labels_
        row = score(Row(name, seconds=clock.seconds), ensemble, found, digits, args.engine)
        labels[name] = order_by_size(found)
        scores = {"density": row.density, "ensemble_nmi": row.ensemble_nmi, "digits_nmi": row.class_nmi}
        rows.append({"method": name, "clusters": row.clusters, **scores, "seconds": row.seconds,
                     "verdict": getattr(model, "verdict_", None)})  # fmt: skip
    truth = np.array([nmi(digits, ensemble.partition(j)) for j in range(ensemble.n_partitions)])
    _, by_nmi, by_density = support_and_scores(ensemble, args.engine)
    single = {"density": by_density, "ensemble_nmi": by_nmi, "digits_nmi": ZeroEffort.of(truth)}
    baseline = {which: {name: getattr(of, which) for name, of in single.items()} for which in ("mean", "best")}
    low, high = int(ensemble.n_clusters.min()), int(ensemble.n_clusters.max())
    result = {
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        "base_clusters": [low, high],
        "seconds_making_the_ensemble": making,
        "clusters": args.clusters,
        "results": rows,
        "zero_effort": baseline,
    }
    return result, labels, ensemble, digits


def _write(files: dict[str, Path], labels: dict[str, Any], ensemble: Any, digits: Any, force: bool) -> None:
    from ..ensemble import write_labels
    from ..report.axes import save_drawing
    from ..report.displays import plot_coassociation

    columns = {
        "digit": digits,
        "consensus": labels["default consensus"],
        "kmeans": labels["k-means consensus"],
        "bisecting": labels["bisecting consensus"],
    }
    write_labels(files["labels"], columns, force=force)
    if "picture" in files:
        ax = plot_coassociation(ensemble, labels["default consensus"], max_blocks=300)
        save_drawing(ax, files["picture"], force=force)


def _text(result: dict[str, Any]) -> str:
    number = plain_text.number
    low, high = result["base_clusters"]
    rows = [
        [
            row["method"],
            row["clusters"],
            *(number(row[score]) for score in ("density", "ensemble_nmi", "digits_nmi")),
            plain_text.seconds(row["seconds"]),
        ]
        for row in result["results"]
    ]
    for name, text in (("mean", "one clustering, on average"), ("best", "one clustering, the best")):
        base = result["zero_effort"][name]
        rows.append([text, f"{low}–{high}", *(number(base[score]) for score in base), ""])
    table = plain_text.text_table(["", "clusters", "density", "ensemble NMI", "NMI with digits", "time"], rows)
    return "\n".join(
        [
            f"{result['items']} handwritten digits, clustered {result['partitions']} times by k-means into {low} to "
            f"{high} clusters ({plain_text.seconds(result['seconds_making_the_ensemble'])}).",
            "",
            table,
            "",
            result["results"][0]["verdict"],
            "",
            "density          how often two items of one cluster are together in the clusterings (0 to 1); more",
            "                 clusters are denser, so only rows with equally many can be compared",
            "ensemble NMI     agreement with the clusterings; lower for a consensus with fewer clusters than they have",
            "NMI with digits  agreement with what was written, which no method here was told or aims at",
            "",
            f"Labels:  {result['files']['labels']}",
            f"Picture: {result['files'].get('picture', 'needs matplotlib')} (who is clustered with whom)",
            "Next:    coassoc fit --help, or coassoc report --help",
        ]
    )
