"""cluster scikit-learn's 1797 handwritten digits 20 times with k-means, find the consensus in three
ways, and say how good it is. Needs no network and takes a few seconds.

example:
  coassoc demo
  coassoc demo --output my-folder --force
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from ..consensus import BisectingConsensus, Consensus, KMeansConsensus
from ..consensus.auto.chance import support_and_scores
from ..ensemble import make_ensemble, write_labels
from ..metrics import ZeroEffort, nmi, order_by_size
from ..report import plain_text
from ..report.comparison import scored, timed_fit
from ..report.displays import plot_coassociation, save_drawing
from . import Progress, common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = "folder for the labels and the picture (default: coassoc-demo, or the next free name)"
    common.add_output(parser, told, metavar="FOLDER")
    parser.add_argument("-k", "--clusters", type=common.positive, default=20, help="clusters (default: 20)")
    parser.add_argument("--partitions", type=common.positive, default=20, help="clusterings (default: 20)")
    common.add_seed_and_engine(parser)


def run(args: argparse.Namespace) -> None:
    folder = Path(args.output) if args.output is not None else _free_folder("coassoc-demo", args.force)
    files = {"labels": folder / "consensus.csv"}
    if find_spec("matplotlib") is not None:
        files["picture"] = folder / "coassociation.png"
    if not args.force and any(path.exists() for path in files.values()):
        raise FileExistsError(f"{folder} already holds a demo; run coassoc demo --force, or --output another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    common.check_paths(args, {str(path): path for path in files.values()})
    X, digits = load_digits(return_X_y=True)
    start = time.perf_counter()
    with Progress("clustering the digits") as progress:
        ensemble = make_ensemble(X, args.partitions, n_classes=10, n_init=1, random_state=args.seed, progress=progress)
    making = time.perf_counter() - start
    settings: dict[str, Any] = {"random_state": args.seed, "engine": args.engine}
    default, rows, labels = Consensus(**settings), [], {}
    for column, name, model in (
        ("consensus", "default consensus", default),
        ("kmeans", "k-means consensus", KMeansConsensus(args.clusters, **settings)),
        ("bisecting", "bisecting consensus", BisectingConsensus(args.clusters, **settings)),
    ):
        seconds = timed_fit(model, ensemble)
        labels[column] = order_by_size(model.labels_)
        rows.append(asdict(scored(name, ensemble, model.labels_, args.engine, digits, seconds=seconds)))
    of_digits = ZeroEffort.of(np.array([nmi(digits, ensemble.partition(j)) for j in range(ensemble.n_partitions)]))
    _, by_nmi, by_density = support_and_scores(ensemble, args.engine)
    single = {"density": by_density, "ensemble_nmi": by_nmi, "class_nmi": of_digits}
    result = {
        "items": ensemble.n_samples,
        "partitions": ensemble.n_partitions,
        "base_clusters": [int(ensemble.n_clusters.min()), int(ensemble.n_clusters.max())],
        "seconds_making_the_ensemble": making,
        "results": rows,
        "zero_effort": {name: of._asdict() for name, of in single.items()},
        "verdict": default.verdict_,
        "files": {name: str(path) for name, path in files.items()},
    }
    write_labels(files["labels"], {"digit": digits, **labels}, force=args.force)
    if "picture" in files:
        picture = plot_coassociation(ensemble, labels["consensus"], max_blocks=300)
        save_drawing(picture, files["picture"], force=args.force)
    common.tell(args, result, _text(result))


def _free_folder(name: str, force: bool) -> Path:
    """The first numbered folder that does not exist, so that a second demo neither fails nor overwrites the first."""
    numbered = (Path(name if i == 1 else f"{name}-{i}") for i in range(1, 10_000))
    return Path(name) if force else next(path for path in numbered if not path.exists())


def _text(result: dict[str, Any]) -> str:
    low, high = result["base_clusters"]
    table = plain_text.scores_table(result["results"], result["zero_effort"], f"{low}–{high}")
    made = plain_text.seconds(result["seconds_making_the_ensemble"])
    what = f"{result['items']} handwritten digits, clustered {result['partitions']} times by k-means"
    return f"""\
{what} into {low} to {high} clusters ({made}).

{table}

{result["verdict"]}

density       how often two items of one cluster are together in the clusterings (0 to 1); more
              clusters are denser, so only rows with equally many can be compared
ensemble NMI  agreement with the clusterings; lower for a consensus with fewer clusters than they have
class NMI     agreement with what was written (class ARI: adjusted Rand index), which no method was told

Labels:  {result["files"]["labels"]}
Picture: {result["files"].get("picture", "needs matplotlib")} (who is clustered with whom)
Next:    coassoc fit --help, or coassoc report --help"""
