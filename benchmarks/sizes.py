"""Every method on every engine: the largest size tried, its time and its peak memory; and what the reduction costs.

    python -m benchmarks.sizes run codes.npy --engines native stream dask --methods lwgp agreement --out rows.jsonl
    python -m benchmarks.sizes table docs/results/sizes.jsonl
    python -m benchmarks.sizes reduced --out rows.jsonl
    python -m benchmarks.sizes samples

`run` fits in processes of their own (k = 20, otherwise as a user would call it) and appends one JSON row each: seconds,
CPU seconds and peak resident memory, mapped files included, of the process and, on Dask, of its two workers together.
Make `codes.npy` with ``python -m benchmarks.scale generate``. `table` prints the table of the page on scale, the
largest size of each method and engine. `reduced` fits with and without the reduction where both are possible; a sample
of AgreementConsensus and of DensityConsensus is a fifth of the items there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from .datasets import DatasetUnavailable, list_datasets, load
from .generate import voronoi_ensemble
from .json_lines import append, read
from .markdown import table as markdown_table
from .measure import in_own_process
from .paper.protocol import features

K = 20
METHODS = {
    "kmeans": "KMeansConsensus(20, n_init=10)",
    "bisecting": "BisectingConsensus(20)",
    "sec": "SEC(20)",
    "ecc": "ECC(20)",
    "density": "DensityConsensus(20)",
    "agreement": "AgreementConsensus(20)",
    "hbgf": "HBGF(20)",
    "lwgp": "LWGP(20)",
    "ecpcs": "ECPCS(20)",
    "lwea": "LWEA(20)",
    "eac": "EAC(20)",
    "eac-single": 'EAC(20, linkage="single")',
    "eac-complete": 'EAC(20, linkage="complete")',
    "mcla": "MCLA(20)",
    "cspa": "CSPA(20)",
    "auto": "Consensus(20)",
    "select_k": "select_k(X, range(2, 31))",
    "stability": "item_consensus, cluster_recovery",
}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worker(args: argparse.Namespace) -> int:
    """One fit in this process; prints a row."""
    import coassoc as ca

    with ExitStack() as stack:
        client = None
        if args.engine == "dask":
            from distributed import Client

            from coassoc.engines.cluster import local_cluster

            client = stack.enter_context(Client(stack.enter_context(local_cluster(2))))
            engine = ca.engines.Dask(client)
        else:
            engine = ca.engines.Stream(args.memory) if args.engine == "stream" else ca.engines.Native()
        table = args.path if args.engine != "native" else np.load(args.path)
        small = np.load(args.path, mmap_mode="r")[:2000]
        one(ca, args.method, np.array(small), "native")  # imports
        cpu, wall = time.process_time(), time.perf_counter()
        found = one(ca, args.method, table, engine)
        row = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak_mb": peak_mb()}
        if client is not None:
            row["workers_mb"] = sum(client.run(peak_mb).values())
    row["rows"], row["reduced_to"] = len(np.load(args.path, mmap_mode="r")), found
    print(json.dumps(row))
    return 0


def one(ca, method: str, table, engine) -> int | None:
    """Run a method; the number of micro-clusters or sampled items that it reduced the items to, if it did."""
    if method == "select_k":
        ca.select_k(ca.Ensemble(table), range(2, 31), random_state=0, engine=engine)
        return 300
    if method == "stability":
        ensemble = ca.Ensemble(table)
        labels = np.arange(ensemble.n_samples) % K
        ca.item_consensus(ensemble, labels, engine=engine)
        ca.cluster_recovery(ensemble, labels, engine=engine)
        return None
    model = eval("ca." + METHODS[method], {"ca": ca}).set_params(random_state=0, engine=engine).fit(table)
    if method == "auto":
        return 300
    return getattr(model, "n_micro_clusters_", None) or getattr(model, "n_sampled_", None) or None


def run(args: argparse.Namespace) -> int:
    for engine in args.engines:
        for method in args.methods:
            words = ["worker", method, engine, str(Path(args.path).resolve()), "--memory", args.memory]
            row = {"method": method, "engine": engine, "memory": args.memory if engine == "stream" else None}
            figures, error = in_own_process("benchmarks.sizes", *words, timeout=args.timeout)
            row.update(figures or {"failed": error})
            row["load"] = round(os.getloadavg()[0], 1)
            append(args.out, row)
            print(json.dumps(row), flush=True)
    return 0


def table(args: argparse.Namespace) -> int:
    rows = read(args.rows)
    print(sizes_table(rows), reduced_table(rows), sep="\n\n")
    return 0


def sizes_table(rows: list[dict]) -> str:
    """The largest size of each method and engine, from the rows of `run`."""
    found: dict = {}
    for row in rows:
        key = row.get("method"), row.get("engine")
        if "failed" not in row and None not in key and row["rows"] >= found.get(key, row)["rows"]:
            found[key] = row
    lines = []
    order = {name: position for position, name in enumerate(METHODS)}
    for (method, engine), row in sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1])):
        memory = "–" if row.get("peak_mb") is None else f"{row['peak_mb']:.0f}"
        if "workers_mb" in row:
            memory += f" + {row['workers_mb']:.0f}"
        name = f'{engine}, "{row["memory"]}"' if row.get("memory") else engine
        cpu = "–" if row.get("cpu") is None or engine == "dask" else f"{row['cpu']:.1f}"
        reduced = row.get("reduced_to")
        what = "all" if reduced is None or reduced >= row["rows"] else f"{reduced:,}"
        cells = f"`{METHODS[method]}`", name, power(row["rows"]), f"{row['seconds']:.3g}", cpu, memory, what
        lines.append(cells)
    return markdown_table(("call", "engine", "items", "seconds", "CPU seconds", "peak MB", "fitted on"), lines)


def reduced_table(rows: list[dict]) -> str:
    """What the reduction costs, from the rows of `reduced`: means over ensembles."""
    lines = []
    groups: dict = {}
    for row in rows:
        if "reduced" in row:
            groups.setdefault((row["reduced"], row["rows"]), []).append(row)
    for (method, n), of in sorted(groups.items(), key=lambda item: (list(METHODS).index(item[0][0]), item[0][1])):
        mean = {key: float(np.mean([row[key] for row in of])) for key in of[0] if isinstance(of[0][key], float)}
        scores = [f"{mean[f'{score}_reduced']:.4f}, {mean[f'{score}_whole']:.4f}" for score in ("agreement", "density")]
        cells = f"`{METHODS[method]}`", f"{n:,}", f"{of[0]['reduced_to']:,}", f"{mean['nmi_between']:.3f}", *scores
        lines.append(cells)
    head = ("call", "items", "fitted on", "NMI of the two", "mean NMI with the ensemble: reduced, whole", "density")
    return markdown_table(head, lines)


def power(n: int) -> str:
    exponent = len(str(n)) - 1
    return f"10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(c)] for c in str(exponent))}" if n == 10**exponent else str(n)


def reduced(args: argparse.Namespace) -> int:
    """Agreement of the answers with and without the reduction, and what each scores."""
    import coassoc as ca
    from coassoc.consensus import micro, search

    for n in args.items:
        for seed in range(args.repeats):
            ensemble = ca.Ensemble(voronoi_ensemble(n, seed=seed))
            for method in args.methods or ("density", "agreement", "eac", "eac-single", "eac-complete", "cspa"):
                fits = []
                for limit, max_bytes in ((0, 0), (10**9, 1 << 34)):
                    ca.AgreementConsensus._sampled_above = ca.DensityConsensus._sampled_above = limit
                    micro.SAMPLED_ABOVE, search._SAMPLE_ITEMS = limit, n // 5
                    model = eval("ca." + METHODS[method], {"ca": ca}).set_params(random_state=seed)
                    fits.append(
                        model.set_params(**{} if method in ("density", "agreement") else {"max_bytes": max_bytes}).fit(
                            ensemble
                        )
                    )
                less, whole = fits
                row = {"reduced": method, "rows": n, "seed": seed, "nmi_between": ca.nmi(less.labels_, whole.labels_)}
                for name, model in (("reduced", less), ("whole", whole)):
                    row[f"agreement_{name}"] = ca.ensemble_nmi(ensemble, model.labels_)
                    row[f"density_{name}"] = float(model.density_)
                row["reduced_to"] = getattr(less, "n_micro_clusters_", None) or less.n_sampled_
                append(args.out, row)
                print(json.dumps(row), flush=True)
    return 0


def samples(args: argparse.Namespace) -> int:
    """What samples cost DensityConsensus on public data sets: percent of the density of a search on all items."""
    import coassoc as ca
    from coassoc.consensus import search

    found, method = [], ca.DensityConsensus
    method._n_samples = args.number
    for info in list_datasets():
        try:
            data = load(info.name)
        except DatasetUnavailable:
            continue
        ensemble = ca.make_ensemble(features(data), 20, random_state=0)
        n, gains = ensemble.n_samples, []
        for k in sorted({data.n_classes, K}):
            if n < 200 * k:
                continue  # a sample has 100 items for each cluster
            for seed in range(4):
                densities = []
                for method._sampled_above, search._SAMPLE_ITEMS in ((10**9, n), (0, n // 5)):
                    densities.append(method(k, random_state=seed).fit(ensemble).density_)
                gains.append(100 * (densities[1] / densities[0] - 1))
            found.append(float(np.mean(gains[-4:])))
            print(json.dumps({"data": info.name, "rows": n, "k": k, "percent": round(found[-1], 3)}), flush=True)
    print(json.dumps({"most": max(found), "least": min(found), "mean": float(np.mean(found))}))
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("path")
    one.add_argument("--engines", nargs="+", default=["native", "stream", "dask"])
    one.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    one.add_argument("--memory", default="500MB", help="budget of the streaming engine")
    one.add_argument("--timeout", type=float, default=900)
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(run=run)
    one = commands.add_parser("worker")
    one.add_argument("method")
    one.add_argument("engine")
    one.add_argument("path")
    one.add_argument("--memory", default="500MB")
    one.set_defaults(run=worker)
    one = commands.add_parser("table")
    one.add_argument("rows", type=Path)
    one.set_defaults(run=table)
    one = commands.add_parser("reduced")
    one.add_argument("--items", nargs="+", type=int, default=[4000, 10_000])
    one.add_argument("--repeats", type=int, default=3)
    one.add_argument("--methods", nargs="+", choices=METHODS)
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(run=reduced)
    one = commands.add_parser("samples")
    one.add_argument("--number", type=int, default=2, help="samples to search on")
    one.set_defaults(run=samples)
    args = parser.parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
