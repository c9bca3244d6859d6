"""Speed of our fits and of alternatives, on the same data in the same run.

Every measurement runs in its own process, so that peak memory is that of one method. Methods take turns, so that other
load on the machine affects all of them. Reported figures are ratios of medians, with loss and density beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from .synthetic import voronoi_ensemble

METHODS = {
    "coassoc": "KMeansConsensus, with as many starts as all others",
    "coassoc-avx2": "the same, AVX2 kernels forced",
    "coassoc-baseline": "the same, plain kernels forced",
    "coassoc-nocopy": "the same without the blocked copy",
    "coassoc-numpy": "the same on the Numpy engine",
    "sklearn-sparse": "sklearn KMeans on sparse H",
    "sklearn-dense": "sklearn KMeans on dense H",
    "faiss-dense": "faiss.Kmeans on dense H, 25 iterations, all points",
    "coassoc-bisecting": "BisectingConsensus",
    "coassoc-bisecting-loss": 'BisectingConsensus(criterion="loss"), the rule of scikit-learn',
    "coassoc-bisecting-size": 'BisectingConsensus(criterion="size")',
    "sklearn-bisecting": "sklearn BisectingKMeans on sparse H",
}


def compare(n: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per method and seed on one ensemble of `n` items."""
    if not args.methods:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npy"
        np.save(path, _codes(n, args))
        rows = []
        for seed in range(args.rounds):
            for method in args.methods:
                flags = ["--fits", str(args.fits), "--starts", str(args.starts)]
                row = {"n": n, "method": method, "seed": seed} | _measure(method, path, args.clusters, seed, *flags)
                rows.append(row)
                print(f"  n={n} {method} seed {seed}: {row.get('seconds', row.get('error'))}", file=sys.stderr)
        return rows


def growth(sizes: list[int], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Time of a cold pass, of a whole fit and memory beyond the codes, for growing n."""
    rows = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "codes.npy"
            np.save(path, _codes(n, args))
            for method in ("coassoc", "coassoc-nocopy"):
                rows.append({"n": n, "method": method} | _measure(method, path, args.clusters, 0, "--pass"))
                print(f"  growth n={n} {method}: {rows[-1]}", file=sys.stderr)
    return rows


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
        ]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
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


def machine() -> str:
    """The machine the figures were measured on, as text."""
    cpu = "unknown CPU"
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{cpu}, {os.cpu_count()} cores, load {load:.1f} at the start, {time.strftime('%Y-%m-%d')}"


def _codes(n: int, args: argparse.Namespace) -> np.ndarray:
    """Codes of `n` items; beyond a million, rows drawn again from the first million."""
    base = voronoi_ensemble(min(n, 1_000_000), args.partitions, tuple(args.cells), spread=args.spread, seed=1)
    if n <= len(base):
        return base
    return base[np.random.default_rng(2).integers(len(base), size=n)]


def _measure(method: str, path: Path, k: int, seed: int, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "coassoc.experiments.speed_worker", method, str(path), str(k), str(seed), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return {"error": last}
    return json.loads(done.stdout.strip().splitlines()[-1])
