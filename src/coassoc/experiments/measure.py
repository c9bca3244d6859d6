"""Seconds and peak memory of one call, and the versions of the packages."""

from __future__ import annotations

import platform
import sys
import time
from functools import lru_cache
from typing import Any

from ..engines.config import version_of
from ..engines.memory import proc_bytes


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
        self._before = proc_bytes("self/status", "VmRSS")
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.seconds = time.perf_counter() - self._start
        peak = proc_bytes("self/status", "VmHWM") or _peak_of_process()
        self.peak_mib = peak / 2**20
        self.extra_mib = max(0.0, peak - self._before) / 2**20 if self._before else 0.0


def _reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as handle:
            handle.write("5")
    except OSError:
        pass


def _peak_of_process() -> int:
    try:
        import resource
    except ImportError:  # pragma: no cover - not on this system
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@lru_cache(maxsize=1)
def versions() -> str:
    """The versions a result depends on, as one string."""
    import coassoc

    parts = [f"coassoc {coassoc.__version__}", f"python {platform.python_version()}"]
    parts += [f"{name} {version_of(name) or 'absent'}" for name in ("numpy", "scipy", "scikit-learn", "pymetis")]
    return ", ".join(parts)
