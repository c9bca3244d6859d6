"""The compiled module, or None where it was not built, and the loop over moves that every engine shares."""

from __future__ import annotations

import numpy as np

from ..core.moves import AgreementState, DensityState, Moves

try:
    from .. import _kernels as kernels
except ImportError as error:  # pragma: no cover - depends on the build
    kernels = None
    why_missing: str | None = str(error)
else:
    why_missing = None


def settle(state: DensityState | AgreementState, moves: Moves, threshold: float) -> np.ndarray:
    """Same as ``state.settle(moves, threshold)``: True where a move was applied."""
    if kernels is None or not len(moves):
        return state.settle(moves, threshold)
    return kernels.settle(state, moves, state.values(), threshold).view(bool)
