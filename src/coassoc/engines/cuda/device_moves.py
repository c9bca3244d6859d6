"""Exchange moves that stay on the GPU, and the packing of live counts that are changed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.moves import AgreementState, DensityState, Moves

SearchState = DensityState | AgreementState


@dataclass(frozen=True)
class DeviceMoves:
    """Rows that would gain by moving, in row order, on the GPU: the counterpart of `Moves`."""

    device: Any
    rows: Any  # (m,) int64
    into: Any  # (m,) int32
    table: Any  # codes of all rows, or of these alone when gathered
    gathered: bool
    labels: Any  # of all rows
    row_copies: Any  # of all rows; None: one each
    stop: int

    def __len__(self) -> int:
        return len(self.rows)

    def to_host(self) -> Moves:
        """The same in host memory, for a coordinator elsewhere; `settle_moves` does not need it."""
        get, take, rows = self.device.get, self.device.take, self.rows
        copies = np.ones(len(self)) if self.row_copies is None else get(take(self.row_copies, rows))
        return Moves(
            get(rows).astype(np.int64),
            get(take(self.labels, rows)).astype(np.int32),
            get(self.into).astype(np.int32),
            get(self.table if self.gathered else take(self.table, rows)),
            copies.astype(np.int64),
            self.stop,
        )


# -- live counts in one array ------------------------------------------------------------------------------

_WIDE = {
    "density": ("squares", "cells", "sizes", "together", "observed", "values"),
    "agreement": ("cells", "sizes", "shared", "entropy", "values"),
}


def pack_counts(state: SearchState) -> np.ndarray:
    """A state as 32-bit words, as the kernels read it: a count of moves made, 64-bit parts, α (d, k) as uint32."""
    derived = _derived(state)
    parts = [np.zeros(1, np.int64)]
    parts += [derived[name] if name in derived else getattr(state, name) for name in _WIDE[state.kind]]
    words = [np.ascontiguousarray(part).ravel().view(np.uint32) for part in parts]
    return np.concatenate([*words, state.alpha.astype(np.uint32).ravel()])


def _derived(state: SearchState) -> dict[str, np.ndarray]:
    """Quantities that moves change along with the counts and that a state does not store."""
    derived = {"values": state.values()}
    if isinstance(state, DensityState):
        derived["together"] = (state.squares - state.cells).sum(axis=0)
        derived["observed"] = (state.cells * (state.cells - 1)).sum(axis=0)
    return derived


def sums_are_integers(state: SearchState, n_moves: int, repeated: bool) -> bool:
    """Whether weights are all 1 and integer sums over partitions stay in int64, whichever of the moves are made."""
    total = int(state.sizes.sum())
    largest = total if repeated else min(total, int(state.sizes.max()) + n_moves)
    return bool((state.v == 1.0).all()) and len(state.v) * largest**2 < 1 << 63


def packed_views(words: np.ndarray, kind: str, shape: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """The parts of packed counts by name, as views; `shape` is (d, p, k)."""
    d, p, k = shape
    sizes = {"squares": (p, k), "cells": (p, k), "sizes": (k,), "shared": (p,), "entropy": (p,)}
    sizes |= {"together": (k,), "observed": (k,), "values": (k,) if kind == "density" else (p,)}
    wide, at = words[: len(words) - d * k].view(np.int64), 1
    views = {"made": wide[:1], "alpha": words[len(words) - d * k :].reshape(d, k)}
    for name in _WIDE[kind]:
        size = int(np.prod(sizes[name]))
        part = wide[at : at + size].reshape(sizes[name])
        views[name] = part.view(np.float64) if name == "values" else part
        at += size
    return views


def unpack_counts(state: SearchState, words: np.ndarray) -> int:
    """Copy the changed counts back into the state; how many moves were made."""
    layout = state.layout
    views = packed_views(words, state.kind, (layout.n_codes, layout.n_partitions, len(state.sizes)))
    for name in ("alpha", *_WIDE[state.kind]):
        if name in vars(state):
            np.copyto(getattr(state, name), views[name])
    return int(views["made"][0])
