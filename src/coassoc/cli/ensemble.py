"""cluster a table of features many times, each time with another number of clusters, and write one column
of labels per clustering: the input of `coassoc fit`.

examples:
  coassoc ensemble features.csv -o labels.parquet
  coassoc ensemble features.csv --exclude species --scaling z -p 50 -k 2:30 -o labels.csv
  coassoc ensemble features.npy --fit-sample 20000 --jobs 4 -o labels.npz
  coassoc ensemble big.parquet --large -o labels.parquet
  coassoc ensemble features.parquet --clusterer kmeans agglomerative --sample-fraction 0.5 -o labels.tsv
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from ..ensemble import Ensemble, make_ensemble, make_ensemble_large
from ..ensemble.io.formats import endings
from ..ensemble.io.reading import features_in, read_features
from ..ensemble.io.writing import table_format, write_ensemble
from ..report.plain_text import span
from . import Progress, common
from .common import positive, seed

SCALERS = {"z": StandardScaler, "minmax": MinMaxScaler}  # constant columns become 0
# name on the command line -> (class of scikit-learn, settings)
CLUSTERERS: dict[str, tuple[str, dict[str, Any]]] = {
    "kmeans": ("cluster.KMeans", {}),
    "minibatch": ("cluster.MiniBatchKMeans", {}),
    "bisecting": ("cluster.BisectingKMeans", {}),
    "agglomerative": ("cluster.AgglomerativeClustering", {}),
    "average": ("cluster.AgglomerativeClustering", {"linkage": "average"}),
    "birch": ("cluster.Birch", {}),
    "spectral": ("cluster.SpectralClustering", {}),
    "mixture": ("mixture.GaussianMixture", {}),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("features", help="table of numbers with a header, in any format that fit reads")
    common.add_output(parser, f"one of {endings()}", required=True)
    option("-p", "--partitions", type=positive, default=20, help="number of clusterings (default: 20)")
    option("-k", "--clusters", type=_clusters, default=(None, None), metavar="K|LOW:HIGH|LOW:",
           help="clusters in each, or the range they are drawn from (default: 2 to the root of n, at most 100)")
    option("--clusterer", nargs="+", choices=tuple(CLUSTERERS), default=["kmeans"],
           help="what clusters; several take turns (default: kmeans)")  # fmt: skip
    option("--n-init", type=positive, default=10, help="restarts of kmeans and minibatch (default: 10)")
    option("--scaling", choices=("raw", *SCALERS), default="raw", help="features raw (default), z or on [0, 1]")
    option("--fill-missing", action="store_true", help="empty cells take the mean of their column")
    option("--exclude", nargs="+", default=[], metavar="NAME", help="columns that are not features")
    option("--id", "--id-column", metavar="NAME", help="column that names the items, kept in the output")
    option("--class-column", "--classes", metavar="NAME",
           help="column of known classes: not a feature, kept in the output")  # fmt: skip
    option("--feature-fraction", type=float, default=1.0, help="share of the features that each clustering uses")
    option("--sample-fraction", type=float, default=1.0, help="share of the rows that each clustering uses")
    option("--predict", action="store_true", help="label the rows that a clustering left out, too")
    option("--fit-sample", type=positive, metavar="N", help="large tables: fit on N rows, label the rest")
    option("--large", action="store_true",
           help="leave the features (not text; a file or a folder) where they are: fit on samples, label by blocks")
    common.add_jobs(parser, "processes that cluster")
    option("--seed", type=seed, default=0, help="same seed, same labels (default: 0)")
    option("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> None:
    common.check_paths(args, {"-o": args.output}, args.features)
    clusterers = []
    for name in args.clusterer:
        module, _, kind = CLUSTERERS[name][0].partition(".")
        own = {"n_init": args.n_init} if name in ("kmeans", "minibatch") else CLUSTERERS[name][1]
        clusterers.append(getattr(import_module(f"sklearn.{module}"), kind)(**own))
    ensemble = (_cluster_large if args.large else _cluster)(
        args,
        clusterer=None if args.clusterer == ["kmeans"] else clusterers,
        feature_fraction=args.feature_fraction,
        n_init=args.n_init,
        random_state=args.seed,
    )
    n, p, counts = ensemble.n_samples, ensemble.n_partitions, ensemble.n_clusters.tolist()
    facts = {"items": n, "partitions": p, "clusters": counts, "output": args.output}
    text = f"{n} items, {p} clusterings of {span(min(counts), max(counts))} clusters, in {args.output}"
    common.tell(args, facts, text, args.output)


def _cluster(args: argparse.Namespace, **settings: Any) -> Ensemble:
    table_format(args.output)
    features = read_features(args.features, exclude=args.exclude, id_column=args.id, class_column=args.class_column)
    X = features.X
    if args.fill_missing:
        empty = np.flatnonzero(np.isnan(X).all(axis=0))
        if len(empty):
            raise ValueError(f"column {features.names[empty[0]]} has no value at all; leave it out with --exclude.")
        X = SimpleImputer().fit_transform(X)
    if args.scaling != "raw":
        X = SCALERS[args.scaling]().fit_transform(X)
    with Progress("clusterings", args.quiet or args.json, every=5.0) as progress:
        ensemble = make_ensemble(
            X,
            args.partitions,
            args.clusters[0],
            n_classes=args.clusters[1],
            sample_fraction=args.sample_fraction,
            unsampled="predict" if args.predict else "missing",
            fit_sample=args.fit_sample,
            n_jobs=args.jobs,
            progress=progress,
            **settings,
        )
    ensemble.item_ids, ensemble.classes = features.ids, features.classes
    write_ensemble(args.output, ensemble, force=args.force)
    return ensemble


def _cluster_large(args: argparse.Namespace, **settings: Any) -> Ensemble:
    """Cluster features without loading them."""
    asked = {"--scaling": args.scaling != "raw", "--fill-missing": args.fill_missing, "--predict": args.predict,
             "--sample-fraction": args.sample_fraction != 1.0, "--class-column": args.class_column,
             "--id": args.id, "-k LOW:": args.clusters[1], "--jobs": args.jobs != 1}  # fmt: skip
    for option, given in asked.items():
        if given:
            raise ValueError(f"{option} needs the features in memory; prepare the file, or leave out --large.")
    columns = [name for name in features_in(args.features).names if name not in args.exclude]
    with Progress("blocks", args.quiet or args.json, every=5.0) as progress:
        return make_ensemble_large(
            args.features,
            args.output,
            args.partitions,
            args.clusters[0],
            fit_sample=args.fit_sample or 50_000,
            columns=columns if args.exclude else None,
            force=args.force,
            progress=progress,
            **settings,
        )


def _clusters(text: str) -> tuple[int | tuple[int, int] | None, int | None]:
    """An argparse type: `n_clusters` and `n_classes` of `make_ensemble`."""
    low, colon, high = text.partition(":")
    try:
        if colon and not high:
            return None, positive(low)
        return (positive(low), positive(high)) if colon else positive(low), None
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; give a number like 10, a range like 2:30, or 12: and up") from None
