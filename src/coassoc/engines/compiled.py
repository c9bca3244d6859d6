"""The compiled module, or None where it was not built, and why."""

from __future__ import annotations

try:
    from .. import _kernels as kernels
except ImportError as error:  # pragma: no cover - depends on the build
    kernels = None
    why_missing: str | None = str(error)
else:
    why_missing = None
