"""The process that reads files which are not trusted, as `guard` asks it to."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from .formats import format_called, open_here
from .table import Options, TooLarge, naming, pa

_DESCRIBED = ("names", "n_rows", "id_name", "class_name", "guess_ids", "guess", "inspect", "notes")


def serve(source: Any, out: Any) -> None:
    """What the child does: open the files that the first line names, describe them, do what the second line says."""
    task = json.loads(source.readline())
    files, path = [Path(file) for file in task["files"]], Path(task["path"])

    def tell(message: dict[str, Any]) -> None:
        out.write(json.dumps(message).encode() + b"\n")
        out.flush()

    try:
        with naming(path):
            known, options = format_called(task["format"]), Options(**task["options"])
            for package in known.packages:
                import_module(package)
            set_limits(7 * task["allowed"] // 4, task["seconds"])  # of memory, less than twice what may come out
            table = open_here(known, files, path, options)
            if 8 * (table.n_rows or 0) > task["allowed"]:
                raise TooLarge(path, task["allowed"])
            tell({name: getattr(table, name) for name in _DESCRIBED} | {"pieces": table.pieces()})
            question = json.loads(source.readline() or "{}")
            if "append" in question:
                table.close()
                columns = pa.ipc.open_stream(source).read_all()
                known.append(files, Path(question["append"]), columns, options, question["force"])
            elif question:
                _send(table.batches(**question), out, tell)
        tell({})
    except Exception as error:
        tell(_described(error))


def _send(batches: Iterator[Any], out: Any, tell: Any) -> None:
    """Batches as Arrow streams, which are ended in any case, so that a line can follow."""
    batch = next(batches, None)
    while batch is not None:
        tell({"stream": True})
        with pa.ipc.new_stream(out, schema := batch.schema) as stream:
            while batch is not None and batch.schema == schema:
                batch.validate(full=True)  # offsets that lead elsewhere would crash who reads them
                stream.write_batch(batch)
                batch = next(batches, None)


def _described(error: Exception) -> dict[str, Any]:
    text = str(error)
    # HDF5 tells of a lack of memory in words, and calls a damaged address "past end of allocation"
    refused = re.search("malloc|realloc|allocate|(?<!past end of )allocation|out of memory|bad_alloc", text)
    if isinstance(error, (MemoryError, TooLarge)) or (refused and isinstance(error, ValueError)):
        return {"error": "memory", "text": text}
    if isinstance(error, OSError):
        return {"error": "system", "text": error.strerror or text, "errno": error.errno, "filename": error.filename}
    if isinstance(error, (ImportError, ValueError)):
        return {"error": "import" if isinstance(error, ImportError) else "content", "text": text}
    return {"error": "fault", "text": "".join(traceback.format_exception(error))}


def set_limits(memory: int, seconds: int) -> None:
    """Limits on this process, where the system has them: not on Windows and macOS."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        seconds += math.ceil(time.process_time())  # what starting took
        limits = {resource.RLIMIT_AS: used + memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
        for kind, value in limits.items():
            most = resource.getrlimit(kind)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    serve(sys.stdin.buffer, pipe)
