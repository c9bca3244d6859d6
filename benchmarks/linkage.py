"""Exact EAC against SciPy's linkage on the full matrix, and EAC over micro-clusters against KMeansConsensus.

    python -m benchmarks.linkage exact    # n = 10 000: time and peak memory, with rows that repeat and that do not
    python -m benchmarks.linkage exact --way numpy --kinds distinct --linkages single    # as if nothing were compiled
    python -m benchmarks.linkage micro    # a million items, as a multiple of KMeansConsensus

Every measurement runs in a process of its own; SciPy and EAC take turns. SciPy's time includes building the matrix,
by a sparse product of the one-hot matrix in float32, the quickest way found.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys

import numpy as np

from .measure import Meter, in_own_process


def table(kind: str, n: int, p: int = 20, k: int = 60, seed: int = 0) -> np.ndarray:
    """Labels (n, p): `distinct` rows are all different, `noisy` rows repeat as they will, `repeated` ones often."""
    rng = np.random.default_rng(seed)
    if kind == "distinct":
        return rng.integers(0, k, (n, p), dtype=np.uint8)
    truth = rng.integers(k, size=n)
    labels = np.stack([np.where(rng.random(n) < 0.05, rng.integers(k, size=n), truth) for _ in range(p)], axis=1)
    if kind == "repeated":
        labels = labels[rng.integers(n // 4, size=n)]
    return labels.astype(np.uint8)


def run_eac(codes: np.ndarray, linkage: str) -> dict:
    import coassoc as ca

    model = ca.EAC(20, linkage=linkage, max_bytes=1 << 34).fit(codes)
    return {"leaves": model.n_leaves_, "ties": model.n_ties_}


def run_scipy(codes: np.ndarray, linkage: str) -> dict:
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    import coassoc as ca

    onehot = ca.Ensemble(codes).one_hot(np.float32)
    distance = (onehot @ onehot.T).toarray()
    distance /= -codes.shape[1]
    distance += 1.0
    np.fill_diagonal(distance, 0.0)
    condensed = squareform(distance, checks=False)
    del distance
    return {"merges": len(hierarchy.linkage(condensed, linkage))}


def run_model(codes: np.ndarray, way: str) -> dict:
    import coassoc as ca

    starts = {"kmeans": 10, "kmeans1": 1}
    model = ca.KMeansConsensus(20, n_init=starts[way]) if way in starts else ca.EAC(20, micro_clusters=100)
    model.set_params(random_state=0).fit(codes)
    return {"nmi": ca.ensemble_nmi(codes, model.labels_), "density": model.density_}


def run(way: str, codes: np.ndarray, linkage: str) -> dict:
    """The facts of one run; "numpy" is "eac" without the compiled kernels, see `one`."""
    if way in ("eac", "numpy"):
        return run_eac(codes, linkage)
    return run_scipy(codes, linkage) if way == "scipy" else run_model(codes, way)


def measure(way: str, kind: str, n: int, linkage: str) -> dict:
    """One run in a fresh process: seconds, and the peak memory above what the imports and the table hold."""
    figures, error = in_own_process("benchmarks.linkage", "one", way, kind, str(n), linkage)
    if error:
        raise SystemExit(error)
    return figures


def one(way: str, kind: str, n: int, linkage: str) -> None:
    if way == "numpy":
        sys.modules["coassoc._kernels"] = None  # type: ignore[assignment]  # its import now fails
    codes = table(kind, n)
    run(way, codes[:200].copy(), linkage)  # load what is loaded lazily
    with Meter() as meter:
        facts = run(way, codes, linkage)
    print(json.dumps({"seconds": meter.seconds, "peak_mb": meter.extra_mib * 1.048576, **facts}))


def exact(n: int, repeats: int, way: str, kinds: list[str], linkages: list[str]) -> None:
    print(f"n = {n}, 20 partitions; medians of {repeats}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(f"{'rows':10}{'linkage':10}{'leaves':>8}{'EAC s':>8}{'SciPy s':>9}{'ratio':>7}{'EAC MB':>9}{'SciPy MB':>10}")
    for kind in kinds:
        for linkage in linkages:
            ours, theirs = [], []
            for _ in range(repeats):  # turn by turn, so that a busy moment hits both
                ours.append(measure(way, kind, n, linkage))
                theirs.append(measure("scipy", kind, n, linkage))
            a, b = (statistics.median(r["seconds"] for r in runs) for runs in (ours, theirs))
            print(
                f"{kind:10}{linkage:10}{ours[0]['leaves']:8}{a:8.2f}{b:9.2f}{a / b:7.2f}"
                f"{ours[0]['peak_mb']:9.0f}{theirs[0]['peak_mb']:10.0f}",
                flush=True,
            )


def micro(n: int, repeats: int) -> None:
    print(f"n = {n}, 20 partitions; medians of {repeats}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    ways = ("micro", "kmeans", "kmeans1")
    for kind in ("noisy", "distinct"):
        runs = [[measure(way, kind, n, "average") for way in ways] for _ in range(repeats)]
        times = [statistics.median(run[i]["seconds"] for run in runs) for i in range(3)]
        print(
            f"{kind}: EAC(micro_clusters=100) {times[0]:.2f} s; KMeansConsensus with 10 starts {times[1]:.2f} s "
            f"(ratio {times[0] / times[1]:.2f}), with 1 start {times[2]:.2f} s (ratio {times[0] / times[2]:.2f}); "
            f"ensemble NMI {runs[0][0]['nmi']:.4f}, {runs[0][1]['nmi']:.4f}, {runs[0][2]['nmi']:.4f}",
            flush=True,
        )


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        way, kind, n, linkage = sys.argv[2:]
        one(way, kind, int(n), linkage)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("exact", "micro"))
    parser.add_argument("-n", type=int, help="items (default: 10 000 exact, 1 000 000 micro)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--way", choices=("eac", "numpy"), default="eac", help="exact: with or without kernels")
    parser.add_argument("--kinds", nargs="+", default=["distinct", "noisy", "repeated"])
    parser.add_argument("--linkages", nargs="+", default=["single", "average", "complete"])
    args = parser.parse_args()
    if args.what == "exact":
        exact(args.n or 10_000, args.repeats, args.way, args.kinds, args.linkages)
    else:
        micro(args.n or 1_000_000, args.repeats)


if __name__ == "__main__":
    main()
