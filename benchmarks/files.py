"""The way of ``coassoc fit labels.csv`` through the code: ``python -m benchmarks.files walk``.

It counts how often the file is opened, how often it is parsed, and the modules of coassoc whose functions are called.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

import numpy as np


def make_file(path: Path, n_rows: int = 2000, n_columns: int = 10) -> None:
    """Ids, and noisy copies of twelve groups."""
    rng = np.random.default_rng(0)
    group = rng.integers(12, size=(n_rows, 1))
    table = np.where(rng.random((n_rows, n_columns)) < 0.7, group, rng.integers(20, size=(n_rows, n_columns)))
    rows = [f"i{i},{','.join(map(str, row))}\n" for i, row in enumerate(table.tolist())]
    path.write_text(",".join(["id", *(f"p{j}" for j in range(n_columns))]) + "\n" + "".join(rows))


def walk() -> None:
    """Trace `coassoc fit labels.csv`, after one run that imports everything."""
    import pyarrow.csv as pacsv

    import coassoc
    from coassoc.cli import main

    with tempfile.TemporaryDirectory() as name:
        path, root = str(Path(name, "labels.csv")), os.path.dirname(coassoc.__file__)
        make_file(Path(path))
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


if __name__ == "__main__":
    walk()
