"""What is in use on this machine: engine, instruction set, threads, versions."""

from __future__ import annotations

import os
import platform
from importlib import metadata, util
from typing import Any

from .compiled import why_missing
from .cuda.engine import CUDA_PAYS
from .native import default_threads, simd_level, simd_levels

_REQUIRED = ("numpy", "scipy", "scikit-learn")
_OPTIONAL = (  # packages that extras install
    "matplotlib", "jinja2", "rich", "pyarrow", "pandas", "polars", "pymetis", "dask", "distributed", "h5py", "anndata",
)  # fmt: skip


def show_config(*, as_dict: bool = False) -> dict[str, Any] | None:
    """Print which engine, instruction set, threads and versions are in use, or return them.

    Parameters
    ----------
    as_dict : bool, default=False
        Return a dictionary instead of printing.

    Returns
    -------
    dict or None
        With ``as_dict=True``: keys ``coassoc``, ``python``, ``platform``, ``engine`` (what ``"auto"`` picks),
        ``kernels`` (compiled kernels: present, or why not), ``simd`` (in use), ``simd_available``, ``n_threads``,
        ``gpu``, ``versions`` (required packages) and ``optional`` (extras; None where not installed).

    Examples
    --------
    >>> import coassoc as ca
    >>> config = ca.show_config(as_dict=True)
    >>> config["engine"] in ("native", "numpy")
    True
    """
    try:
        simd = None if why_missing else simd_level()
    except ValueError as error:
        simd = f"error: {error}"
    cupy = map(version_of, ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"))  # a name per version of CUDA
    config = {
        "coassoc": version_of("coassoc") or "not installed",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "engine": "numpy" if why_missing else "native",
        "kernels": f"missing: {why_missing}" if why_missing else "present",
        "simd": simd,
        "simd_available": simd_levels(),
        "n_threads": default_threads(),
        "gpu": _gpu(),
        "versions": {name: version_of(name) for name in _REQUIRED},
        "optional": {name: version_of(name) for name in _OPTIONAL} | {"cupy": next(filter(None, cupy), None)},
    }
    if as_dict:
        return config
    for name, value in config.items():
        if isinstance(value, dict):
            value = [f"{package} {version or 'not installed'}" for package, version in value.items()]
        print(f"{name:>14}: {', '.join(value) if isinstance(value, list) else value}")
    return None


def version_of(distribution: str) -> str | None:
    """Version of an installed distribution; None when it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _gpu() -> str:
    """Name of the first GPU; CuPy is imported only where it is installed."""
    if util.find_spec("cupy") is None:
        seen = os.path.exists("/proc/driver/nvidia/version")
        return "present, but CuPy is not installed (pip install 'coassoc[gpu]')" if seen else "none"
    try:
        import cupy

        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        return f"{name} (engine='auto' uses it from {CUDA_PAYS} items)"
    except Exception as error:  # a broken driver must not break this report
        return f"none usable ({type(error).__name__})"
