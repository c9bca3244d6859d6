"""Seconds and peak memory of one call, and the versions of the packages."""

from __future__ import annotations

import platform
import sys
import time
from functools import lru_cache
from importlib import metadata
from typing import Any


class Meter:
    """Time and peak memory of a block: ``with Meter() as m: ...`` then ``m.seconds, m.peak_mib, m.extra_mib``.

    On Linux the peak is that of the block alone (the high-water mark is reset first); elsewhere it is that of the
    process so far.
    """

    seconds = 0.0
    peak_mib = 0.0
    extra_mib = 0.0

    def __enter__(self) -> Meter:
        _reset_peak()
        self._before = _status("VmRSS")
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.seconds = time.perf_counter() - self._start
        peak = _status("VmHWM") or _peak_of_process()
        self.peak_mib = peak / 1024
        self.extra_mib = max(0.0, peak - self._before) / 1024 if self._before else 0.0


def _reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as handle:
            handle.write("5")
    except OSError:
        pass


def _status(name: str) -> float:
    """A line of the process status in KiB, 0 where there is none."""
    try:
        with open("/proc/self/status") as handle:
            for line in handle:
                if line.startswith(name + ":"):
                    return float(line.split()[1])
    except OSError:
        pass
    return 0.0


def _peak_of_process() -> float:
    try:
        import resource
    except ImportError:  # pragma: no cover - not on this system
        return 0.0
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak / 1024 if sys.platform == "darwin" else peak


@lru_cache(maxsize=1)
def versions() -> str:
    """The versions a result depends on, as one string."""
    import coassoc

    parts = [f"coassoc {coassoc.__version__}", f"python {platform.python_version()}"]
    for name in ("numpy", "scipy", "scikit-learn", "pymetis"):
        try:
            parts.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            parts.append(f"{name} absent")
    return ", ".join(parts)
