"""Leading eigenvectors of symmetric operators with eigenvalues in [−1, 1], by block Krylov iterations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_WHOLE = 200  # matrices up to this size are decomposed whole,
_WHOLE_PER_VECTOR = 20  # and so are those up to this many times the vectors asked for
_SPARE = 8  # vectors iterated beyond those asked for
_DEPTH = 6  # products before the Krylov space is reduced to its best vectors
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
    basis = np.linalg.qr(np.column_stack([start, rng.standard_normal((n, m - 1))]))[0]
    depth = min(_DEPTH, max(2, _MOST_BYTES // (16 * n * m)))
    for _ in range(_RESTARTS * _DEPTH // depth):
        values, basis, residual = _ritz(product, basis, depth)
        if residual[:k].max() <= _TOLERANCE:
            break
    return values[:k], _signed(basis[:, :k])


def _ritz(product: Callable, block: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best approximate eigenpairs in the Krylov space of `block`, as many as its columns, with their residuals."""
    n, m = block.shape
    basis, image = np.empty((n, depth * m)), np.empty((n, depth * m))
    for step in range(depth):
        here = slice(step * m, (step + 1) * m)
        if step:
            block = image[:, here.start - m : here.start].copy()
            before = basis[:, : here.start]
            for _ in range(2):  # where the matrix has low rank, little but rounding is left at first
                block = np.linalg.qr(block - before @ (before.T @ block))[0]
        basis[:, here] = block
        image[:, here] = product(block)
    values, rotation = np.linalg.eigh(_symmetric(basis.T @ image))
    values, rotation = values[: -m - 1 : -1], rotation[:, : -m - 1 : -1]
    vectors = basis @ rotation
    return values, vectors, np.linalg.norm(image @ rotation - vectors * values, axis=0)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2.0


def _signed(vectors: np.ndarray) -> np.ndarray:
    peak = np.argmax(np.abs(vectors), axis=0)
    return vectors * np.where(vectors[peak, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
