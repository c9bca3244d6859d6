"""The kernel that settles moves, in plain NumPy: tickets, waits and turns included, so that wrong ones show in tests.

Warps that need not wait run in the least favourable order, the latest move first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coassoc.core.moves import fixed_xlogx
from coassoc.engines.cuda.moves import State, packed_views, sums_are_integers

SETTLERS, BATCH, SLOTS = 16, 512, 1024  # as in settle.cu


class Settling:
    """One launch: `words` (packed counts) and `labels` are changed in place."""

    def __init__(self, state: State, moves: Any, words: np.ndarray, labels: Any, copies: Any, threshold: float):
        layout, k = state.layout, len(state.sizes)
        self.kind, self.v, self.least, self.vanish = state.kind, state.v, state.least, state.vanish
        self.bits = getattr(state, "bits", 0)
        self.threshold = threshold
        self.counts = packed_views(words, state.kind, (layout.n_codes, layout.n_partitions, k))
        self.labels = labels
        self.rows, self.targets = np.asarray(moves.rows), np.asarray(moves.into)
        codes = np.asarray(moves.table if moves.gathered else moves.table[moves.rows])
        self.seen = codes < layout.n_clusters
        self.lines = np.where(self.seen, codes, 0).astype(np.int64) + layout.offsets[:-1]
        m = np.ones(len(moves), np.int64) if copies is None else np.asarray(copies)[self.rows].astype(np.int64)
        self.copies = m
        self.unit = sums_are_integers(state, len(moves), copies is not None)
        self.drawn, self.done = np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
        self.turn = 0

    def run(self) -> None:
        for first in range(0, len(self.rows), BATCH):
            numbers = np.arange(first, min(first + BATCH, len(self.rows)))
            tickets = self._tickets(numbers)
            at = list(range(SETTLERS))  # the move of each warp
            halfway: list[tuple | None] = [None] * SETTLERS
            while any(i < len(numbers) for i in at):
                before = (tuple(at), self.turn, sum(x is not None for x in halfway))
                for warp in reversed(range(SETTLERS)):
                    if at[warp] < len(numbers) and self._step(warp, int(numbers[at[warp]]), tickets[at[warp]], halfway):
                        at[warp] += SETTLERS
                after = (tuple(at), self.turn, sum(x is not None for x in halfway))
                assert before != after, "warps wait for each other"

    def _tickets(self, numbers: np.ndarray) -> list[tuple[int, int, int, int]]:
        out: list[tuple[int, int, int, int]] = []
        for base in range(0, len(numbers), 32):
            window = numbers[base : base + 32]
            sources = np.asarray(self.labels[self.rows[window]]).astype(np.int64)
            targets = self.targets[window].astype(np.int64)
            start, to = sources % SLOTS, targets % SLOTS
            for lane in range(len(window)):
                before = np.stack([start[:lane], to[:lane]])
                at_source = int((before == start[lane]).any(axis=0).sum() + self.drawn[start[lane]])
                at_target = int((before == to[lane]).any(axis=0).sum() + self.drawn[to[lane]])
                out.append((int(sources[lane]), int(targets[lane]), at_source, at_target))
            for a, b in zip(start, to):
                self.drawn[a] += 1
                self.drawn[b] += a != b
        return out

    def _step(self, warp: int, number: int, ticket: tuple[int, int, int, int], halfway: list) -> bool:
        """Whether the warp is done with its move; False: it waits."""
        o, c, at_source, at_target = ticket
        if self.done[o % SLOTS] != at_source or self.done[c % SLOTS] != at_target:
            return False
        if self.kind == "density":
            made = self._density(number, o, c)
        else:
            if halfway[warp] is None:
                halfway[warp] = self._changes(number, o, c)
                return False
            if self.turn != number:
                return False
            made = self._agreement(number, o, c, *halfway[warp])
            halfway[warp] = None
            self.turn = number + 1
        if made:
            m, seen, lines, counts = self.copies[number], self.seen[number], self.lines[number], self.counts
            counts["cells"][seen, o] -= m
            counts["cells"][seen, c] += m
            counts["alpha"][lines[seen], o] -= np.uint32(m)
            counts["alpha"][lines[seen], c] += np.uint32(m)
            counts["sizes"][o] -= m
            counts["sizes"][c] += m
            self.labels[self.rows[number]] = c
            counts["made"][0] += 1
        self.done[o % SLOTS], self.done[c % SLOTS] = at_source + 1, at_target + 1
        return True

    def _may_move(self, number: int, o: int, c: int) -> bool:
        m, sizes = self.copies[number], self.counts["sizes"]
        left = sizes[o] - m
        return bool((left >= self.least or (left == 0 and self.vanish)) and (sizes[c] > 0 or m >= self.least))

    def _at(self, number: int, cluster: int) -> np.ndarray:
        """α of the move's labels in a cluster, 0 where there is none."""
        return np.where(self.seen[number], self.counts["alpha"][self.lines[number], cluster].astype(np.int64), 0)

    def _density(self, number: int, o: int, c: int) -> bool:
        if not self._may_move(number, o, c):
            return False
        counts, m, seen = self.counts, int(self.copies[number]), self.seen[number]
        less = np.where(seen, m * (2 * self._at(number, o) - m), 0)
        more = np.where(seen, m * (2 * self._at(number, c) + m), 0)
        sums = [self._sums(number, cluster, by) for cluster, by in ((o, -m), (c, m))]
        ordered = not self.unit or any(observed >= 1 << 53 for _, observed in sums)
        values = []
        for cluster, change, by, (t, n_pairs) in ((o, -less, -m, sums[0]), (c, more, m, sums[1])):
            together, observed = float(t), float(n_pairs)
            if ordered:
                q, n = counts["squares"][:, cluster] + change, counts["cells"][:, cluster] + np.where(seen, by, 0)
                together = _in_order(self.v * (q - n).astype(np.float64))
                observed = _in_order(self.v * (n * (n - 1)).astype(np.float64))
            size = float(counts["sizes"][cluster] + by)
            values.append(size * (together / observed) if observed > 0.0 else 0.0)
        if not (values[0] - counts["values"][o]) + (values[1] - counts["values"][c]) > self.threshold:
            return False
        counts["squares"][:, o] -= less
        counts["squares"][:, c] += more
        counts["values"][o], counts["values"][c] = values
        for cluster, new in zip((o, c), sums):
            counts["together"][cluster], counts["observed"][cluster] = new
        return True

    def _sums(self, number: int, cluster: int, by: int) -> tuple[int, int]:
        """Σ_j (squares − cells) and Σ_j cells (cells − 1) of a cluster after the move, from those before it."""
        counts, seen = self.counts, self.seen[number]
        alpha, cells, n_seen = (
            int(self._at(number, cluster).sum()),
            int(counts["cells"][seen, cluster].sum()),
            int(seen.sum()),
        )
        together = int(counts["together"][cluster]) + by * (2 * alpha + by * n_seen) - by * n_seen
        return together, int(counts["observed"][cluster]) + by * (2 * cells + (by - 1) * n_seen)

    def _changes(self, number: int, o: int, c: int) -> tuple[bool, np.ndarray, np.ndarray]:
        """Whether sizes allow the move, and what it adds to N_j and E_j."""
        m, cells, bits = int(self.copies[number]), self.counts["cells"], self.bits
        if not self._may_move(number, o, c):
            return False, np.zeros(0, np.int64), np.zeros(0, np.int64)

        def change(to: np.ndarray, start: np.ndarray) -> np.ndarray:
            entered = fixed_xlogx(to + m, bits) - fixed_xlogx(to, bits)
            return entered + (fixed_xlogx(start - m, bits) - fixed_xlogx(start, bits))

        own = change(cells[:, c], cells[:, o])
        return True, change(self._at(number, c), self._at(number, o)) - own, -own

    def _agreement(self, number: int, o: int, c: int, allowed: bool, common: np.ndarray, spread: np.ndarray) -> bool:
        if not allowed:
            return False
        counts, seen, v = self.counts, self.seen[number], self.v
        common, spread = counts["shared"] + common, counts["entropy"] + spread
        safe = np.where(spread == 0, 1, spread).astype(np.float64)
        term = np.where(spread == 0, v, (2.0 * v) * common.astype(np.float64) / safe)
        if not _in_order(np.where(seen, term - counts["values"], 0.0)) > self.threshold:
            return False
        for name, new in (("shared", common), ("entropy", spread), ("values", term)):
            counts[name][seen] = new[seen]
        return True


def _in_order(terms: np.ndarray) -> float:
    total = 0.0
    for term in terms.tolist():
        total += term
    return total
