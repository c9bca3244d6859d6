"""Score tables on the host before a pass: a narrow copy with its error bound, and bounds on what changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.counts import ScoreTable


def narrow_table(
    values: np.ndarray, offsets: np.ndarray, bytes_pay: Callable[[float], bool]
) -> tuple[np.ndarray, int, int]:
    """Table of 8 or 16 bits whose sums over partitions stay below 2**16, the largest error of a gap, and the shift.

    Entries are (values − the smallest of their partition) >> shift, so a gap of narrow sums is wrong by less than
    one step per partition: a gap above `bound` proves the order of exact sums, and ``(gap - bound) << shift`` bounds
    the exact gap from below. A table of multiples of 2**shift, such as that of single rows, has bound 0. Bytes are
    used when they are exact, or when `bytes_pay` of their bound, in units of `values`, says so.
    """
    flat, firsts = values.reshape(-1), offsets[:-1] * values.shape[1]  # rows of a partition lie together
    lowest, highest = np.minimum.reduceat(flat, firsts), np.maximum.reduceat(flat, firsts)
    spans = highest.astype(np.int64) - lowest
    # differences of int32 fit uint32, where they are taken modulo 2**32
    raised = values.view(np.uint32) - np.repeat(lowest, np.diff(offsets))[:, None].view(np.uint32)
    used = int(np.bitwise_or.reduce(raised, axis=None))
    for bits in (8, 16):
        shift = max(0, int(spans.sum()).bit_length() - 16, int(spans.max()).bit_length() - bits)
        while int((spans >> shift).sum()) > 0xFFFF:
            shift += 1
        bound = len(firsts) if used & ((1 << shift) - 1) else 0
        if bits == 16 or bound == 0 or bytes_pay(bound * 2.0**shift):
            break
    return (raised >> np.uint32(shift)).astype(f"uint{bits}"), bound, shift


def table_drift(new: ScoreTable, old: ScoreTable, offsets: np.ndarray) -> np.ndarray:
    """Upper bound on how much the lead of a row's own cluster a has shrunk, for each a (k,), in score units.

    Σ_j max_{f∈j} max_c (Δ_fc − Δ_fa) with Δ = new − old, which is exact: both are integers over powers of two. The
    sum is increased by more than its rounding error.
    """
    # in float64, since a difference of two int32 may not fit int32; clusters first, so that what follows is contiguous
    change = np.subtract(new.values.T, old.values.T * 2.0 ** (new.bits - old.bits), order="C")
    lead = change.max(axis=0) - change
    return np.maximum.reduceat(lead, offsets[:-1], axis=1).sum(axis=1) * (2.0**-new.bits * (1 + 1e-12))
