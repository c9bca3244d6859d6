"""Which answer is closest to known truth: methods on families of ensembles whose classes are known.

    python -m benchmarks.truth make                       # build and cache the ensembles
    python -m benchmarks.truth run --out rows.jsonl       # fit every method at the true k, one row per fit
    python -m benchmarks.truth table rows.jsonl [answers.jsonl.gz]    # means per family, paired differences

The default answer is fitted by benchmarks.truth_checks, whose rows `table` takes as well.

`run` skips rows it has already, so it can be stopped and continued. Sets are split by data set: `--part design` (the
default) and `--part held-out`, to be looked at once, after the design is fixed. The UCI sets come from COASSOC_DATA;
further families are read from the folder COASSOC_TRUTH where it exists (all of them belong to the design part).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import coassoc as ca

from .json_lines import append, read
from .markdown import table as markdown_table
from .truth_families import CORRUPTIONS, Case, cases, family_names, truth_folder

CACHE = Path("/tmp/coassoc-truth")
MICRO = 300  # micro-clusters of the linkage methods


METHODS = {
    "KM": lambda k: ca.KMeansConsensus(k, n_init=10, random_state=0),
    "Density": lambda k: ca.DensityConsensus(k, random_state=0),
    "Agreement": lambda k: ca.AgreementConsensus(k, random_state=0),
    "Bisecting": lambda k: ca.BisectingConsensus(k, criterion="gain", random_state=0),
    "HBGF": lambda k: ca.HBGF(k, random_state=0),
    "LWGP": lambda k: ca.LWGP(k, random_state=0),
    "ECPCS": lambda k: ca.ECPCS(k, random_state=0),
    "AL": lambda k: ca.EAC(k, micro_clusters=max(MICRO, 5 * k), random_state=0),
    "LWEA": lambda k: ca.LWEA(k, micro_clusters=max(MICRO, 5 * k), random_state=0),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of cached ensembles")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make", help="build and cache the ensembles")
    one = commands.add_parser("run", help="fit and score at the true k")
    one.add_argument("--out", required=True, type=Path)
    one.add_argument("--methods", nargs="+", default=list(METHODS))
    one.add_argument("--families", nargs="+", default=None)
    one.add_argument("--part", choices=("design", "held-out"), default="design")
    two = commands.add_parser("table", help="tables from the rows of a run")
    two.add_argument("rows", type=Path, nargs="+")
    two.add_argument("--score", choices=("ari", "nmi", "agreement"), default="ari")
    two.add_argument("--against", default=None, help="a method: paired differences of all others with it")
    two.add_argument("--part", choices=("design", "held-out"), default="design")
    args = parser.parse_args(argv)
    if truth_folder() is None:
        print("COASSOC_TRUTH names no folder: only the families built here are used.", file=sys.stderr)
    return {"make": make, "run": run, "table": table}[args.command](args)


def make(args: argparse.Namespace) -> int:
    for family in family_names():
        start = time.perf_counter()
        count = sum(1 for _ in cases(args.cache, [family]))
        print(f"{family}: {count} ensembles, {time.perf_counter() - start:.0f} s", flush=True)
    return 0


def run(args: argparse.Namespace) -> int:
    done = {(row["key"], row["method"]) for row in read(args.out)}
    for case in cases(args.cache, args.families):
        if case.held_out != (args.part == "held-out"):
            continue
        ensemble = None
        for method in args.methods:
            if (case.key, method) in done:
                continue
            ensemble = ca.Ensemble(case.table) if ensemble is None else ensemble
            labels, seconds = fit_labels(method, case, ensemble, args.cache / "labels")
            row = {"key": case.key, "family": case.family, "set": case.name, "seed": case.seed, "method": method}
            row.update(part=args.part, k=case.k, seconds=round(seconds, 4), **score(case, ensemble, labels))
            append(args.out, row)
        print(case.key, file=sys.stderr, flush=True)
    return 0


def fit_labels(method: str, case: Case, ensemble: ca.Ensemble, folder: Path) -> tuple[np.ndarray, float]:
    """Labels of one method at the true k and the seconds they took; read from `folder` where they are known."""
    path = folder / f"{case.key}__{method}.npz"
    if path.exists():
        with np.load(path) as file:
            return file["labels"], float(file["seconds"])
    start = time.perf_counter()
    try:
        labels = METHODS[method](case.k).fit(ensemble).labels_
    except ValueError as reason:  # fewer different rows than k
        print(f"{case.key} {method}: {reason}", file=sys.stderr)
        labels = np.zeros(len(case.truth), np.int32)
    seconds = time.perf_counter() - start
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, labels=labels.astype(np.int16), seconds=seconds)
    return labels, seconds


def score(case: Case, ensemble: ca.Ensemble, labels: np.ndarray) -> dict[str, float]:
    """Adjusted Rand index and NMI with the classes (noise points left out), agreement with the members."""
    scored = case.truth >= 0
    found = {
        "ari": adjusted_rand_score(case.truth[scored], labels[scored]),
        "nmi": ca.nmi(case.truth[scored], labels[scored]),
        "agreement": ca.ensemble_nmi(ensemble, labels),
    }
    return {**{name: round(float(value), 5) for name, value in found.items()}, "found": len(set(labels.tolist()))}


# -- tables --------------------------------------------------------------------------------------------------------


def table(args: argparse.Namespace) -> int:
    rows = [row for path in args.rows for row in read(path) if row["part"] == args.part]
    means = set_means(rows, args.score)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    means = {family: of for family, of in means.items() if len(of) == len(methods)}  # those that all methods have
    print(f"mean {args.score}, percent, {args.part} sets; in brackets: 95 % interval over sets\n")
    if args.against is None:
        print_means(means, methods)
    else:
        print_pairs(means, methods, args.against)
    return 0


def set_means(rows: list[dict], score: str) -> dict[str, dict[str, dict[str, float]]]:
    """family -> method -> set -> mean over seeds, in percent."""
    found: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        found[row["family"]][row["method"]][row["set"]].append(100.0 * row[score])
    return {
        family: {method: {name: float(np.mean(v)) for name, v in sets.items()} for method, sets in of.items()}
        for family, of in found.items()
    }


def is_corrupted(family: str) -> bool:
    return family.partition("+")[2] in CORRUPTIONS


def print_means(means: dict, methods: list[str]) -> None:
    rows: list[tuple] = []
    total: dict = defaultdict(list)
    for family, of in means.items():
        values = {method: float(np.mean(list(of[method].values()))) for method in methods if method in of}
        best = max(values.values())
        texts = {m: f"**{value:.1f}**" if value == best else f"{value:.1f}" for m, value in values.items()}
        cells = [texts.get(method, "") for method in methods]
        rows.append((family, len(next(iter(of.values()))), *cells))
        for method, value in values.items():
            total[method, is_corrupted(family)].append(value)
    for bad, name in ((False, "mean of clean families"), (True, "mean of corrupted families")):
        if any(was_bad == bad for _, was_bad in total):
            texts = {m: f"{np.mean(of):.1f}" for (m, was_bad), of in total.items() if was_bad == bad}
            rows.append((name, "", *(texts.get(method, "") for method in methods)))
    print(markdown_table(("family", "sets", *methods), rows))


def print_pairs(means: dict, methods: list[str], reference: str) -> None:
    others = [method for method in methods if method != reference]
    rows = []
    for family, of in means.items():
        cells = []
        for other in others:
            both = sorted(set(of.get(reference, {})) & set(of.get(other, {})))
            if not both:
                cells.append("")
                continue
            difference = np.array([of[reference][name] - of[other][name] for name in both])
            low, high = interval(difference)
            cells.append(f"{difference.mean():+.1f} ({low:+.1f}, {high:+.1f})")
        rows.append((family, *cells))
    print(f"{reference} minus each method\n\n{markdown_table(('family', *others), rows)}")


def interval(values: np.ndarray, draws: int = 2000) -> tuple[float, float]:
    """95 % bootstrap interval of the mean."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (draws, len(values))).mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


if __name__ == "__main__":
    sys.exit(main())
