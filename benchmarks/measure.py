"""Seconds and peak memory of one call, and the machine they were measured on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from coassoc.engines.memory import proc_bytes

ROOT = Path(__file__).resolve().parents[1]


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


def anonymous_bytes() -> int | None:
    """Memory of this process without mapped files; None where the system does not report it."""
    return proc_bytes("self/status", "RssAnon", "RssShmem")


class PeakMemory:
    """Largest anonymous memory while the block runs, sampled every `every` seconds."""

    every = 0.005

    def __enter__(self) -> PeakMemory:
        self.start = self.peak = anonymous_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        done = self.peak is None
        while not done:
            done = self._done.wait(self.every)
            self.peak = max(self.peak or 0, anonymous_bytes() or 0)


def in_own_process(module: str, *words: str, timeout: float | None = None) -> tuple[dict[str, Any], str]:
    """The row that ``python -m MODULE WORDS`` prints last; or an empty one, and what it failed on."""
    command = [sys.executable, "-m", module, *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {}, f"not finished after {timeout:.0f} s"
    if done.returncode:
        return {}, (done.stderr.strip().splitlines() or ["killed"])[-1][:200]
    return json.loads(done.stdout.splitlines()[-1]), ""


def machine() -> str:
    """The machine the figures were measured on, as text."""
    cpu = "unknown CPU"
    if os.path.exists("/proc/cpuinfo"):
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{cpu}, {os.cpu_count()} cores, load {load:.1f} at the start, {time.strftime('%Y-%m-%d')}"
