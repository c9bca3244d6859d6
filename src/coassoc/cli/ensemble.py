"""cluster a table of features many times, each time with another number of clusters, and write one column
of labels per clustering: the input of `coassoc fit`.

examples:
  coassoc ensemble features.csv -o labels.parquet
  coassoc ensemble features.csv --exclude species --scaling z -p 50 -k 2:30 -o labels.csv
  coassoc ensemble features.npy --fit-sample 20000 --jobs 4 -o labels.npz
  coassoc ensemble features.parquet --clusterer kmeans agglomerative --sample-fraction 0.5 -o labels.tsv
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering, Birch, BisectingKMeans, KMeans, MiniBatchKMeans, SpectralClustering
from sklearn.impute import SimpleImputer
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from ..ensemble import make_ensemble
from ..ensemble.io.formats import endings, table_format
from ..ensemble.io.reading import Features, read_features
from ..ensemble.io.writing import write_ensemble
from ..report.plain_text import span
from . import Progress, common
from .common import positive

SCALERS = {"z": StandardScaler, "minmax": MinMaxScaler}  # constant columns become 0
# name on the command line -> what makes the clusterer
CLUSTERERS: dict[str, Callable[..., Any]] = {
    "kmeans": KMeans,
    "minibatch": MiniBatchKMeans,
    "bisecting": BisectingKMeans,
    "agglomerative": AgglomerativeClustering,
    "average": partial(AgglomerativeClustering, linkage="average"),
    "birch": Birch,
    "spectral": SpectralClustering,
    "mixture": GaussianMixture,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("features", help="table of numbers with a header, in any format that fit reads")
    common.add_output(parser, f"one of {endings()}", required=True)
    option("-p", "--partitions", type=positive, default=20, help="number of clusterings (default: 20)")
    option("-k", "--clusters", type=common.clusters, default="auto", metavar="K",
           help="clusters in each: a number; a range such as 2:30 to draw from; or auto, from 2 to the root of n, at "
           "most 100 (default)")  # fmt: skip
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
    common.add_jobs(parser, "processes that cluster")
    option("--seed", type=common.whole_number, default=0, help="same seed, same labels (default: 0)")
    option("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> None:
    common.check_paths(args, {"-o": args.output}, args.features)
    restarts = {"kmeans": {"n_init": args.n_init}, "minibatch": {"n_init": args.n_init}}
    clusterers = [CLUSTERERS[name](**restarts.get(name, {})) for name in args.clusterer]
    k = args.clusters
    n_clusters = None if k == "auto" else (k.start, k.stop - 1) if isinstance(k, range) else k
    table_format(args.output)
    features = read_features(args.features, exclude=args.exclude, id_column=args.id, class_column=args.class_column)
    with Progress("clusterings", args.quiet or args.json, every=5.0) as progress:
        ensemble = make_ensemble(
            _prepared(features, args),
            args.partitions,
            n_clusters,
            clusterer=clusterers,
            feature_fraction=args.feature_fraction,
            sample_fraction=args.sample_fraction,
            unsampled="predict" if args.predict else "missing",
            fit_sample=args.fit_sample,
            n_jobs=args.jobs,
            random_state=args.seed,
            progress=progress,
        )
    ensemble.item_ids, ensemble.classes = features.ids, features.classes
    write_ensemble(args.output, ensemble, force=args.force)
    n, p, counts = ensemble.n_samples, ensemble.n_partitions, ensemble.n_clusters.tolist()
    facts = {"items": n, "partitions": p, "clusters": counts, "output": args.output}
    text = f"{n} items, {p} clusterings of {span(min(counts), max(counts))} clusters, in {args.output}"
    common.tell(args, facts, text, args.output)


def _prepared(features: Features, args: argparse.Namespace) -> np.ndarray:
    """The features with missing cells filled and columns scaled, as asked."""
    X = features.X
    if args.fill_missing:
        empty = np.flatnonzero(np.isnan(X).all(axis=0))
        if len(empty):
            raise ValueError(f"column {features.names[empty[0]]} has no value at all; leave it out with --exclude.")
        X = SimpleImputer().fit_transform(X)
    return X if args.scaling == "raw" else SCALERS[args.scaling]().fit_transform(X)
