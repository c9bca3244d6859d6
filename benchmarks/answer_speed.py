"""CPU time of the default answer, before and after a change, in one run.

    mkdir before && git archive COMMIT | tar -x -C before && pip wheel ./before --no-deps -w before
    unzip -q before/coassoc-*.whl -d before/built
    python -m benchmarks.answer_speed --before before/built --json docs/results/answer_speed.json

Each case is fitted three times by both versions in turn, each in a process of its own, and the least CPU time counts.
Without --before, only this version is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

CASES = {
    "1,000 items, 20 members": (1_000, 20, 25, 100, "auto", 0.0),
    "10,000 items, 20 members": (10_000, 20, 25, 100, "auto", 0.0),
    "100,000 items, 20 members": (100_000, 20, 25, 100, "auto", 0.0),
    "1,000,000 items, 20 members": (1_000_000, 20, 25, 100, "auto", 0.0),
    "5,000 items, 50 members of 60-100 clusters, k from 2 to 200": (5_000, 50, 60, 100, range(2, 201), 0.0),
    "300,000 items, k-means, 10 starts": (300_000, 20, 25, 100, "kmeans", 0.0),
    "300,000 items, k-means, 10 starts, 10 % missing": (300_000, 20, 25, 100, "kmeans", 0.1),
    "1,000,000 items, k-means, 10 starts": (1_000_000, 20, 25, 100, "kmeans", 0.0),
}


def draw_table(n: int, p: int, low: int, high: int, missing: float, classes: int = 20) -> np.ndarray:
    """Labels (n, p): each hidden class is blurred over four clusters of every member, 30 % are drawn at random."""
    rng = np.random.default_rng(0)
    hidden, table = rng.integers(classes, size=n), np.empty((n, p), np.int64)
    for j, k in enumerate(rng.integers(low, high + 1, size=p)):
        table[:, j] = rng.integers(k, size=(classes, 4))[hidden, rng.integers(4, size=n)]
        stray = rng.random(n) < 0.3
        table[stray, j] = rng.integers(k, size=int(stray.sum()))
    table[rng.random((n, p)) < missing] = -1
    return table


def measure(case: str, source: Path | None) -> None:
    """Print the CPU seconds of one fit, and a digest of its labels."""
    import hashlib

    if source is not None:  # an editable installation would come first
        sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
        sys.path.insert(0, str(source))
    import coassoc as ca

    assert source is None or Path(ca.__file__).is_relative_to(source), ca.__file__

    n, p, low, high, what, missing = CASES[case]
    ca.Consensus(random_state=0).fit(draw_table(300, 5, 3, 5, 0.0))  # imports
    ensemble = ca.Ensemble(draw_table(n, p, low, high, missing))
    model = ca.KMeansConsensus(20, n_init=10) if what == "kmeans" else ca.Consensus(what)
    begin = time.process_time()
    model.set_params(random_state=0).fit(ensemble)
    seconds = time.process_time() - begin
    print(json.dumps({"seconds": seconds, "labels": hashlib.sha256(model.labels_.tobytes()).hexdigest()[:12]}))


def run_apart(case: str, source: Path | None) -> dict:
    command = [sys.executable, __file__, "--case", case]
    command += [] if source is None else ["--before", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, default=None, help="the folder that holds an earlier version")
    parser.add_argument("--case", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    if options.case is not None:
        measure(options.case, options.before)
        return
    versions: dict[str, Path | None] = {"after": None}
    if options.before is not None:
        versions = {"before": options.before.resolve(), **versions}
    rows = []
    for case in CASES:
        runs = [{name: run_apart(case, source) for name, source in versions.items()} for _ in range(options.repeats)]
        row = {"case": case} | {name: min(run[name]["seconds"] for run in runs) for name in versions}
        line = f"{case}: " + ", ".join(f"{name} {row[name]:.2f} s" for name in versions)
        if "before" in row:
            row["ratio"] = row["before"] / row["after"]
            row["same_labels"] = runs[0]["before"]["labels"] == runs[0]["after"]["labels"]
            line += f", ratio {row['ratio']:.2f}, same labels: {row['same_labels']}"
        print(line, flush=True)
        rows.append(row)
    if options.json is not None:
        options.json.write_text(json.dumps({"unit": "CPU seconds", "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
