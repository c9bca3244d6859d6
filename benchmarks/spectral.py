"""Spectral consensus on a GPU: HBGF and LWGP, equal to NumPy, and the time they take there.

    python -m benchmarks.spectral --items 1e8 1e9

Elsewhere their time and memory are measured by ``python -m benchmarks.sizes run``.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from .generate import voronoi_ensemble

METHODS = ("HBGF", "LWGP")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", nargs="+", type=float, default=[1e8, 1e9])
    args = parser.parse_args(argv)
    import cupy as cp

    import coassoc as ca

    rng = np.random.default_rng(0)
    for case in range(12):
        n, p, k = int(rng.integers(1, 20_000)), int(rng.integers(1, 12)), int(rng.choice([2, 5, 40, 300]))
        ensemble = ca.Ensemble(rng.integers(-1 if case % 2 else 0, k, size=(n, p)))
        copies, weights = rng.integers(0, 4, size=n) if case % 3 else None, rng.random(ensemble.n_codes)
        ours = ca.engines.Cuda().load(ensemble, copies)
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
