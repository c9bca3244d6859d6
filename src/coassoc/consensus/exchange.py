"""Climbing an exact objective by moving one row at a time: the loop around the engine's exchange verbs."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.counts import Counts
from ..core.moves import AgreementState, DensityState
from ..engines.contract import Labelling, Rows

_LIMIT = 1 << 18  # moves fetched per call: bounds the coordinator's memory


@dataclass
class Climb:
    """Where a climb ended."""

    counts: Counts
    objective: float  # n·S, or Σ_j v_j NMI_j
    n_moves: int
    n_sweeps: int
    converged: bool  # no single move gains any more


def exchange(
    rows: Rows, labelling: Labelling, state: DensityState | AgreementState, max_sweeps: int, limit: int = _LIMIT
) -> Climb:
    """Sweep over the rows until no single move gains; `labelling` and `state` are changed in place.

    A sweep that applies nothing judged every row against the final state, which is then 1-optimal.
    """
    moved, sweeps, converged = 0, 0, False
    while sweeps < max_sweeps and not converged:
        sweeps += 1
        start, applied = 0, 0
        while start < rows.n_rows:
            table = state.table()
            moves = rows.propose_moves(labelling, table, start, limit)
            if len(moves):
                applied += rows.apply_moves(labelling, state, moves, table.threshold)
            start = moves.stop
        moved += applied
        converged = applied == 0
    return Climb(state.counts(), state.objective(), moved, sweeps, converged)
