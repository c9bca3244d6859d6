"""Random ensembles, estimators and engine settings: the labels must not depend on the engine.

``python -m fuzz.engine_cases --cases 200`` (with ``PYTHONPATH=src:tests``) compares the compiled kernels with plain
NumPy; `.ci/sanitize` runs it on kernels built with sanitizers.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

import coassoc as ca


def random_ensemble(rng: np.random.Generator) -> tuple[ca.Ensemble, np.ndarray | None]:
    """An ensemble and the copies of its rows: few or many rows, duplicates, singletons, gaps, any width of codes."""
    n = int(rng.choice([rng.integers(1, 7), rng.integers(7, 80), rng.integers(80, 500)], p=[0.15, 0.45, 0.4]))
    p = int(rng.integers(1, 25) if rng.random() < 0.9 else rng.integers(60, 260))
    width = rng.choice(["uint8", "uint16", "uint32"], p=[0.6, 0.25, 0.15])
    most = int(rng.choice([2, 5, 30, 255 if width == "uint8" else 1000]))
    k = rng.integers(1, max(2, min(most, 1500 // p)) + 1, size=p)  # some methods are quadratic in the sum
    truth = rng.integers(0, rng.integers(1, 20), size=n)
    noise = rng.choice([0.0, 0.1, 0.5, 1.0])
    codes = np.where(rng.random((n, p)) < noise, rng.integers(0, k, size=(n, p)), truth[:, None] % k)
    if rng.random() < 0.2:
        codes = codes[rng.integers(0, max(1, n // 10), size=n)]  # many equal rows
    if rng.random() < 0.4:
        holes = rng.random((n, p)) < rng.choice([0.02, 0.3, 0.9])
        holes[0] = False
        codes = np.where(holes, k, codes)  # the number of clusters marks a missing label
    copies = None
    if rng.random() < 0.25:
        copies = rng.integers(0, 4, size=n)
        copies[0] = 2
    return ca.Ensemble.from_codes(np.ascontiguousarray(codes.astype(width)), k), copies


def random_estimator(rng: np.random.Generator, ens: ca.Ensemble) -> tuple[str, dict[str, Any]]:
    """Name and parameters of an estimator, now and then ones it must refuse."""

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    k = int(rng.integers(1, min(ens.n_samples, pick(3, 12, 300)) + 1)) + (rng.random() < 0.02) * 900
    weights = pick(None, None, "agreement", rng.random(ens.n_partitions) + 0.01)
    plain = None if isinstance(weights, str) else weights
    seeded = {"n_clusters": k, "random_state": int(rng.integers(1 << 30))}
    starts = {**seeded, "n_init": pick(1, 2, 5), "init": pick("k-means++", "random"), "max_iter": pick(1, 3, 300)}
    search = {**seeded, "n_init": 1, "max_rounds": pick(1, 5)}
    choices: list[tuple[str, dict[str, Any]]] = [
        ("KMeansConsensus", {**starts, "partition_weights": weights}),
        ("SEC", {**starts, "partition_weights": plain}),
        ("ECC", {**starts, "partition_weights": plain, "smoothing": pick("additive", "floor")}),
        ("BisectingConsensus", {**seeded, "criterion": pick("gain", "loss", "size"), "refine": pick(None, "kmeans"),
                                "n_init": pick(1, 3), "partition_weights": plain}),
        ("DensityConsensus", {**search, "partition_weights": weights}),
        ("AgreementConsensus", {**search, "min_cluster_size": pick(1, 2)}),
        ("EAC", {**seeded, "linkage": pick("average", "single", "complete"), "enhanced": pick(False, False, True),
                 "micro_clusters": pick(None, None, max(2, k))}),
        ("EAC", {**seeded, "partition_weights": plain, "linkage": pick("average", "single", "complete"),
                 "max_bytes": pick(1 << 31, 0)}),
        ("LWEA", {**seeded, "partition_weights": plain}),
        ("HBGF", {**seeded, "n_init": 2}),
        ("LWGP", {**seeded, "n_init": 2}),
        ("ECPCS", {**seeded, "n_init": 2}),
    ]  # fmt: skip
    if find_spec("pymetis"):
        choices += [("MCLA", seeded), ("CSPA", {**seeded, "max_bytes": pick(1 << 31, 0)})]
    return pick(*choices)


def random_engines(rng: np.random.Generator, client: Any = None, *, compiled_only: bool = False) -> list[Any]:
    """The compiled kernels at every SIMD level of this CPU, then streaming and Dask, with random settings."""
    levels = ca.show_config(as_dict=True)["simd_available"]
    engines: list[Any] = [
        ca.engines.Native(
            n_threads=int(rng.integers(1, 5)),
            chunk_rows=[None, 1, 7, 64, 200][int(rng.integers(5))],
            simd=level,
            blocked_copy=bool(rng.random() < 0.8),
        )
        for level in levels
    ]
    if not compiled_only:
        engines.append(ca.engines.Numpy(chunk_rows=int(rng.integers(1, 300))))
        local = "native" if levels and rng.random() < 0.5 else "numpy"
        engines.append(ca.engines.Stream(["64MB", 1][int(rng.integers(2))], local=local))
    if client is not None:
        engines.append(ca.engines.Dask(client, chunk_rows=int(rng.integers(20, 400))))
    return engines


def answer(name: str, parameters: dict, ens: ca.Ensemble, copies: np.ndarray | None, engine: Any) -> Any:
    """Labels and density of a fit, or the type of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fitted = getattr(ca, name)(**parameters, engine=engine).fit(ens, sample_weight=copies)
        except (ValueError, TypeError) as error:
            return type(error).__name__
    labels = np.asarray(fitted.labels_)
    scores = [ca.density(ens, labels, engine=engine), *ca.cluster_density(ens, labels, engine=engine).tolist()]
    return labels.tolist(), scores


def difference(seed: int, index: int, client: Any = None, *, compiled_only: bool = False) -> str | None:
    """What differs between the engines in case `index`; None when nothing does."""
    rng = np.random.default_rng([seed, index])
    ens, copies = random_ensemble(rng)
    name, parameters = random_estimator(rng, ens)
    wanted = answer(name, parameters, ens, copies, ca.engines.Numpy())
    for engine in random_engines(rng, client, compiled_only=compiled_only):
        found = answer(name, parameters, ens, copies, engine)
        if found != wanted:
            rows = (
                None if isinstance(found, str) or isinstance(wanted, str) else np.not_equal(found[0], wanted[0]).sum()
            )
            what = f"{rows} labels differ" if rows else f"{str(found)[:40]} instead of {str(wanted)[:40]}"
            return f"case {index} of seed {seed}: {name}({parameters}) on {ens} with {engine}: {what}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    levels = ca.show_config(as_dict=True)["simd_available"]
    if not levels:
        sys.exit("the compiled kernels are missing")
    found = [one for i in range(given.cases) if (one := difference(given.seed, i, compiled_only=True)) is not None]
    print(*found, sep="\n")
    print(f"{given.cases} cases on {', '.join(levels)}: {len(found)} differ from NumPy")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
