"""One thread in the libraries under NumPy, where sums must not depend on their number or the work is too small."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    """Finding the loaded libraries takes milliseconds, so it is done once."""
    import sklearn.cluster  # noqa: F401  so that its libraries are among those found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread(user_api: str | None = None) -> Any:
    """A context in which BLAS ("blas"), OpenMP ("openmp") or both (None) use one thread."""
    return _controller().limit(limits=1, user_api=user_api)
