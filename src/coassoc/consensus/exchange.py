"""Raising an exact objective by moving one row at a time: the loop over the engine's exchange verbs."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.counts import Counts
from ..core.moves import AgreementState, DensityState
from ..engines.contract import Labelling, Rows

_LIMIT = 1 << 18  # moves fetched per call, which limits the coordinator's memory


@dataclass
class SearchResult:
    """The partition that an exchange ended with."""

    labelling: Labelling
    counts: Counts
    objective: float  # n·S, or Σ_j v_j NMI_j
    n_sweeps: int
    converged: bool  # no move of a single row raises the objective


def exchange(
    rows: Rows, labelling: Labelling, state: DensityState | AgreementState, max_sweeps: int, limit: int = _LIMIT
) -> SearchResult:
    """Sweep over the rows until no single move raises the objective; changes `labelling` and `state` in place.

    A sweep without a move has tested every row against the final state, so no single move can raise the objective.
    """
    sweeps, converged = 0, False
    while sweeps < max_sweeps and not converged:
        sweeps += 1
        start, applied = 0, 0
        while start < rows.n_rows:
            table = state.table()
            moves = rows.propose_moves(labelling, table, start, limit)
            if len(moves):
                applied += rows.apply_moves(labelling, state, moves, table.threshold)
            start = moves.stop
        converged = applied == 0
    return SearchResult(labelling, state.counts(), state.objective(), sweeps, converged)
