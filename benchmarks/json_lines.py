"""Rows of measurements in files of one JSON object a line, compressed with gzip or not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def append(path: Path, row: dict[str, Any]) -> None:
    """Add one row."""
    with path.open("a") as out:
        out.write(json.dumps(row) + "\n")
