"""One measurement in its own process: fit one method on one file of codes, print one line of JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import coassoc as ca

from ..core.tables import KMeansObjective, fix_table
from ..engines import resolve
from .measure import Meter


def main(arguments: list[str]) -> int:
    method, path, k, seed = arguments[0], Path(arguments[1]), int(arguments[2]), int(arguments[3])
    ensemble = ca.Ensemble(np.load(path))
    # a first fit on a few rows loads imports and starts threads
    n_init = _option(arguments, "--starts")
    _prepare(method, ca.Ensemble(ensemble.codes[:1000]), k, seed, 1)()
    fit = _prepare(method, ensemble, k, seed, n_init)
    with Meter() as meter:
        labels, n_iter = fit()
    seconds = [meter.seconds]
    while len(seconds) < _option(arguments, "--fits"):  # the first fit also allocates memory
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
    if "--pass" in arguments:
        row["pass_seconds"] = _cold_pass(method, ensemble, labels, k)
    print(json.dumps(row))
    return 0


def _option(arguments: list[str], name: str) -> int:
    return int(arguments[arguments.index(name) + 1]) if name in arguments else 1


def _prepare(method: str, ensemble: Any, k: int, seed: int, n_init: int) -> Callable[[], tuple[np.ndarray, int]]:
    """A function that runs the fit to be timed; its input is prepared here."""
    if method.startswith("coassoc"):
        engine = _engine(method)
        if "bisecting" in method:
            rule = method.rsplit("-", 1)[1]
            criterion = rule if rule in ("loss", "size") else "gain"
            tree = ca.BisectingConsensus(k, criterion=criterion, n_init=n_init, random_state=seed, engine=engine)
            return lambda: (tree.fit(ensemble).labels_, 0)
        model = ca.KMeansConsensus(k, n_init=n_init, random_state=seed, engine=engine)
        return lambda: (model.fit(ensemble).labels_, model.n_iter_)
    if method == "faiss-dense":
        import faiss

        dense = np.ascontiguousarray(ensemble.one_hot(np.float32).toarray())
        means = faiss.Kmeans(dense.shape[1], k, niter=25, nredo=n_init, seed=seed, max_points_per_centroid=len(dense))

        def faiss_fit():
            means.train(dense)
            return means.index.search(dense, 1)[1].ravel(), 25

        return faiss_fit
    from sklearn.cluster import BisectingKMeans, KMeans

    H = ensemble.one_hot(np.float64)
    if method == "sklearn-dense":
        H = H.toarray()
    kind = BisectingKMeans if method == "sklearn-bisecting" else KMeans
    other = kind(k, n_init=n_init, random_state=seed)
    return lambda: (other.fit(H).labels_, getattr(other, "n_iter_", 0))


def _engine(method: str) -> Any:
    if method.endswith("numpy"):
        return ca.engines.Numpy()
    if method.endswith("avx2"):
        return ca.engines.Native(simd="avx2")
    if method.endswith("baseline"):
        return ca.engines.Native(simd="baseline")
    if method.endswith("nocopy"):
        return ca.engines.Native(blocked_copy=False)
    return ca.engines.resolve("auto")  # resolved here, so that it is not timed


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
