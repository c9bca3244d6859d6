"""What is in use on this machine: engine, instruction set, threads, versions."""

from __future__ import annotations

import os
import platform
from importlib import metadata, util
from typing import Any

import coassoc

from . import CUDA_PAYS
from .native.engine import default_threads, kernels_missing, simd_level, simd_levels

_REQUIRED = ("numpy", "scipy", "scikit-learn")
_OPTIONAL = (  # packages that extras install
    "matplotlib", "jinja2", "rich", "pyarrow", "pandas", "polars", "pymetis", "dask", "distributed", "h5py", "anndata",
    "cupy",
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
    why_not = kernels_missing()
    simd: str | None = None
    if why_not is None:
        try:
            simd = simd_level()
        except ValueError as error:
            simd = f"error: {error}"
    config = {
        "coassoc": coassoc.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "engine": "numpy" if why_not else "native",
        "kernels": "present" if why_not is None else f"missing: {why_not}",
        "simd": simd,
        "simd_available": simd_levels(),
        "n_threads": default_threads(),
        "gpu": _gpu(),
        "versions": {name: version_of(name) for name in _REQUIRED},
        "optional": {name: _optional_version(name) for name in _OPTIONAL},
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


def _optional_version(name: str) -> str | None:
    """Version of a package, found without importing it."""
    if util.find_spec(name) is None:
        return None
    if name == "cupy":  # published under one name per CUDA version
        found = (version_of(d) for d in ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"))
        return next((v for v in found if v), "present")
    return version_of(name) or "present"


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
