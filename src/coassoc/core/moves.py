r"""Moves of single items between clusters: frozen tables for proposals, live counts to check and apply them.

Proposals are computed for all rows against one frozen state. The coordinator then applies them in row order, each
only if it still gains on the live counts, so the objective never falls and the result does not depend on chunks or
threads. There are two objectives, both functions of integers:

* density, :math:`n S = \sum_C |C|\, T_C / P_C` with :math:`T_C = \sum_j v_j \sum_{f \in j} \alpha_f (\alpha_f - 1)`
  and :math:`P_C = \sum_j v_j n_{Cj} (n_{Cj} - 1)`;
* agreement, :math:`\sum_j v_j\, NMI_j` with :math:`NMI_j = 2 N_j / E_j`, where :math:`N_j` and :math:`E_j` are sums
  of :math:`x \log x` over counts, kept as int64 fixed point so that they never drift.

Floating point is plain IEEE double in a fixed order; `x log x` uses only + − × /, so that every engine and language
gives the same bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .counts import Counts, Layout

TOLERANCE = 1e-12  # a move must gain more than this fraction of the objective
_SQRT_HALF = 0.7071067811865476
_LN2 = 0.6931471805599453
_SERIES = tuple(1.0 / i for i in range(23, 0, -2))  # of artanh, highest power first; |s| <= 0.172


@dataclass(frozen=True)
class MoveTable:
    """A frozen state as tables from which proposals are computed. All arrays are C-contiguous."""

    kind: str  # "density" or "agreement"
    alpha: np.ndarray  # (d, k) int64: counts, for density times `steps`
    cells: np.ndarray  # (p, k) int64: the same
    sizes: np.ndarray  # (k,) int64
    values: np.ndarray  # (k,) |C| T / P of each cluster, or (p,) v·NMI of each partition
    threshold: float
    least: int  # smallest number of copies that a move may leave in a cluster or put into an empty one
    # density
    steps: Any = None  # (p,) int64: partition weights, in units of `unit`
    unit: float = 1.0
    together: Any = None  # (k,) float64: T
    observed: Any = None  # (k,) float64: P
    # agreement
    enter: Any = None  # (d, k) int64: change of x log x when one copy is added to a count
    leave: Any = None  # or taken from it
    enter_cells: Any = None  # (p, k) int64
    leave_cells: Any = None
    shared: Any = None  # (p,) int64: N
    entropy: Any = None  # (p,) int64: E
    double: Any = None  # (p,) float64: 2v
    bits: int = 0


@dataclass(frozen=True)
class Moves:
    """Rows that would gain by moving, in row order, with what is needed to check the gain again."""

    indices: np.ndarray  # (m,) int64
    sources: np.ndarray  # (m,) int32
    targets: np.ndarray  # (m,) int32
    codes: np.ndarray  # (m, p)
    copies: np.ndarray  # (m,) int64
    stop: int  # the rows before were examined; the next call starts there

    def __len__(self) -> int:
        return len(self.indices)


# -- x log x in fixed point --------------------------------------------------------------------------------


def fixed_bits(n: int) -> int:
    """Fractional bits such that x log x stays below 2**57 for every x up to n."""
    top = max(n, 2) * math.log(max(n, 2)) * 1.0001
    return math.floor(math.log2(2.0**57 / top))


def fixed_xlogx(x: np.ndarray, bits: int) -> np.ndarray:
    """x log x of non-negative integers, times 2**bits, rounded to int64; 0 for 0."""
    x = np.asarray(x, dtype=np.int64)
    values = np.maximum(x, 1).astype(np.float64)
    fraction, exponent = np.frexp(values)
    low = fraction < _SQRT_HALF
    fraction = np.where(low, fraction + fraction, fraction)
    exponent = (exponent - low).astype(np.float64)
    s = (fraction - 1.0) / (fraction + 1.0)
    z = s * s
    r = np.full_like(s, _SERIES[0])
    for coefficient in _SERIES[1:]:
        r = r * z + coefficient
    log = exponent * _LN2 + (s + s) * r
    return np.rint(values * log * 2.0**bits).astype(np.int64)


def _change(x: np.ndarray, by: Any, bits: int) -> np.ndarray:
    """Change of x log x when x changes, to 0 at least."""
    return fixed_xlogx(np.maximum(x + by, 0), bits) - fixed_xlogx(x, bits)


# -- live states -------------------------------------------------------------------------------------------


class LiveState(ABC):
    """Counts that change in place while moves are applied; what both objectives have in common."""

    kind: str

    def __init__(self, counts: Counts, v: np.ndarray, least: int = 1):
        self.layout: Layout = counts.layout
        self.alpha = np.ascontiguousarray(counts.alpha).copy()
        self.sizes = counts.sizes.astype(np.int64)
        self.cells = counts.cells.copy()
        self.v = np.ascontiguousarray(v, dtype=np.float64)
        self.least = least

    @abstractmethod
    def values(self) -> np.ndarray:
        """The terms of the objective, float64."""

    @abstractmethod
    def table(self) -> MoveTable:
        """The present state, frozen for proposals."""

    def _frozen(self, alpha: np.ndarray, cells: np.ndarray, values: np.ndarray, **parts: Any) -> MoveTable:
        threshold = TOLERANCE * math.fsum(values.tolist())
        sizes = self.sizes.copy()
        return MoveTable(self.kind, alpha, cells, sizes, values, threshold, self.least, **parts)

    @abstractmethod
    def _gain_and_changes(self, values, both, step, partitions, columns) -> tuple[float, list]:
        """Gain of adding `step` copies of a row to `both` clusters, and (array, where, new values) of what changes.

        `partitions` label the row, with the base clusters `columns`; α and sizes are left to `settle`.
        """

    def settle(self, moves: Moves, threshold: float) -> np.ndarray:
        """Apply in order the moves that still gain more than `threshold`; True where applied."""
        accepted = np.zeros(len(moves), dtype=bool)
        values = self.values()
        for t in range(len(moves)):
            source, target, copies = int(moves.sources[t]), int(moves.targets[t]), int(moves.copies[t])
            if not may_move(int(self.sizes[source]), int(self.sizes[target]), copies, self.least):
                continue
            partitions = np.flatnonzero(moves.codes[t] < self.layout.n_clusters)
            columns = self.layout.offsets[partitions] + moves.codes[t][partitions]
            both, step = np.array([source, target]), np.array([-copies, copies])
            gain, changes = self._gain_and_changes(values, both, step, partitions, columns)
            if gain > threshold:
                accepted[t] = True
                self.alpha[np.ix_(columns, both)] += step
                self.sizes[both] += step
                for array, where, new in changes:
                    array[where] = new
        return accepted

    def counts(self) -> Counts:
        return Counts(self.alpha.copy(), self.sizes.copy(), self.layout)

    def objective(self) -> float:
        """n·S for density, Σ_j v_j NMI_j for agreement."""
        return math.fsum(self.values().tolist())


class DensityState(LiveState):
    """Live counts while the density is raised."""

    kind = "density"

    def __init__(self, counts: Counts, v: np.ndarray, least: int = 1):
        super().__init__(counts, v, least)
        self.squares = counts.squares.copy()
        self.steps, self.unit = integer_weights(self.v, int(self.sizes.sum()))

    def values(self) -> np.ndarray:
        """|C| T / P of each cluster."""
        return self._terms(self.squares, self.cells, self.sizes)[2]

    def _terms(self, squares, cells, sizes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T, P and |C| T / P of clusters."""
        together = _sum_in_order(self.v[:, None] * (squares - cells))
        observed = _sum_in_order(self.v[:, None] * (cells * (cells - 1)))
        return together, observed, sizes * _ratio(together, observed)

    def table(self) -> MoveTable:
        together, observed, values = self._terms(self.squares, self.cells, self.sizes)
        weighted = np.repeat(self.steps, self.layout.n_clusters)[:, None]
        counts = self.alpha * weighted, self.cells * self.steps[:, None]
        return self._frozen(*counts, values, steps=self.steps, unit=self.unit, together=together, observed=observed)

    def _gain_and_changes(self, values, both, step, partitions, columns) -> tuple[float, list]:
        squares, cells = self.squares[:, both], self.cells[:, both]
        squares[partitions] += step * (2 * self.alpha[np.ix_(columns, both)] + step)
        cells[partitions] += step
        new = self._terms(squares, cells, self.sizes[both] + step)[2]
        changes = [(self.squares, np.s_[:, both], squares), (self.cells, np.s_[:, both], cells), (values, both, new)]
        return float((new[0] - values[both[0]]) + (new[1] - values[both[1]])), changes


class AgreementState(LiveState):
    """Live counts while the mean NMI with the clusterings is raised."""

    kind = "agreement"

    def __init__(self, counts: Counts, v: np.ndarray, least: int = 1):
        super().__init__(counts, v, least)
        self.bits = fixed_bits(int(self.sizes.sum()))
        starts = self.layout.offsets[:-1]
        joint = np.add.reduceat(fixed_xlogx(self.alpha, self.bits).sum(axis=1), starts)
        base = np.add.reduceat(fixed_xlogx(self.alpha.sum(axis=1), self.bits), starts)
        whole = fixed_xlogx(self.cells.sum(axis=1), self.bits)
        own = fixed_xlogx(self.cells, self.bits).sum(axis=1)
        self.shared = whole + joint - own - base
        self.entropy = 2 * whole - own - base

    def values(self) -> np.ndarray:
        """v·NMI of each partition."""
        return agreement_term(self.v, 2.0 * self.v, self.shared, self.entropy)

    def table(self) -> MoveTable:
        return self._frozen(
            self.alpha.copy(),
            self.cells.copy(),
            self.values(),
            enter=_change(self.alpha, 1, self.bits),
            leave=_change(self.alpha, -1, self.bits),
            enter_cells=_change(self.cells, 1, self.bits),
            leave_cells=_change(self.cells, -1, self.bits),
            shared=self.shared.copy(),
            entropy=self.entropy.copy(),
            double=2.0 * self.v,
            bits=self.bits,
        )

    def _gain_and_changes(self, values, both, step, partitions, columns) -> tuple[float, list]:
        there, v = np.ix_(partitions, both), self.v[partitions]
        alpha, cells = self.alpha[np.ix_(columns, both)], self.cells[there]
        joint, own = (_change(counts, step, self.bits).sum(axis=1) for counts in (alpha, cells))
        shared, entropy = self.shared[partitions] + joint - own, self.entropy[partitions] - own
        terms = agreement_term(v, 2.0 * v, shared, entropy)
        changes = [(self.cells, there, cells + step), (values, partitions, terms)]
        changes += [(self.shared, partitions, shared), (self.entropy, partitions, entropy)]
        return float(_sum_in_order(terms - values[partitions])), changes


@dataclass(frozen=True)
class AgreementObjective:
    """Passes that raise Σ_j v_j NMI_j: items go where the change of the agreement is largest, to first order."""

    weights: np.ndarray  # v, one per partition

    def table(self, counts: Counts) -> np.ndarray:
        # with N / E the NMI, and J and w the changes of Σ h(α) and Σ h(n_Cj), its change is (J − (1 − N / E) w) / E
        state, per_label = AgreementState(counts, self.weights), counts.layout.n_clusters
        entropy = np.where(state.entropy == 0, np.inf, state.entropy)
        own = (1.0 - state.shared / entropy)[:, None] * _slope(counts.cells)
        scores = _slope(counts.alpha) - np.repeat(own, per_label, axis=0)
        return np.repeat(self.weights / entropy * 2.0**state.bits, per_label)[:, None] * scores

    def cost_table(self, counts: Counts) -> np.ndarray:
        return -self.table(counts)

    def loss(self, counts: Counts) -> float:
        return -AgreementState(counts, self.weights).objective()


def _slope(x: np.ndarray) -> np.ndarray:
    """Derivative of x log x at integers; at ½ for 0."""
    return 1.0 + np.log(np.maximum(x, 0.5))


def may_move(source: int, target: int, copies: int, least: int) -> bool:
    """Whether the sizes of the two clusters allow the move."""
    return source - copies >= least and (target > 0 or copies >= least)


def _ratio(together: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """The quotients, 0 where nothing is observed."""
    return np.divide(together, observed, out=np.zeros_like(together), where=observed > 0)


def _sum_in_order(terms: np.ndarray) -> np.ndarray:
    """Sum over the first axis, one term after the other, as the compiled kernels add."""
    return np.add.accumulate(terms, axis=0)[-1] if len(terms) else np.zeros(terms.shape[1:])


def agreement_term(v, double, shared, entropy):
    """v·NMI from its fixed-point parts; v where both partitions have a single cluster."""
    safe = np.where(entropy == 0, 1, entropy).astype(np.float64)
    return np.where(entropy == 0, v, double * np.asarray(shared, dtype=np.float64) / safe)


def integer_weights(v: np.ndarray, n: int) -> tuple[np.ndarray, float]:
    """Partition weights as integers, and their unit: all 1 when equal, else as fine as int64 allows."""
    if (v == 1.0).all():
        return np.ones(len(v), dtype=np.int64), 1.0
    bits = min(40, max(0, math.floor(math.log2(2.0**61 / (len(v) * max(n, 1) * float(v.max()))))))
    return np.rint(v * 2.0**bits).astype(np.int64), 2.0**-bits


# -- proposals, in plain NumPy -----------------------------------------------------------------------------


def propose_chunk(
    codes: np.ndarray, labels: np.ndarray, copies: np.ndarray | None, table: MoveTable, layout: Layout
) -> np.ndarray:
    """Target of each row, −1 where no move gains: the best other cluster on the frozen state, lowest on ties."""
    m = np.ones(len(codes), dtype=np.int64) if copies is None else copies
    observed = codes < layout.n_clusters
    columns = np.where(observed, codes, 0).astype(np.int64) + layout.offsets[:-1]
    gains = _density_gains if table.kind == "density" else _agreement_gains
    best = np.full(len(codes), -np.inf)
    target = np.full(len(codes), -1, dtype=np.int32)
    taking = np.flatnonzero((m > 0) & (table.sizes[labels] - m >= table.least))
    if len(taking):
        enter, leave = gains(columns[taking], observed[taking], labels[taking], m[taking], table)
        enter[np.arange(len(taking)), labels[taking]] = -np.inf
        enter[(table.sizes == 0) & (m[taking, None] < table.least)] = -np.inf
        target[taking] = enter.argmax(axis=1)  # the lowest of equals
        best[taking] = leave + enter.max(axis=1)
    target[~(best > table.threshold)] = -1
    return target


def _density_gains(columns, observed, labels, copies, table: MoveTable) -> tuple[np.ndarray, np.ndarray]:
    """Gain of entering each cluster (rows, k) and of leaving the own one (rows,)."""
    rows = len(columns)
    with_item = np.zeros((rows, len(table.sizes)), dtype=np.int64)
    for j in range(columns.shape[1]):
        with_item += np.where(observed[:, j, None], table.alpha[columns[:, j]], 0)
    m, w = copies.astype(np.float64), (observed @ table.steps).astype(np.float64)
    x, y = with_item.astype(np.float64), (observed.astype(np.int64) @ table.cells).astype(np.float64)
    more = (m - 1.0) * w
    num = table.together + (m[:, None] * (2.0 * x + more[:, None])) * table.unit
    den = table.observed + (m[:, None] * (2.0 * y + more[:, None])) * table.unit
    enter = (table.sizes + m[:, None]) * _ratio(num, den) - table.values
    own = np.arange(rows), labels
    less = (m + 1.0) * w
    num = table.together[labels] - (m * (2.0 * x[own] - less)) * table.unit
    den = table.observed[labels] - (m * (2.0 * y[own] - less)) * table.unit
    leave = (table.sizes[labels] - m) * _ratio(num, den) - table.values[labels]
    return enter, leave


def _agreement_gains(columns, observed, labels, copies, table: MoveTable) -> tuple[np.ndarray, np.ndarray]:
    """Gain of moving to each cluster (rows, k), leaving included, and zeros (rows,)."""
    rows, k = len(columns), len(table.sizes)
    gain = np.zeros((rows, k))
    single = bool((copies == 1).all())
    m, bits = copies[:, None], table.bits
    for j in range(columns.shape[1]):
        f = columns[:, j]
        if single:
            joint = table.enter[f] + table.leave[f, labels][:, None]
            own = table.enter_cells[j] + table.leave_cells[j, labels][:, None]
        else:  # rows that this partition does not label read its column 0 and are masked below
            joint = _change(table.alpha[f], m, bits) + _change(table.alpha[f, labels], -copies, bits)[:, None]
            own = _change(table.cells[j], m, bits) + _change(table.cells[j, labels], -copies, bits)[:, None]
        shared, entropy = table.shared[j] + joint - own, table.entropy[j] - own
        term = agreement_term(0.5 * table.double[j], table.double[j], shared, entropy) - table.values[j]
        gain += np.where(observed[:, j, None], term, 0.0)
    return gain, np.zeros(rows)
