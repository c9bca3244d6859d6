"""Spectral consensus: time and memory of HBGF and LWGP, this version against another, and on a GPU.

    python -m benchmarks.spectral run --old <src folder of the other version> --out rows.jsonl
    python -m benchmarks.spectral table rows.jsonl
    python -m benchmarks.spectral gpu

`run` fits each shape in processes of their own, the two versions in turn; without `--old` this version alone. Every row
holds seconds (wall and CPU), peak memory and the density of the answer. `gpu` checks the CUDA engine against NumPy and
times items that lie on the GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from .generate import voronoi_ensemble
from .json_lines import append, read
from .markdown import table as markdown_table

# name -> items, partitions, clusters of the first and last partition, clusters of the consensus, runs by both versions
SHAPES = {
    "10^6 x 20, k = 20": (1_000_000, 20, (25, 100), 20, True),
    "10^5 x 20, k = 100": (100_000, 20, (25, 100), 100, True),
    "3 10^4 x 500, k = 20": (30_000, 500, (10, 35), 20, True),
    "10^5 x 20, d = 136 000": (100_000, 20, (6800, 6800), 20, False),
}
METHODS = ("HBGF", "LWGP")
HERE = Path(__file__).resolve().parent.parent / "src"

# fits in a process of its own, so that peak memory is that of one fit; works with either version
WORKER = """
import json, resource, sys, time
import numpy as np
import coassoc as ca
path, method, k, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
ensemble = ca.Ensemble(np.load(path))
getattr(ca, method)(2, n_init=1, random_state=0).fit(np.arange(60).reshape(-1, 2) % 5)  # imports
cpu, wall = time.process_time(), time.perf_counter()
model = getattr(ca, method)(k, random_state=seed).fit(ensemble)
row = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
row["d"], row["density"] = int(ensemble.n_codes), float(model.density_)
print(json.dumps(row))
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="fit and measure")
    one.add_argument("--old", type=Path, help="folder that holds the other version's package coassoc")
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--repeats", type=int, default=3)
    one.add_argument("--shapes", nargs="+", type=int, default=list(range(len(SHAPES))), help="positions of shapes")
    two = commands.add_parser("table", help="medians and ratios from the rows of a run")
    two.add_argument("rows", type=Path)
    three = commands.add_parser("gpu", help="equality with NumPy, and time, on one GPU")
    three.add_argument("--items", nargs="+", type=float, default=[1e8, 1e9])
    args = parser.parse_args(argv)
    return {"run": run, "table": table, "gpu": gpu}[args.command](args)


def run(args: argparse.Namespace) -> int:
    versions = {"new": HERE} if args.old is None else {"old": args.old, "new": HERE}
    with tempfile.TemporaryDirectory() as folder:
        for position in args.shapes:
            name, (n, p, clusters, k, both) = list(SHAPES.items())[position]
            path = Path(folder, "codes.npy")
            np.save(path, voronoi_ensemble(n, p, clusters))
            for repeat in range(args.repeats):
                for method in METHODS:
                    for version, source in versions.items():
                        if version == "old" and not both:
                            continue
                        environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
                        command = [sys.executable, "-c", WORKER, str(path), method, str(k), str(repeat)]
                        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                        row = {"shape": name, "method": method, "version": version, "repeat": repeat}
                        row.update(json.loads(done.stdout.splitlines()[-1]))
                        append(args.out, row)
                        print(json.dumps(row), flush=True)
    return 0


def table(args: argparse.Namespace) -> int:
    found: dict = defaultdict(lambda: defaultdict(list))
    for row in read(args.rows):
        found[row["shape"], row["method"]][row["version"]].append(row)
    head = ["shape", "method", "old, CPU s", "new, CPU s", "times as fast"]
    head += ["new, peak MB", "density old", "density new"]
    lines = []
    for (shape, method), by in found.items():
        middle = {
            version: {key: float(np.median([row[key] for row in rows])) for key in ("cpu", "peak_mb", "density")}
            for version, rows in by.items()
        }
        new, old = middle["new"], middle.get("old")
        before = f"{old['cpu']:.2f}" if old else "–"
        ratio = f"{old['cpu'] / new['cpu']:.1f}" if old else "–"
        dense = f"{old['density']:.4f}" if old else "–"
        figures = (f"{new['cpu']:.2f}", ratio, f"{new['peak_mb']:.0f}", dense, f"{new['density']:.4f}")
        lines.append((shape, method, before, *figures))
    print(markdown_table(head, lines))
    return 0


def gpu(args: argparse.Namespace) -> int:
    import cupy as cp

    import coassoc as ca

    rng = np.random.default_rng(0)
    for case in range(12):
        n, p, k = int(rng.integers(1, 20_000)), int(rng.integers(1, 12)), int(rng.choice([2, 5, 40, 300]))
        ensemble = ca.Ensemble(rng.integers(-1 if case % 2 else 0, k, size=(n, p)))
        copies, weights = rng.integers(0, 4, size=n) if case % 3 else None, rng.random(ensemble.n_codes)
        ours = ca.engines.Cuda(stream=case % 4 == 3).load(ensemble, copies)
        theirs = ca.engines.Numpy().load(ensemble, copies)
        assert (ours.overlap() == theirs.overlap()).all()
        assert (ours.weighted_overlap(weights) == theirs.weighted_overlap(weights)).all()
    print("overlaps equal those of the NumPy engine on 12 ensembles")
    host = ca.Ensemble(voronoi_ensemble(1_000_000))
    there = ca.Ensemble.from_codes(cp.asarray(host.codes), host.n_clusters)
    for name in METHODS:
        on_gpu = getattr(ca, name)(20, random_state=0, engine=ca.engines.Cuda()).fit(there).labels_
        on_host = getattr(ca, name)(20, random_state=0, engine="numpy").fit(host).labels_
        assert isinstance(on_gpu, cp.ndarray) and (cp.asnumpy(on_gpu) == on_host).all()
        print(f"{name}: labels of a million items equal those of the NumPy engine")
    for n in args.items:
        codes, sizes = codes_on_gpu(cp, int(n))
        ensemble = ca.Ensemble.from_codes(codes, sizes)
        for name in METHODS:
            for _ in range(2):
                start = time.perf_counter()
                model = getattr(ca, name)(20, random_state=0, engine=ca.engines.Cuda()).fit(ensemble)
                cp.cuda.Device().synchronize()
                print(f"{name}, {n:.0e} items: {time.perf_counter() - start:.3f} s, {model.n_iter_} passes")
        del codes, ensemble, model
        cp.get_default_memory_pool().free_all_blocks()
    return 0


def codes_on_gpu(cp, n: int, p: int = 20) -> tuple:
    """What `voronoi_ensemble` makes, on the GPU."""
    host, rng = np.random.default_rng(0), cp.random.default_rng(0)
    blobs = cp.asarray(host.normal(size=(30, 8)).astype(np.float32))
    sizes = np.rint(np.linspace(25, 100, p)).astype(int)
    centres = [
        blobs[host.integers(30, size=k)] + cp.asarray(0.45 * host.normal(size=(k, 8)), cp.float32) for k in sizes
    ]
    codes, step = cp.empty((n, p), cp.uint8), 1 << 21
    for start in range(0, n, step):
        m = min(step, n - start)
        X = blobs[rng.integers(0, 30, m)] + 0.45 * rng.standard_normal((m, 8), dtype=cp.float32)
        for j, c in enumerate(centres):
            codes[start : start + m, j] = (X @ (2 * c.T) - (c * c).sum(axis=1)).argmax(axis=1)
    return codes, sizes


if __name__ == "__main__":
    sys.exit(main())
