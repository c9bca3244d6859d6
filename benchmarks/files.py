"""Processor time of reading and writing files, and the way of `coassoc fit labels.csv` through the code.

    python -m benchmarks.files speed --rows 1e6
    python -m benchmarks.files walk

`speed` compares `coassoc fit` on a CSV file with pyarrow's reading and writing and the fit alone, and reads a Parquet
file with and without the child process. Times are of the processor, those of child processes included, the least of the
repeats. `walk` counts how often the file is opened, how often it is parsed, and the modules of coassoc whose functions
are called.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np


def processor_time() -> float:
    """Seconds of this process and of its ended children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def least(function: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = processor_time()
        function()
        times.append(processor_time() - start)
    return min(times)


def make_files(folder: Path, n_rows: int, n_columns: int = 10) -> None:
    """labels.csv and labels.parquet: ids and noisy copies of twelve groups."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    group = rng.integers(12, size=n_rows)
    columns = {
        f"p{j}": np.where(rng.random(n_rows) < 0.7, group, rng.integers(20, size=n_rows)) for j in range(n_columns)
    }
    table = pa.table({"id": [f"i{i}" for i in range(n_rows)], **columns})
    pyarrow.csv.write_csv(table, folder / "labels.csv", pyarrow.csv.WriteOptions(quoting_style="none"))
    pyarrow.parquet.write_table(table, folder / "labels.parquet")


def speed(n_rows: int, repeats: int) -> None:
    import pyarrow as pa
    import pyarrow.csv as pacsv
    import pyarrow.parquet

    import coassoc as ca
    from coassoc.cli import main

    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(sys.stderr):
        folder = Path(name)
        make_files(folder, n_rows)
        source, out = folder / "labels.csv", folder / "out.csv"
        ensemble = ca.read_ensemble(source)
        texts = pacsv.ConvertOptions(
            column_types={c: pa.dictionary(pa.int32(), pa.string()) for c in [f"p{j}" for j in range(10)]}
        )
        table = pacsv.read_csv(source, convert_options=texts)
        labels = pa.array(np.zeros(n_rows, np.int32))
        rows = {
            "pyarrow: read CSV": lambda: pacsv.read_csv(source, convert_options=texts),
            "Consensus.fit": lambda: ca.Consensus(random_state=0).fit(ensemble),
            "pyarrow: write CSV": lambda: pacsv.write_csv(table.append_column("consensus", labels), out),
            "read_ensemble of CSV": lambda: ca.read_ensemble(source),
            "write_labels beside CSV": lambda: ca.write_labels(out, np.zeros(n_rows, int), source=source, force=True),
            "coassoc fit of CSV": lambda: main(["fit", str(source), "-o", str(out), "--force"]),
            "pyarrow: read Parquet": lambda: pa.parquet.read_table(folder / "labels.parquet"),
            "read_ensemble of Parquet": lambda: ca.read_ensemble(folder / "labels.parquet"),
            "read_ensemble of Parquet, trusted": lambda: ca.read_ensemble(folder / "labels.parquet", trusted=True),
        }
        times = {name: least(function, repeats) for name, function in rows.items()}
    for name, seconds in times.items():
        print(f"{name:36} {seconds:6.2f} s")
    parts = sum(list(times.values())[:3])
    print(f"{'fit / (read + fit + write)':36} {times['coassoc fit of CSV'] / parts:6.2f}")


def walk() -> None:
    """Trace `coassoc fit labels.csv`, after one run that imports everything."""
    import pyarrow.csv as pacsv

    import coassoc
    from coassoc.cli import main

    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name), 2000)
        path, root = str(Path(name, "labels.csv")), os.path.dirname(coassoc.__file__)
        opened, parsed, modules = [], [], set()
        real_open, real_parse = builtins.open, pacsv.open_csv

        def watched_open(file, *args, **kwargs):
            if str(file) == path:
                opened.append(file)
            return real_open(file, *args, **kwargs)

        def watched_parse(*args, **kwargs):
            parsed.append(args)
            return real_parse(*args, **kwargs)

        def profile(frame, event, _):
            if event == "call" and frame.f_code.co_filename.startswith(root) and frame.f_code.co_name != "<module>":
                modules.add(os.path.relpath(frame.f_code.co_filename, root))

        with contextlib.redirect_stdout(io.StringIO()):
            main(["fit", path])
            builtins.open, pacsv.open_csv = watched_open, watched_parse
            sys.setprofile(profile)
            try:
                main(["fit", path])
            finally:
                sys.setprofile(None)
                builtins.open, pacsv.open_csv = real_open, real_parse
    print(f"opened {len(opened)} times, parsed {len(parsed)} times, {len(modules)} modules:")
    for part in ("cli", "ensemble", "engines", "core", "metrics", "consensus", "report"):
        inside = sorted(module for module in modules if module.startswith(part + os.sep))
        print(f"{len(inside):4}  {part}: {', '.join(module.removeprefix(part + os.sep) for module in inside)}")


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "walk"))
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if args.what == "walk":
        walk()
    else:
        speed(int(args.rows), args.repeats)


if __name__ == "__main__":
    run()
