"""Beyond memory and beyond one machine: the figures of the page on scale.

    python -m benchmarks.scale generate codes.npy --rows 1e8
    python -m benchmarks.scale stream codes.npy --memory 1GB --repeats 2
    python -m benchmarks.scale dask --rows 2e7
    python -m benchmarks.scale dask --rows 1e7 4e7 --workers 1 2 4 8 --worker-engine native > passes.jsonl
    python -m benchmarks.scale model passes.jsonl          # seconds of a pass and of seeding, fitted to these runs
    python -m benchmarks.scale overhead
    python -m benchmarks.scale received --rows 1e6 1e7     # what reaches the client

Each prints one JSON line per measurement, with the load of the machine beside it: a figure taken on a busy machine
says so. Generated files are yours to delete.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
import time

import numpy as np
from scipy.optimize import nnls

import coassoc as ca
from benchmarks.measure import PeakMemory, anonymous_bytes
from coassoc.engines.cluster import local_cluster
from coassoc.engines.native import default_threads


def generate(path: str, rows: int, partitions: int = 20, groups: int = 20, seed: int = 0) -> None:
    """Codes in which every group leans to four clusters of each partition, a quarter of the labels being noise."""
    rng = np.random.default_rng(seed)
    n_clusters = rng.integers(20, 106, size=partitions)
    leanings = [rng.integers(k, size=(groups, 4)) for k in n_clusters]
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(rows, partitions))
    for start in range(0, rows, 1_000_000):
        n = min(1_000_000, rows - start)
        group = rng.integers(groups, size=n)
        block = np.empty((n, partitions), np.uint8)
        for j, k in enumerate(n_clusters):
            column = leanings[j][group, rng.integers(4, size=n)]
            noise = rng.random(n, dtype=np.float32) < 0.25
            column[noise] = rng.integers(k, size=int(noise.sum()))
            block[:, j] = column
        out[start : start + n] = block
    for j, k in enumerate(n_clusters):
        out[:k, j] = np.arange(k)
    out.flush()


class Passes:
    """Seconds of the passes of a fit, apart from its seeding."""

    def __enter__(self) -> Passes:
        from coassoc.consensus import lloyd as module

        self.module, self.original, self.seconds, self.n = module, module.lloyd, 0.0, 0

        def timed(*args, **kwargs):
            start = time.perf_counter()
            fit = self.original(*args, **kwargs)
            self.seconds += time.perf_counter() - start
            self.n += fit.n_iter + (fit.stop != "max_iter")  # the last pass, which changed nothing, counts too
            return fit

        module.lloyd = timed
        return self

    def __exit__(self, *_) -> None:
        self.module.lloyd = self.original


def machine_seconds() -> np.ndarray | None:
    """CPU seconds the whole machine has worked, and those the host gave to other guests, where the system tells."""
    try:
        with open("/proc/stat") as stat:
            user, nice, system, _, _, irq, softirq, stolen = map(int, stat.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return np.array([user + nice + system + irq + softirq, stolen]) / os.sysconf("SC_CLK_TCK")


def fit(engine, table, k: int = 20, max_iter: int = 30, look_every: float = 0.005):
    """One start; what it took and what came out. Looking at the memory every 5 ms takes 5 % of a core."""
    before = anonymous_bytes()
    memory = PeakMemory()
    memory.every = look_every
    with memory, Passes() as passes:
        start = time.perf_counter()
        model = ca.KMeansConsensus(k, n_init=1, max_iter=max_iter, random_state=0, engine=engine).fit(table)
        seconds = time.perf_counter() - start
    taken = None if memory.peak is None or before is None else memory.peak - before
    return model, {
        "seconds": round(seconds, 3),
        "passes": passes.n,
        "seconds_per_pass": round(passes.seconds / passes.n, 4),
        "memory_taken": taken,
        "memory_peak": memory.peak,
        "load": round(os.getloadavg()[0], 2),
    }


def expected_memory(n: int, p: int, d: int, k: int, memory: int) -> int:
    """The formula of the page on scale, for one start with the compiled kernels and unit partition weights."""
    candidates = 2 + int(np.log(k))
    of_item = 6 if (p + 15) * n <= memory else 2
    return max(of_item, 1 + candidates) * n + 8 * d * k * default_threads()


def stream(args: argparse.Namespace) -> None:
    codes = np.load(args.path, mmap_mode="r")
    ensemble = ca.Ensemble(codes)
    engines = {"native": ca.engines.Native(), "stream": ca.engines.Stream(args.memory)}
    engines["native"].kmeans_fits = lambda *_: None  # passes over the verbs, which can be timed
    fit(ca.engines.Stream(args.memory), ca.Ensemble(codes[:200_000]))  # what is loaded once
    base, labels = anonymous_bytes(), {}
    for _ in range(args.repeats):
        for name in ("stream", "native") if not args.only_stream else ("stream",):
            model, row = fit(engines[name], ensemble)
            labels[name] = np.array(model.labels_, dtype=np.uint8)
            if name == "stream":
                row["formula"] = base + expected_memory(*codes.shape, ensemble.n_codes, 20, engines[name].memory)
            print(json.dumps({"engine": name, "rows": len(codes), **row}), flush=True)
            del model
    if len(labels) == 2:
        assert (labels["stream"] == labels["native"]).all()


def start_cluster(n_workers: int, plain: bool = False):
    """As ``coassoc fit --workers`` starts it; `plain`: with Dask's own settings."""
    from distributed import LocalCluster

    if not plain:
        return local_cluster(n_workers)
    settings = {"threads_per_worker": 1, "processes": True, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    return LocalCluster(n_workers=n_workers, silence_logs=50, **settings)


def dask(args: argparse.Namespace) -> None:
    for rows in args.rows:
        path = args.path or f"scale-{rows}.npy"
        if args.path is None:
            generate(path, rows)
        dask_fits(args, path, rows)


def dask_fits(args: argparse.Namespace, path: str, rows: int) -> None:
    from distributed import Client

    labels = {}
    head = tempfile.NamedTemporaryFile(suffix=".npy")  # noqa: SIM115 - gone with the program
    np.save(head, np.load(path, mmap_mode="r")[:300_000])
    head.flush()
    for repeat in range(args.repeats):
        for n_workers in args.workers[:: 1 - repeat % 2 * 2]:  # memory just given back is quicker to take again
            with start_cluster(n_workers, args.plain) as cluster, Client(cluster) as client:
                engine = ca.engines.Dask(client, chunk_rows=args.chunk_rows, worker_engine=args.worker_engine)
                fit(engine, head.name)  # client and workers import, kernels load
                busy, own, all_busy = client.run(time.process_time), time.process_time(), machine_seconds()
                model, row = fit(engine, path, look_every=0.1)  # the workers need both cores
                # what the workers themselves were busy with: on a crowded machine the only fair measure
                row["busy"] = [round(now - busy[w], 2) for w, now in client.run(time.process_time).items()]
                row["client"] = round(time.process_time() - own, 2)
                if all_busy is not None:
                    worked, stolen = machine_seconds() - all_busy
                    row["others"] = round(worked - row["client"] - sum(row["busy"]), 2)  # programs that disturb
                    row["stolen"] = round(stolen, 2)
                row["chunks"], row["cores"] = model.labels_.numblocks[0], os.cpu_count()
                labels[n_workers] = model.labels_.compute()
                del model
            print(json.dumps({"engine": "dask", "workers": n_workers, "rows": rows, **row}), flush=True)
    assert all((own == labels[args.workers[0]]).all() for own in labels.values())


def model(args: argparse.Namespace) -> None:
    """Seconds of a pass = items · t / workers + o + b · chunks, by least squares of relative errors.

    Workers on one machine count up to its cores.
    """
    with open(args.path) as lines:
        runs = [run for run in map(json.loads, lines) if run.get("engine") == "dask"]
    if not runs:
        raise SystemExit(f"{args.path} holds no runs of `dask`.")
    seconds = np.array([run["seconds_per_pass"] for run in runs])
    at_once = [min(run["workers"], run.get("cores", run["workers"])) for run in runs]
    terms = np.array([(run["rows"] / c, 1.0, run["chunks"]) for run, c in zip(runs, at_once)])
    fitted, _ = nnls(terms / seconds[:, None], np.ones(len(runs)))
    errors = terms @ fitted / seconds - 1.0
    t, o, b = fitted.tolist()
    print(json.dumps({"runs": len(runs), "nanoseconds_per_item": 1e9 * t, "overhead": o, "per_chunk": b,
                      "error_from": errors.min(), "error_to": errors.max()}))  # fmt: skip


class File:
    """An NPY file of codes as an array that travels by its name."""

    ndim, dtype = 2, np.dtype(np.uint8)

    def __init__(self, path: str, rows: int):
        self.path, self.shape = path, (rows, 20)

    def __getitem__(self, index):
        return np.load(self.path, mmap_mode="r")[index]


def received(args: argparse.Namespace) -> None:
    """Bytes that reach the client while the default answer of a Dask array is made, its labels left on the workers."""
    import dask.array as da
    from distributed import Client

    gather, total = Client.gather, 0

    def counting(self, futures, *arguments, **options):
        nonlocal total
        result = gather(self, futures, *arguments, **options)
        total += len(pickle.dumps(result))
        return result

    for rows in args.rows:
        with tempfile.NamedTemporaryFile(suffix=".npy") as file, start_cluster(2) as cluster, Client(cluster):
            generate(file.name, rows)
            table = da.from_array(File(file.name, rows), chunks=(-(-rows // 8), -1), asarray=False, name=False)
            Client.gather, total = counting, 0
            answer = ca.Consensus(random_state=0).fit(table)
            Client.gather = gather
            shapes = {name: type(getattr(answer, name)).__name__ for name in ("labels_", "confidence_")}
            print(json.dumps({"rows": rows, "bytes": total, "clusters": answer.n_clusters_, **shapes}), flush=True)


def overhead(args: argparse.Namespace) -> None:
    """What a pass costs when there is nothing to do."""
    from distributed import Client

    rng = np.random.default_rng(0)
    table = ca.Ensemble(rng.integers(20, size=(args.rows, 20)).astype(np.uint8))
    with start_cluster(2) as cluster, Client(cluster) as client:
        for chunks in (1, 4, 16, 64):
            engine = ca.engines.Dask(client, chunk_rows=-(-args.rows // chunks))
            fit(engine, table, max_iter=3)
            _, row = fit(engine, table, max_iter=20)
            print(json.dumps({"engine": "dask", "rows": args.rows, "chunks": chunks, **row}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def number(text: str) -> int:
        return int(float(text))

    one = commands.add_parser("generate")
    one.add_argument("path")
    one.add_argument("--rows", type=number, default=100_000_000)
    one.set_defaults(run=lambda args: generate(args.path, args.rows))
    one = commands.add_parser("stream")
    one.add_argument("path")
    one.add_argument("--memory", default="1GB")
    one.add_argument("--repeats", type=int, default=2)
    one.add_argument("--only-stream", action="store_true")
    one.set_defaults(run=stream)
    one = commands.add_parser("dask")
    one.add_argument("path", nargs="?")
    one.add_argument("--rows", type=number, nargs="+", default=[20_000_000])
    one.add_argument("--chunk-rows", type=number, help="rows of a chunk (default: as many as the engine chooses)")
    one.add_argument("--worker-engine", default="auto", help="engine of the workers: auto, native, cuda, numpy")
    one.add_argument("--repeats", type=int, default=1)
    one.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of workers, in turns")
    one.add_argument("--plain", action="store_true", help="a cluster with Dask's own settings")
    one.set_defaults(run=dask)
    one = commands.add_parser("model")
    one.add_argument("path", help="what `dask` printed")
    one.set_defaults(run=model)
    one = commands.add_parser("overhead")
    one.add_argument("--rows", type=number, default=10_000)
    one.set_defaults(run=overhead)
    one = commands.add_parser("received")
    one.add_argument("--rows", type=number, nargs="+", default=[1_000_000, 10_000_000])
    one.set_defaults(run=received)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
