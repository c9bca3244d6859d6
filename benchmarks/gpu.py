"""The CUDA engine beside PyTorch on one GPU, in one run: passes, seeding and whole fits.

    python -m benchmarks.gpu                      # everything that fits, up to a billion items
    python -m benchmarks.gpu --sizes 1e5 1e7      # chosen sizes
    python -m benchmarks.gpu --answers --sizes 1e6 1e8 1e9      # Consensus, LWEA, agreement and density, one line each
    python -m benchmarks.gpu --torch 1e8 --host 1e8 --density 1e8 --copied 1e9     # docs/gpu.md

Codes are drawn on the GPU: k hidden classes, each blurred over four clusters of every partition, 30 % of labels
replaced by chance. Times are medians between device events after a warm-up; the fit is timed on the host's clock,
from the loaded rows to labels that stand still. Data: uint8 codes (n, 20) with up to 100 clusters each, d ≈ 1250.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

N_PARTITIONS, K = 20, 20
_TIMED = ("assign", "counts", "worst_rows", "propose_moves", "apply_moves", "split", "joined", "renumbered")


def draw_codes(n: int, seed: int = 0, p: int = N_PARTITIONS, low: int = 25, high: int = 100, classes: int = K):
    """Codes (n, p) uint8 on the GPU, and clusters per partition."""
    import cupy

    from coassoc.engines.cuda.device import open_device

    rng = np.random.default_rng(seed)
    n_clusters = rng.integers(low, high + 1, size=p)
    spread = cupy.asarray(np.stack([rng.integers(k, size=(classes, 4)) for k in n_clusters]).astype(np.uint8))
    draw = cupy.RawKernel(
        r"""
        extern "C" __global__ void draw(unsigned char* codes, long long n, int p, int classes, const int* sizes,
                                        const unsigned char* spread, unsigned long long seed) {
            const long long step = (long long)gridDim.x * blockDim.x;
            for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
                unsigned long long x = seed + (unsigned long long)i * 0x9E3779B97F4A7C15ull;
                auto next = [&x]() {
                    x += 0x9E3779B97F4A7C15ull;
                    unsigned long long z = x;
                    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
                    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
                    return (unsigned int)((z ^ (z >> 31)) >> 32);
                };
                int hidden = next() % classes;
                for (int j = 0; j < p; ++j) {
                    unsigned int r = next();
                    const unsigned char usual = spread[(j * classes + hidden) * 4 + (r >> 8) % 4];
                    codes[i * p + j] = r % 10 < 3 ? (next() % sizes[j]) : usual;
                }
            }
        }""",
        "draw",
    )
    codes = open_device(0).empty((n, p), np.uint8)
    sizes = cupy.asarray(n_clusters.astype(np.int32))
    args = (codes, np.int64(n), np.int32(p), np.int32(classes), sizes, spread, np.uint64(seed * 7919 + 1))
    draw((2048,), (256,), args)
    return codes, n_clusters


def timed(function, repeats: int = 7) -> float:
    """Median milliseconds on the GPU."""
    import cupy

    function()
    times = []
    for _ in range(repeats):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        function()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop))
    return float(np.median(times))


class Recorder:
    """Rows whose verbs are timed, each with the GPU idle before and after."""

    def __init__(self, rows):
        self._rows, self.log = rows, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self._rows.__exit__(*error)

    def __getattr__(self, name):
        value = getattr(self._rows, name)
        if name not in _TIMED:
            return value

        def wrapped(*args):
            begin = time.perf_counter()
            result = value(*args)
            number = result if name in ("assign", "apply_moves") else None
            self.log.append((name, (time.perf_counter() - begin) * 1e3, number))
            return result

        return wrapped


def whole_fit(ensemble, engine, k: int = K, seed: int = 0, max_iter: int = 50) -> dict:
    """Seeding and passes to the end, as `KMeansConsensus(n_init=1)` does them."""
    import cupy

    from coassoc.consensus.lloyd import lloyd, seed_rows
    from coassoc.core.counts import Counts
    from coassoc.core.objectives import KMeansObjective

    p = ensemble.n_partitions
    rows = Recorder(engine.load(ensemble))
    cupy.cuda.Device().synchronize()
    begin = time.perf_counter()
    seeds = seed_rows(rows, k, np.ones(p, np.int64), np.random.default_rng(seed))
    seeded = time.perf_counter()
    fit = lloyd(rows, KMeansObjective(np.ones(p)), Counts.of_rows(seeds, rows.layout), max_iter)
    cupy.cuda.Device().synchronize()
    done = time.perf_counter()
    passes = [(round(ms, 3), moved) for name, ms, moved in rows.log if name == "assign"]
    device = getattr(rows._rows, "device", None)
    return {
        "seconds": done - begin, "seeding": seeded - begin, "n_iter": fit.n_iter, "stop": fit.stop,
        "passes": passes, "counts_ms": sum(ms for name, ms, _ in rows.log if name == "counts"),
        "loss": fit.loss, "fit": fit, "rows": rows._rows,
        "peak_bytes": held_bytes(device) if device else 0,
    }  # fmt: skip


def held_bytes(device) -> int:
    """GPU memory held by this process, including blocks kept for reuse."""
    return sum(int(pool.total_bytes()) for pool in device.pools)


def settled_passes(outcome: dict, skip: bool) -> float:
    """Milliseconds of one more pass over settled labels, every row scored unless `skip`."""
    rows, fit = outcome["rows"], outcome["fit"]
    labelling = fit.labelling
    rows.assign(labelling, fit.table)

    def once():
        if not skip:
            labelling.table = None  # forget the bounds
        rows.assign(labelling, fit.table)

    return timed(once)


def settled_kernel(outcome: dict, skip: bool, in_bytes: bool = True) -> float:
    """The same, the kernel alone, with a table of bytes or of 16 bits."""
    from coassoc.engines.cuda.engine import narrow_table

    rows, fit = outcome["rows"], outcome["fit"]
    labelling = fit.labelling
    narrow, bound, shift = narrow_table(fit.table.values, rows.layout.offsets, lambda bound: in_bytes)
    exact_shift = fit.table.bits + labelling.unit
    drift = np.zeros(labelling.n_clusters, np.uint8) if skip else None
    tables = rows.layout.pad(narrow), rows.layout.pad(fit.table.values)
    job = rows.device.assign_job(
        *tables, rows.starts, bound, max(exact_shift - shift, -8), exact_shift, drift, count=True, fresh=False, few=True
    )  # fmt: skip
    return timed(
        lambda: rows.device.assign_rows(job, rows.codes, labelling.labels, labelling.gaps, None, labelling.alpha)
    )


def seeding_kernels(rows) -> dict:
    """Milliseconds of one round's verbs: four candidates judged, one row added, four rows located."""
    seeding = rows.seeding(np.ones(rows.layout.n_partitions, np.int64))
    some = rows.codes_at(np.arange(5))
    seeding.add(some[4])
    targets = np.linspace(0, seeding.total - 1, 4).astype(np.int64)
    return {
        "potentials_ms": timed(lambda: seeding.potentials(some[:4])),
        "add_ms": timed(lambda: seeding.add(some[0])),
        "locate_ms": timed(lambda: seeding.locate(targets)),
    }


def density_search(ensemble, k: int = K, seed: int = 0) -> dict:
    """Seconds of `DensityConsensus(n_init=1)` from codes on the GPU to labels there, and of its verbs over all items.

    Verbs over the items of one cluster, as splitting them in two takes, are not in the parts.
    """
    import cupy

    from coassoc import DensityConsensus
    from coassoc.engines import Cuda

    class Watched(Cuda):
        def load(self, *args):
            self.rows = Recorder(super().load(*args))
            return self.rows

    engine = Watched()
    begin = time.perf_counter()
    model = DensityConsensus(k, n_init=1, random_state=seed, engine=engine).fit(ensemble)
    cupy.cuda.Device().synchronize()
    seconds = time.perf_counter() - begin
    assert isinstance(model.labels_, cupy.ndarray)
    log, held = engine.rows.log, held_bytes(engine.rows.device)
    engine.rows = None  # else the rows would hold the engine that holds them, and the GPU's memory with it
    parts = {name: [ms for verb, ms, _ in log if verb == name] for name in _TIMED}
    moves = sum(made or 0 for verb, _, made in log if verb == "apply_moves")
    return {
        "density_seconds": seconds, "density_rounds": model.n_rounds_, "density_steps": model.densities_,
        "density_moves": moves, "density_settle_us_per_move": sum(parts["apply_moves"]) * 1e3 / max(moves, 1),
        "density_verbs": {name: [len(times), round(sum(times) / 1e3, 4)] for name, times in parts.items()},
        "density_bytes": held,
    }  # fmt: skip


def whole_answers(sizes: list[int], methods: list[str], repeats: int = 3) -> None:
    """Print a line per size and method: median seconds from codes on the GPU to results there, and memory.

    Up to a million items, the results are compared with those of the native engine.
    """
    import cupy

    from coassoc.consensus.registry import make_method
    from coassoc.engines import Native
    from coassoc.engines.cuda.device import open_device
    from coassoc.ensemble.gpu import DeviceEnsemble

    for n in sizes:
        codes, n_clusters = draw_codes(n)
        ensemble = DeviceEnsemble.from_codes(codes, n_clusters)
        for method in methods:
            settings = {"random_state": 0} | ({} if method == "auto" else {"n_clusters": K})
            seconds = []
            for repeat in range(repeats + 1):  # the first one compiles
                model = None
                begin = time.perf_counter()
                model = make_method(method, **settings).fit(ensemble)
                cupy.cuda.Device().synchronize()
                seconds.append(time.perf_counter() - begin)
                if repeat and seconds[-1] > 60:
                    break
            results = [getattr(model, name) for name in ("labels_", "confidence_") if hasattr(model, name)]
            assert all(isinstance(array, cupy.ndarray) for array in results)
            line = f"{method} n={n:.0e} seconds={np.median(seconds[1:]):.3f} first={seconds[0]:.3f}"
            line += f" memory/codes={held_bytes(open_device(0)) / codes.nbytes:.2f}"
            if n <= 10**6:
                begin = time.perf_counter()
                of_cpu = make_method(method, engine=Native(), **settings).fit(ensemble.to_host())
                line += f" native_seconds={time.perf_counter() - begin:.3f}"
                equal = [bool((getattr(of_cpu, name) == getattr(model, name).get()).all())
                         for name in ("labels_", "confidence_") if hasattr(of_cpu, name)]  # fmt: skip
                line += f" equal_to_native={all(equal)}"
            print(line, flush=True)
            del model, results
            for pool in open_device(0).pools:
                pool.free_all_blocks()
        del ensemble, codes


def torch_passes(codes, n_clusters, fit, chunk: int = 500_000) -> dict:
    """Milliseconds of an assignment pass by dense one-hot products and by embedding_bag, `chunk` items at a time.

    Whole passes over codes on the GPU: the median of three, or one pass above 10**8 items, where it takes seconds.
    """
    import cupy
    import torch

    table = torch.as_tensor(fit.table.values.astype(np.float64) * 2.0**-fit.table.bits, device="cuda").float()
    offsets = torch.as_tensor(np.concatenate([[0], np.cumsum(n_clusters)[:-1]]), device="cuda")
    view = torch.from_dlpack(codes)
    n, d = len(codes), len(table)
    labels = torch.empty(n, dtype=torch.int32, device="cuda")

    def dense(dtype):
        weights, hot = table.to(dtype), torch.zeros((min(chunk, n), d), dtype=dtype, device="cuda")

        def run(n):
            for start in range(0, n, chunk):
                columns = view[start : start + chunk].long() + offsets
                part = hot[: len(columns)]
                part.zero_()
                part.scatter_(1, columns, 1.0)
                labels[start : start + chunk] = (part @ weights).argmax(1).int()

        return run

    def product(dtype):  # the one-hot matrix given: only the product and the argmax
        weights, hot = table.to(dtype), torch.zeros((min(chunk, n), d), dtype=dtype, device="cuda")
        hot.scatter_(1, view[: len(hot)].long() + offsets, 1.0)

        def run(n):
            for start in range(0, n, chunk):
                rows = min(chunk, n - start)
                labels[start : start + chunk] = (hot[:rows] @ weights).argmax(1).int()

        return run

    def bag(dtype):
        weights = table.to(dtype)

        def run(n):
            for start in range(0, n, chunk):
                columns = view[start : start + chunk].long() + offsets
                scores = torch.nn.functional.embedding_bag(columns, weights, mode="sum")
                labels[start : start + chunk] = scores.argmax(1).int()

        return run

    torch.backends.cuda.matmul.allow_tf32 = False
    out = {}
    for name, make, dtype in (
        ("dense fp32", dense, torch.float32), ("dense bf16", dense, torch.bfloat16),
        ("product fp32", product, torch.float32), ("product bf16", product, torch.bfloat16),
        ("embedding_bag fp32", bag, torch.float32),
    ):  # fmt: skip
        run = make(dtype)
        run(min(n, 4 * chunk))
        torch.cuda.synchronize()
        times = []
        for _ in range(3 if n <= 10**8 else 1):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run(n)
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        out[name] = float(np.median(times))
    del run
    torch.cuda.empty_cache()
    cupy.cuda.Device().synchronize()
    return out


def many_clusters(k: int, n: int = 10_000_000) -> dict:
    """A fit of up to ten passes with another number of clusters, and verbs beside the passes."""
    from coassoc.core.moves import DensityState
    from coassoc.engines import Cuda
    from coassoc.ensemble.gpu import DeviceEnsemble

    ensemble = DeviceEnsemble.from_codes(*draw_codes(n, classes=max(k, 20)))
    fit = whole_fit(ensemble, Cuda(), k=k, max_iter=10)
    fit = whole_fit(ensemble, Cuda(), k=k, max_iter=10)
    rows, labelling = fit["rows"], fit["fit"].labelling
    row = {"k": k, "n": n} | {name: fit[name] for name in ("seconds", "seeding", "n_iter", "stop", "passes")}
    row["kernel_full_ms"] = settled_kernel(fit, False)

    def recount():
        labelling.counted = False
        rows.counts(labelling)

    row["count_ms"] = timed(recount)
    table = DensityState(rows.counts(labelling), np.ones(N_PARTITIONS)).table()
    row["propose_ms"] = timed(lambda: rows.propose_moves(labelling, table, 0, n), 2)
    if k == 2:
        row["split_ms"] = timed(lambda: rows.split(labelling), 2)
        row["overlap_ms"] = timed(rows.overlap, 2)
        row["weighted_overlap_ms"] = timed(lambda: rows.weighted_overlap(np.ones(rows.layout.n_codes)), 2)
    return row


def read_time(codes) -> float:
    """Milliseconds to read every code once and do next to nothing with it."""
    import cupy

    words = codes.ravel().view(np.uint64)
    fold = cupy.RawKernel(
        r"""
        extern "C" __global__ void fold(const ulonglong2* words, long long n, unsigned long long* out) {
            unsigned long long x = 0;
            const long long step = (long long)gridDim.x * blockDim.x;
            for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
                { ulonglong2 w = words[i]; x ^= w.x ^ w.y; }
            if (x == 42) *out = x;
        }""",
        "fold",
    )
    out = cupy.zeros(1, np.uint64)
    return timed(lambda: fold((132 * 8,), (512,), (words, np.int64(len(words) // 2), out)))


def from_host(at_home, fit: dict, native: bool, copied: bool) -> dict:
    """Seconds of the same fit with codes on the host: by its CPU, and copied first.

    10**9 items take 20 GB of codes there and 19 of the CPU's state; its copy of the codes, 20 more, is then left out.
    `fit` holds the loss, the passes and, for the CPU, the labels of the fit on the GPU, which may be gone.
    """
    from coassoc.engines import Cuda, Native
    from coassoc.engines.compiled import why_missing

    row: dict = {}
    if native and why_missing is None:
        engine = Native(blocked_copy=at_home.n_samples <= 10**8)
        of_cpu = whole_fit(at_home, engine)
        row["native_seconds"], row["native"] = of_cpu["seconds"], repr(engine)
        assert of_cpu["loss"] == fit["loss"] and of_cpu["n_iter"] == fit["n_iter"]
        labels = of_cpu["rows"].labels(of_cpu["fit"].labelling)
        row["labels_equal_native"] = bool((np.asarray(labels) == fit["labels"]).all())
        del of_cpu, labels
    if copied:
        begin = time.perf_counter()
        of_gpu = whole_fit(at_home, Cuda())
        row["copied_with_load_seconds"] = time.perf_counter() - begin
        row["copied_seconds"] = of_gpu["seconds"]
        assert of_gpu["loss"] == fit["loss"] and of_gpu["n_iter"] == fit["n_iter"]
    return row


def main() -> None:
    import cupy

    from coassoc.engines import Cuda
    from coassoc.engines.cuda.device import open_device
    from coassoc.ensemble.gpu import DeviceEnsemble

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e5, 1e6, 1e7, 1e8, 1e9])
    parser.add_argument("--torch", type=float, default=1e7, help="largest size given to PyTorch")
    parser.add_argument("--density", type=float, default=1e7, help="largest size given to DensityConsensus")
    parser.add_argument("--clusters", type=float, nargs="*", default=[2, 100, 500], help="other k, at 10**7 items")
    parser.add_argument("--host", type=float, default=1e7, help="largest size run on the host's CPU")
    parser.add_argument("--copied", type=float, default=None, help="largest size copied from the host; as --host")
    parser.add_argument("--answers", nargs="*", default=None, help="only whole fits of these methods, at --sizes")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    limits = [options.host, options.host if options.copied is None else options.copied]
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    print(properties["name"].decode(), "CuPy", cupy.__version__, "SMs", properties["multiProcessorCount"], flush=True)
    if options.answers is not None:
        whole_answers([int(n) for n in options.sizes], options.answers or ["auto", "lwea", "agreement", "density"])
        return
    results, device = [], open_device(0)
    small = DeviceEnsemble.from_codes(*draw_codes(200_000))  # compile
    whole_fit(small, Cuda())
    if options.density:
        density_search(small)
    for n in map(int, options.sizes):
        codes, n_clusters = draw_codes(n)
        row = {"n": n, "d": int(n_clusters.sum()), "read_ms": read_time(codes)}
        ensemble = DeviceEnsemble.from_codes(codes, n_clusters)
        seconds = []
        for _ in range(3):
            fit = None  # one labelling at a time
            fit = whole_fit(ensemble, Cuda())
            seconds.append(fit["seconds"])
        fit["seconds"] = float(np.median(seconds))
        row |= {
            k: fit[k] for k in ("seconds", "seeding", "n_iter", "stop", "passes", "counts_ms", "loss", "peak_bytes")
        }
        row["all_seconds"] = seconds
        row["formula_bytes"] = n * (N_PARTITIONS + 2)
        row["kernel_full_ms"], row["kernel_skip_ms"] = settled_kernel(fit, False), settled_kernel(fit, True)
        row["kernel_full_16_ms"] = settled_kernel(fit, False, in_bytes=False)
        row["pass_full_ms"], row["pass_skip_ms"] = settled_passes(fit, False), settled_passes(fit, True)
        row |= seeding_kernels(fit["rows"])
        engine = Cuda()
        engine.skip = False
        row["no_skip_seconds"] = whole_fit(ensemble, engine)["seconds"]
        if n <= options.density:
            row |= density_search(ensemble)
        if n <= options.torch:
            row["torch_ms"] = torch_passes(codes, n_clusters, fit["fit"])
        at_home = None
        if n <= max(limits):
            at_home = ensemble.to_host()
            kept = {"loss": fit["loss"], "n_iter": fit["n_iter"]}
            if n <= options.host:
                kept["labels"] = fit["rows"].labels(fit["fit"].labelling).get()
        del codes, ensemble, fit  # the GPU is free for what comes from the host
        for pool in device.pools:
            pool.free_all_blocks()
        if at_home is not None:
            row |= from_host(at_home, kept, *(n <= limit for limit in limits))
            del at_home, kept
        print(json.dumps(row), flush=True)
        results.append(row)
        for pool in device.pools:
            pool.free_all_blocks()
    for k in options.clusters:
        results.append(many_clusters(int(k)))
        print(json.dumps(results[-1]), flush=True)
        for pool in device.pools:
            pool.free_all_blocks()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    print(f"{'n':>11} {'read':>8} {'kernel':>8} {'skipping':>8} {'pass':>8} {'fit s':>8} {'seeding':>8} passes")
    for r in results:
        if "read_ms" not in r:
            continue
        print(
            f"{r['n']:>11} {r['read_ms']:>8.3f} {r['kernel_full_ms']:>8.3f} {r['kernel_skip_ms']:>8.3f} "
            f"{r['pass_full_ms']:>8.3f} {r['seconds']:>8.4f} {r['seeding']:>8.4f} {r['n_iter']} {r['stop']}"
        )


if __name__ == "__main__":
    main()
