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
    accepted = np.zeros(len(moves), dtype=np.uint8)
    layout = state.layout
    clusters = [np.ascontiguousarray(moves_of, dtype=np.int32) for moves_of in (moves.sources, moves.targets)]
    counted = [np.ascontiguousarray(numbers, dtype=np.int64) for numbers in (moves.copies, layout.n_clusters)]
    given = np.ascontiguousarray(moves.codes), *clusters, *counted
    rules = state.v, state.least, state.vanish, threshold
    if isinstance(state, DensityState):
        counts = state.alpha, state.cells, state.squares, state.sizes
        kernels.settle_density(*given, *counts, state.values(), *rules, accepted)
    else:
        parts = state.alpha, state.cells, state.sizes, state.shared, state.entropy
        kernels.settle_agreement(*given, *parts, state.values(), *rules, state.bits, accepted)
    return accepted.astype(bool)
