"""Seconds and peak memory of one call, and the machine they were measured on."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from coassoc.engines.memory import proc_bytes


class Meter:
    """Time and peak memory of a block: ``with Meter() as m: ...`` then ``m.seconds, m.peak_mib, m.extra_mib``.

    Memory is measured on Linux, and 0 elsewhere.
    """

    def __enter__(self) -> Meter:
        with suppress(OSError):  # resets the system's record, so that the peak is that of the block
            Path("/proc/self/clear_refs").write_text("5")
        self.before = proc_bytes("self/status", "VmRSS") or 0
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_: Any) -> None:
        self.seconds = time.perf_counter() - self.start
        peak = proc_bytes("self/status", "VmHWM") or 0
        self.peak_mib, self.extra_mib = peak / 2**20, max(0, peak - self.before) / 2**20


def machine() -> str:
    """The machine the figures were measured on, as text."""
    cpu = "unknown CPU"
    if os.path.exists("/proc/cpuinfo"):
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{cpu}, {os.cpu_count()} cores, load {load:.1f} at the start, {time.strftime('%Y-%m-%d')}"
