"""Speed, memory and quality of our fits beside scikit-learn and faiss, on the same data in the same run.

    python -m benchmarks.speed --sizes 10000 --rounds 3
    python -m benchmarks.speed --sizes 300000 1000000 --methods coassoc coassoc-avx2 sklearn-sparse -o folder
    python -m benchmarks.speed --sizes 300000 -p 8 --cells 2 8 -k 8 --starts 10
    python -m benchmarks.speed --growth 200000 1000000 10000000 --methods -o folder

Every measurement runs in its own process, so that peak memory is that of one method. Methods take turns, so that other
load on the machine affects all of them. Reported figures are ratios of medians, with loss and density beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import coassoc as ca
from coassoc.cli.common import positive
from coassoc.core.objectives import KMeansObjective, fix_table
from coassoc.engines import Native, Numpy, resolve

from .generate import voronoi_ensemble
from .measure import Meter, in_own_process, machine

# last words of the names of our methods, by engine
_ENGINES: dict[str, Callable[[], Any]] = {
    "avx2": lambda: Native(simd="avx2"),
    "baseline": lambda: Native(simd="baseline"),
    "nocopy": lambda: Native(blocked_copy=False),
    "numpy": Numpy,
}
METHODS = (
    "coassoc", *(f"coassoc-{name}" for name in _ENGINES), "sklearn-sparse", "sklearn-dense", "faiss-dense",
    "coassoc-bisecting", "coassoc-bisecting-loss", "coassoc-bisecting-size", "sklearn-bisecting",
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("--sizes", type=positive, nargs="*", default=[20000], help="numbers of items (default: 20000)")
    option("--growth", type=positive, nargs="*", default=[], help="sizes for the growth of time per pass")
    option("-m", "--method", "--methods", dest="methods", nargs="*", choices=METHODS,
           default=["coassoc", "sklearn-sparse"],
           help="what to time (default: coassoc sklearn-sparse)")  # fmt: skip
    option("-p", "--partitions", type=positive, default=20, help="base partitions (default: 20)")
    option("-k", "--clusters", type=positive, default=20, help="clusters of the consensus (default: 20)")
    option("--rounds", type=positive, default=5, help="seeds, each method once per seed (default: 5)")
    option("--fits", type=positive, default=1, metavar="N",
           help="fits in each process, of which the median counts (default: 1)")  # fmt: skip
    option("--starts", type=positive, default=1, help="starts of every fit (default: 1)")
    option("--cells", type=positive, nargs=2, default=[25, 100], metavar=("FIRST", "LAST"),
           help="clusters of the first and of the last base partition; few clusters give many equal rows "
           "(default: 25 100)")  # fmt: skip
    option("--spread", type=float, default=0.45, help="overlap of the blobs: more needs more passes")
    option("-o", "--output", type=Path, default=None, help="folder for speed.json and speed.md")
    args = parser.parse_args(argv)
    report: dict[str, Any] = {"machine": machine(), "options": vars(args) | {"output": None}}
    report["runs"] = [row for n in args.sizes if args.methods for row in measure(n, args)]
    report["growth"] = [row for n in args.growth for row in measure(n, args, growth=True)]
    print(table(report))
    if args.output is not None:
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "speed.json").write_text(json.dumps(report, indent=1, default=str), encoding="utf-8")
        (args.output / "speed.md").write_text(table(report), encoding="utf-8")
    return 0


# -- measuring ---------------------------------------------------------------------------------------------------


def measure(n: int, args: argparse.Namespace, growth: bool = False) -> list[dict[str, Any]]:
    """One row per method and seed on one ensemble of `n` items.

    With `growth`, one fit with and without the blocked copy, and the time of a cold pass.
    """
    base = voronoi_ensemble(min(n, 1_000_000), args.partitions, tuple(args.cells), spread=args.spread, seed=1)
    if n > len(base):  # rows drawn again from the first million
        base = base[np.random.default_rng(2).integers(len(base), size=n)]
    methods, rounds = (("coassoc", "coassoc-nocopy"), 1) if growth else (args.methods, args.rounds)
    settings = {"k": args.clusters, "fits": 1 if growth else args.fits, "starts": 1 if growth else args.starts}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npy"
        np.save(path, base)
        for seed in range(rounds):
            for method in methods:
                task = {"method": method, "path": str(path), "seed": seed, "cold_pass": growth, **settings}
                figures, error = in_own_process("benchmarks.speed", "--one-fit", json.dumps(task))
                rows.append({"n": n, "method": method, "seed": seed, **(figures or {"error": error})})
                print(f"  n={n} {method} seed {seed}: {figures.get('seconds', error)}", file=sys.stderr)
    return rows


def measure_one(method: str, path: str, k: int, seed: int, fits: int, starts: int, cold_pass: bool) -> dict[str, Any]:
    """Fit one method on one file of codes, in a process of its own."""
    ensemble = ca.Ensemble(np.load(path))
    # a first fit on a few rows loads imports and starts threads
    _prepare(method, ca.Ensemble(ensemble.codes[:1000]), k, seed, 1)()
    fit = _prepare(method, ensemble, k, seed, starts)
    with Meter() as meter:
        labels, n_iter = fit()
    seconds = [meter.seconds]
    while len(seconds) < fits:  # the first fit also allocates memory
        start = time.perf_counter()
        fit()
        seconds.append(time.perf_counter() - start)
    row = {
        "seconds": statistics.median(seconds),
        "peak_mb": meter.extra_mib * 1.048576,
        "codes_mb": ensemble.codes.nbytes / 1e6,
        "n_iter": n_iter,
        "loss": ca.kmeans_loss(ensemble, labels),
        "density": ca.density(ensemble, labels),
    }
    return row | ({"pass_seconds": _cold_pass(method, ensemble, labels, k)} if cold_pass else {})


def _prepare(method: str, ensemble: Any, k: int, seed: int, n_init: int) -> Callable[[], tuple[np.ndarray, int]]:
    """A function that runs the fit to be timed; its input is prepared here."""
    program, *words = method.split("-")
    if program == "faiss":
        import faiss

        dense = np.ascontiguousarray(ensemble.one_hot(np.float32).toarray())
        means = faiss.Kmeans(dense.shape[1], k, niter=25, nredo=n_init, seed=seed, max_points_per_centroid=len(dense))

        def faiss_fit():
            means.train(dense)
            return means.index.search(dense, 1)[1].ravel(), 25

        return faiss_fit
    settings = {"n_init": n_init, "random_state": seed}
    if program == "coassoc":
        settings["engine"] = _engine(method)
        if "bisecting" in words:
            model = ca.BisectingConsensus(k, criterion=words[1] if words[1:] else "gain", **settings)
        else:
            model = ca.KMeansConsensus(k, **settings)
        X = ensemble
    else:
        from sklearn.cluster import BisectingKMeans, KMeans

        model = (BisectingKMeans if "bisecting" in words else KMeans)(k, **settings)
        X = ensemble.one_hot(np.float64)
        X = X.toarray() if "dense" in words else X
    return lambda: (model.fit(X).labels_, getattr(model, "n_iter_", 0))


def _engine(method: str) -> Any:
    """Made before the fit, so that this is not timed."""
    return _ENGINES.get(method.rpartition("-")[2], lambda: resolve("auto"))()


def _cold_pass(method: str, ensemble: Any, labels: np.ndarray, k: int) -> float:
    """Median time of one assignment and counting pass that does not use results of earlier passes."""
    rows = resolve(_engine(method), ensemble).load(ensemble)
    counts = rows.counts(rows.labelling(k, labels))
    table = fix_table(KMeansObjective(np.ones(ensemble.n_partitions)).table(counts), rows.layout)
    times = []
    for _ in range(5):
        labelling = rows.labelling(k)
        start = time.perf_counter()
        rows.assign(labelling, table)
        rows.counts(labelling)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# -- reporting ---------------------------------------------------------------------------------------------------


def slope(rows: list[dict[str, Any]], key: str, method: str = "coassoc", smallest: int = 200_000) -> float | None:
    """Slope of log(time) on log(n) from `smallest` on."""
    points = [(r["n"], r[key]) for r in rows if r["method"] == method and r["n"] >= smallest and key in r]
    if len(points) < 2:
        return None
    x, y = np.log(np.array(points, dtype=np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["# Speed, side by side", "", f"{report['machine']}", ""]
    runs = report["runs"]
    for n in sorted({r["n"] for r in runs}):
        here = [r for r in runs if r["n"] == n]
        lines += [
            f"## n = {n}",
            "",
            "| method | seconds | slower than ours | peak MB beyond input | mean loss | loss / ours | S |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for method in dict.fromkeys(r["method"] for r in here):
            mine = [r for r in here if r["method"] == method and "seconds" in r]
            if not mine:
                why = next(r["error"] for r in here if r["method"] == method)
                lines.append(f"| {method} | — | {why} | | | | |")
                continue
            reference = "coassoc-bisecting" if method == "sklearn-bisecting" else "coassoc"
            ours = [r for r in here if r["method"] == reference and "seconds" in r] or mine
            seconds = statistics.median(r["seconds"] for r in mine)
            ratio = seconds / statistics.median(r["seconds"] for r in ours)
            loss = statistics.fmean(r["loss"] for r in mine)
            lines.append(
                f"| {method} | {seconds:.3g} | {float(f'{ratio:.3g}'):,g}x | {max(r['peak_mb'] for r in mine):.0f} | "
                f"{loss:.6g} | {loss / statistics.fmean(r['loss'] for r in ours):.5f} | "
                f"{100 * statistics.fmean(r['density'] for r in mine):.2f} |"
            )
        lines.append("")
    if report["growth"]:
        lines += ["## Growth with n", "", "| n | method | cold pass s | fit s | passes | MB beyond codes / MB codes |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        lines += [
            f"| {r['n']} | {r['method']} | {r['pass_seconds']:.4g} | {r['seconds']:.4g} | {r['n_iter']} | "
            f"{r['peak_mb'] / r['codes_mb']:.2f} |"
            for r in report["growth"]
        ]
        lines += ["", f"slope of a cold pass in log n: {slope(report['growth'], 'pass_seconds') or np.nan:.2f}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one-fit"]:
        print(json.dumps(measure_one(**json.loads(sys.argv[2]))))
    else:
        sys.exit(main())
