"""Checks of the default answer against known truth: noise, numbers of clusters, confidence.

    python benchmarks/truth_checks.py noise                          # 100 ensembles of nothing, and the real ones
    python benchmarks/truth_checks.py blobs                          # 60 blob ensembles and the digits
    python benchmarks/truth_checks.py number --part design           # ARI at the number chosen and at the true one
    python benchmarks/truth_checks.py confidence --part design       # are sure items right more often?

Families, parts and the cache are those of benchmarks/truth.py.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import coassoc as ca
from truth import CACHE
from truth_families import Case, blob_ensembles, cases, digits_ensembles, family_names, noise_ensembles

FEWEST = 20  # items a confidence class must have to be compared


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=("noise", "blobs", "number", "confidence"))
    parser.add_argument("--part", choices=("design", "held-out"), default="design")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--families", nargs="+", default=None, help="all uncorrupted ones by default")
    args = parser.parse_args(argv)
    return {"noise": noise, "blobs": blobs, "number": number, "confidence": confidence}[args.check](args)


def chosen(args: argparse.Namespace, seeds: tuple[int, ...] = (0,)) -> Iterator[Case]:
    """The ensembles of the part asked for: seed 0 of each set is enough for these checks."""
    names = args.families or [name for name in family_names() if "+" not in name]
    for case in cases(args.cache, names):
        if case.seed in seeds and case.held_out == (args.part == "held-out"):
            yield case


def fit(case: Case, n_clusters: int | str = "auto", method: str = "auto") -> ca.Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        return ca.Consensus(n_clusters, method, random_state=0).fit(case.table)


def ari(case: Case, labels: np.ndarray) -> float:
    scored = case.truth >= 0
    return 100.0 * adjusted_rand_score(case.truth[scored], labels[scored])


def noise(args: argparse.Namespace) -> int:
    wrong, count = [], 0
    for case in noise_ensembles():
        count += 1
        if fit(case).supported_:
            wrong.append(case.key)
    print(f"noise called supported: {len(wrong)} of {count} {wrong}")
    missed, count = [], 0
    args.families = args.families or family_names()
    for case in chosen(args):
        count += 1
        if not fit(case, case.k).supported_:
            missed.append(case.key)
    print(f"real ensembles, {args.part}, called unsupported: {len(missed)} of {count} {missed}")
    return 0


def blobs(args: argparse.Namespace) -> int:
    right: dict = defaultdict(list)
    for case in blob_ensembles():
        found = fit(case)
        right[case.family].append(found.n_clusters_ == case.k)
        right["or a runner-up"].append(case.k in [found.n_clusters_, *found.runners_up_])
    for name, values in right.items():
        print(f"{name}: {sum(values)} of {len(values)}")
    for case in digits_ensembles():
        found = fit(case)
        print(f"digits, members of 8 to 15 clusters: {found.n_clusters_}, runners-up {found.runners_up_}")
    return 0


def number(args: argparse.Namespace) -> int:
    """The answer at the true number of clusters and at the one chosen."""
    found: dict = defaultdict(lambda: defaultdict(list))
    for case in chosen(args):
        answers = {"true k": fit(case, case.k), "chosen k": fit(case)}
        for name, answer in answers.items():
            found[case.family][name].append(ari(case, answer.labels_))
        named = [answers["chosen k"].n_clusters_, *answers["chosen k"].runners_up_]
        found[case.family]["true k is named, %"].append(100.0 * (case.k in named))
        print(case.key, case.k, named, file=sys.stderr, flush=True)
    print_table(found)
    return 0


def confidence(args: argparse.Namespace) -> int:
    """Share of items in the majority class of their cluster: confidence at least .9, .5 to .9, below."""
    found: dict = defaultdict(lambda: defaultdict(list))
    ordered = []
    for case in chosen(args):
        answer = fit(case, case.k)
        if answer.n_clusters_ < case.k:
            continue
        sure, labels = answer.confidence_ + 1e-6, answer.labels_
        scored = case.truth >= 0
        table = np.zeros((int(labels.max()) + 1, case.k))
        np.add.at(table, (labels[scored], case.truth[scored]), 1)
        right = table.argmax(axis=1)[labels] == case.truth
        classes = {"sure": sure >= 0.9, "middle": (sure >= 0.5) & (sure < 0.9), "unsure": sure < 0.5}
        shares = []
        for name, mask in classes.items():
            if (mask & scored).sum() >= FEWEST:
                shares.append(100.0 * right[mask & scored].mean())
                found[case.family][f"{name}, % right"].append(shares[-1])
            found[case.family][f"{name}, % of items"].append(100.0 * (mask & scored).sum() / scored.sum())
        ordered += [all(a >= b for a, b in itertools.pairwise(shares))] if len(shares) > 1 else []
        print(case.key, answer.method_, [round(s, 1) for s in shares], file=sys.stderr, flush=True)
    print_table(found)
    print(f"\nsurer classes (of {FEWEST} items or more) are right more often on {sum(ordered)} of {len(ordered)} sets")
    return 0


def print_table(found: dict) -> None:
    columns = list(dict.fromkeys(name for of in found.values() for name in of))
    print("| family | " + " | ".join(columns) + " |\n| --- |" + " --- |" * len(columns))
    for family, of in found.items():
        print(f"| {family} | " + " | ".join(f"{np.mean(of[c]):.1f}" if c in of else "" for c in columns) + " |")
    means = [np.mean([np.mean(of[c]) for of in found.values() if c in of]) for c in columns]
    print("| mean | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")


if __name__ == "__main__":
    sys.exit(main())
