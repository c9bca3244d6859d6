"""Which method gives the best answers: every method on the same ensembles, paired differences, confidence intervals.

    COASSOC_DATA=<folder> python -m benchmarks.answers run --cache <folder> --out answers.jsonl
    python -m benchmarks.answers table answers.jsonl --also docs/results/rows.jsonl.gz

`run` adds one row per (data set, repeat, method, number of clusters) and skips rows it has already, so it can be
stopped and continued. Density and ensemble NMI are taken at k = 20, agreement with the classes at their true number.
Base ensembles are those of the published evaluation (20 k-means partitions, k drawn from [classes, min(√n, 100)]).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import coassoc as ca

from .datasets import load
from .json_lines import append, read
from .paper.protocol import PAPER_SETS, Protocol, base_ensemble, method_seed, scaling_of
from .paper.store import read_rows
from .truth import print_means, print_pairs, set_means

METHODS = {
    "KM": lambda k, seed: ca.KMeansConsensus(k, n_init=10, random_state=seed),
    "KM+exchange": lambda k, seed: ca.DensityConsensus(k, micro_clusters=None, max_rounds=0, random_state=seed),
    "H-KM": lambda k, seed: ca.BisectingConsensus(k, criterion="size", random_state=seed),
    "H-KM gain": lambda k, seed: ca.BisectingConsensus(k, criterion="gain", random_state=seed),
    "SEC": lambda k, seed: ca.SEC(k, random_state=seed),
    "ECC": lambda k, seed: ca.ECC(k, random_state=seed),
    "MCLA": lambda k, seed: ca.MCLA(k, random_state=seed),
    "CSPA": lambda k, seed: ca.CSPA(k, random_state=seed),
    "R-SL": lambda k, seed: ca.EAC(k, linkage="single"),
    "R-AL": lambda k, seed: ca.EAC(k, linkage="average"),
    "R-ML": lambda k, seed: ca.EAC(k, linkage="complete"),
    "E-SL": lambda k, seed: ca.EAC(k, linkage="single", enhanced=True),
    "E-AL": lambda k, seed: ca.EAC(k, linkage="average", enhanced=True),
    "E-ML": lambda k, seed: ca.EAC(k, linkage="complete", enhanced=True),
    "HBGF": lambda k, seed: ca.HBGF(k, random_state=seed),
    "LWGP": lambda k, seed: ca.LWGP(k, random_state=seed),
    "ECPCS": lambda k, seed: ca.ECPCS(k, random_state=seed),
    "Density": lambda k, seed: ca.DensityConsensus(k, random_state=seed),
    "Agreement": lambda k, seed: ca.AgreementConsensus(k, random_state=seed),
}
QUADRATIC = ("CSPA", "R-SL", "R-AL", "R-ML", "E-SL", "E-AL", "E-ML")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="fit and score")
    one.add_argument("--out", required=True, type=Path)
    one.add_argument("--cache", type=Path, default=None, help="folder of stored base ensembles")
    one.add_argument("--sets", nargs="+", default=list(PAPER_SETS))
    one.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    one.add_argument("--repeats", type=int, default=10)
    one.add_argument("--clusters", type=int, default=20)
    one.add_argument("--quadratic", type=int, default=6000, help="most items for methods that need n x n")
    one.add_argument("--no-truth", action="store_true", help="skip the fits at the true number of classes")
    two = commands.add_parser("table", help="tables from the rows of a run")
    two.add_argument("rows", type=Path, help="what `run` wrote, as .jsonl or .jsonl.gz")
    two.add_argument("--also", type=Path, help="rows.jsonl.gz of `benchmarks.paper`: methods `run` did not make")
    args = parser.parse_args(argv)
    return {"run": run, "table": tables}[args.command](args)


def run(args: argparse.Namespace) -> int:
    done = {key(row) for row in read(args.out)}
    for name in args.sets:
        dataset = load(name, scaling=scaling_of(name, "paper"))
        protocol = Protocol(n_repeats=args.repeats)
        for repeat in range(args.repeats):
            ensemble = None
            for method in args.methods:
                for k, against in ((args.clusters, "ensemble"), (dataset.n_classes, "classes")):
                    if (name, repeat, method, k, against) in done or (against == "classes" and args.no_truth):
                        continue
                    if method in QUADRATIC and dataset.X.shape[0] > args.quadratic:
                        continue
                    if ensemble is None:
                        ensemble = base_ensemble(dataset, protocol, repeat, args.cache)
                    row = fit_one(method, ensemble, dataset, k, repeat)
                    row.update(set=name, repeat=repeat, method=method, k=k, against=against)
                    append(args.out, row)
            print(f"{name} repeat {repeat} done", file=sys.stderr, flush=True)
    return 0


def fit_one(method: str, ensemble: ca.Ensemble, dataset, k: int, repeat: int) -> dict:
    model = METHODS[method](k, method_seed(0, dataset.name, repeat, method))
    start = time.perf_counter()
    labels = model.fit(ensemble).labels_
    seconds = time.perf_counter() - start
    sizes = np.bincount(labels)
    return {
        "density": ca.density(ensemble, labels),
        "nmi": ca.ensemble_nmi(ensemble, labels),
        "classes": ca.nmi(labels, dataset.y),
        "found": int(np.count_nonzero(sizes)),
        "singletons": int(np.count_nonzero(sizes == 1)),
        "seconds": round(seconds, 4),
    }


def key(row: dict) -> tuple:
    return row["set"], row["repeat"], row["method"], row["k"], row["against"]


def read_paper_rows(path: Path, rows: list[dict]) -> list[dict]:
    """Rows of `benchmarks.paper` on the same ensembles, for pairs of set and method that `rows` do not cover."""
    repeats = {row["repeat"] for row in rows}
    full = len(repeats)
    have: dict = defaultdict(int)
    for row in rows:
        have[row["set"], row["method"]] += row["against"] == "ensemble"
    found = []
    for row in read_rows(path)[0]:
        name = row["method"]
        if name in METHODS and row["repeat"] in repeats and have[row["dataset"], name] < full:
            scores = {"density": row["density"], "nmi": row["nmi"], "against": "ensemble"}
            found.append({"set": row["dataset"], "method": name, "repeat": row["repeat"], **scores})
    return found


# -- tables --------------------------------------------------------------------------------------------------------


def tables(args: argparse.Namespace) -> int:
    rows = read(args.rows)
    if args.also is not None:
        rows += read_paper_rows(args.also, rows)
    for score, against, title, leaders in (
        ("density", "ensemble", "density S at k = 20", ("Density",)),
        ("nmi", "ensemble", "ensemble NMI at k = 20", ("Agreement",)),
        ("classes", "classes", "NMI with the classes at their true number", ("LWGP", "HBGF")),
    ):
        means = by_set([row for row in rows if row["against"] == against], score)
        methods = [method for method in METHODS if any(method in of for of in means.values())]
        print(f"\n## {title}, percent, mean over repeats\n")
        print_means(means, methods)
        for leader in leaders:
            print("\n### Paired differences, with 95 % intervals over repeats\n")
            print_pairs(means, methods, leader)
    return 0


def by_set(rows: list[dict], score: str) -> dict[str, dict[str, dict[int, float]]]:
    """set -> method -> repeat -> score in percent."""
    return set_means([{**row, "family": row["set"], "set": row["repeat"]} for row in rows], score)


if __name__ == "__main__":
    sys.exit(main())
