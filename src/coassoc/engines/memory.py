"""Memory: sizes as text, what can be allocated, and arrays in temporary files."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_size(size: str | int | float) -> int:
    """Bytes in a size such as ``"2GB"``, ``"512 MiB"`` or a number of bytes.

    Examples
    --------
    >>> parse_size("2GB"), parse_size("1.5 GiB"), parse_size(4096)
    (2000000000, 1610612736, 4096)
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][0-9]+)?)\s*([KMGT]I?)?B?\s*", size.upper())
        if match is None:
            raise ValueError(f"memory must be a size such as '2GB', '512MiB' or a number of bytes, got {size!r}.")
        size = float(match[1]) * _UNITS[match[2] or ""]
    if isinstance(size, bool) or not isinstance(size, (int, float, np.integer)):
        raise TypeError(f"memory must be a size such as '2GB' or a number of bytes, got {size!r}.")
    if not size >= 1:
        raise ValueError(f"memory must be at least one byte, got {size!r}.")
    return int(size)


def format_size(size: float) -> str:
    """A number of bytes as text, in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def proc_bytes(file: str, *names: str) -> int | None:
    """Sum of the lines `names` of a file in /proc, in bytes; None where the system does not have the first."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc", file).read_text().splitlines())
    except OSError:
        return None
    return sum(int(fields[name].split()[0]) * 1024 for name in names if name in fields) if names[0] in fields else None


def available_bytes() -> int:
    """Memory that can be allocated now without swapping, as the system reports it."""
    available = proc_bytes("meminfo", "MemAvailable")
    if available is None and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 * 10**9 if available is None else available


def file_array(shape: int | tuple[int, ...], dtype: Any, directory: str | None = None) -> np.ndarray:
    """An array in an unnamed temporary file, zero at first; its disk space is freed with the last reference.

    Pages of a file belong to the system's cache, which drops them when memory is short.
    """
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile(dir=directory, prefix="coassoc-") as file:
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash at the first write
            os.posix_fallocate(file.fileno(), 0, max(n_bytes, 1))
        else:
            file.truncate(max(n_bytes, 1))
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)
