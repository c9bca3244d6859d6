"""Passes over one labelling: what the last one gave, and a way back from it."""

from __future__ import annotations

import numpy as np

from ..core.counts import Counts, ScoreTable
from ..core.tables import KMeansObjective, Objective, fix_table
from ..engines.contract import Labelling, Rows, Start


class Descent:
    """One labelling on its way down, with the table and counts of its latest pass, over the engine's verbs."""

    n_empty: int  # clusters without a row
    table: ScoreTable  # the labels are exactly its argmax
    counts: Counts

    def __init__(self, rows: Rows, objective: Objective, labelling: Labelling):
        self.rows, self.objective, self.labelling = rows, objective, labelling
        self._before: tuple[ScoreTable, Counts] | None = None  # of the pass before the latest

    def passes(self, centres: Counts | None, limit: int, losses: list[float]) -> list[tuple[int, float]]:
        """One pass or a few from the centres of these counts, or of the labelling's own when None.

        Gives the rows that moved and the loss of each: `limit` at most, and no more after one that moved nothing, did
        not lower the loss (the last of `losses` is that before) or left a cluster empty.
        """
        first = not hasattr(self, "counts")
        if not first:
            self._before = self.table, self.counts
        self.table = fix_table(self.objective.table(self.counts if centres is None else centres), self.rows.layout)
        moved = self.rows.assign(self.labelling, self.table)
        if moved or first:
            self.counts = self.rows.counts(self.labelling)
            self.loss = self.objective.loss(self.counts)
            self.n_empty = int((self.counts.sizes == 0).sum())
        return [(moved, self.loss)]

    def ended(self) -> tuple[ScoreTable, Counts]:
        """Table and counts, once there are no more passes to come."""
        return self.table, self.counts

    def take_back(self) -> bool:
        """Undo the latest pass, which did not lower the loss; False, and nothing is done, if no count has changed."""
        assert self._before is not None
        table, counts = self._before
        if np.array_equal(self.counts.alpha, counts.alpha):
            return False
        self.table, self.counts = table, counts
        self.rows.assign(self.labelling, table)  # labels are a function of the table
        return True


class FusedDescent(Descent):
    """The same for k-means where the engine does passes in one call: counts and tables are made when asked for.

    What the call leaves in the labelling is the truth: its table, and the one before it.
    """

    def __init__(self, rows: Rows, objective: KMeansObjective, labelling: Labelling, begun: Start | None = None):
        super().__init__(rows, objective, labelling)
        self.weights = np.ascontiguousarray(objective.weights, dtype=np.float64)
        self._begun = begun  # passes that were made already

    def passes(self, centres: Counts | None, limit: int, losses: list[float]) -> list[tuple[int, float]]:
        if self._begun is not None:
            found, self._begun = self._begun.passes, None
        else:
            before = losses[-1] if losses else np.inf
            found = self.rows.kmeans_passes(self.labelling, self.weights, centres, limit, before)
        self.n_empty = found[2]
        return list(zip(found[0], found[1]))

    @property
    def table(self) -> ScoreTable:  # type: ignore[override]
        return self.rows.last_table(self.labelling)

    @property
    def counts(self) -> Counts:  # type: ignore[override]
        return self.rows.counts(self.labelling)

    def ended(self) -> tuple[ScoreTable, Counts]:
        return self.rows.ended(self.labelling)

    def take_back(self) -> bool:
        after, table = self.counts, self.table
        self.rows.assign(self.labelling, self.rows.last_table(self.labelling, earlier=True))
        if not np.array_equal(after.alpha, self.counts.alpha):
            return True
        self.rows.assign(self.labelling, table)
        return False


def descent_on(rows: Rows, objective: Objective, labelling: Labelling, begun: Start | None = None) -> Descent:
    """Passes on `labelling`, in one call each where the engine can; `begun` has made the first of them."""
    if rows.fuses_kmeans and type(objective) is KMeansObjective:
        return FusedDescent(rows, objective, labelling, begun)
    return Descent(rows, objective, labelling)
