"""What single linkage of raw counts leaves undetermined, beside the column the paper prints for it (R-SL).

    COASSOC_DATA=<folder> python -m benchmarks.single_linkage_ties run glass --ensembles 200
    python -m benchmarks.single_linkage_ties table

Counts out of 20 partitions take 21 values, so the merge that would leave 20 clusters ties with others. What is certain
are the *blocks* before any tied merge and the clusters after all of them; every order of the ties lies between. `run`
scores the readings below on ensembles of the evaluation (the first 20 are those of docs/results/rows.jsonl.gz) and adds
them to the JSON file; `table` prints Markdown. A printed figure is a mean over 20 ensembles, so its distance to a
reading is compared with the standard error of such a mean, sd · √(1/20 + 1/ensembles).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.cluster import hierarchy
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import squareform
from sklearn.cluster import AgglomerativeClustering

import coassoc as ca

from .datasets import dataset_info, load
from .paper.protocol import Protocol, base_ensemble
from .paper.tables import paper_tables

K, P, ORDERS = 20, 20, 200
STORED = Path(__file__).parents[1] / "docs" / "results" / "single-linkage-ties.json"
READINGS = {
    "lowest": "exactly 20, ties to the lowest row (`EAC`)",
    "scipy": "exactly 20, SciPy's `linkage` and `cut_tree`",
    "sklearn": "exactly 20, scikit-learn's `AgglomerativeClustering`, precomputed",
    "shuffled": "the same on shuffled rows",
    "by class": "the same on rows sorted by class",
    "unstable": "exactly 20, SciPy's `minimum_spanning_tree`, edges by NumPy's unstable sort",
    "random": "exactly 20, tied pairs of items in random order (mean of 200)",
    "all": "all tied merges: SciPy's `fcluster(Z, 20, 'maxclust')`",
    "none": "none of the tied merges: cut below the tie",
}
SPREAD = ("lowest order", "highest order")


class Ties:
    """One ensemble: its different rows, the blocks before the tied merges, and the links that tie."""

    def __init__(self, ensemble: ca.Ensemble):
        tree = ca.EAC(K, linkage="single").fit(ensemble)
        self.tree, self.n, self.row = tree, ensemble.n_samples, tree.leaf_of_item_
        first = np.unique(self.row, return_index=True)[1]
        onehot = ca.Ensemble(ensemble.codes[first]).one_hot(np.float32)
        self.counts = (onehot @ onehot.T).toarray().astype(np.uint8)
        height = tree.linkage_[tree.n_leaves_ - K - 1, 2]
        level = round((1.0 - height) * P)
        self.none, self.all = tree.cut(height=height - 1e-9), tree.cut(height=height + 1e-9)
        self.n_blocks = int(self.none.max()) + 1
        member = np.zeros((len(first), self.n_blocks), np.float32)
        member[np.arange(len(first)), self.none[first]] = 1.0
        items = member * tree.leaf_sizes_[:, None].astype(np.float32)
        links = np.triu(items.T @ ((self.counts == level).astype(np.float32) @ items), 1)
        self.a, self.b = np.nonzero(links)
        self.n_pairs = links[self.a, self.b]  # pairs of items that tie, for each two blocks
        self.offsets = np.concatenate([[0], np.cumsum(ensemble.n_clusters)])
        self.alpha = np.zeros((self.offsets[-1], self.n_blocks))
        for j in range(P):
            np.add.at(self.alpha, (self.offsets[j] + ensemble.codes[:, j], self.none), 1.0)

    def random_order(self, rng: np.random.Generator) -> np.ndarray:
        """Label of each block when the tied pairs of items come in random order: the first of m comes at ~Exp(m)."""
        order = np.argsort(rng.exponential(size=len(self.a)) / self.n_pairs)
        return first_merges(self.n_blocks, self.a[order], self.b[order])

    def scores(self, of_block: np.ndarray) -> tuple[float, float]:
        """NMI and density in points, from the counts of blocks alone."""
        sums = np.zeros((self.n_blocks, of_block.max() + 1))
        sums[np.arange(self.n_blocks), of_block] = 1.0
        alpha, sizes = self.alpha @ sums, np.bincount(of_block, self.alpha.sum(axis=0) / P)
        pairs = np.maximum(sizes * (sizes - 1.0), 1.0)
        density = (sizes * (alpha * (alpha - 1.0)).sum(axis=0) / (P * pairs)).sum() / self.n
        of_base = np.add.reduceat(entropy_terms(alpha.sum(axis=1) / self.n), self.offsets[:-1])
        joint = np.add.reduceat(entropy_terms(alpha / self.n).sum(axis=1), self.offsets[:-1])
        both = entropy_terms(sizes / self.n).sum() + of_base
        return 100.0 * float(np.mean(2.0 * (both - joint) / both)), 100.0 * float(density)


def entropy_terms(share: np.ndarray) -> np.ndarray:
    return -share * np.log(np.where(share > 0.0, share, 1.0))


def first_merges(n: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Labels after joining a[0] b[0], a[1] b[1], … until K groups are left."""
    owner, left = list(range(n)), n

    def root(x: int) -> int:
        while owner[x] != x:
            owner[x] = x = owner[owner[x]]
        return x

    for x, y in zip(a.tolist(), b.tolist()):
        x, y = root(x), root(y)
        if x != y and left > K:
            owner[max(x, y)], left = min(x, y), left - 1
    return np.unique([root(x) for x in range(n)], return_inverse=True)[1]


def sklearn(distance: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Exactly K clusters of scikit-learn's single linkage on the rows in this order: the last merges undone."""
    model = AgglomerativeClustering(K, metric="precomputed", linkage="single")
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = model.fit(distance[np.ix_(order, order)]).labels_
    return labels


def unstable(distance: np.ndarray) -> np.ndarray:
    edges = minimum_spanning_tree(distance).tocoo()
    order = np.argsort(edges.data)
    return first_merges(len(distance), edges.row[order], edges.col[order])


def one_ensemble(ensemble: ca.Ensemble, classes: np.ndarray, rng: np.random.Generator) -> dict[str, tuple]:
    """Reading -> (NMI, density) in points; the orders of ties also by their lowest and highest NMI; facts."""
    ties = Ties(ensemble)
    distance = 1.0 - ties.counts / P  # different rows: none is 0, which SciPy's graphs would take for no edge
    np.fill_diagonal(distance, 0.0)
    tree = hierarchy.linkage(squareform(distance, checks=False), "single")
    rows = np.arange(len(distance))
    first = np.unique(ties.row, return_index=True)[1]
    labels = {
        "lowest": ties.tree.labels_,
        "scipy": hierarchy.cut_tree(tree, K)[ties.row, 0],
        "sklearn": sklearn(distance, rows)[ties.row],
        "shuffled": sklearn(distance, rng.permutation(rows))[ties.row],
        "by class": sklearn(distance, np.argsort(classes[first], kind="stable"))[ties.row],
        "unstable": unstable(distance)[ties.row],
        "all": ties.all,
        "none": ties.none,
    }
    found = {name: (100 * ca.ensemble_nmi(ensemble, x), 100 * ca.density(ensemble, x)) for name, x in labels.items()}
    orders = np.array([ties.scores(ties.random_order(rng)) for _ in range(ORDERS)])
    found["random"], found["one random order"] = tuple(orders.mean(axis=0)), tuple(orders[0])
    found["lowest order"], found["highest order"] = tuple(orders.min(axis=0)), tuple(orders.max(axis=0))
    found["blocks, clusters after"] = (ties.n_blocks, int(ties.all.max()) + 1)
    return found


def scores_of(name: str, n_ensembles: int, cache: Path | None) -> list[dict[str, tuple]]:
    data = load(name, scaling=dataset_info(name).scaling)
    rng = np.random.default_rng(0)
    classes = np.unique(data.y, return_inverse=True)[1]
    return [one_ensemble(base_ensemble(data, Protocol(), r, cache), classes, rng) for r in range(n_ensembles)]


def summary(rows: list[dict[str, tuple]]) -> dict:
    """Reading -> mean and standard deviation of (NMI, density) over ensembles, and the mean over the first 20."""
    found: dict = {"ensembles": len(rows)}
    for reading in rows[0]:
        values = np.array([row[reading] for row in rows])
        figures = {"mean": values.mean(axis=0), "sd": values.std(axis=0, ddof=1), "first 20": values[:20].mean(axis=0)}
        found[reading] = {what: figure.round(3).tolist() for what, figure in figures.items()}
    return found


def gaps(stored: dict, reading: str, score: int) -> tuple[np.ndarray, np.ndarray]:
    """Per set: points above the printed figure, and the same in standard errors of a mean of 20."""
    printed = paper_tables()[("nmi_hier", "density_hier")[score]]
    cells = [(stored[name][reading], stored[name]["ensembles"], printed[name]["R-SL"]) for name in stored]
    gap = np.array([cell["mean"][score] - figure for cell, _, figure in cells])
    if reading == "random":  # who prints a mean of 20 has drawn one order for each
        cells = [(stored[name]["one random order"], *cell[1:]) for name, cell in zip(stored, cells)]
    error = np.array([cell["sd"][score] * np.sqrt(1 / 20 + 1 / n) for cell, n, _ in cells])
    return gap, gap / error


def table() -> None:
    stored = json.loads(STORED.read_text())
    print("| reading | NMI: mean absolute gap | within 3 | beyond 2σ | largest", end="")
    print(" | density: mean absolute gap | within 3 | beyond 2σ | largest |\n|" + " --- |" * 9)
    for reading, words in READINGS.items():
        cells = []
        for score in (0, 1):
            gap, errors = gaps(stored, reading, score)
            worst = int(np.abs(gap).argmax())
            cells += [f"{np.abs(gap).mean():.1f}", f"{(np.abs(gap) <= 3).sum()}", f"{(np.abs(errors) > 2).sum()}"]
            cells += [f"{list(stored)[worst]} {gap[worst]:+.1f}"]
        print(f"| {words} | {' | '.join(cells)} |")
    print("\n| | " + " | ".join(stored) + " |\n|" + " --- |" * (len(stored) + 1))
    for score, what in enumerate(("NMI", "density")):
        line = [f"{paper_tables()[('nmi_hier', 'density_hier')[score]][name]['R-SL']:.1f}" for name in stored]
        print(f"| {what}, printed | {' | '.join(line)} |")
        for reading in (*READINGS, *SPREAD):
            _, errors = gaps(stored, reading, score)
            line = [f"{stored[name][reading]['mean'][score]:.1f} ({z:+.1f}σ)" for name, z in zip(stored, errors)]
            print(f"| {what}, {reading} | {' | '.join(line)} |")
    for row, values in {
        "ensembles": [str(stored[name]["ensembles"]) for name in stored],
        "sd between ensembles, lowest row": [f"{stored[name]['lowest']['sd'][0]:.1f}" for name in stored],
        "NMI, lowest row, first 20": [f"{stored[name]['lowest']['first 20'][0]:.1f}" for name in stored],
        "clusters before and after the tied merges": [
            "{:.1f} → {:.1f}".format(*stored[name]["blocks, clusters after"]["mean"]) for name in stored
        ],
    }.items():
        print(f"| {row} | {' | '.join(values)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("name")
    runs.add_argument("--ensembles", type=int, default=20)
    runs.add_argument("--cache", type=Path, default=Path("cache/ensembles"))
    commands.add_parser("table")
    args = parser.parse_args()
    if args.what == "run":
        found = summary(scores_of(args.name, args.ensembles, args.cache))
        stored = json.loads(STORED.read_text()) if STORED.exists() else {}
        STORED.write_text(json.dumps({**stored, args.name: found}, indent=1) + "\n")
    else:
        table()


if __name__ == "__main__":
    main()
