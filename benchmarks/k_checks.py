"""The number of clusters of the default answer, on ensembles with known truth.

    python -m benchmarks.k_checks families            # held-out seeds of k_families, at the k chosen and at the true k
    python -m benchmarks.k_checks families --design   # the seeds that the rule was chosen on
    python -m benchmarks.k_checks public              # eight sets of features, beside the run with the best silhouette
    python -m benchmarks.k_checks folder              # the ensembles in the folder named by COASSOC_TRUTH
    python -m benchmarks.k_checks confidence          # of both, at the true k: how often items are right, by confidence

Each prints its table; `--out FILE` also stores it, as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler

import coassoc as ca

from .k_families import blobs, cases
from .markdown import table as markdown_table
from .truth_families import Case

SEEDS = range(10)
INITS = ("k-means++", "random")
CONFIDENCES = (0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=("families", "public", "folder", "confidence"))
    parser.add_argument("--design", action="store_true", help="the seeds that the rule was chosen on")
    parser.add_argument("--count", type=int, default=12, help="ensembles of each family (default: 12)")
    parser.add_argument("--out", type=Path, help="JSON file for the table")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    if args.check == "public":
        table = public()
    elif args.check == "confidence":
        table = confidence(itertools.chain(cases(held_out=True, count=args.count), folder()))
    else:
        table = by_family(folder() if args.check == "folder" else cases(held_out=not args.design, count=args.count))
    names = list(next(iter(table.values())))
    print(markdown_table(["", *names], [[name, *map(str, row.values())] for name, row in table.items()]))
    if args.out:
        stored = json.loads(args.out.read_text()) if args.out.exists() else {}
        key = f"{args.check}{'-design' if args.design else ''}"
        args.out.write_text(json.dumps({**stored, key: table}, indent=1) + "\n")
    return 0


def folder() -> Iterable[Case]:
    """The ensembles of COASSOC_TRUTH."""
    where = os.environ.get("COASSOC_TRUTH")
    if not where:
        raise SystemExit("COASSOC_TRUTH names no folder of ensembles.")
    for path in sorted(Path(where).glob("*__*__*.npz")):
        family, name, seed = path.stem.split("__")
        with np.load(path) as stored:
            yield Case(family, name, int(seed), stored["table"], stored["truth"], int(stored["k"]))


def by_family(ensembles: Iterable[Case]) -> dict[str, dict[str, Any]]:
    """Means over the ensembles of each family, in percent, with half the width of a 95 % interval."""
    scores: dict[str, list[tuple]] = {}
    for case in ensembles:
        scored = case.truth >= 0
        answer, given = (ca.Consensus(k, random_state=0).fit(case.table) for k in ("auto", case.k))
        ari = [adjusted_rand_score(case.truth[scored], model.labels_[scored]) for model in (answer, given)]
        members = np.mean([adjusted_rand_score(case.truth[scored], member[scored]) for member in case.table.T])
        named = case.k in (answer.n_clusters_, *answer.runners_up_)
        scores.setdefault(case.family, []).append((*ari, members, answer.n_clusters_ == case.k, named))
    table = {}
    for family, rows in scores.items():
        values = 100.0 * np.array(rows, dtype=float)
        half = 1.96 * values[:, 0].std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        chosen, true, members, right, named = values.mean(axis=0)
        table[family] = {
            "ensembles": len(rows), "ARI at the k chosen": f"{chosen:.1f} ± {half:.1f}", "at the true k": f"{true:.1f}",
            "of a member": f"{members:.1f}", "k right, %": f"{right:.0f}", "k right or named, %": f"{named:.0f}",
        }  # fmt: skip
    return table


def public_sets(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Four sets that ship with scikit-learn, and four simulated ones."""
    rng = np.random.default_rng([7, seed])
    sets = {name: getattr(datasets, f"load_{name}")(return_X_y=True) for name in ("digits", "wine", "iris")}
    sets["cancer"] = datasets.load_breast_cancer(return_X_y=True)
    for name in ("wine", "cancer"):
        sets[name] = StandardScaler().fit_transform(sets[name][0]), sets[name][1]
    sets["customers"] = blobs(6, 1400, rng, 2.5, 6, True)
    sets["blobs of 15"] = blobs(15, 1500, rng, 6.0, 2, False)
    sets["blobs of 40"] = blobs(40, 3000, rng, 7.0, 5, False)
    y = np.repeat(np.arange(7), [600, 300, 200, 100, 60, 40, 30])
    sets["unequal 7"] = 4.0 * rng.normal(size=(7, 3))[y] + rng.normal(size=(len(y), 3)), y
    return sets


def public() -> dict[str, dict[str, Any]]:
    """Mean ARI of the answer and of the run with the best silhouette among the same 20 runs of k-means."""
    scores: dict[str, list[tuple]] = {}
    for seed in SEEDS:
        for name, (X, y) in public_sets(seed).items():
            k = len(np.unique(y))
            for init in INITS:
                rng = np.random.default_rng([seed, k])
                ks = rng.integers(2, max(10, 2 * k) + 1, 20).tolist()
                settings = {"n_init": 1, "init": init}
                runs = [KMeans(m, random_state=100 * seed + i, **settings).fit_predict(X) for i, m in enumerate(ks)]
                sample = rng.permutation(len(X))[:1500]
                best = runs[int(np.argmax([silhouette_score(X[sample], run[sample]) for run in runs]))]
                table = np.stack(runs, axis=1)
                free, given = ca.Consensus(random_state=0).fit(table), ca.Consensus(k, random_state=0).fit(table)
                voted = ca.Consensus(random_state=0).fit(table, features=X)
                labels = free.labels_, voted.labels_, best, given.labels_
                scores.setdefault(name, []).append(tuple(adjusted_rand_score(y, own) for own in labels))
    table = {}
    for name, rows in scores.items():
        free, voted, best, given = np.mean(rows, axis=0)
        lead = np.array(rows)[:, 0] - np.array(rows)[:, 2]
        half = 1.96 * lead.std(ddof=1) / len(lead) ** 0.5
        table[name] = {
            "answer": f"{free:.3f}", "with features": f"{voted:.3f}", "best silhouette": f"{best:.3f}",
            "answer minus silhouette": f"{free - best:+.3f} ± {half:.3f}", "answer at the true k": f"{given:.3f}",
        }  # fmt: skip
    return table


def confidence(ensembles: Iterable[Case]) -> dict[str, dict[str, Any]]:
    """Share of items in the majority class of their cluster, by confidence, every ensemble counted alike."""
    right: list[list[float]] = [[] for _ in CONFIDENCES]
    share: list[list[float]] = [[] for _ in CONFIDENCES]
    for case in ensembles:
        answer = ca.Consensus(case.k, random_state=0).fit(case.table)
        if not answer.supported_:  # every confidence is 0
            continue
        scored = (case.truth >= 0) & (answer.labels_ >= 0)
        labels, truth = answer.labels_[scored], case.truth[scored]
        shared = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1), int)
        np.add.at(shared, (labels, truth), 1)
        is_right = shared.argmax(axis=1)[labels] == truth
        step = np.searchsorted(CONFIDENCES, answer.confidence_[scored] + 1e-6, side="right") - 1
        for t in range(len(CONFIDENCES)):
            share[t].append(float((step == t).mean()))
            if (step == t).sum() >= 10:
                right[t].append(float(is_right[step == t].mean()))
    return {
        f"{low} to {high}": {
            "items, %": f"{100 * np.mean(share[t]):.0f}",
            "right, %": f"{100 * np.mean(right[t]):.0f}" if right[t] else "–",
            "ensembles": len(right[t]),
        }
        for t, (low, high) in enumerate(itertools.pairwise([*CONFIDENCES, 1]))
    }


if __name__ == "__main__":
    raise SystemExit(main())
