"""Leading eigenvectors of symmetric operators with eigenvalues in [−1, 1], by block Krylov iterations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_WHOLE = 200  # matrices up to this size are decomposed whole,
_WHOLE_PER_VECTOR = 20  # and so are those up to this many times the vectors asked for
_SPARE = 8  # vectors iterated beyond those asked for
_DEPTH = 6  # products before the Krylov space is reduced to its best vectors,
_NARROW = 8  # from where it grows again by blocks of so many: fewer columns give more products for the same memory
_RESTARTS = 10
_MOST_BYTES = 1 << 29  # memory of the Krylov space and its image; fewer products between reductions where it is short
# Largest residual |M v − λ v|. An eigenvalue is then wrong by the square of that over the gap to the next, and labels
# are those of exact eigenvectors but for items on a border: tests/consensus/test_spectral.py compares them.
_TOLERANCE = 1e-4


def leading_eigenvectors(
    matrix: np.ndarray | Callable[[np.ndarray], np.ndarray], start: np.ndarray, k: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, largest first, and their eigenvectors (n, k), each with a positive largest entry.

    `matrix` may be a function that multiplies a block of columns with it; `start` (n,) is an eigenvector known
    beforehand, or a guess. A block finds eigenvalues that occur several times, as those of a graph in several pieces
    do, which a single Lanczos vector may miss. The result depends on the arguments alone if BLAS uses one thread.
    """
    from scipy.linalg import eigh

    n, product = len(start), matrix if callable(matrix) else matrix.__matmul__
    if n <= max(_WHOLE, _WHOLE_PER_VECTOR * k):
        whole = _symmetric(product(np.eye(n)) if callable(matrix) else matrix)
        values, vectors = eigh(whole, subset_by_index=(n - k, n - 1), overwrite_a=True, check_finite=False)
        return values[::-1], _signed(vectors[:, ::-1])
    m = k + _SPARE
    width = m * min(_DEPTH, max(2, _MOST_BYTES // (16 * n * m)))
    basis, image, filled = np.empty((n, width)), np.empty((n, width)), 0
    block = np.linalg.qr(np.column_stack([start, rng.standard_normal((n, m - 1))]))[0]
    for _ in range(_RESTARTS * _DEPTH * m // width):
        while filled < width:
            here = slice(filled, min(filled + block.shape[1], width))
            basis[:, here] = block[:, : here.stop - filled]
            image[:, here] = product(basis[:, here])
            filled = here.stop
            if filled < width:
                block = _orthogonal(image[:, here], basis[:, :filled])
        values, rotation = np.linalg.eigh(_symmetric(basis.T @ image))
        values, rotation = values[: -m - 1 : -1], rotation[:, : -m - 1 : -1]
        basis[:, :m], image[:, :m], filled = basis @ rotation, image @ rotation, m
        residual = image[:, :k] - basis[:, :k] * values[:k]
        lengths = np.linalg.norm(residual, axis=0)
        if lengths.max() <= _TOLERANCE:
            break
        block = _orthogonal(residual[:, np.argsort(-lengths)[:_NARROW]], basis[:, :m])
    return values[:k], _signed(basis[:, :k])


def _orthogonal(block: np.ndarray, before: np.ndarray) -> np.ndarray:
    for _ in range(2):  # where the matrix has low rank, little but rounding is left at first
        block = np.linalg.qr(block - before @ (before.T @ block))[0]
    return block


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2.0


def _signed(vectors: np.ndarray) -> np.ndarray:
    peak = np.argmax(np.abs(vectors), axis=0)
    return vectors * np.where(vectors[peak, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
