"""The default answer against known truth: at the true k, at its own k, with bad members, on noise; its confidence.

    python -m benchmarks.truth_checks run --part held-out --out answers.jsonl    # one row per ensemble
    python -m benchmarks.truth_checks table answers.jsonl --part held-out        # tables from the rows
    python -m benchmarks.truth_checks plot answers.jsonl confidence.png          # confidence against truth
    python -m benchmarks.truth_checks noise                          # 100 ensembles of nothing
    python -m benchmarks.truth_checks blobs                          # 60 blob ensembles and the digits

Families, parts and the cache are those of benchmarks.truth. `run` skips the rows it has already.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import coassoc as ca

from .json_lines import append, read
from .markdown import table as markdown_table
from .truth import CACHE, score
from .truth_families import Case, blob_ensemble, cases, digits_ensemble, noise_ensemble

FEWEST = 10  # items a class of confidence must have to be compared
ROWS = Path(__file__).parents[1] / "docs/results/truth-answers.jsonl.gz"  # they have the k of the rule before this one
CLASSES = {"sure": (0.9, 1.1), "middle": (0.5, 0.9), "unsure": (0.0, 0.5)}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=("run", "table", "plot", "noise", "blobs"))
    parser.add_argument("files", nargs="*", type=Path, help="rows, and for `plot` the drawing")
    parser.add_argument("--out", type=Path, help="file that `run` appends its rows to")
    parser.add_argument("--part", choices=("design", "held-out"), default="design")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--families", nargs="+", default=None)
    args = parser.parse_args(argv)
    return {"run": run, "table": table, "plot": plot, "noise": noise, "blobs": blobs}[args.check](args)


def fit(partitions: np.ndarray, n_clusters: int | str = "auto") -> ca.Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        return ca.Consensus(n_clusters, random_state=0).fit(partitions)


def ari(case: Case, labels: np.ndarray) -> float:
    scored = case.truth >= 0
    return round(float(adjusted_rand_score(case.truth[scored], labels[scored])), 5)


# -- rows ----------------------------------------------------------------------------------------------------------


def run(args: argparse.Namespace) -> int:
    done = {row["key"] for row in read(args.out)}
    old_k = {row["key"]: row["old_k"] for row in read(ROWS) if "old_k" in row}
    for case in cases(args.cache, args.families):
        if case.held_out != (args.part == "held-out") or case.key in done:
            continue
        answer = fit(case.table, case.k)
        row = {"key": case.key, "family": case.family, "set": case.name, "seed": case.seed, "method": "Answer"}
        row.update(part=args.part, k=case.k, chosen=answer.method_, supported=answer.supported_)
        row.update(score(case, ca.Ensemble(case.table), answer.labels_))
        if case.good is not None:
            row["good_only"] = ari(case, fit(case.table[:, case.good], case.k).labels_)
        elif case.seed == 0:  # enough for these
            free = fit(case.table)
            row.update(own_k=[free.n_clusters_, *free.runners_up_], ari_own_k=ari(case, free.labels_))
            row["calibration"] = calibration(case, answer)
            if case.key in old_k:
                row.update(old_k=old_k[case.key], ari_old_k=ari(case, fit(case.table, old_k[case.key]).labels_))
        append(args.out, row)
        print(case.key, file=sys.stderr, flush=True)
    return 0


def calibration(case: Case, answer: ca.Consensus) -> list[list[int]]:
    """Items, and those in the majority class of their cluster, by tenths of confidence."""
    labels, scored = answer.labels_, (case.truth >= 0) & (answer.labels_ >= 0)
    shared = np.zeros((int(labels.max()) + 1, int(case.truth.max()) + 1))
    np.add.at(shared, (labels[scored], case.truth[scored]), 1)
    right = shared.argmax(axis=1)[labels[scored]] == case.truth[scored]
    tenth = np.minimum((10 * (answer.confidence_[scored] + 1e-6)).astype(int), 9)
    return [np.bincount(tenth, weights=w, minlength=10).astype(int).tolist() for w in (None, right)]


# -- tables and the drawing ----------------------------------------------------------------------------------------


def table(args: argparse.Namespace) -> int:
    rows = [row for path in args.files for row in read(path) if row["part"] == args.part]
    clean = [row for row in rows if "ari_own_k" in row]
    number: dict = defaultdict(lambda: defaultdict(list))
    for row in clean:
        found = number[row["family"]]
        found["true k"].append(100 * row["ari"])
        found["chosen k"].append(100 * row["ari_own_k"])
        if "ari_old_k" in row:
            found["k of the old rule"].append(100 * row["ari_old_k"])
        found["true k is named, %"].append(100.0 * (row["k"] in row["own_k"]))
    print_table(number)
    bad: dict = defaultdict(lambda: defaultdict(list))
    at_first = {row["key"]: row["ari"] for row in rows}
    for row in (row for row in rows if "good_only" in row):
        found, base = bad[row["family"]], row["family"].partition("+")[0]
        found["all good"].append(100 * at_first[f"{base}__{row['set']}__0"])
        found["with bad members"].append(100 * row["ari"])
        found["the good ones among them"].append(100 * row["good_only"])
    print_table(bad)
    sure: dict = defaultdict(lambda: defaultdict(list))
    ordered, clear = [], []
    for row in clean:
        shares = []
        for name, (items, right) in classes(row["calibration"]).items():
            sure[row["family"]][f"{name}, % of items"].append(100.0 * items / sum(row["calibration"][0]))
            if items >= FEWEST:
                shares.append((right / items, items))
                sure[row["family"]][f"{name}, % right"].append(100.0 * right / items)
        if len(shares) > 1:
            rises = [rise(*pair) for pair in itertools.pairwise(shares)]
            ordered.append(all(by <= 0 for by, _ in rises))
            clear.append(any(by > 2 * error for by, error in rises))
    print_table(sure)
    share = 100.0 * np.mean(ordered)
    print(f"surer classes of {FEWEST} items or more are right more often on {sum(ordered)} of {len(ordered)} ensembles")
    print(f"that have two or three of them: {share:.0f} %; {len(clean) - len(ordered)} ensembles have one.")
    print(f"Out of order by more than two standard errors: {sum(clear)}\n")
    unsupported = [row["key"] for row in rows if not row["supported"]]
    print(f"called unsupported: {len(unsupported)} of {len(rows)} {unsupported}")
    return 0


def rise(surer: tuple[float, int], other: tuple[float, int]) -> tuple[float, float]:
    """How much more often the items of the less sure class are right, and the standard error of that difference."""
    (a, n), (b, m) = surer, other
    both = (a * n + b * m) / (n + m)
    return b - a, (both * (1 - both) * (1 / n + 1 / m)) ** 0.5


def classes(counts: list[list[int]]) -> dict[str, tuple[int, int]]:
    """Items and right ones in the classes of confidence, from those in tenths."""
    tenth = np.arange(10) / 10
    return {
        name: tuple(int(np.array(of)[(tenth >= low) & (tenth < high)].sum()) for of in counts)
        for name, (low, high) in CLASSES.items()
    }


def plot(args: argparse.Namespace) -> int:
    """Share of items in the majority class of their cluster by tenths of confidence; every ensemble counts alike."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in read(args.files[0]) if "calibration" in row]
    figure, axes = pyplot.subplots(figsize=(5.2, 4.2), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.75", linewidth=1, label="confidence = share")
    middle = np.arange(10) / 10 + 0.05
    for part, marker, above in (("design", "o", 6), ("held-out", "s", -12)):
        of = np.array([row["calibration"] for row in rows if row["part"] == part], float)
        items, right = (of / of[:, :1].sum(axis=2, keepdims=True)).sum(axis=0)
        shown = items >= 0.005 * items.sum()
        axes.plot(
            middle[shown],
            (right / np.maximum(items, 1e-12))[shown],
            marker=marker,
            label=f"{part}, {len(of)} ensembles",
        )
        for x, y, share in zip(middle[shown], (right / items.clip(1e-12))[shown], (items / items.sum())[shown]):
            axes.annotate(f"{share:.0%}", (x, y), (0, above), textcoords="offset points", ha="center", fontsize=7)
    axes.set(
        xlabel="confidence of an item", ylabel="share in the majority class of its cluster", xlim=(0, 1), ylim=(0, 1.03)
    )
    axes.legend(frameon=False, loc="lower right", title="percent: share of the items")
    figure.savefig(args.files[1], dpi=150)
    return 0


# -- noise and blobs -----------------------------------------------------------------------------------------------


def noise(args: argparse.Namespace) -> int:
    wrong = [case.key for case in map(noise_ensemble, range(100)) if fit(case.table).supported_]
    print(f"noise called supported: {len(wrong)} of 100 {wrong}")
    return 0


def blobs(args: argparse.Namespace) -> int:
    right: dict = defaultdict(list)
    for case in itertools.starmap(blob_ensemble, itertools.product(("wide", "near", "above"), range(20))):
        found = fit(case.table)
        right[case.family].append(found.n_clusters_ == case.k)
        right["or a runner-up"].append(case.k in [found.n_clusters_, *found.runners_up_])
    for name, values in right.items():
        print(f"{name}: {sum(values)} of {len(values)}")
    for case in map(digits_ensemble, range(5)):
        found = fit(case.table)
        print(f"digits, members of 8 to 15 clusters: {found.n_clusters_}, runners-up {found.runners_up_}")
    return 0


def print_table(found: dict) -> None:
    columns = list(dict.fromkeys(name for of in found.values() for name in of))
    rows = [(family, *(f"{np.mean(of[c]):.1f}" if c in of else "" for c in columns)) for family, of in found.items()]
    means = [np.mean([np.mean(of[c]) for of in found.values() if c in of]) for c in columns]
    print(markdown_table(("family", *columns), [*rows, ("mean", *(f"{mean:.1f}" for mean in means))]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
