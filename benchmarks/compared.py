"""The compared methods on the paper's protocol: mean ensemble NMI beside the printed columns, as Markdown.

    COASSOC_DATA=<folder of the data files> python -m benchmarks.compared --repeats 20

Raw features, 20 k-means partitions per ensemble (10 restarts, k uniform in [classes, √n]), 20 consensus clusters.
Ensembles are kept under --cache and made when absent. Methods with random starts run three times per ensemble.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import coassoc as ca

from .datasets import load
from .markdown import table
from .paper.protocol import Protocol, base_ensemble

SETS = ("glass", "ecoli", "ionosphere", "user_knowledge", "breastcancer")
K = 20

# column -> (printed NMI per set, tolerance in points)
PRINTED = {
    "SEC": ((77.39, 79.74, 71.72, 76.33, 70.13), 1.5),
    "CSPA": ((61.03, 71.23, 58.64, 55.84, 60.91), 1.5),
    "R-AL": ((81.67, 82.61, 76.47, 77.89, 77.76), 1.5),
    "R-ML": ((81.22, 81.78, 74.18, 77.34, 76.86), 1.5),
    "E-AL": ((84.01, 82.62, 76.19, 76.83, 73.20), 1.5),
    "E-ML": ((83.48, 82.23, 75.66, 77.02, 74.10), 1.5),
    "MCLA": ((84.30, 80.91, 74.14, 74.50, 74.87), 3.0),
    "ECC": ((76.86, 79.15, 69.47, 74.31, 72.46), 3.0),
    "R-SL": ((83.07, 80.68, 71.94, 69.66, 67.29), 3.0),
    "E-SL": ((84.00, 76.90, 73.52, 67.27, 65.12), 3.0),
}
# (start, smoothing) of ECC, which the text does not give; the first is taken for the column
_FLOOR, _ADDED = {"smoothing": "floor", "epsilon": 1e-2}, {"smoothing": "additive", "epsilon": 1e-3}
ECC_READINGS = [
    ("different rows", _FLOOR),
    ("different rows", _ADDED),
    ("items", _FLOOR),
    ("items", {"smoothing": "floor", "epsilon": 1e-6}),
    ("labels", _ADDED),
    ("labels", {"smoothing": "floor", "epsilon": 1e-3}),
    ("ten k-means++", _ADDED),
]
ECC_DENSITY = (94.6, 79.7, 85.7, 75.1, 82.3)  # printed
_LINKAGE = {"SL": "single", "AL": "average", "ML": "complete"}


def ecc(start: str, smoothing: dict, ensemble, seed: int) -> ca.ECC:
    """ECC from K different label rows or K items drawn at random, random labels, or ten k-means++ starts."""
    codes, rng = ensemble.codes, np.random.default_rng(seed)
    init: str | np.ndarray = {"items": "random", "ten k-means++": "k-means++"}.get(start, "")
    if start == "labels":
        init = rng.integers(K, size=ensemble.n_samples)
    elif start == "different rows":  # every item with the one it shares most labels with, as the first pass would
        rows = np.sort(np.unique(codes, axis=0, return_index=True)[1])
        seeds = codes[rng.choice(rows, K, replace=False)]
        shared = [(codes[:, j, None] == seeds[None, :, j]).astype(int) for j in range(ensemble.n_partitions)]
        init = np.sum(shared, axis=0).argmax(axis=1)
    return ca.ECC(K, init=init, n_init=10 if start == "ten k-means++" else 1, random_state=seed, **smoothing)


def estimator(column: str, ensemble, seed: int):
    """The reading of the paper's method that fits its figures."""
    if column == "SEC":
        return ca.SEC(K, init="random", n_init=1, random_state=seed)
    if column == "ECC":
        return ecc(*ECC_READINGS[0], ensemble, seed)
    if column == "MCLA":
        return ca.MCLA(K, at_most=True, random_state=seed)
    if column == "CSPA":
        return ca.CSPA(K, random_state=seed)
    return ca.EAC(K, linkage=_LINKAGE[column[2:]], enhanced=column[0] == "E")


def scores(ensemble, repeat: int) -> dict[str, list[float]]:
    """NMI points of every column on one ensemble, and of what the docs compare with them."""
    found: dict[str, list[float]] = {}
    for column in PRINTED:
        for start in range(3 if column in ("SEC", "ECC") else 1):
            labels = estimator(column, ensemble, 1000 * start + repeat).fit(ensemble).labels_
            found.setdefault(column, []).append(100 * ca.ensemble_nmi(ensemble, labels))
    micro = ca.EAC(K, micro_clusters=100, random_state=repeat).fit(ensemble).labels_
    found["micro"] = [100 * ca.ensemble_nmi(ensemble, micro)]
    found["SEC k-means++"] = [100 * ca.ensemble_nmi(ensemble, ca.SEC(K, random_state=repeat).fit(ensemble).labels_)]
    for number, (start, smoothing) in enumerate(ECC_READINGS):
        models = [ecc(start, smoothing, ensemble, 1000 * run + repeat).fit(ensemble) for run in range(3)]
        found[f"ECC {number}"] = [100 * ca.ensemble_nmi(ensemble, model.labels_) for model in models]
        found[f"ECC {number}, density"] = [100 * model.density_ for model in models]
    return found


def run(repeats: int, cache: Path | None) -> dict[str, dict[str, np.ndarray]]:
    """Set -> column -> one mean per ensemble."""
    result: dict[str, dict[str, np.ndarray]] = {}
    for name in SETS:
        data = load(name, scaling="raw")
        rows = [scores(base_ensemble(data, Protocol(), repeat, cache), repeat) for repeat in range(repeats)]
        result[name] = {column: np.array([np.mean(row[column]) for row in rows]) for column in rows[0]}
    return result


def gap(result, column: str, name: str) -> float:
    """Points above the printed figure."""
    return float(result[name][column].mean()) - PRINTED[column][0][SETS.index(name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--cache", type=Path, default=Path("cache/ensembles"))
    args = parser.parse_args()
    result = run(args.repeats, args.cache)
    lines = []
    for column, (printed, tolerance) in PRINTED.items():
        cells = []
        for name, figure in zip(SETS, printed):
            miss = gap(result, column, name)
            mark = "**" if abs(miss) > tolerance else ""
            cells.append(f"{figure + miss:.1f} ({mark}{miss:+.1f}{mark})")
        lines.append([column, *cells])
    lines.append(["SEC k-means++", *(f"{result[name]['SEC k-means++'].mean():.1f}" for name in SETS)])
    for number, (start, smoothing) in enumerate(ECC_READINGS):
        cells = []
        for name, nmi, density in zip(SETS, PRINTED["ECC"][0], ECC_DENSITY):
            found, dense = (result[name][f"ECC {number}{score}"].mean() for score in ("", ", density"))
            cells.append(f"{found:.1f} ({found - nmi:+.1f}; {dense - density:+.1f})")
        lines.append([f"ECC, {start}, {' '.join(map(str, smoothing.values()))}", *cells])
    micro = [f"{(result[n]['micro'] - result[n]['R-AL']).mean():+.2f}" for n in SETS]
    print(table(["column", *SETS], [*lines, ["micro − exact average linkage", *micro]]))


if __name__ == "__main__":
    main()
