"""Co-association of the edges of a graph: CPU time of ten million edges. ``python -m benchmarks.edges``"""

from __future__ import annotations

import argparse
import time

import numpy as np

import coassoc as ca


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--engines", nargs="+", default=["native"])
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=(given.items, given.partitions), dtype=np.uint8)
    some = codes.copy()
    some[rng.random(codes.shape) < 0.05] = 30
    pairs = rng.integers(given.items, size=(given.edges, 2))
    expected: dict[str, np.ndarray] = {}
    for engine in given.engines:
        for missing, table in (("none", codes), ("5 %", some)):
            ensemble = ca.Ensemble.from_codes(table, [30] * given.partitions)
            start = time.process_time()
            shares = ensemble.coassociation(pairs, engine=engine)
            taken = time.process_time() - start
            same = np.array_equal(shares, expected.setdefault(missing, shares))
            print(f"{engine}: {given.edges} edges, {given.partitions} partitions, missing {missing}: "
                  f"{taken:.2f} s of CPU time, equal to the first engine: {same}")  # fmt: skip


if __name__ == "__main__":
    main()
